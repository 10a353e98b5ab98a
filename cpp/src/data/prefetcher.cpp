// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/data/examples.hpp"
#include "floodtide/data/samples.hpp"

namespace floodtide::data {

template <class Stream>
struct BasicPrefetcher<Stream>::Impl {
  struct Slot {
    Cursor deliver;          // of the item that next() returns
    Cursor read;             // of the item to read next
    std::deque<Item> ready;  // oldest first
    std::exception_ptr failure;
  };

  const Stream& source;
  std::size_t depth;
  std::deque<Slot> slots;  // a deque, because slots cannot be copied
  mutable std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  double waited_s = 0;
  std::thread reader;

  Impl(const Stream& items, const std::vector<Cursor>& cursors, int depth_per_slot)
      : source(items), depth(static_cast<std::size_t>(depth_per_slot)) {
    for (const Cursor& cursor : cursors) slots.push_back({cursor, cursor, {}, nullptr});
  }

  /// The slot with the fewest items ready, null if all are full or failed. The mutex is held.
  Slot* neediest() {
    Slot* result = nullptr;
    for (Slot& slot : slots) {
      if (slot.failure || slot.ready.size() >= depth) continue;
      if (result == nullptr || slot.ready.size() < result->ready.size()) result = &slot;
    }
    return result;
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      Slot* slot = nullptr;
      changed.wait(lock, [&] { return stopping || (slot = neediest()) != nullptr; });
      if (stopping) return;
      const Cursor cursor = slot->read;
      lock.unlock();
      std::exception_ptr failure;
      Item item;
      try {
        item = source.load(cursor);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure) {
        slot->failure = failure;
      } else {
        slot->ready.push_back(std::move(item));
        slot->read = source.next(cursor);
      }
      changed.notify_all();
    }
  }
};

template <class Stream>
BasicPrefetcher<Stream>::BasicPrefetcher(const Stream& source, std::vector<Cursor> cursors, int depth) {
  FLOODTIDE_REQUIRE(depth >= 1, invalid_argument, "prefetch: depth ", depth, " given, expected at least 1");
  for (const Cursor& cursor : cursors) static_cast<void>(source.next(cursor));  // throws for a walker that is none
  impl_ = std::make_unique<Impl>(source, cursors, depth);
  impl_->reader = std::thread([impl = impl_.get()] { impl->run(); });
}

template <class Stream>
BasicPrefetcher<Stream>::~BasicPrefetcher() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->changed.notify_all();
  impl_->reader.join();
}

template <class Stream>
auto BasicPrefetcher<Stream>::next(std::int64_t slot) -> Item {
  typename Impl::Slot& wanted = impl_->slots.at(static_cast<std::size_t>(slot));
  const double start_s = now_s();
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] { return !wanted.ready.empty() || wanted.failure; });
  impl_->waited_s += now_s() - start_s;
  if (wanted.ready.empty()) std::rethrow_exception(wanted.failure);
  Item item = std::move(wanted.ready.front());
  wanted.ready.pop_front();
  wanted.deliver = impl_->source.next(item.cursor);
  impl_->changed.notify_all();
  return item;
}

template <class Stream>
Cursor BasicPrefetcher<Stream>::cursor(std::int64_t slot) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->slots.at(static_cast<std::size_t>(slot)).deliver;
}

template <class Stream>
double BasicPrefetcher<Stream>::wait_s() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->waited_s;
}

template class BasicPrefetcher<ExampleSource>;
template class BasicPrefetcher<SampleSource>;

}  // namespace floodtide::data
