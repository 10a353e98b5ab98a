// SPDX-License-Identifier: Apache-2.0
// Allgather and alltoall as collectives of two stages. In the first stage, the ranks exchange headers of a fixed size. Each
// rank then knows the items of all ranks, and all ranks come to the same decision: the second stage, or an error on every rank.
// The second stage is planned by the thread that drives the operation. Both calls are therefore asynchronous, although the
// lengths are not known when they start.
#include "floodtide/comm/exchange.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "comm/access.hpp"
#include "comm/allreduce/steps.hpp"
#include "comm/engine.hpp"
#include "comm/notice.hpp"
#include "comm/schedules.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::comm {
namespace {

/// Header of one rank. The bytes are sent unchanged, because all ranks of a job run the same program.
struct Header {
  std::int64_t count = 0;  ///< number of items for the receiver
  std::int64_t kind = 0;   ///< hash of Items::kind
  std::uint64_t invalid = 0;
  std::array<char, 232> text{};  ///< problem or description, cut if necessary, with a final zero

  void set_text(std::string_view whole) {
    const std::size_t length = std::min(whole.size(), text.size() - 1);
    std::copy_n(whole.begin(), length, text.begin());
  }
};
static_assert(sizeof(Header) == 256);

/// Return the limits of the blocks in bytes. `counts` has the number of items of each block.
std::vector<std::int64_t> limits_of(std::span<const std::int64_t> counts, std::int64_t item_bytes) {
  std::vector<std::int64_t> limits = {0};
  for (const std::int64_t count : counts) limits.push_back(limits.back() + count * item_bytes);
  return limits;
}

std::string problem_of_splits(const Items& items, std::span<const std::int64_t> splits, int ranks) {
  if (splits.size() != static_cast<std::size_t>(ranks)) {
    return str_cat("alltoall: got ", splits.size(), " splits, expected one for each of the ", ranks, " ranks");
  }
  std::int64_t left = items.count;
  for (const std::int64_t split : splits) {
    if (split < 0) return str_cat("alltoall: a split is ", split, ", expected at least 0");
    if (split > left) {
      return str_cat("alltoall: the splits add up to more than the ", items.count, " rows of the array");
    }
    left -= split;
  }
  if (left == 0) return {};
  return str_cat("alltoall: the splits add up to ", items.count - left, ", expected the ", items.count, " rows of the array");
}

}  // namespace

SharedSchedule pairwise(const Communicator& comm, std::span<const std::int64_t> sent, std::span<const std::int64_t> received) {
  const int size = comm.size();
  const auto block = [](std::span<const std::int64_t> limits, int rank) {
    const auto i = static_cast<std::size_t>(rank);
    return Range{limits[i], limits[i + 1]};
  };
  MessageSchedule schedule;
  for (int distance = 1; distance < size; ++distance) {
    const int to = (comm.rank() + distance) % size;
    const int from = (comm.rank() - distance + size) % size;
    add_step(schedule, {.send_to = to, .sent = block(sent, to), .receive_from = from, .received = block(received, from)});
  }
  return std::make_shared<const MessageSchedule>(std::move(schedule));
}

/// Data of both stages of an exchange. The operation keeps it alive.
class ExchangePlan {
 public:
  ExchangePlan(Communicator& comm, const Items& items, std::shared_ptr<Exchange> out)
      : comm_(comm),
        data_(items.data),
        item_bytes_(items.item_bytes),
        out_(std::move(out)),
        heard_(static_cast<std::size_t>(comm.size())) {}

  /// Sets the header of this rank. An allgather has one header for all ranks; an alltoall (`to_each`) has one for each
  /// receiver.
  void write_headers(const Items& items, const std::string& problem, std::span<const std::int64_t> splits, bool to_each) {
    splits_.assign(splits.begin(), splits.end());
    Header header{
        .count = items.count, .kind = notice_hash(std::as_bytes(std::span(items.kind))), .invalid = problem.empty() ? 0U : 1U};
    header.set_text(problem.empty() ? items.description : problem);
    own_.assign(to_each ? heard_.size() : 0, header);
    for (std::size_t i = 0; i < own_.size() && problem.empty(); ++i) own_[i].count = splits_[i];
    const auto rank = static_cast<std::size_t>(comm_.rank());
    heard_[rank] = to_each ? own_[rank] : header;
  }

  [[nodiscard]] Payload header_payload() {
    return {.data = std::as_writable_bytes(std::span(heard_)).data(),
            .source = own_.empty() ? nullptr : std::as_bytes(std::span(own_)).data()};
  }

  /// Return the second stage of an allgather, or an empty stage after an error.
  [[nodiscard]] Stage gather() {
    if (!agree("allgather")) return nothing();
    const auto limits = take_counts();
    const auto rank = static_cast<std::size_t>(comm_.rank());
    std::ranges::copy(data_, out_->data_.data() + limits[rank]);
    return {.schedule = ring_phase({comm_.rank(), comm_.size()}, limits, 0, false),
            .payload = {.data = out_->data_.data()},
            .segment = kDefaultSegmentBytes};
  }

  /// Return the second stage of an alltoall, or an empty stage after an error.
  [[nodiscard]] Stage swap() {
    if (!agree("alltoall")) return nothing();
    const auto limits = take_counts();
    const auto sent = limits_of(splits_, item_bytes_);
    const auto rank = static_cast<std::size_t>(comm_.rank());
    std::copy_n(data_.begin() + sent[rank], sent[rank + 1] - sent[rank], out_->data_.data() + limits[rank]);
    return {.schedule = pairwise(comm_, sent, limits),
            .payload = {.data = out_->data_.data(), .source = data_.data()},
            .segment = kDefaultSegmentBytes};
  }

 private:
  [[nodiscard]] static Stage nothing() { return {.schedule = std::make_shared<const MessageSchedule>(), .payload = {}}; }

  /// True if all calls are valid and have the same kind of items. Otherwise stores the failure in the result. All ranks have
  /// the same headers, or the headers of an alltoall with the same kinds and problems, and therefore decide alike.
  [[nodiscard]] bool agree(std::string_view what) {
    const auto invalid = std::ranges::find_if(heard_, [](const Header& header) { return header.invalid != 0; });
    const auto differs = [&](const Header& header) { return header.kind != heard_.front().kind; };
    const auto odd = invalid != heard_.end() ? invalid : std::ranges::find_if(heard_, differs);
    if (odd == heard_.end()) return true;
    out_->invalid_ = invalid != heard_.end();
    out_->failed_rank_ = static_cast<int>(odd - heard_.begin());
    out_->ranks_ = comm_.size();
    const std::string_view text = odd->text.data();
    out_->failure_ = out_->invalid_
                         ? str_cat(text, " (on rank ", out_->failed_rank_, ")")
                         : str_cat(what, ": expected arrays that differ in the length of axis 0 only, got ",
                                   heard_.front().text.data(), " on rank 0 and ", text, " on rank ", out_->failed_rank_);
    return false;
  }

  /// Allocates memory for the items, and returns the limits of the blocks of all ranks.
  [[nodiscard]] std::vector<std::int64_t> take_counts() {
    for (const Header& header : heard_) out_->counts_.push_back(header.count);
    auto limits = limits_of(out_->counts_, item_bytes_);
    out_->data_ = AlignedBuffer<std::byte>(limits.back());
    return limits;
  }

  Communicator& comm_;
  std::span<const std::byte> data_;
  std::int64_t item_bytes_;
  std::shared_ptr<Exchange> out_;
  std::vector<Header> own_;    // alltoall: headers of this rank, one per receiver; allgather: empty
  std::vector<Header> heard_;  // headers from each rank
  std::vector<std::int64_t> splits_;
};

std::vector<std::int64_t> header_blocks(const Communicator& comm) {
  return even_blocks(comm.size() * std::int64_t{sizeof(Header)}, comm.size());
}

/// Starts the exchange of headers, after which `second` of the plan returns the second stage.
Operation start(Communicator& comm, Collective collective, SharedSchedule headers, const std::shared_ptr<ExchangePlan>& plan,
                Stage (ExchangePlan::*second)()) {
  if (comm.size() == 1) {
    static_cast<void>((*plan.*second)());
    return {};
  }
  return engine_of(comm).start({.collective = collective, .count = -1}, std::move(headers), plan->header_payload(), {},
                               [plan, second] { return (*plan.*second)(); });
}

void Exchange::require_done() const {
  if (failed_rank_ < 0) return;
  throw AgreedError(invalid_ ? ErrorCode::invalid_argument : ErrorCode::shape_mismatch, failure_, failed_rank_, ranks_);
}

Operation start_allgather(Communicator& comm, const Items& items, std::shared_ptr<Exchange> out) {
  auto plan = std::make_shared<ExchangePlan>(comm, items, std::move(out));
  plan->write_headers(items, items.problem, {}, false);
  return start(comm, Collective::allgather, ring_phase({comm.rank(), comm.size()}, header_blocks(comm), 0, false), plan,
               &ExchangePlan::gather);
}

Operation start_alltoall(Communicator& comm, const Items& items, std::span<const std::int64_t> splits,
                         std::shared_ptr<Exchange> out) {
  const std::string problem = items.problem.empty() ? problem_of_splits(items, splits, comm.size()) : items.problem;
  auto plan = std::make_shared<ExchangePlan>(comm, items, std::move(out));
  plan->write_headers(items, problem, splits, true);
  const auto blocks = header_blocks(comm);
  return start(comm, Collective::alltoall, pairwise(comm, blocks, blocks), plan, &ExchangePlan::swap);
}

}  // namespace floodtide::comm
