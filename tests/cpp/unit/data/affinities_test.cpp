// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/affinities.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "unit/data/scene.hpp"

namespace floodtide::data {
namespace {

AffinityOptions options_of(const Vec3& patch) {
  AffinityOptions options;
  options.patch_size = patch;
  options.order = {1, 1, 9};
  return options;
}

std::vector<float> values(const Tensor<float, 4>& tensor) { return {tensor.span().begin(), tensor.span().end()}; }

struct Affinities {
  Tensor<float, 4> targets;
  Tensor<float, 4> weights;
};

Affinities affinities_of(const std::vector<std::int64_t>& labels, const Vec3& shape, bool zero_is_boundary) {
  Affinities result{Tensor<float, 4>({shape[0], shape[1], shape[2], 3}), Tensor<float, 4>({shape[0], shape[1], shape[2], 3})};
  make_affinities({labels.data(), shape}, AffinityOptions{}.offsets, zero_is_boundary, result.targets.view(),
                  result.weights.view());
  return result;
}

TEST(Affinities, AreOneWithinObjectsAndCountedWhereBothVoxelsAreLabelled) {
  const std::vector<std::int64_t> labels{1, 1, 2, 2, 0, 0, 3};
  const Affinities known = affinities_of(labels, {1, 1, 7}, true);
  const Affinities unknown = affinities_of(labels, {1, 1, 7}, false);
  std::vector<float> along_x;
  std::vector<float> weights;
  std::vector<float> unknown_weights;
  for (std::int64_t x = 0; x < 7; ++x) {
    along_x.push_back(known.targets.view()(0, 0, x, 2));
    weights.push_back(known.weights.view()(0, 0, x, 2));
    unknown_weights.push_back(unknown.weights.view()(0, 0, x, 2));
    EXPECT_EQ(known.weights.view()(0, 0, x, 0), 0);  // there is no plane and no row before
    EXPECT_EQ(known.weights.view()(0, 0, x, 1), 0);
  }
  EXPECT_EQ(along_x, (std::vector<float>{0, 1, 0, 1, 0, 0, 0}));
  EXPECT_EQ(weights, (std::vector<float>{0, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(unknown_weights, (std::vector<float>{0, 1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(values(known.targets), values(unknown.targets));
}

TEST(Affinities, EqualTheDefinitionAlongEveryAxis) {
  const Vec3 shape{3, 4, 5};
  std::vector<std::int64_t> labels;
  Philox random(2, 0);
  for (std::int64_t i = 0; i < volume<3>(shape); ++i) labels.push_back(static_cast<std::int64_t>(random.below(3)));
  const View<const std::int64_t, 3> at(labels.data(), shape);
  for (const bool zero_is_boundary : {false, true}) {
    const Affinities found = affinities_of(labels, shape, zero_is_boundary);
    for (std::int64_t z = 0; z < shape[0]; ++z) {
      for (std::int64_t y = 0; y < shape[1]; ++y) {
        for (std::int64_t x = 0; x < shape[2]; ++x) {
          for (std::int64_t axis = 0; axis < 3; ++axis) {
            const Vec3 before{z - (axis == 0 ? 1 : 0), y - (axis == 1 ? 1 : 0), x - (axis == 2 ? 1 : 0)};
            const bool inside = before[0] >= 0 && before[1] >= 0 && before[2] >= 0;
            const bool same = inside && at(z, y, x) != 0 && at(z, y, x) == at.at(before);
            const bool labelled = inside && at(z, y, x) != 0 && at.at(before) != 0;
            EXPECT_EQ(found.targets.view()(z, y, x, axis), same ? 1.0F : 0.0F);
            EXPECT_EQ(found.weights.view()(z, y, x, axis), labelled || (inside && zero_is_boundary) ? 1.0F : 0.0F);
          }
        }
      }
    }
  }
  Tensor<float, 4> wrong({3, 4, 5, 2});
  expect_error([&] { make_affinities(at, AffinityOptions{}.offsets, true, wrong.view(), wrong.view()); },
               ErrorCode::shape_mismatch, {"(3, 4, 5, 3)"});
}

TEST(Affinities, CompareVoxelsAtAnyOffset) {
  const Vec3 shape{4, 5, 6};
  std::vector<std::int64_t> labels;
  Philox random(5, 0);
  for (std::int64_t i = 0; i < volume<3>(shape); ++i) labels.push_back(static_cast<std::int64_t>(random.below(3)));
  const View<const std::int64_t, 3> at(labels.data(), shape);
  const std::vector<Vec3> offsets{{0, 0, -3}, {2, 0, 0}, {-1, 4, 1}, {0, -1, 0}};
  Affinities found{Tensor<float, 4>({4, 5, 6, 4}), Tensor<float, 4>({4, 5, 6, 4})};
  make_affinities(at, offsets, false, found.targets.view(), found.weights.view());
  std::int64_t pairs = 0;
  for (std::int64_t z = 0; z < 4; ++z) {
    for (std::int64_t y = 0; y < 5; ++y) {
      for (std::int64_t x = 0; x < 6; ++x) {
        for (std::int64_t k = 0; k < 4; ++k) {
          const Vec3& step = offsets[static_cast<std::size_t>(k)];
          const Vec3 other{z + step[0], y + step[1], x + step[2]};
          const bool inside = Box{{}, shape}.contains(other);
          const bool counted = inside && at(z, y, x) != 0 && at.at(other) != 0;
          ASSERT_EQ(found.weights.view()(z, y, x, k), counted ? 1.0F : 0.0F);
          ASSERT_EQ(found.targets.view()(z, y, x, k), counted && at(z, y, x) == at.at(other) ? 1.0F : 0.0F);
          pairs += counted ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(pairs, 50);
}

TEST(AffinitySource, FixedPatchesCoverTheBoxAndCountEveryPairAtMostOnce) {
  const TemporaryFolder folder;
  Scene scene = make_scene(folder);
  scene.options.box = Box{{1, 2, 0}, {17, 20, 23}};
  AffinityOptions options = options_of({7, 8, 10});
  options.zero_is_boundary = true;
  const AffinitySource source({scene.options}, options);
  ASSERT_EQ(source.fixed_size(), 3 * 3 * 3);
  const Box box = *scene.options.box;
  std::map<std::array<std::int64_t, 4>, int> counted;
  std::set<Vec3> covered;
  for (std::int64_t number = 0; number < source.fixed_size(); ++number) {
    const auto [volume, patch] = source.fixed_place(number);
    ASSERT_TRUE(box.contains(patch));
    const Sample sample = source.fixed(number);
    ASSERT_EQ(sample.image.shape(), (Shape<4>{7, 8, 10, 1}));
    for (std::int64_t z = 0; z < 7; ++z) {
      for (std::int64_t y = 0; y < 8; ++y) {
        for (std::int64_t x = 0; x < 10; ++x) {
          const Vec3 at{patch.start[0] + z, patch.start[1] + y, patch.start[2] + x};
          covered.insert(at);
          ASSERT_EQ(sample.image.view()(z, y, x, 0), (scene.image[scene.flat(at)] - 100.0F) * 0.02F);
          for (std::int64_t axis = 0; axis < 3; ++axis) {
            if (sample.weights.view()(z, y, x, axis) != 0) ++counted[{at[0], at[1], at[2], axis}];
          }
        }
      }
    }
  }
  EXPECT_EQ(static_cast<std::int64_t>(covered.size()), box.voxels());
  for (const auto& [pair, times] : counted) EXPECT_EQ(times, 1);
  // Along an axis, voxels have no predecessor in their patch only in the planes at which patches begin: x = 0 and x = 10.
  std::int64_t along_x = 0;
  for (const auto& [pair, times] : counted) along_x += pair[3] == 2 ? 1 : 0;
  EXPECT_EQ(along_x, 17 * 20 * (23 - 2));
}

TEST(AffinitySource, TrainingPatchesAreRandomReproducibleAndAugmentedWithTheirLabels) {
  const TemporaryFolder folder;
  const Scene a = make_scene(folder, "a", 1);
  Scene b = make_scene(folder, "b", 2);
  b.options.box = Box{{0, 0, 0}, {6, 6, 6}};
  AffinityOptions options = options_of({3, 5, 5});
  options.permutable_axes = {1, 2};
  options.reflectable_axes = {0, 1, 2};
  options.patches = 300;
  options.order.walkers = 3;
  options.order.batch = 2;
  const AffinitySource source({a.options, b.options}, options);
  EXPECT_EQ(source.order().size(), 300);
  std::set<Vec3> starts;
  std::int64_t in_b = 0;
  std::set<int> maps;
  for (Cursor cursor; cursor.epoch < 1; cursor = source.next(cursor)) {
    const Sample sample = source.load(cursor);
    EXPECT_EQ(values(sample.image), values(source.load(cursor).image));
    const std::int64_t number = source.order().number(cursor);
    const auto [volume, box] = source.training_place(0, number);
    EXPECT_EQ(sample.group, volume);
    in_b += volume;
    const Scene& scene = volume == 0 ? a : b;
    ASSERT_TRUE(Source(scene.options).box().contains(box));
    starts.insert(box.start);
    int matches = 0;
    for (int map = 0; map < 16; ++map) {
      std::vector<float> image;
      std::vector<std::int64_t> labels;
      for (std::int64_t z = 0; z < 3; ++z) {
        for (std::int64_t y = 0; y < 5; ++y) {
          for (std::int64_t x = 0; x < 5; ++x) {
            std::int64_t from_y = (map & 2) != 0 ? 4 - y : y;
            std::int64_t from_x = (map & 4) != 0 ? 4 - x : x;
            if ((map & 8) != 0) std::swap(from_y, from_x);
            const Vec3 at{box.start[0] + ((map & 1) != 0 ? 2 - z : z), box.start[1] + from_y, box.start[2] + from_x};
            image.push_back((scene.image[scene.flat(at)] - 100.0F) * 0.02F);
            labels.push_back(scene.labels[scene.flat(at)]);
          }
        }
      }
      if (image != values(sample.image)) continue;
      ++matches;
      maps.insert(map);
      const Affinities expected = affinities_of(labels, {3, 5, 5}, false);
      EXPECT_EQ(values(sample.targets), values(expected.targets));
      EXPECT_EQ(values(sample.weights), values(expected.weights));
    }
    EXPECT_EQ(matches, 1);
  }
  EXPECT_GT(starts.size(), 80U);  // of the 100 patches of walker 0
  EXPECT_LT(in_b, 10);            // b has 16 of the 6,496 positions
  EXPECT_GT(maps.size(), 12U);
}

TEST(AffinitySource, EveryPositionOfEveryVolumeComesUp) {
  const TemporaryFolder folder;
  Scene a = make_scene(folder, "a", 1);
  Scene b = make_scene(folder, "b", 2);
  a.options.box = Box{{2, 3, 4}, {4, 5, 5}};  // 2 x 1 x 2 positions
  b.options.box = Box{{5, 5, 5}, {3, 7, 4}};  // 1 x 3 x 1
  const AffinitySource source({a.options, b.options}, options_of({3, 5, 4}));
  std::map<std::array<std::int64_t, 4>, int> times;
  for (std::int64_t epoch = 0; epoch < 1000; ++epoch) {
    const auto [volume, box] = source.training_place(epoch, epoch % 2);
    ++times[{volume, box.start[0], box.start[1], box.start[2]}];
  }
  ASSERT_EQ(times.size(), 7U);
  for (const auto& [place, count] : times) EXPECT_NEAR(count, 1000.0 / 7, 60);  // 5 standard deviations
}

TEST(AffinitySource, BalanceMakesOnesAndZerosWeighAlike) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  AffinityOptions options = options_of({8, 8, 12});
  options.balance = true;
  options.zero_is_boundary = true;
  const AffinitySource source({scene.options}, options);
  const Sample sample = source.load({0, 0, 0});
  const View<const float, 4> targets = sample.targets.view();
  double ones = 0;
  double zeros = 0;
  double counted = 0;
  for (std::int64_t i = 0; i < targets.size(); i += 3) {
    const double weight = static_cast<double>(sample.weights.data()[i + 2]);  // along x, every fourth affinity is 0
    (targets.data()[i + 2] == 1 ? ones : zeros) += weight;
    counted += weight > 0 ? 1 : 0;
  }
  EXPECT_NEAR(ones / counted, 0.5, 1e-6);
  EXPECT_NEAR(zeros / counted, 0.5, 1e-6);
  // Along z, every affinity that counts is 1. Their share is limited to 0.95 for the weights.
  std::set<float> along_z;
  for (std::int64_t i = 0; i < targets.size(); i += 3) {
    if (targets.data()[i] == 1) along_z.insert(sample.weights.data()[i]);
  }
  EXPECT_EQ(along_z.size(), 1U);
  EXPECT_GE(*along_z.begin(), static_cast<float>(0.5 / 0.95));
}

TEST(AffinitySource, UnsignedIdsOfTheUpperHalfAreObjects) {
  const TemporaryFolder folder;
  const std::vector<std::int64_t> shape{2, 2, 2};
  Hdf5File file = Hdf5File::create(folder.file("a.h5"));
  file.write_array<std::uint8_t>("raw", shape, std::vector<std::uint8_t>(8, 1));
  file.write_array<std::uint64_t>("unsigned", shape, std::vector<std::uint64_t>(8, std::numeric_limits<std::uint64_t>::max()));
  file.write_array<std::int64_t>("signed", shape, std::vector<std::int64_t>(8, -1));
  file.commit();
  const auto ones = [&](const std::string& labels) {
    const SourceOptions options{
        .name = "a", .image = folder.file("a.h5:raw"), .labels = folder.file(labels), .partitions = "", .box = {}};
    const Sample sample = AffinitySource({options}, options_of({2, 2, 2})).fixed(0);
    return std::count(sample.targets.span().begin(), sample.targets.span().end(), 1.0F);
  };
  EXPECT_EQ(ones("a.h5:unsigned"), 12);
  EXPECT_EQ(ones("a.h5:signed"), 0);
}

TEST(AffinitySource, RefusesWhatCannotWork) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  const auto refuse = [&](const AffinityOptions& options, const std::vector<std::string>& parts) {
    expect_error([&] { const AffinitySource refused({scene.options}, options); }, ErrorCode::invalid_argument, parts);
  };
  refuse(options_of({21, 4, 4}), {"scene.h5:raw", "(21, 4, 4)", "(20, 22, 24)"});
  refuse(options_of({0, 4, 4}), {"patch_size", "(0, 4, 4)"});
  AffinityOptions options = options_of({3, 4, 5});
  options.offsets = {};
  refuse(options, {"offsets"});
  options.offsets = {{-1, 0, 0}, {0, 0, 0}};
  refuse(options, {"(0, 0, 0)", "not 0"});
  options.offsets = {{-1, 0, 0}, {0, 4, 0}};
  refuse(options, {"(0, 4, 0)", "(3, 4, 5)"});
  options = options_of({3, 4, 5});
  options.permutable_axes = {1, 2};
  refuse(options, {"permutable_axes", "(3, 4, 5)"});
  options = options_of({20, 22, 24});
  options.order.batch = 2;
  refuse(options, {"batch", "1 patches"});
  expect_error([&] { const AffinitySource refused({}, options_of({3, 3, 3})); }, ErrorCode::invalid_argument, {"no volume"});
}

}  // namespace
}  // namespace floodtide::data
