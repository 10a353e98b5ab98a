// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace floodtide::nn {

/// Plans or working memory of a network, kept from one pass to the next. Passes of several threads may use the pool at the same
/// time.
///
/// One thread needs one item at a time, and has one: all unused items are freed before a new one is made. While passes of
/// several threads run, the pool has as many items as were used at the same time. When no pass runs, at most two remain: the
/// one that was used last, and one more if it was used since the last time that no pass ran.
///
/// @tparam Key  what an item is for; only changed under the lock of the pool
/// @tparam Item default-constructible; the user of a lease fills it. bytes() returns its size, and is called by a user
template <class Key, class Item>
class Pool {
  struct Slot : Item {
    Key key{};
    int users = 0;
    std::int64_t used = 0;  // number of the use that ended last; 0: none has ended
    std::size_t bytes = 0;  // after that use
  };

 public:
  struct GiveBack {
    Pool* pool;
    void operator()(Item* item) const noexcept { pool->give_back(static_cast<Slot&>(*item)); }
  };
  /// An item in use.
  using Lease = std::unique_ptr<Item, GiveBack>;

  /// Return the item that fits best, or a new one.
  /// @param fit   fit(key, users) returns 0 if an item cannot be used now; otherwise the largest number is the best
  /// @param claim claim(key) says what the item is for from now on
  template <class Fit, class Claim>
  [[nodiscard]] Lease take(Fit fit, Claim claim) {
    const std::lock_guard lock(mutex_);
    Slot* best = nullptr;
    int best_fit = 0;
    for (const std::unique_ptr<Slot>& slot : slots_) {
      const int found = fit(std::as_const(slot->key), slot->users);
      if (found > best_fit || (found > 0 && found == best_fit && slot->used > best->used)) {
        best = slot.get();
        best_fit = found;
      }
    }
    if (best == nullptr) {
      erase_unused();
      best = slots_.emplace_back(std::make_unique<Slot>()).get();
    }
    claim(best->key);
    ++best->users;
    ++users_;
    return Lease(best, GiveBack{this});
  }

  /// Return the sum of bytes() of all items, as they were when they were last given back.
  [[nodiscard]] std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const auto& slot : slots_) sum += slot->bytes;
    return sum;
  }
  /// Free all unused items.
  void clear() {
    const std::lock_guard lock(mutex_);
    erase_unused();
  }
  /// Calls body(key, item) for the item that was given back last, if there is one and nobody uses it.
  template <class Body>
  void with_last(Body body) const {
    const std::lock_guard lock(mutex_);
    const auto last = std::ranges::max_element(slots_, {}, [](const auto& slot) { return slot->used; });
    if (last != slots_.end() && (*last)->users == 0)
      body(std::as_const((*last)->key), std::as_const(static_cast<Item&>(**last)));
  }

 private:
  void erase_unused() {
    std::erase_if(slots_, [](const auto& slot) { return slot->users == 0; });
  }
  void give_back(Slot& slot) noexcept {
    const std::lock_guard lock(mutex_);
    slot.used = ++uses_;
    slot.bytes = slot.Item::bytes();
    --slot.users;
    if (--users_ > 0) return;
    std::int64_t second = rest_;
    for (const auto& other : slots_) {
      if (other.get() != &slot) second = std::max(second, other->used);
    }
    std::erase_if(slots_, [&](const auto& other) { return other.get() != &slot && (other->used < second || second == rest_); });
    rest_ = uses_;
  }

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Slot>> slots_;
  int users_ = 0;          // of all items
  std::int64_t uses_ = 0;  // that have ended
  std::int64_t rest_ = 0;  // `uses_` when no pass ran for the last time
};

}  // namespace floodtide::nn
