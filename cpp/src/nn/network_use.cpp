// SPDX-License-Identifier: Apache-2.0
#include "floodtide/nn/network_use.hpp"

#include "floodtide/base/error.hpp"
#include "floodtide/base/hash.hpp"

namespace floodtide::nn {
namespace {

constexpr std::string_view kAdvice = "; expected one thread that trains or changes a network, and copies of it for others";

}  // namespace

void NetworkUse::require_no_other_step() const {
  FLOODTIDE_REQUIRE(steps_ == 0 || stepping_ == std::this_thread::get_id(), in_use,
                    "the network is in use by another thread, which trains it", kAdvice);
}

void NetworkUse::require_alone() const {
  require_no_other_step();
  FLOODTIDE_REQUIRE(readings_that_call_ == 0, in_use, "the network is in use by a training pass", kAdvice);
}

NetworkUse::Hold NetworkUse::read(Calls calls) {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return !changing_ && waiting_changes_ == 0; });
  if (calls == Calls::none) {
    ++readings_;
    return {this, {Kind::reading}};
  }
  require_no_other_step();
  ++readings_;
  ++readings_that_call_;
  return {this, {Kind::reading_that_calls}};
}

NetworkUse::Hold NetworkUse::change() {
  std::unique_lock lock(mutex_);
  require_alone();
  ++waiting_changes_;
  ended_.wait(lock, [this] { return !changing_ && readings_ == 0; });
  --waiting_changes_;
  changing_ = true;
  return {this, {Kind::change}};
}

NetworkUse::Hold NetworkUse::step() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return !changing_ && waiting_changes_ == 0; });
  require_alone();
  ++steps_;
  stepping_ = std::this_thread::get_id();
  return {this, {Kind::step}};
}

void NetworkUse::look_at(std::span<const float> parameters) {
  const Hold reading = read();
  const std::uint64_t hash = hash_of(std::as_bytes(parameters));
  const std::lock_guard lock(mutex_);
  if (seen_ == hash) return;
  seen_ = hash;
  version_.fetch_add(1, std::memory_order_release);
}

void NetworkUse::end(Kind kind) noexcept {
  const std::lock_guard lock(mutex_);
  if (kind == Kind::step) {
    --steps_;
  } else if (kind == Kind::change) {
    changing_ = false;
    seen_.reset();
    version_.fetch_add(1, std::memory_order_release);
    ended_.notify_all();
  } else {
    if (kind == Kind::reading_that_calls) --readings_that_call_;
    if (--readings_ == 0 && waiting_changes_ > 0) ended_.notify_all();
  }
}

void NetworkUse::require_version(std::uint64_t version, std::string_view work) const {
  FLOODTIDE_REQUIRE(this->version() == version, in_use, work,
                    ": the network is in use by another thread, which has changed its parameters during this work", kAdvice);
}

}  // namespace floodtide::nn
