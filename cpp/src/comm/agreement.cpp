// SPDX-License-Identifier: Apache-2.0
#include "comm/agreement.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "comm/access.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::comm {
namespace {

constexpr int kWordBits = 64;

std::size_t words_of(int ranks) { return static_cast<std::size_t>((ranks + kWordBits - 1) / kWordBits); }

std::uint64_t bit_of(int rank) { return std::uint64_t{1} << static_cast<unsigned>(rank % kWordBits); }

}  // namespace

Ballot Ballot::of_caller(std::int64_t number, const Notice& notice, int rank, int ranks) {
  Ballot ballot;
  ballot.head_.number = number;
  ballot.head_.notice = notice;
  ballot.head_.caller = rank;
  ballot.joined_.resize(words_of(ranks));
  return ballot;
}

Ballot Ballot::of_joined(std::int64_t number, std::int64_t joined_at, int rank, int ranks) {
  Ballot ballot;
  ballot.head_.number = number;
  ballot.head_.joined_at = joined_at;
  ballot.head_.last_to_join = rank;
  ballot.joined_.resize(words_of(ranks));
  ballot.joined_[static_cast<std::size_t>(rank / kWordBits)] |= bit_of(rank);
  return ballot;
}

void Ballot::add(const Ballot& other) {
  const Head& theirs = other.head_;
  const bool both_call = !all_joined() && !other.all_joined();
  if (theirs.differs != 0 || (both_call && head_.notice != theirs.notice)) head_.differs = 1;
  if (theirs.caller < head_.caller) {
    head_.caller = theirs.caller;
    head_.notice = theirs.notice;
  }
  if (theirs.joined_at > head_.joined_at || (theirs.joined_at == head_.joined_at && theirs.last_to_join > head_.last_to_join)) {
    head_.joined_at = theirs.joined_at;
    head_.last_to_join = theirs.last_to_join;
  }
  for (std::size_t i = 0; i < joined_.size(); ++i) joined_[i] |= other.joined_[i];
}

bool Ballot::has_joined(int rank) const { return (joined_[static_cast<std::size_t>(rank / kWordBits)] & bit_of(rank)) != 0; }

std::vector<int> Ballot::joined() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < static_cast<int>(joined_.size()) * kWordBits; ++rank) {
    if (has_joined(rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::size_t Ballot::bytes_of(int ranks) { return sizeof(Head) + words_of(ranks) * sizeof(std::uint64_t); }

std::vector<std::byte> Ballot::bytes() const {
  std::vector<std::byte> bytes(sizeof head_ + joined_.size() * sizeof(std::uint64_t));
  std::memcpy(bytes.data(), &head_, sizeof head_);
  std::memcpy(bytes.data() + sizeof head_, joined_.data(), bytes.size() - sizeof head_);
  return bytes;
}

void Ballot::read(std::span<const std::byte> bytes, int ranks) {
  std::memcpy(&head_, bytes.data(), sizeof head_);
  joined_.resize(words_of(ranks));
  std::memcpy(joined_.data(), bytes.data() + sizeof head_, bytes.size() - sizeof head_);
}

Dissemination::Dissemination(const Communicator& comm)
    : rank_(comm.rank()),
      ranks_(comm.size()),
      incoming_(static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(comm.size() - 1)))) {
  for (Incoming& incoming : incoming_) incoming.bytes.resize(Ballot::bytes_of(ranks_));
}

void Dissemination::send(Communicator& comm, int round, const Ballot& ballot) {
  drop_sent();
  Outgoing& out = outgoing_.emplace_back(Outgoing{ballot.number(), ballot.bytes(), nullptr});
  out.request = CommunicatorAccess::send_notice(comm, (rank_ + (1 << round)) % ranks_, out.bytes);
}

bool Dissemination::add_next(Communicator& comm, int round, Ballot& out_ballot) {
  Incoming& incoming = incoming_[static_cast<std::size_t>(round)];
  if (!incoming.request) {
    incoming.request = comm.receive((rank_ - (1 << round) + ranks_) % ranks_, kNoticeTag, incoming.bytes);
  }
  if (!incoming.request->test()) return false;
  incoming.request.reset();
  Ballot arrived;
  arrived.read(incoming.bytes, ranks_);
  FLOODTIDE_REQUIRE(arrived.number() == out_ballot.number(), communication, "rank ", rank_, ": a ballot for collective ",
                    arrived.number(), ", expected one for ", out_ballot.number());
  out_ballot.add(arrived);
  return true;
}

void Dissemination::drop_sent() {
  while (!outgoing_.empty() && outgoing_.front().request->test()) outgoing_.pop_front();
}

bool Dissemination::have_left(std::int64_t number) {
  drop_sent();
  return std::ranges::none_of(outgoing_, [&](const Outgoing& out) { return out.number == number; });
}

bool Dissemination::all_left() {
  drop_sent();
  return outgoing_.empty();
}

std::vector<int> Dissemination::heard_in(int round) const {
  std::vector<int> heard;
  for (int distance = 1 << round; distance < std::min(2 << round, ranks_); ++distance) {
    heard.push_back((rank_ - distance + ranks_) % ranks_);
  }
  std::ranges::sort(heard);
  return heard;
}

void Dissemination::give_up() {
  for (Incoming& incoming : incoming_) incoming.request.reset();
  outgoing_.clear();
}

}  // namespace floodtide::comm
