// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/immovable.hpp"
#include "floodtide/base/limits.hpp"
#include "floodtide/data/examples.hpp"
#include "floodtide/data/patch_source.hpp"

namespace floodtide::data {

template <class Stream>
struct BasicPrefetcher<Stream>::Impl {
  /// An item that is being read, or was.
  struct Entry {
    Item item;
    std::exception_ptr failure;
    bool done = false;
  };

  struct Slot {
    Cursor deliver;                            // of the item that next() returns
    Cursor read;                               // of the item to read next
    std::deque<std::shared_ptr<Entry>> items;  // oldest first; each is shared with its reader
    std::exception_ptr failure = nullptr;      // nothing is read any more
  };

  const Stream& source;
  std::size_t depth;
  std::deque<Slot> slots;  // a deque, because slots cannot be copied
  mutable std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  double waited_s = 0;
  std::vector<std::thread> readers;

  Impl(const Stream& stream, const std::vector<Cursor>& cursors, int depth_per_slot)
      : source(stream), depth(static_cast<std::size_t>(depth_per_slot)) {
    for (const Cursor& cursor : cursors) slots.push_back({cursor, cursor, {}});
  }

  /// Ends the readers, also those of a prefetcher that could not start all of them.
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    for (std::thread& reader : readers) reader.join();
  }

  /// The slot with the fewest items, null if all are full or failed. The mutex is held.
  Slot* neediest() {
    Slot* result = nullptr;
    for (Slot& slot : slots) {
      if (slot.failure || slot.items.size() >= depth) continue;
      if (result == nullptr || slot.items.size() < result->items.size()) result = &slot;
    }
    return result;
  }

  /// What each reader does. Readers of one slot may end in any order: its entries keep theirs.
  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      Slot* slot = nullptr;
      changed.wait(lock, [&] { return stopping || (slot = neediest()) != nullptr; });
      if (stopping) return;
      const Cursor cursor = slot->read;
      std::shared_ptr<Entry> entry;
      try {
        slot->read = source.next(cursor);
        entry = std::make_shared<Entry>();
        slot->items.push_back(entry);
      } catch (...) {  // out of memory
        slot->failure = std::current_exception();
        changed.notify_all();
        continue;
      }
      lock.unlock();
      try {
        entry->item = source.load(cursor);
      } catch (...) {
        entry->failure = std::current_exception();
      }
      lock.lock();
      entry->done = true;
      if (entry->failure) slot->failure = entry->failure;
      changed.notify_all();
    }
  }

  /// Reads an item in the calling thread. The mutex is held, but not while reading: a reader may have to wait for a lock of
  /// its own (Python's) whose holder asks this prefetcher something.
  Item load(const Cursor cursor, std::unique_lock<std::mutex>& lock) const {
    struct Unlocked : Immovable {
      std::unique_lock<std::mutex>& lock;
      explicit Unlocked(std::unique_lock<std::mutex>& held) : lock(held) { lock.unlock(); }
      ~Unlocked() { lock.lock(); }
    };
    const Unlocked unlocked(lock);
    return source.load(cursor);
  }

  /// The next item of a slot, once it is there. The mutex is held.
  Item take(Slot& slot, std::unique_lock<std::mutex>& lock) {
    changed.wait(lock, [&] { return slot.items.empty() ? slot.failure != nullptr : slot.items.front()->done; });
    if (slot.items.empty()) std::rethrow_exception(slot.failure);
    const std::shared_ptr<Entry> entry = slot.items.front();
    if (entry->failure) std::rethrow_exception(entry->failure);  // it stays in front
    slot.items.pop_front();
    changed.notify_all();
    return std::move(entry->item);
  }
};

template <class Stream>
BasicPrefetcher<Stream>::BasicPrefetcher(const Stream& source, std::vector<Cursor> cursors, int depth, int readers) {
  require_in(kPrefetch, std::int64_t{depth}, "prefetch");
  require_in(kReaders, std::int64_t{readers}, "readers");
  for (const Cursor& cursor : cursors) static_cast<void>(source.next(cursor));  // throws for a walker that is none
  impl_ = std::make_unique<Impl>(source, cursors, depth);
  impl_->readers.reserve(static_cast<std::size_t>(readers));  // a thread that began is in the list
  for (int reader = 0; depth > 0 && reader < readers; ++reader) {
    impl_->readers.emplace_back([impl = impl_.get()] { impl->run(); });
  }
}

template <class Stream>
BasicPrefetcher<Stream>::~BasicPrefetcher() = default;

template <class Stream>
auto BasicPrefetcher<Stream>::next(std::int64_t slot) -> Item {
  typename Impl::Slot& wanted = impl_->slots.at(static_cast<std::size_t>(slot));
  std::unique_lock lock(impl_->mutex);
  const ScopedTimer timer(impl_->waited_s);
  Item item = impl_->depth == 0 ? impl_->load(wanted.deliver, lock) : impl_->take(wanted, lock);
  wanted.deliver = impl_->source.next(item.cursor);
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
template class BasicPrefetcher<PatchSource>;

}  // namespace floodtide::data
