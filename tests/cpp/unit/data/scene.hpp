// SPDX-License-Identifier: Apache-2.0
// Small image with labels and partitions, for the tests of examples.
#pragma once

#include <string>
#include <vector>

#include "floodtide/base/random.hpp"
#include "floodtide/data/patches.hpp"
#include "unit/data/files.hpp"

namespace floodtide::data {

struct Scene {
  Vec3 shape{20, 22, 24};
  std::vector<float> image;
  std::vector<std::int32_t> labels;
  std::vector<std::uint8_t> partitions;
  SourceOptions options;

  [[nodiscard]] std::size_t flat(const Vec3& at) const {
    return static_cast<std::size_t>((at[0] * shape[1] + at[1]) * shape[2] + at[2]);
  }
};

/// Make a scene with random intensities. Labels are slabs of 4 voxels along x, and slab 0 is background. Partition classes are
/// 0, 3 and 9 with different frequencies, and 255 in about half of the voxels.
inline Scene make_scene(const TemporaryFolder& folder, const std::string& name = "scene", std::uint64_t seed = 1) {
  Scene scene;
  const auto count = static_cast<std::size_t>(volume<3>(scene.shape));
  Philox random(seed, 0);
  for (std::size_t i = 0; i < count; ++i) {
    scene.image.push_back(static_cast<float>(random.below(256)));
    scene.labels.push_back(static_cast<std::int32_t>(i % 24 / 4));
    const std::uint64_t draw = random.below(20);
    scene.partitions.push_back(draw < 10 ? 255 : draw < 16 ? 3 : draw < 19 ? 9 : 0);
  }
  const std::vector<std::int64_t> shape(scene.shape.begin(), scene.shape.end());
  const std::string path = folder.file(name + ".h5");
  Hdf5File file = Hdf5File::create(path);
  const DatasetOptions stored{.chunks = {8, 8, 8}, .gzip = 1};
  file.write_array<float>("raw", shape, scene.image, stored);
  file.write_array<std::int32_t>("labels", shape, scene.labels, stored);
  file.write_array<std::uint8_t>("partitions", shape, scene.partitions, stored);
  file.commit();
  scene.options = {.name = name,
                   .image = path + ":raw",
                   .labels = path + ":labels",
                   .partitions = path + ":partitions",
                   .box = {},
                   .mean = 100,
                   .std = 50};
  return scene;
}

}  // namespace floodtide::data
