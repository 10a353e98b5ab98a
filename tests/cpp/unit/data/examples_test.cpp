// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/examples.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

#include "floodtide/base/error.hpp"
#include "unit/data/scene.hpp"

namespace floodtide::data {
namespace {

constexpr Vec3 kPatch{5, 7, 7};

ExampleOptions options_of(std::int64_t walkers) {
  return {.patch_size = kPatch, .seed = 3, .walkers = walkers, .augmentation = {}, .softness = 0.05};
}

std::vector<float> values(const Tensor<float, 3>& tensor) { return {tensor.span().begin(), tensor.span().end()}; }

class Shards : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(Shards, AreDisjointCompleteAndBalanced) {
  const TemporaryFolder folder;
  const Scene a = make_scene(folder, "a", 1);
  const Scene b = make_scene(folder, "b", 2);
  const ExampleSource source({a.options, b.options}, options_of(GetParam()));

  std::map<std::array<std::int64_t, 4>, int> seen;
  std::int64_t total = 0;
  for (std::int64_t walker = 0; walker < GetParam(); ++walker) {
    for (std::int64_t index = 0; index < source.per_walker(walker); ++index, ++total) {
      const Centre centre = source.centre({walker, 2, index});
      ++seen[{centre.volume, centre.position[0], centre.position[1], centre.position[2]}];
    }
  }

  EXPECT_EQ(total, source.examples());
  std::map<int, std::pair<int, std::set<int>>> per_class;  // number of examples, and how often each voxel was used
  for (const auto& [key, times] : seen) {
    const Scene& scene = key[0] == 0 ? a : b;
    auto& [examples, repeats] = per_class[scene.partitions[scene.flat({key[1], key[2], key[3]})]];
    examples += times;
    repeats.insert(times);
  }
  ASSERT_EQ(per_class.size(), 3U);
  EXPECT_FALSE(per_class.contains(255));
  for (const auto& [value, found] : per_class) {
    EXPECT_EQ(found.first * 3, source.examples()) << "class " << value;
    EXPECT_LE(*found.second.rbegin() - *found.second.begin(), 1) << "class " << value;  // voxels are repeated cyclically
  }
}

INSTANTIATE_TEST_SUITE_P(Walkers, Shards, ::testing::Values(1, 2, 3, 7, 64));

TEST(ExampleSource, PartitionsThatChangeAfterTheCountAreAnError) {
  const TemporaryFolder folder;
  Scene scene = make_scene(folder);
  const auto* const data = reinterpret_cast<const std::byte*>(scene.partitions.data());
  const Vec3 strides{scene.shape[1] * scene.shape[2], scene.shape[2], 1};
  scene.options.partitions = array_volume("partitions", {data, ElementType::uint8, scene.shape, strides}, nullptr);
  const ExampleSource source({scene.options}, options_of(1));
  static_cast<void>(source.centre({0, 0, 0}));
  std::ranges::fill(scene.partitions, std::uint8_t{255});  // the voxel that the walker looks for is not there
  try {
    static_cast<void>(source.centre({0, 0, 0}));
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_file);
    EXPECT_NE(std::string(error.what()).find("partitions: the block at"), std::string::npos) << error.what();
  }
}

TEST(ExampleSource, EpochsGiveAWalkerOtherExamplesInAnotherOrder) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  const ExampleSource source({scene.options}, options_of(4));
  const auto examples_of = [&](std::int64_t epoch) {
    std::vector<std::size_t> found;
    for (std::int64_t i = 0; i < source.per_walker(0); ++i) found.push_back(scene.flat(source.centre({0, epoch, i}).position));
    return found;
  };
  const std::vector<std::size_t> first = examples_of(0);
  const std::vector<std::size_t> second = examples_of(1);
  int same_place = 0;
  for (std::size_t i = 0; i < first.size(); ++i) same_place += first[i] == second[i] ? 1 : 0;
  EXPECT_LT(same_place, std::ssize(first) / 20);
  const std::set<std::size_t> before(first.begin(), first.end());
  const auto kept = std::ranges::count_if(std::set<std::size_t>(second.begin(), second.end()),
                                          [&](std::size_t voxel) { return before.contains(voxel); });
  EXPECT_LT(kept, std::ssize(before) * 2 / 3);  // about a quarter, plus voxels of small classes, which are used often
}

TEST(ExampleSource, CutsNormalisesAndLabelsAroundTheCentre) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  const ExampleSource source({scene.options}, options_of(1));
  bool background_seen = false;
  for (std::int64_t index = 0; index < 40; ++index) {
    const Example example = source.load({0, 0, index});
    const Vec3 at = example.centre.position;
    const std::int32_t object = scene.labels[scene.flat(at)];
    background_seen = background_seen || object == 0;
    for (std::int64_t z = 0; z < kPatch[0]; ++z) {
      for (std::int64_t y = 0; y < kPatch[1]; ++y) {
        for (std::int64_t x = 0; x < kPatch[2]; ++x) {
          const std::size_t i = scene.flat({at[0] + z - 2, at[1] + y - 3, at[2] + x - 3});
          ASSERT_EQ(example.image.view()(z, y, x), (scene.image[i] - 100.0F) * 0.02F);
          ASSERT_EQ(example.labels.view()(z, y, x), object > 0 && scene.labels[i] == object ? 0.95F : 0.05F);
        }
      }
    }
  }
  EXPECT_TRUE(background_seen);
}

TEST(ExampleSource, AugmentsImageAndLabelsAlikeAndReproducibly) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  ExampleOptions options = options_of(1);
  const ExampleSource plain({scene.options}, options);
  options.augmentation.permutable_axes = {1, 2};
  options.augmentation.reflectable_axes = {0, 1, 2};
  const ExampleSource augmented({scene.options}, options);

  std::set<int> maps;
  for (std::int64_t index = 0; index < 200; ++index) {
    const Example original = plain.load({0, 0, index});
    const Example changed = augmented.load({0, 0, index});
    EXPECT_EQ(values(changed.image), values(augmented.load({0, 0, index}).image));
    EXPECT_EQ(changed.centre, original.centre);
    int matches = 0;
    for (int map = 0; map < 16; ++map) {
      bool equal = true;
      for (std::int64_t z = 0; z < kPatch[0] && equal; ++z) {
        for (std::int64_t y = 0; y < kPatch[1] && equal; ++y) {
          for (std::int64_t x = 0; x < kPatch[2] && equal; ++x) {
            const std::int64_t from_z = (map & 1) != 0 ? kPatch[0] - 1 - z : z;
            std::int64_t from_y = (map & 2) != 0 ? kPatch[1] - 1 - y : y;
            std::int64_t from_x = (map & 4) != 0 ? kPatch[2] - 1 - x : x;
            if ((map & 8) != 0) std::swap(from_y, from_x);
            equal = changed.image.view()(z, y, x) == original.image.view()(from_z, from_y, from_x) &&
                    changed.labels.view()(z, y, x) == original.labels.view()(from_z, from_y, from_x);
          }
        }
      }
      if (equal) {
        ++matches;
        maps.insert(map);
      }
    }
    EXPECT_EQ(matches, 1);
  }
  EXPECT_EQ(maps.size(), 16U);
}

TEST(ExampleSource, LabelsOfTheUpperHalfAreObjectsUnlessTheyMeanNoLabel) {
  const TemporaryFolder folder;
  const std::vector<std::int64_t> shape{3, 3, 3};
  Hdf5File file = Hdf5File::create(folder.file("a.h5"));
  file.write_array<std::uint8_t>("raw", shape, std::vector<std::uint8_t>(27, 1));
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 63, kLargest = std::numeric_limits<std::uint64_t>::max();
  file.write_array<std::uint64_t>("object", shape, std::vector<std::uint64_t>(27, kHalf));
  file.write_array<std::uint64_t>("none", shape, std::vector<std::uint64_t>(27, kLargest));
  file.write_array<std::int64_t>("negative", shape, std::vector<std::int64_t>(27, -1));
  file.write_array<float>("whole", shape, std::vector<float>(27, 3.0F));
  file.write_array<float>("odd", shape, std::vector<float>(27, 3.5F));
  file.commit();
  const auto label_of = [&](const char* labels) {
    const Source source(
        {.name = "a", .image = folder.file("a.h5:raw"), .labels = folder.file(labels), .partitions = "", .box = {}});
    return soft_labels(read_patch(source, {1, 1, 1}, {3, 3, 3}).objects.view(), 0.1).data()[0];
  };
  EXPECT_EQ(label_of("a.h5:object"), 0.9F);
  EXPECT_EQ(label_of("a.h5:none"), 0.1F);
  EXPECT_EQ(label_of("a.h5:negative"), 0.1F);
  EXPECT_EQ(label_of("a.h5:whole"), 0.9F);
  expect_error([&] { label_of("a.h5:odd"); }, ErrorCode::invalid_file, {"a.h5:odd", "(0, 0, 0)", "3.5", "whole numbers"});
}

TEST(ExampleSource, RefusesWhatCannotWork) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  const auto refuse = [&](const SourceOptions& source, const ExampleOptions& options, ErrorCode code,
                          const std::vector<std::string>& parts) {
    expect_error([&] { const ExampleSource refused({source}, options); }, code, parts);
  };
  ExampleOptions options = options_of(1);
  options.patch_size = {21, 7, 7};
  refuse(scene.options, options, ErrorCode::invalid_argument, {"raw", "(21, 7, 7)", "(20, 22, 24)"});
  options.patch_size = {4, 7, 7};
  refuse(scene.options, options, ErrorCode::invalid_argument, {"odd"});
  options = options_of(1);
  options.augmentation.permutable_axes = {0, 1};
  refuse(scene.options, options, ErrorCode::invalid_argument, {"permutable_axes", "(5, 7, 7)"});
  options.augmentation.permutable_axes = {3};
  refuse(scene.options, options, ErrorCode::invalid_argument, {"permutable_axes", "3"});
  refuse(scene.options, options_of(1000000), ErrorCode::invalid_argument, {"walkers", "1000000"});
  SourceOptions source = scene.options;
  source.box = Box{{0, 0, 0}, {20, 22, 25}};
  refuse(source, options_of(1), ErrorCode::out_of_range, {"(20, 22, 25)", "(20, 22, 24)"});
  source = scene.options;
  source.std = 0;
  refuse(source, options_of(1), ErrorCode::invalid_argument, {"std"});
  source = scene.options;
  write_dataset<std::int32_t>(folder.file("other.h5"), "d", {20, 22, 23}, std::vector<std::int32_t>(20 * 22 * 23));
  source.labels = folder.file("other.h5:d");
  refuse(source, options_of(1), ErrorCode::shape_mismatch, {"other.h5:d", "(20, 22, 23)", "(20, 22, 24)"});
  source = scene.options;
  source.partitions = scene.options.labels;
  refuse(source, options_of(1), ErrorCode::invalid_file, {"int32", "uint8"});
}

TEST(BalancedCentres, SpreadEvenlyOverTheClassesAskedFor) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  std::vector<Source> sources;
  sources.emplace_back(scene.options);
  const std::vector<Centre> centres = balanced_centres(sources, kPatch, 1, 13, 40, 7);
  std::map<int, int> counts;
  std::set<std::size_t> distinct;
  for (const Centre& centre : centres) {
    ++counts[scene.partitions[scene.flat(centre.position)]];
    distinct.insert(scene.flat(centre.position));
    EXPECT_TRUE(sources[0].centres(kPatch).contains(centre.position));
  }
  EXPECT_EQ(counts, (std::map<int, int>{{3, 20}, {9, 20}}));
  EXPECT_EQ(distinct.size(), 40U);
  EXPECT_EQ(centres, balanced_centres(sources, kPatch, 1, 13, 40, 7));
  expect_error([&] { static_cast<void>(balanced_centres(sources, kPatch, 10, 13, 4, 7)); }, ErrorCode::invalid_argument,
               {"10", "13"});
}

TEST(Prefetcher, DeliversEverySlotInOrderFromItsCursorAcrossEpochs) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  const ExampleSource source({scene.options}, options_of(2));
  const Cursor late{0, 4, source.per_walker(0) - 2};
  for (const auto& [depth, readers] : {std::pair{0, 1}, {3, 1}, {3, 4}}) {
    Prefetcher prefetcher(source, {late, {1, 0, 0}}, depth, readers);
    Cursor expected = late;
    for (std::int64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(prefetcher.cursor(0), expected);
      const Example example = prefetcher.next(0);
      EXPECT_EQ(example.cursor, expected);
      EXPECT_EQ(values(example.image), values(source.load(expected).image));
      expected = source.next(expected);
      EXPECT_EQ(prefetcher.next(1).cursor, (Cursor{1, 0, i}));
    }
    EXPECT_EQ(expected.epoch, 5);
  }
}

TEST(Prefetcher, ReadersOfASlotMayEndInAnyOrder) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  const ExampleSource source({scene.options}, options_of(1));
  for (int round = 0; round < 20; ++round) {
    Prefetcher prefetcher(source, {{0, 0, 0}}, 8, 4);
    for (std::int64_t i = 0; i < 24; ++i) EXPECT_EQ(prefetcher.next(0).cursor, (Cursor{0, 0, i}));
  }
}

TEST(Prefetcher, WithoutDepthNothingIsReadBeforeItIsAskedFor) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  ExampleSource source({scene.options}, options_of(1));
  Prefetcher prefetcher(source, {{0, 0, 0}}, 0, 1);
  source.set_load_delay(0.02);
  static_cast<void>(prefetcher.next(0));
  static_cast<void>(prefetcher.next(0));
  EXPECT_GE(prefetcher.wait_s(), 0.04);  // the test waited for each example
}

TEST(Prefetcher, RefusesDepthsAndReadersThatDoNotExist) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  const ExampleSource source({scene.options}, options_of(1));
  expect_error([&] { Prefetcher(source, {{0, 0, 0}}, -1, 1); }, ErrorCode::invalid_argument,
               {"prefetch is -1, expected 0 to 1024"});
  expect_error([&] { Prefetcher(source, {{0, 0, 0}}, 1, 0); }, ErrorCode::invalid_argument,
               {"readers is 0, expected 1 to 1024"});
}

TEST(Prefetcher, PassesTheReadersErrorOn) {
  const TemporaryFolder folder;
  Scene scene = make_scene(folder);
  scene.image.assign(scene.image.size(), std::numeric_limits<float>::quiet_NaN());
  const std::vector<std::int64_t> shape(scene.shape.begin(), scene.shape.end());
  write_dataset<float>(folder.file("nan.h5"), "d", shape, scene.image);
  scene.options.image = folder.file("nan.h5:d");
  const ExampleSource source({scene.options}, options_of(1));
  for (const auto& [depth, readers] : {std::pair{0, 1}, {2, 1}, {4, 3}}) {
    Prefetcher prefetcher(source, {{0, 0, 0}}, depth, readers);
    for (int attempt = 0; attempt < 2; ++attempt) {
      expect_error([&] { static_cast<void>(prefetcher.next(0)); }, ErrorCode::invalid_file, {"nan.h5:d", "nan"});
    }
  }
}

TEST(Prefetcher, EndsWhileExamplesAreWaiting) {
  const TemporaryFolder folder;
  const Scene scene = make_scene(folder);
  const ExampleSource source({scene.options}, options_of(4));
  for (int depth = 1; depth < 4; ++depth) {
    const Prefetcher prefetcher(source, {{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {3, 0, 0}}, depth, depth);
  }
}

}  // namespace
}  // namespace floodtide::data
