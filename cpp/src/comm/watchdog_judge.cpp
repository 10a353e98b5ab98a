// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog_judge.hpp"

#include <algorithm>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide::comm {
namespace {

constexpr std::size_t kMostNamed = 8;
constexpr double kLeftS = 5;        // after a rank has left: messages that it has sent may still arrive
constexpr double kMissedBeats = 2;  // a rank is never silent before it has missed this many messages

/// Return the activity of a training, "compute of step 7", or an empty text without one.
std::string training(const Activity& activity) {
  std::string text(activity.doing.data());
  if (text.empty()) return text;
  if (activity.step >= 0) text += str_cat(" of step ", activity.step);
  if (activity.bucket >= 0) text += str_cat(", bucket ", activity.bucket);
  return text;
}

/// Return what a rank does or waits in: "collective 17, barrier", with its process set, or the activity of a training.
std::string what(const Activity& activity) {
  const std::string step = training(activity);
  if (activity.waits == 0) return step.empty() ? "not in a collective" : step;
  const std::string ranks(activity.ranks.data());
  const std::string of = ranks.empty() ? "" : str_cat(", of the process set of ranks ", ranks);
  const std::string collective(activity.collective.data());
  if (activity.bucket >= 0 || collective.empty()) return str_cat(step.empty() ? "a collective" : step, of);
  return str_cat(collective, of, step.empty() ? "" : str_cat(" (", step, ")"));
}

/// True if nothing was heard of a rank for three of its periods, or since `since_s`, when another rank began to wait. The
/// period that a rank has told may be out of date: ranks send messages more often once a training has begun.
bool is_silent(const RankState& state, double now_s, double since_s = 0) {
  if (!state.known) return true;
  return state.known->leaves == 0 && (now_s - state.heard_s > 3 * state.known->period_s || state.heard_s < since_s);
}

bool has_left(const RankState& state) { return state.known && state.known->leaves != 0; }

bool waits(const RankState& state, double now_s, double since_s = 0) {
  return !is_silent(state, now_s, since_s) && !has_left(state) && state.known->activity.waits != 0;
}

/// True if `other` waits in the same communicator as `waiting`, in the same or a later collective.
bool has_come(const Activity& other, const Activity& waiting) {
  if (other.waits == 0 || other.ranks != waiting.ranks) return false;
  if (other.number >= 0 && waiting.number >= 0) return other.number >= waiting.number;
  return other.step > waiting.step || (other.step == waiting.step && other.bucket >= waiting.bucket);
}

/// Return the time at which a rank began to wait.
double began_s(const RankState& waiting) { return waiting.heard_s - waiting.known->activity.for_s; }

std::string described(const RankState& state, double now_s, double since_s) {
  if (has_left(state)) return str_cat("rank ", state.rank, " (has left)");
  if (!state.known) return str_cat("rank ", state.rank, " (never heard of)");
  const Activity& activity = state.known->activity;
  return str_cat("rank ", state.rank, " (", is_silent(state, now_s, since_s) ? "silent since: " : "",
                 activity.waits != 0 ? "waiting in " : "", what(activity), ')');
}

std::string listed(const std::vector<const RankState*>& states, double now_s, double since_s) {
  std::string text;
  for (std::size_t i = 0; i < std::min(states.size(), kMostNamed); ++i) {
    text += str_cat(i == 0 ? "" : ", ", described(*states[i], now_s, since_s));
  }
  if (states.size() > kMostNamed) text += str_cat(" and ", states.size() - kMostNamed, " more ranks");
  return text;
}

/// Return the ranks that `waiting` waits for: the ranks that are not in a collective or, if there are none, the ranks that are
/// in another collective.
std::vector<const RankState*> missing(std::span<const RankState> ranks, const RankState& waiting, double now_s) {
  const Activity& own = waiting.known->activity;
  const std::vector<int> members = ranks_in(own.ranks.data());
  std::vector<const RankState*> idle, elsewhere;
  for (const RankState& state : ranks) {
    if (!members.empty() && std::ranges::find(members, state.rank) == members.end()) continue;
    if (!waits(state, now_s, began_s(waiting))) {
      idle.push_back(&state);
    } else if (!has_come(state.known->activity, own)) {
      elsewhere.push_back(&state);
    }
  }
  return idle.empty() ? elsewhere : idle;
}

/// Return the seconds that a rank may wait: its time limit, or less if it waits for a rank that has left. News of the wait that
/// came earlier than kLeftS after that do not count: the wait may be over.
double allowed_s(std::span<const RankState> ranks, const RankState& waiting, double now_s) {
  const double limit_s = waiting.known->activity.limit_s;
  if (limit_s <= kLeftS || std::ranges::none_of(ranks, has_left)) return limit_s;
  const double newest_s = waiting.heard_s + waiting.known->period_s - kLeftS;
  const bool in_vain = std::ranges::any_of(
      missing(ranks, waiting, now_s), [&](const RankState* state) { return has_left(*state) && state->left_s < newest_s; });
  return in_vain ? kLeftS : limit_s;
}

std::string advice(const Activity& activity) {
  return str_cat("; ", activity.training != 0 ? "comm.timeout_s" : "floodtide.init(timeout_s=...)",
                 " sets how long ranks wait");
}

}  // namespace

std::string silence(const RankState& state, double now_s, double limit_s, bool judge) {
  if (has_left(state) && !judge) return "";
  // The limit that the rank has told may be out of date, so the smaller one of both limits counts.
  const double told_s = state.known ? state.known->activity.limit_s : 0;
  const double least_s = told_s > 0 && limit_s > 0 ? std::min(told_s, limit_s) : std::max(told_s, limit_s);
  if (least_s <= 0) return "";
  const double allowed_s = std::max(least_s, state.known ? kMissedBeats * state.known->period_s : 0);
  if (now_s - state.heard_s <= allowed_s) return "";
  return str_cat("rank ", state.rank, " has been silent for ", allowed_s, " s (",
                 state.known ? str_cat("last known: ", what(state.known->activity)) : "never heard of", ')');
}

std::string who_waits(std::span<const RankState> ranks, double now_s) {
  const RankState* longest = nullptr;
  for (const RankState& state : ranks) {
    if (!waits(state, now_s)) continue;
    if (longest == nullptr || state.known->activity.for_s > longest->known->activity.for_s) longest = &state;
  }
  return longest == nullptr ? "" : str_cat("; rank ", longest->rank, " waits in ", what(longest->known->activity));
}

Verdict stalled(std::span<const RankState> ranks, double now_s, double warn_s) {
  const RankState* chosen = nullptr;
  bool ends = false;
  for (const RankState& state : ranks) {
    if (!waits(state, now_s)) continue;
    const Activity& activity = state.known->activity;
    if (activity.limit_s <= 0) continue;
    const bool ends_here = activity.for_s > allowed_s(ranks, state, now_s) - state.known->period_s;
    if (!ends_here && (warn_s <= 0 || activity.for_s <= warn_s)) continue;
    const bool longer = chosen == nullptr || activity.for_s > chosen->known->activity.for_s;
    if (ends_here == ends ? longer : ends_here) chosen = &state;
    ends = ends || ends_here;
  }
  if (chosen == nullptr) return {};
  if (missing(ranks, *chosen, now_s).empty()) {
    // The chosen rank may be in an earlier collective than other ranks, which wait for it. Report one of those.
    const auto knows = [&](const RankState& state) { return waits(state, now_s) && !missing(ranks, state, now_s).empty(); };
    const auto other = std::ranges::find_if(ranks, knows);
    if (other != ranks.end()) chosen = &*other;
  }

  const Activity& activity = chosen->known->activity;
  const double limit_s = allowed_s(ranks, *chosen, now_s);
  const auto blamed = missing(ranks, *chosen, now_s);
  const bool late = std::ranges::any_of(blamed, [](const RankState* state) { return !has_left(*state); });
  Verdict verdict{.ends = ends, .wait = what(activity)};
  verdict.reason =
      str_cat("rank ", chosen->rank, " has been waiting for ", ends ? limit_s : warn_s, " s in ", verdict.wait, " for ",
              blamed.empty() ? "a message: all ranks are in this collective" : listed(blamed, now_s, began_s(*chosen)));
  if (!ends) verdict.reason += str_cat("; the job ends after ", limit_s, " s");
  if (late || !ends) verdict.reason += advice(activity);
  return verdict;
}

}  // namespace floodtide::comm
