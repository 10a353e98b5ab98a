// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/patches.hpp"

#include <cmath>

#include "data/class_index.hpp"
#include "data/purposes.hpp"
#include "floodtide/base/available_memory.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/data/labels.hpp"

namespace floodtide::data {

Source::Source(SourceOptions options)
    : options_(std::move(options)), image_(options_.image.open()), labels_(options_.labels.open()) {
  image_->require_type<float>();
  require_same_shape(*labels_, *image_);
  if (!options_.partitions.empty()) {
    partitions_ = options_.partitions.open();
    partitions_->require_type<std::uint8_t>();
    require_same_shape(*partitions_, *image_);
  }
  box_ = options_.box.value_or(image_->box());
  image_->require_inside(box_);
  FLOODTIDE_REQUIRE(options_.std > 0 && std::isfinite(options_.std) && std::isfinite(options_.mean), invalid_argument,
                    image_->name(), ": mean ", options_.mean, " and std ", options_.std, ", expected finite ones, std above 0");
}

const Volume& Source::partitions() const {
  FLOODTIDE_REQUIRE(partitions_ != nullptr, invalid_argument, image_->name(),
                    ": no partition volume given; make one with `floodtide partition`");
  return *partitions_;
}

Box Source::centres(const Vec3& patch_size) const {
  Box centres = box_;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    FLOODTIDE_REQUIRE(patch_size[axis] > 0 && patch_size[axis] % 2 == 1, invalid_argument, "patch size ", Show{patch_size},
                      " (z, y, x): expected odd sizes");
    centres.start[axis] += patch_size[axis] / 2;
    centres.size[axis] -= patch_size[axis] - 1;
  }
  FLOODTIDE_REQUIRE(centres.size[0] > 0 && centres.size[1] > 0 && centres.size[2] > 0, invalid_argument, image_->name(),
                    ": patches of ", Show{patch_size}, " (z, y, x) do not fit into the box of ", Show{box_.size});
  return centres;
}

Tensor<float, 3> Source::read_image(const Box& box) const {
  Tensor<float, 3> image = image_->read_block<float>(box);
  const auto mean = static_cast<float>(options_.mean);
  const auto scale = static_cast<float>(1 / options_.std);
  for (float& value : image.span()) value = (value - mean) * scale;
  return image;
}

Patch read_patch(const Source& source, const Vec3& centre, const Vec3& size, const Deformation& deformation) {
  const Box box = centred_box(centre, size);
  if (deformation.moves_axes_only()) {
    return {apply<float>(deformation.axes, source.read_image(box).view()),
            apply<std::int64_t>(deformation.axes, read_objects(source.labels(), box).view())};
  }
  Places places(deformation, box);
  places.move_middle_to(centre, source.box());
  const Box read = places.bounds(source.box());
  return {interpolate(places, {}, source.read_image(read).view(), read.start, std::nullopt),
          nearest(places, read_objects(source.labels(), read).view(), read.start, 0)};
}

Tensor<float, 3> soft_labels(View<const std::int64_t, 3> objects, double softness) {
  Tensor<float, 3> labels(objects.shape());
  const auto on = static_cast<float>(1 - softness), off = static_cast<float>(softness);
  const std::int64_t object = objects(objects.shape(0) / 2, objects.shape(1) / 2, objects.shape(2) / 2);
  for (std::int64_t i = 0; i < labels.size(); ++i) {
    labels.data()[i] = object != 0 && objects.data()[i] == object ? on : off;
  }
  return labels;
}

std::vector<Centre> balanced_centres(std::span<const Source> sources, const Vec3& patch_size, int first_class, int last_class,
                                     std::int64_t count, std::uint64_t seed, const Progress& progress) {
  const ClassIndex index = partition_index(sources, patch_size, progress);
  std::vector<int> classes = index.classes();
  std::erase_if(classes, [=](int value) { return value < first_class || value > last_class; });
  FLOODTIDE_REQUIRE(!classes.empty(), invalid_argument, "centres: no voxel of partition classes ", first_class, " to ",
                    last_class, " has a patch of ", Show{patch_size},
                    " (z, y, x) inside its box: use a larger box, a smaller field of view, or partitions that keep smaller"
                    " objects (data.min_object_size)");
  std::int64_t voxels = 0;
  for (const int value : classes) voxels += index.count(value);
  FLOODTIDE_REQUIRE(count >= 1 && count <= voxels, invalid_argument, "centres: ", count, " given, expected 1 to ", voxels,
                    ", the voxels of partition classes ", first_class, " to ", last_class, " with a patch of ",
                    Show{patch_size}, " (z, y, x) inside the box");
  require_memory(static_cast<std::size_t>(count) * sizeof(Centre), str_cat("a list of ", count, " centres"));
  std::vector<Centre> centres;
  for (std::int64_t i = 0; i < count; ++i) {
    const int value = classes[static_cast<std::size_t>(i % std::ssize(classes))];
    const auto size = static_cast<std::uint64_t>(index.count(value));
    const IndexPermutation order(seed, stream_id(kCentresPurpose, static_cast<std::uint64_t>(value)), size);
    centres.push_back(
        index.find(value, static_cast<std::int64_t>(order(static_cast<std::uint64_t>(i / std::ssize(classes)) % size))));
  }
  return centres;
}

}  // namespace floodtide::data
