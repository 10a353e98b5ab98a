// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/result.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "floodtide/data/hdf5.hpp"
#include "floodtide/data/volume.hpp"

namespace floodtide::segment {
namespace {

class ResultFile : public testing::Test {
 protected:
  ResultFile()
      : folder_(std::filesystem::path(testing::TempDir()) /
                (std::string("floodtide-") + testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(folder_);
  }
  ~ResultFile() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path() const { return (folder_ / "out.h5").string(); }

 private:
  std::filesystem::path folder_;
};

Result example(std::int64_t segments) {
  Result result{Tensor<std::int32_t, 3>({3, 4, 5}), {10, 0, 7}, {100, 100, 100}, {}, {}, {{"skip_threshold", 3}}, segments};
  for (std::int64_t id = 1; id <= segments; ++id) result.origins.push_back({id, {id, 2, 3}, 7, 60, 0.5});
  result.labels.view()(1, 2, 3) = static_cast<std::int32_t>(segments);
  return result;
}

TEST_F(ResultFile, HoldsLabelsPlaceOriginsAndCounters) {
  Result result = example(300);
  result.overlaps.push_back({2, 1, 55});
  write(result, path(), "segmentation", {{"note", "text"}});
  const auto file = data::Hdf5File::open(path());
  EXPECT_EQ(file.info("segmentation").type, data::ElementType::uint16);
  EXPECT_EQ(file.read_text_attribute("segmentation", "note"), "text");
  EXPECT_EQ(file.read_array<std::int64_t>("origins/start_zyx").values[3], 2);
  EXPECT_EQ(file.read_array<std::int64_t>("overlaps/voxels").values, std::vector<std::int64_t>{55});
  EXPECT_EQ(file.read_attribute<std::int64_t>("counters", "skip_threshold").values[0], 3);
  const data::VolumePtr volume = data::open_volume(path(), "segmentation");
  EXPECT_EQ(volume->read_block<std::int64_t>(volume->box()).view()(1, 2, 3), 300);
  EXPECT_EQ(placement(*volume), (Vec3{10, 0, 7}));
}

TEST_F(ResultFile, MayHoldNoSegment) {
  write(example(0), path(), "empty", {});
  const auto file = data::Hdf5File::open(path());
  EXPECT_EQ(file.info("empty").type, data::ElementType::uint8);
  EXPECT_TRUE(file.read_array<std::int64_t>("origins/id").values.empty());
}

TEST_F(ResultFile, VolumesOfOthersHaveNoPlace) {
  auto file = data::Hdf5File::create(path());
  const std::vector<std::uint8_t> values(8);
  file.write_array<std::uint8_t>("raw", Vec3{2, 2, 2}, values);
  file.commit();
  EXPECT_EQ(placement(*data::open_volume(path(), "raw")), std::nullopt);
}

}  // namespace
}  // namespace floodtide::segment
