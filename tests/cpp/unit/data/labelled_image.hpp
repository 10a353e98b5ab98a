// SPDX-License-Identifier: Apache-2.0
// Small images with classes for the tests of patches.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "floodtide/base/random.hpp"
#include "floodtide/data/patch_source.hpp"
#include "unit/data/files.hpp"

namespace floodtide::data {

/// Make an image with random intensities and classes 0 to 2.
inline LabelledImage make_labelled_image(const TemporaryFolder& folder, const std::string& name, const Vec3& shape) {
  std::vector<std::uint8_t> image, labels;
  Philox random(1, 1);
  for (std::int64_t i = 0; i < volume<3>(shape); ++i) {
    image.push_back(static_cast<std::uint8_t>(random.below(256)));
    labels.push_back(static_cast<std::uint8_t>(random.below(3)));
  }
  const std::string path = folder.file(name + ".h5");
  Hdf5File file = Hdf5File::create(path);
  const std::vector<std::int64_t> axes(shape.begin(), shape.end());
  file.write_array<std::uint8_t>("image", axes, image);
  file.write_array<std::uint8_t>("labels", axes, labels);
  file.commit();
  return {.name = name, .channels = {{path + ":image", 100, 50}}, .labels = {{path + ":labels", {}}}, .labels_start = {}};
}

/// Open the patches of one image, with one group.
inline std::unique_ptr<PatchSource> patches_of(LabelledImage image, std::vector<Box> boxes, const PatchOptions& options,
                                               std::shared_ptr<const Targets> targets = class_targets(3)) {
  std::vector<Region> regions;
  for (const Box& box : boxes) regions.push_back({0, box, 0});
  return std::make_unique<PatchSource>(std::vector<LabelledImage>{std::move(image)}, std::move(regions),
                                       std::vector<std::string>{"one"}, std::move(targets), options);
}

}  // namespace floodtide::data
