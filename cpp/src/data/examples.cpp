// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/examples.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "floodtide/data/axis_map.hpp"
#include "data/class_index.hpp"
#include "data/deal.hpp"
#include "data/purposes.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/data/coordinates.hpp"

namespace floodtide::data {
namespace {

void check(const ExampleOptions& options) {
  require_axes(options.permutable_axes, options.reflectable_axes, options.patch_size);
  FLOODTIDE_REQUIRE(options.walkers >= 1, invalid_argument, "walkers: ", options.walkers, " given, expected at least 1");
}

std::vector<Source> open_sources(const std::vector<SourceOptions>& options) {
  FLOODTIDE_REQUIRE(!options.empty(), invalid_argument, "examples: no volume given");
  std::vector<Source> sources;
  for (const SourceOptions& source : options) sources.emplace_back(source);
  return sources;
}

/// Checks every row of a coordinates file and returns the source that each of its volumes means.
std::vector<std::int64_t> match_coordinates(const CoordinatesFile& file, const std::vector<Source>& sources,
                                            const Vec3& patch_size, const Progress& progress) {
  std::vector<std::int64_t> numbers;
  for (const std::string& name : file.volumes()) {
    const auto found =
        std::find_if(sources.begin(), sources.end(), [&name](const Source& s) { return s.options().name == name; });
    FLOODTIDE_REQUIRE(found != sources.end(), invalid_file, file.path(), ": has centres in volume '", name,
                      "', which is not among the volumes given");
    numbers.push_back(found - sources.begin());
  }
  std::vector<Box> boxes;
  for (const std::int64_t number : numbers) boxes.push_back(sources[static_cast<std::size_t>(number)].centres(patch_size));
  constexpr std::int64_t kRows = 1 << 20;
  for (std::int64_t begin = 0; begin < file.size(); begin += kRows) {
    const std::int64_t end = std::min(begin + kRows, file.size());
    const std::vector<Centre> rows = file.read(begin, end);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto volume = static_cast<std::size_t>(rows[i].volume);
      FLOODTIDE_REQUIRE(boxes[volume].contains(rows[i].position), out_of_range, file.path(), ": row ",
                        begin + static_cast<std::int64_t>(i), " has its centre at ", Show{rows[i].position}, ", patches of ",
                        Show{patch_size}, " in volume '", file.volumes()[volume], "' need centres from ",
                        Show{boxes[volume].start}, " on, below ", Show{boxes[volume].end()}, " (z, y, x)");
    }
    report(progress, end, file.size());
  }
  return numbers;
}

}  // namespace

struct ExampleSource::Impl {
  ExampleOptions options;
  std::vector<Source> sources;
  std::optional<ClassIndex> index;  // exactly one of index and coordinates is set
  std::optional<CoordinatesFile> coordinates;
  std::vector<std::int64_t> coordinate_sources;  // source of each volume of the coordinates file
  std::atomic<double> load_delay_s = 0;
  std::optional<Deal> deal;  // always set once constructed

  [[nodiscard]] Deal::Place place(const Cursor& cursor) const { return deal->place(cursor.walker, cursor.epoch, cursor.index); }

  [[nodiscard]] Centre centre(const Deal::Place& place) const {
    if (index) {
      const int value = index->classes()[static_cast<std::size_t>(place.class_index)];
      return index->find(value, place.number % index->count(value));
    }
    Centre centre = coordinates->read(place.number, place.number + 1).front();
    centre.volume = coordinate_sources[static_cast<std::size_t>(centre.volume)];
    return centre;
  }
};

ExampleSource::ExampleSource(const std::vector<SourceOptions>& sources, const ExampleOptions& options, const Progress& progress)
    : impl_(std::make_unique<Impl>()) {
  check(options);
  impl_->options = options;
  impl_->sources = open_sources(sources);
  std::vector<Box> boxes;
  for (const Source& source : impl_->sources) boxes.push_back(source.centres(options.patch_size));
  if (options.coordinates) {
    impl_->coordinates.emplace(*options.coordinates);
    impl_->coordinate_sources = match_coordinates(*impl_->coordinates, impl_->sources, options.patch_size, progress);
    impl_->deal.emplace(options.seed, 1, impl_->coordinates->size(), options.walkers);
  } else {
    std::vector<const Volume*> volumes;
    for (const Source& source : impl_->sources) volumes.push_back(&source.partitions());
    impl_->index = partition_index(std::move(volumes), boxes, progress);
    const auto classes = static_cast<std::int64_t>(impl_->index->classes().size());
    impl_->deal.emplace(options.seed, classes, impl_->index->largest(), options.walkers);
    FLOODTIDE_REQUIRE(classes > 0, invalid_argument, impl_->sources.front().partitions().name(),
                      ": no voxel with a class has a patch of ", Show{options.patch_size}, " (z, y, x) inside the box");
  }
  FLOODTIDE_REQUIRE(options.walkers <= examples(), invalid_argument, "walkers: ", options.walkers,
                    " given, but there are only ", examples(), " examples");
}

ExampleSource::~ExampleSource() = default;
ExampleSource::ExampleSource(ExampleSource&&) noexcept = default;
ExampleSource& ExampleSource::operator=(ExampleSource&&) noexcept = default;

const ExampleOptions& ExampleSource::options() const noexcept { return impl_->options; }
const std::vector<Source>& ExampleSource::sources() const noexcept { return impl_->sources; }
std::int64_t ExampleSource::examples() const noexcept { return impl_->deal->size(); }

std::int64_t ExampleSource::per_walker(std::int64_t walker) const {
  const std::int64_t walkers = impl_->options.walkers;
  FLOODTIDE_REQUIRE(walker >= 0 && walker < walkers, out_of_range, "walker ", walker, " of ", walkers);
  return impl_->deal->per_walker(walker);
}

std::optional<double> ExampleSource::imbalance(std::int64_t moves) const {
  if (!impl_->index) return std::nullopt;
  const std::size_t classes = impl_->index->classes().size();
  std::vector<double> fovs(classes, 1.0);
  for (std::size_t i = 1; i < classes; ++i) {
    fovs[i] += static_cast<double>(moves - 1) * static_cast<double>(i) / static_cast<double>(classes - 1);
  }
  return impl_->deal->imbalance(fovs);
}

Centre ExampleSource::centre(const Cursor& cursor) const {
  const std::int64_t count = per_walker(cursor.walker);
  FLOODTIDE_REQUIRE(cursor.epoch >= 0 && cursor.index >= 0 && cursor.index < count, out_of_range, "walker ", cursor.walker,
                    ": example ", cursor.index, " of epoch ", cursor.epoch, ", the walker has ", count);
  return impl_->centre(impl_->place(cursor));
}

void ExampleSource::set_load_delay(double seconds) noexcept { impl_->load_delay_s = seconds; }

Example ExampleSource::load(const Cursor& cursor) const {
  if (const double delay_s = impl_->load_delay_s; delay_s > 0)
    std::this_thread::sleep_for(std::chrono::duration<double>(delay_s));
  const Centre where = centre(cursor);
  const ExampleOptions& options = impl_->options;
  const Patch patch = read_patch(impl_->sources[static_cast<std::size_t>(where.volume)], where.position, options.patch_size,
                                 static_cast<float>(options.label_on), static_cast<float>(options.label_off));
  Philox random(options.seed, stream_id(kAugmentationPurpose, static_cast<std::uint64_t>(cursor.epoch),
                                        static_cast<std::uint64_t>(impl_->place(cursor).position)));
  const AxisMap map = draw_axis_map(options.permutable_axes, options.reflectable_axes, random);
  return {apply<float>(map, patch.image.view()), apply<float>(map, patch.labels.view()), {}, where, cursor};
}

Cursor ExampleSource::next(const Cursor& cursor) const {
  if (cursor.index + 1 < per_walker(cursor.walker)) return {cursor.walker, cursor.epoch, cursor.index + 1};
  return {cursor.walker, cursor.epoch + 1, 0};
}

}  // namespace floodtide::data
