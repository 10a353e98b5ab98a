// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/activity.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::comm {
namespace {

/// A wait that was not noted again for this time is over. on_wait is called about every 50 ms.
constexpr double kOverS = 1;
/// Shortest time between two notes of the same wait. A rank that polls would otherwise note far too often.
constexpr double kOftenS = 0.02;

template <std::size_t N>
void put(std::string_view text, std::array<char, N>& out) {
  out.fill('\0');
  text.copy(out.data(), N - 1);
}

/// Return the constant part of a line such as "collective 17, barrier: step 2 of 3, ...", and the number of the collective.
std::pair<std::string, std::int64_t> head(const std::string& line) {
  const std::string text = line.substr(0, line.find(": "));
  constexpr std::string_view kWord = "collective ";
  std::int64_t number = -1;
  if (text.starts_with(kWord)) std::from_chars(text.data() + kWord.size(), text.data() + text.size(), number);
  return {text, number};
}

}  // namespace

std::vector<int> ranks_in(std::string_view text) {
  std::vector<int> ranks;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int first = 0;
    auto found = std::from_chars(at, end, first);
    if (found.ec != std::errc{}) return {};
    int last = first;
    if (found.ptr != end && *found.ptr == '-') {
      found = std::from_chars(found.ptr + 1, end, last);
      if (found.ec != std::errc{}) return {};
    }
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
    at = found.ptr;
    if (at == end) break;
    if (end - at < 3 || at[0] != ',' || at[1] != ' ') return {};
    at += 2;
  }
  return ranks;
}

void ActivityLog::set_limit(double limit_s) {
  FLOODTIDE_REQUIRE(limit_s >= 0, invalid_argument, "timeout_s is ", limit_s,
                    ", expected a number of seconds from 0 (for ever)");
  const std::lock_guard lock(mutex_);
  limit_s_ = limit_s;
}

double ActivityLog::limit_s() const {
  const std::lock_guard lock(mutex_);
  return trainings_.empty() ? limit_s_ : trainings_.back()->limit_s_;
}

ActivityLog::Training::Training(ActivityLog& log, const Timeline& timeline, double limit_s, std::string record_path)
    : log_(log), timeline_(timeline), limit_s_(limit_s), record_path_(std::move(record_path)) {
  FLOODTIDE_REQUIRE(limit_s >= 0, invalid_argument, "timeout_s is ", limit_s,
                    ", expected a number of seconds from 0 (for ever)");
  const std::lock_guard lock(log_.mutex_);
  log_.trainings_.push_back(this);
}

ActivityLog::Training::~Training() {
  const std::lock_guard lock(log_.mutex_);
  std::erase(log_.trainings_, this);
}

/// The caller holds the mutex.
ActivityLog::Place ActivityLog::place() const {
  for (auto training = trainings_.rbegin(); training != trainings_.rend(); ++training) {
    Place place{(*training)->timeline_.current("communication"), (*training)->timeline_.current("step")};
    if (place.communication || place.within) return place;
  }
  return {};
}

void ActivityLog::note_wait(const Communicator& comm, std::string_view ranks) {
  const double now = now_s();
  {
    const std::lock_guard lock(mutex_);
    const auto known = waits_.find(&comm);
    if (known != waits_.end() && now - known->second.seen_s < kOftenS) return;
  }
  // These calls are made without our mutex, because the communicator has its own locks.
  const std::vector<std::string> pending = comm.pending();
  const Traffic traffic = comm.traffic();
  const std::lock_guard lock(mutex_);
  const Place here = place();
  const auto& event = here.communication ? here.communication : here.within;
  Wait wait{.collective = pending.empty() ? "" : pending.front(),
            .ranks = std::string(ranks),
            .sent = traffic.messages + traffic.notices,
            .step = event ? event->step : -1,
            .bucket = event ? event->bucket : -1,
            .since_s = now,
            .seen_s = now};
  const auto known = waits_.find(&comm);
  if (known != waits_.end()) {
    const Wait& before = known->second;
    const bool same = before.collective == wait.collective && before.sent == wait.sent && before.step == wait.step &&
                      before.bucket == wait.bucket;
    if (same) wait.since_s = before.since_s;
  }
  waits_.insert_or_assign(&comm, std::move(wait));
}

void ActivityLog::leave_out(double seconds) {
  const double now = now_s();
  const std::lock_guard lock(mutex_);
  for (auto& entry : waits_) {
    Wait& wait = entry.second;
    wait.since_s = std::min(wait.since_s + seconds, now);
    wait.seen_s = std::min(wait.seen_s + seconds, now);
  }
}

void ActivityLog::forget_waits_over() {
  const double now = now_s();
  const std::lock_guard lock(mutex_);
  std::erase_if(waits_, [&](const auto& entry) { return now - entry.second.seen_s > kOverS; });
}

Activity ActivityLog::now() const {
  const double now = now_s();
  const std::lock_guard lock(mutex_);
  Activity activity;
  activity.training = trainings_.empty() ? 0 : 1;
  activity.limit_s = trainings_.empty() ? limit_s_ : trainings_.back()->limit_s_;
  const Wait* longest = nullptr;
  for (const auto& [comm, wait] : waits_) {
    if (now - wait.seen_s > kOverS) continue;
    if (longest == nullptr || wait.since_s < longest->since_s) longest = &wait;
  }
  const Place here = place();
  // Buckets may be in flight while the rank computes. Unless the rank waits, report the computation.
  if (const auto& event = longest != nullptr && here.communication ? here.communication : here.within) {
    activity.step = event->step;
    activity.bucket = event->bucket;
    put(event->name, activity.doing);
  }
  if (longest == nullptr) return activity;
  const auto [text, number] = head(longest->collective);
  activity.waits = 1;
  activity.for_s = longest->seen_s - longest->since_s;
  activity.number = number;
  put(text, activity.collective);
  // A list that is too long is left out, because a cut list could end with a wrong number.
  if (longest->ranks.size() < activity.ranks.size()) put(longest->ranks, activity.ranks);
  return activity;
}

std::string ActivityLog::record(int rank, std::string_view reason) const {
  std::string failure;
  const std::lock_guard lock(mutex_);
  for (const Training* training : trainings_) {
    if (training->record_path_.empty()) continue;
    try {
      training->timeline_.dump(training->record_path_, rank, reason);
    } catch (const Error& error) {
      failure = error.what();
    }
  }
  return failure;
}

}  // namespace floodtide::comm
