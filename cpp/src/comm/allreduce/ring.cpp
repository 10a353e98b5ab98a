// SPDX-License-Identifier: Apache-2.0
// Ring allreduce (Patarasuk & Yuan, J. Parallel Distrib. Comput. 69 (2009), sec. 4). The array is cut into one chunk a rank.
// Reduce-scatter: in step s rank r passes chunk r - s to rank r + 1 and adds what it gets into chunk r - s - 1, so chunk c
// is summed in the order of ranks c, c + 1, ..., c - 1, whatever the timing. Allgather: the finished chunks go round once more.
// Chunks travel in segments: while one is added, the next one arrives. 2 (p - 1) steps; each rank sends 2 n (p - 1) / p bytes.
#include "comm/allreduce/ring.hpp"

#include <algorithm>
#include <array>

#include "comm/reduce.hpp"
#include "comm/tags.hpp"
#include "floodtide/base/parallel.hpp"

namespace floodtide::comm {
namespace {

/// The steps of one phase (reduce-scatter or allgather), cut into segments and numbered in the order in which they travel.
class Phase {
 public:
  Phase(const Communicator& comm, const ReduceBuffer& buffer, std::int64_t segment, int first_chunk)
      : rank_(comm.rank()), size_(comm.size()), buffer_(buffer), segment_(segment), first_chunk_(first_chunk) {
    const std::int64_t longest = chunk_range(buffer.count, size_, 0).end;  // earlier chunks are never shorter than later ones
    per_step_ = (longest + segment - 1) / segment;
  }

  [[nodiscard]] std::int64_t segments() const { return per_step_ * (size_ - 1); }
  /// Segments may be empty: then neither side sends.
  [[nodiscard]] ReduceBuffer sent(std::int64_t number) const { return part(first_chunk_ - step(number), number); }
  [[nodiscard]] ReduceBuffer received(std::int64_t number) const { return part(first_chunk_ - 1 - step(number), number); }

 private:
  [[nodiscard]] int step(std::int64_t number) const { return static_cast<int>(number / per_step_); }

  [[nodiscard]] ReduceBuffer part(int chunk, std::int64_t number) const {
    const Range range = chunk_range(buffer_.count, size_, (rank_ + chunk + 2 * size_) % size_);
    const std::int64_t begin = std::min(range.begin + (number % per_step_) * segment_, range.end);
    return buffer_.part(begin, std::min(segment_, range.end - begin));
  }

  int rank_;
  int size_;
  ReduceBuffer buffer_;
  std::int64_t segment_;
  int first_chunk_;
  std::int64_t per_step_ = 0;
};

using Slot = std::unique_ptr<Request>;

void wait(Slot& slot) {
  if (slot) slot->wait();
  slot.reset();
}

/// Runs a phase. take(number) gives the memory that segment `number` arrives in, arrived(number) uses it; two are under way.
template <class Take, class Arrived>
void run(Communicator& comm, const Phase& phase, Take&& take, Arrived&& arrived) {
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  std::array<Slot, 2> arrivals;
  std::array<Slot, 2> departures;
  const auto expect = [&](std::int64_t number) {
    if (number >= phase.segments() || phase.received(number).count == 0) return;
    arrivals[static_cast<std::size_t>(number % 2)] = comm.receive(previous, kAllreduceTag, take(number));
  };
  expect(0);
  for (std::int64_t number = 0; number < phase.segments(); ++number) {
    expect(number + 1);
    Slot& departure = departures[static_cast<std::size_t>(number % 2)];
    wait(departure);
    if (const ReduceBuffer out = phase.sent(number); out.count > 0) departure = comm.send(next, kAllreduceTag, out.bytes());
    wait(arrivals[static_cast<std::size_t>(number % 2)]);
    arrived(number);
  }
  for (Slot& departure : departures) wait(departure);
}

}  // namespace

void ring_allreduce(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, std::size_t segment_bytes) {
  if (comm.size() == 1 || buffer.count == 0) return;
  const std::int64_t segment = std::max<std::int64_t>(1, static_cast<std::int64_t>(segment_bytes / element_bytes(buffer.type)));
  const std::int64_t longest = std::min(segment, chunk_range(buffer.count, comm.size(), 0).end);
  const std::size_t slot_bytes = static_cast<std::size_t>(longest) * element_bytes(buffer.type);
  const std::span<std::byte> scratch = comm.scratch(2 * slot_bytes);

  const Phase reduce_scatter(comm, buffer, segment, 0);
  const auto slot = [&](std::int64_t number) {
    return scratch.subspan(static_cast<std::size_t>(number % 2) * slot_bytes, reduce_scatter.received(number).bytes().size());
  };
  run(comm, reduce_scatter, slot,
      [&](std::int64_t number) { reduce_into(reduce_scatter.received(number), slot(number).data(), op); });

  const Phase allgather(comm, buffer, segment, 1);
  run(comm, allgather, [&](std::int64_t number) { return allgather.received(number).bytes(); }, [](std::int64_t) {});
}

}  // namespace floodtide::comm
