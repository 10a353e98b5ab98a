// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/limits.hpp"
#include "floodtide/data/examples.hpp"
#include "floodtide/data/patch_source.hpp"

namespace floodtide::data {

template <class Stream>
struct BasicPrefetcher<Stream>::Impl {
  using Read = std::shared_ptr<Item>;
  struct Slot {
    Cursor deliver;                              // of the item that next() returns
    Cursor read;                                 // of the item to read next
    std::deque<std::shared_future<Read>> items;  // oldest first
  };

  const Stream& source;
  std::size_t depth;
  std::deque<Slot> slots;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::packaged_task<Read()>> tasks;  // of the readers
  bool stopping = false;
  double waited_s = 0;
  std::vector<std::thread> readers;

  Impl(const Stream& stream, const std::vector<Cursor>& cursors, int depth_per_slot)
      : source(stream), depth(static_cast<std::size_t>(depth_per_slot)) {
    for (const Cursor& cursor : cursors) slots.push_back({cursor, cursor, {}});
    for (std::size_t i = 0; i < depth; ++i) {
      for (Slot& slot : slots) read_next(slot);
    }
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

  /// Gives the readers the next item of a slot to read. The mutex is held, or there is no reader yet.
  void read_next(Slot& slot) {
    std::packaged_task<Read()> task([this, cursor = slot.read] { return std::make_shared<Item>(source.load(cursor)); });
    slot.items.push_back(task.get_future().share());
    tasks.push_back(std::move(task));
    slot.read = source.next(slot.read);
    changed.notify_one();
  }

  /// What each reader does.
  void run() {
    for (std::unique_lock lock(mutex);; lock.lock()) {
      changed.wait(lock, [&] { return stopping || !tasks.empty(); });
      if (stopping) return;
      std::packaged_task<Read()> task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
    }
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
  const Cursor cursor = wanted.deliver;
  const auto first = wanted.items.empty() ? std::shared_future<typename Impl::Read>() : wanted.items.front();
  lock.unlock();  // a reader may have to wait for a lock of its own (Python's) whose holder asks this prefetcher something
  double waited_s = 0;
  Item item = [&] {
    const ScopedTimer timer(waited_s);
    return first.valid() ? std::move(*first.get()) : impl_->source.load(cursor);
  }();
  lock.lock();
  impl_->waited_s += waited_s;
  wanted.deliver = impl_->source.next(cursor);
  if (!first.valid()) return item;
  wanted.items.pop_front();
  impl_->read_next(wanted);
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
