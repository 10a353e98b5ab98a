// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/examples.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "data/class_index.hpp"
#include "data/deal.hpp"
#include "data/purposes.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/data/intensity.hpp"

namespace floodtide::data {

struct ExampleSource::Impl {
  ExampleOptions options;
  std::vector<Source> sources;
  std::atomic<double> load_delay_s = 0;
  // These two are always set once constructed.
  std::optional<ClassIndex> index;
  std::optional<Deal> deal;

  [[nodiscard]] Deal::Place place(const Cursor& cursor) const { return deal->place(cursor.walker, cursor.epoch, cursor.index); }
};

ExampleSource::ExampleSource(const std::vector<SourceOptions>& sources, const ExampleOptions& options, const Progress& progress)
    : impl_(std::make_unique<Impl>()) {
  require_valid(options.augmentation, options.patch_size);
  FLOODTIDE_REQUIRE(options.walkers >= 1, invalid_argument, "walkers: ", options.walkers, " given, expected at least 1");
  FLOODTIDE_REQUIRE(!sources.empty(), invalid_argument, "examples: no volume given");
  impl_->options = options;
  for (const SourceOptions& source : sources) impl_->sources.emplace_back(source);
  impl_->index = partition_index(impl_->sources, options.patch_size, progress);
  const auto classes = static_cast<std::int64_t>(impl_->index->classes().size());
  impl_->deal.emplace(options.seed, classes, impl_->index->largest(), options.walkers);
  FLOODTIDE_REQUIRE(classes > 0, invalid_argument, impl_->sources.front().partitions().name(),
                    ": no voxel with a class has a patch of ", Show{options.patch_size}, " (z, y, x) inside the box");
  FLOODTIDE_REQUIRE(options.walkers <= examples(), invalid_argument, "walkers: ", options.walkers,
                    " given, but there are only ", examples(), " examples");
}

ExampleSource::~ExampleSource() = default;

const std::vector<Source>& ExampleSource::sources() const noexcept { return impl_->sources; }
std::int64_t ExampleSource::examples() const noexcept { return impl_->deal->size(); }

std::int64_t ExampleSource::per_walker(std::int64_t walker) const {
  const std::int64_t walkers = impl_->options.walkers;
  FLOODTIDE_REQUIRE(walker >= 0 && walker < walkers, out_of_range, "walker ", walker, " of ", walkers);
  return impl_->deal->per_walker(walker);
}

Centre ExampleSource::centre(const Cursor& cursor) const {
  const std::int64_t count = per_walker(cursor.walker);
  FLOODTIDE_REQUIRE(cursor.epoch >= 0 && cursor.index >= 0 && cursor.index < count, out_of_range, "walker ", cursor.walker,
                    ": example ", cursor.index, " of epoch ", cursor.epoch, ", the walker has ", count);
  const Deal::Place place = impl_->place(cursor);
  const int value = impl_->index->classes()[static_cast<std::size_t>(place.class_index)];
  return impl_->index->find(value, place.number % impl_->index->count(value));
}

void ExampleSource::set_load_delay(double seconds) noexcept { impl_->load_delay_s = seconds; }

Example ExampleSource::load(const Cursor& cursor) const {
  if (const double delay_s = impl_->load_delay_s; delay_s > 0)
    std::this_thread::sleep_for(std::chrono::duration<double>(delay_s));
  const Centre where = centre(cursor);
  const ExampleOptions& options = impl_->options;
  const Source& source = impl_->sources[static_cast<std::size_t>(where.volume)];
  const ExampleKey key{options.seed, cursor.epoch, impl_->place(cursor).position};
  const Deformation deformation = draw_deformation(options.augmentation, options.patch_size, key);
  Patch patch = read_patch(source, where.position, options.patch_size, options.softness, deformation);
  const auto black = static_cast<float>(-source.options().mean / source.options().std);
  const Vec3& size = options.patch_size;
  change(draw_intensities(options.augmentation, size[0], key), {&black, 1}, key.random(kNoisePurpose),
         View<float, 4>(patch.image.data(), {size[0], size[1], size[2], 1}));
  return {std::move(patch.image), std::move(patch.labels), where, cursor};
}

Cursor ExampleSource::next(const Cursor& cursor) const {
  if (cursor.index + 1 < per_walker(cursor.walker)) return {cursor.walker, cursor.epoch, cursor.index + 1};
  return {cursor.walker, cursor.epoch + 1, 0};
}

}  // namespace floodtide::data
