// SPDX-License-Identifier: Apache-2.0
// Agreement: before any value of a collective moves, the ranks check that all have started the same collective.
//
// Every rank begins with a ballot that describes what it has started. In round k, rank r sends its ballot to rank r + 2^k, and
// adds the ballot of rank r - 2^k to its own. After ceil(log2 p) rounds, every ballot includes every rank (dissemination). If p
// is not a power of two, some ranks are included twice; adding a ballot twice does not change the result.
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

/// What some ranks have started as one collective of the communicator.
class Ballot {
 public:
  Ballot() = default;
  /// Return the ballot of a rank that has started this collective.
  [[nodiscard]] static Ballot of_caller(std::int64_t number, const Notice& notice, int rank, int ranks);
  /// Return the ballot of a rank that has joined. `joined_at` is the number of the first collective after it joined.
  [[nodiscard]] static Ballot of_joined(std::int64_t number, std::int64_t joined_at, int rank, int ranks);

  /// Adds the ranks of another ballot for the same collective.
  void add(const Ballot& other);

  /// Return what the lowest rank that has not joined has started. Undefined if all_joined().
  [[nodiscard]] const Notice& notice() const noexcept { return head_.notice; }
  /// Return the lowest rank that has not joined.
  [[nodiscard]] int caller() const noexcept { return head_.caller; }
  /// Return a ballot of the same ranks for one member of a group.
  [[nodiscard]] Ballot about(const Notice& member) const {
    Ballot ballot = *this;
    ballot.head_.notice = member;
    return ballot;
  }
  [[nodiscard]] std::int64_t number() const noexcept { return head_.number; }
  [[nodiscard]] bool all_joined() const noexcept { return head_.caller == kNobodyCalls; }
  [[nodiscard]] bool differs() const noexcept { return head_.differs != 0; }
  [[nodiscard]] bool has_joined(int rank) const;
  /// Return the ranks that have joined, ascending.
  [[nodiscard]] std::vector<int> joined() const;
  /// Return the rank that joined last, or -1. If several ranks joined at the same collective, return the highest.
  [[nodiscard]] int last_to_join() const noexcept { return head_.last_to_join; }

  [[nodiscard]] std::vector<std::byte> bytes() const;
  void read(std::span<const std::byte> bytes, int ranks);
  [[nodiscard]] static std::size_t bytes_of(int ranks);

 private:
  static constexpr std::int32_t kNobodyCalls = INT32_MAX;
  struct Head {  // the bytes are sent unchanged
    std::int64_t number = 0;
    Notice notice;                       // notice of the rank `caller`
    std::int32_t caller = kNobodyCalls;  // lowest rank that has not joined
    std::int32_t differs = 0;
    std::int64_t joined_at = -1;  // when the rank last_to_join has joined
    std::int32_t last_to_join = -1;
    std::int32_t unused = 0;
  };
  static_assert(sizeof(Head) == 88);

  Head head_;
  std::vector<std::uint64_t> joined_;  // one bit per rank
};

/// Messages of the agreement. All messages have the same tag. This is enough, because messages between two ranks keep their
/// order, a pair of ranks meets in one round only, and every rank sends ballots in the order of the collectives.
class Dissemination {
 public:
  explicit Dissemination(const Communicator& comm);

  [[nodiscard]] int rounds() const noexcept { return static_cast<int>(incoming_.size()); }
  void send(Communicator& comm, int round, const Ballot& ballot);
  /// If the next ballot of a round has arrived, adds it to `out_ballot` and returns true. Throws Error(communication).
  [[nodiscard]] bool add_next(Communicator& comm, int round, Ballot& out_ballot);
  /// True if all ballots of a collective have been sent.
  [[nodiscard]] bool have_left(std::int64_t number);
  [[nodiscard]] bool all_left();
  /// Return the ranks that the ballot of this round includes and ballots of earlier rounds do not, ascending.
  [[nodiscard]] std::vector<int> heard_in(int round) const;
  /// Cancels all receives.
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
  std::vector<Incoming> incoming_;  // one per round
  std::deque<Outgoing> outgoing_;
};

}  // namespace floodtide::comm
