// SPDX-License-Identifier: Apache-2.0
// How ranks make sure that they all have started the same collective, before any of its values moves. Every rank begins with a
// ballot that holds what it has started. In round k it sends what it knows to rank r + 2^k and adds what rank r - 2^k knows, so
// that after ceil(log2 p) rounds every rank knows of every other (dissemination). Adding is idempotent: where p is no power of
// two, some ranks are heard twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "comm/notice.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// What is known of the ranks that have been heard, about one collective of the communicator.
class Ballot {
 public:
  Ballot() = default;
  /// Of a rank that has started this collective.
  [[nodiscard]] static Ballot of_caller(std::int64_t number, const Notice& notice, int rank, int ranks);
  /// Of a rank that has joined, at its joined_at-th collective.
  [[nodiscard]] static Ballot of_joined(std::int64_t number, std::int64_t joined_at, int rank, int ranks);

  void add(const Ballot& other);

  /// The collective that the lowest rank among those at work has started. It has no meaning if all_joined().
  [[nodiscard]] const Notice& notice() const noexcept { return head_.notice; }
  /// The rank that has started it.
  [[nodiscard]] int caller() const noexcept { return head_.caller; }
  /// The same ranks about one member of the group that they have started.
  [[nodiscard]] Ballot about(const Notice& member) const {
    Ballot ballot = *this;
    ballot.head_.notice = member;
    return ballot;
  }
  [[nodiscard]] std::int64_t number() const noexcept { return head_.number; }
  [[nodiscard]] bool all_joined() const noexcept { return head_.caller == kNobodyCalls; }
  [[nodiscard]] bool differs() const noexcept { return head_.differs != 0; }
  [[nodiscard]] bool has_joined(int rank) const;
  /// Ranks that have joined, ascending.
  [[nodiscard]] std::vector<int> joined() const;
  /// The rank that joined last: of several at the same collective the highest; -1 if none has.
  [[nodiscard]] int last_to_join() const noexcept { return head_.last_to_join; }

  [[nodiscard]] std::vector<std::byte> bytes() const;
  void read(std::span<const std::byte> bytes, int ranks);
  [[nodiscard]] static std::size_t bytes_of(int ranks);

 private:
  static constexpr std::int32_t kNobodyCalls = INT32_MAX;
  struct Head {  // travels as it is
    std::int64_t number = 0;
    Notice notice;
    std::int32_t caller = kNobodyCalls;  // the lowest rank that has not joined: `notice` is its
    std::int32_t differs = 0;
    std::int64_t joined_at = -1;  // of last_to_join
    std::int32_t last_to_join = -1;
    std::int32_t unused = 0;
  };
  static_assert(sizeof(Head) == 88);

  Head head_;
  std::vector<std::uint64_t> joined_;  // a bit a rank
};

/// The messages of the rounds. Between two ranks they keep their order, each pair of ranks meets in one round alone, and every
/// rank passes ballots on in the order of the collectives: so one tag is enough, and a message needs no other address.
class Dissemination {
 public:
  explicit Dissemination(const Communicator& comm);

  [[nodiscard]] int rounds() const noexcept { return static_cast<int>(incoming_.size()); }
  void send(Communicator& comm, int round, const Ballot& ballot);
  /// Adds the next ballot that arrives in a round, if it is here. Throws Error(communication).
  [[nodiscard]] bool add_next(Communicator& comm, int round, Ballot& out_ballot);
  /// Whether all ballots of a collective have left this rank.
  [[nodiscard]] bool have_left(std::int64_t number);
  [[nodiscard]] bool all_left();
  /// The ranks that the message of a round tells of and no earlier one, ascending.
  [[nodiscard]] std::vector<int> heard_in(int round) const;
  /// Takes back all receives.
  void give_up();

 private:
  struct Incoming {
    std::vector<std::byte> bytes;
    std::unique_ptr<Request> request;
  };
  struct Outgoing {
    std::int64_t number = 0;
    std::vector<std::byte> bytes;
    std::unique_ptr<Request> request;
  };

  void drop_sent();

  int rank_;
  int ranks_;
  std::vector<Incoming> incoming_;  // by round
  std::deque<Outgoing> outgoing_;
};

}  // namespace floodtide::comm
