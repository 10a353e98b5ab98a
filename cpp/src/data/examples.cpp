// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/examples.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "data/class_index.hpp"
#include "data/deal.hpp"
#include "data/purposes.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/data/intensity.hpp"

namespace floodtide::data {

ExampleSource::ExampleSource(const std::vector<SourceOptions>& sources, const ExampleOptions& options, const Progress& progress)
    : options_(options) {
  require_valid(options.augmentation, options.patch_size);
  FLOODTIDE_REQUIRE(options.walkers >= 1, invalid_argument, "walkers: ", options.walkers, " given, expected at least 1");
  FLOODTIDE_REQUIRE(!sources.empty(), invalid_argument, "examples: no volume given");
  for (const SourceOptions& source : sources) sources_.emplace_back(source);
  index_ = std::make_unique<ClassIndex>(partition_index(sources_, options.patch_size, progress));
  std::int64_t largest = 0;
  for (const int value : index_->classes()) largest = std::max(largest, index_->count(value));
  deal_ = std::make_unique<Deal>(options.seed, std::ssize(index_->classes()), largest, options.walkers);
  FLOODTIDE_REQUIRE(largest > 0, invalid_argument, sources_.front().partitions().name(),
                    ": no voxel with a class has a patch of ", Show{options.patch_size}, " (z, y, x) inside the box");
  FLOODTIDE_REQUIRE(options.walkers <= examples(), invalid_argument, "walkers: ", options.walkers,
                    " given, but there are only ", examples(), " examples");
}

ExampleSource::~ExampleSource() = default;

std::int64_t ExampleSource::examples() const noexcept { return deal_->size(); }

std::int64_t ExampleSource::per_walker(std::int64_t walker) const {
  FLOODTIDE_REQUIRE(walker >= 0 && walker < options_.walkers, out_of_range, "walker ", walker, " of ", options_.walkers);
  return deal_->per_walker(walker);
}

Centre ExampleSource::centre(const Cursor& cursor) const {
  const std::int64_t count = per_walker(cursor.walker);
  FLOODTIDE_REQUIRE(cursor.epoch >= 0 && cursor.index >= 0 && cursor.index < count, out_of_range, "walker ", cursor.walker,
                    ": example ", cursor.index, " of epoch ", cursor.epoch, ", the walker has ", count);
  const Deal::Place place = deal_->place(cursor.walker, cursor.epoch, cursor.index);
  const int value = index_->classes()[static_cast<std::size_t>(place.class_index)];
  return index_->find(value, place.number % index_->count(value));
}

Example ExampleSource::load(const Cursor& cursor) const {
  if (const double delay_s = load_delay_s_; delay_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(delay_s));
  const Centre where = centre(cursor);
  const Source& source = sources_[static_cast<std::size_t>(where.volume)];
  const ExampleKey key{options_.seed, cursor.epoch, deal_->place(cursor.walker, cursor.epoch, cursor.index).position};
  const Deformation deformation = draw_deformation(options_.augmentation, options_.patch_size, key);
  Patch patch = read_patch(source, where.position, options_.patch_size, deformation);
  const auto black = static_cast<float>(-source.options().mean / source.options().std);
  const Vec3& size = options_.patch_size;
  const View<float, 4> image(patch.image.data(), {size[0], size[1], size[2], 1});
  make_objects_faint(options_.augmentation.faint_object, patch.objects.view(), {}, key.random(kObjectPurpose), image);
  change(draw_intensities(options_.augmentation, size[0], key), {&black, 1}, key.random(kNoisePurpose), image);
  return {std::move(patch.image), soft_labels(patch.objects.view(), options_.softness), where, cursor};
}

Cursor ExampleSource::next(const Cursor& cursor) const {
  if (cursor.index + 1 < per_walker(cursor.walker)) return {cursor.walker, cursor.epoch, cursor.index + 1};
  return {cursor.walker, cursor.epoch + 1, 0};
}

}  // namespace floodtide::data
