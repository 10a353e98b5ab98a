// SPDX-License-Identifier: Apache-2.0
// Small stacks of slices with masks and patients for the tests of samples.
#pragma once

#include <string>
#include <vector>

#include "floodtide/base/random.hpp"
#include "floodtide/data/slices.hpp"
#include "unit/data/files.hpp"

namespace floodtide::data {

struct TestStack {
  Vec3 shape;
  std::vector<std::uint8_t> images;
  std::vector<std::uint8_t> masks;
  std::vector<std::int32_t> patients;
  SliceStack names;
};

/// Make a stack with random intensities and classes 0 to 2. Each patient has `slices_each` consecutive slices. Patients are
/// numbered from `first_patient`.
inline TestStack make_stack(const TemporaryFolder& folder, const std::string& name, const Vec3& shape, std::int64_t slices_each,
                            std::int32_t first_patient = 1) {
  TestStack stack{shape, {}, {}, {}, {}};
  Philox random(static_cast<std::uint64_t>(first_patient), 1);
  for (std::int64_t i = 0; i < volume<3>(shape); ++i) {
    stack.images.push_back(static_cast<std::uint8_t>(random.below(256)));
    stack.masks.push_back(static_cast<std::uint8_t>(random.below(3)));
  }
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    stack.patients.push_back(first_patient + static_cast<std::int32_t>(i / slices_each));
  }
  const std::string path = folder.file(name + ".h5");
  Hdf5File file = Hdf5File::create(path);
  const std::vector<std::int64_t> axes(shape.begin(), shape.end());
  file.write_array<std::uint8_t>("image", axes, stack.images, {.chunks = {1, shape[1], shape[2]}, .gzip = 1});
  file.write_array<std::uint8_t>("mask", axes, stack.masks, {.chunks = {1, shape[1], shape[2]}, .gzip = 1});
  file.write_array<std::int32_t>("patient", std::vector<std::int64_t>{shape[0]}, stack.patients);
  file.commit();
  stack.names = {path + ":image", path + ":mask", path + ":patient"};
  return stack;
}

inline SliceOptions slice_options() {
  SliceOptions options;
  options.classes = 3;
  options.mean = 100;
  options.std = 50;
  return options;
}

}  // namespace floodtide::data
