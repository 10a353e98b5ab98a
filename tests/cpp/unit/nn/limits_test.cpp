// SPDX-License-Identifier: Apache-2.0
#include "floodtide/nn/limits.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace floodtide::nn {
namespace {

std::string message_of(const auto& options) {
  try {
    require_valid(options, "checkpoint a.h5", ErrorCode::invalid_file);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_file);
    return error.what();
  }
  return "";
}

TEST(NetworkLimits, StandardNetworksAreValid) {
  EXPECT_EQ(message_of(FfnOptions{}), "");
  EXPECT_EQ(message_of(UNetOptions{}), "");
}

TEST(NetworkLimits, MessagesNameTheOption) {
  EXPECT_EQ(message_of(FfnOptions{.depth = 1'048'577}), "checkpoint a.h5: depth is 1048577, expected 1 to 1000");
  EXPECT_EQ(message_of(FfnOptions{.features = -1}), "checkpoint a.h5: features is -1, expected 1 to 4096");
  EXPECT_EQ(message_of(UNetOptions{.classes = 1}), "checkpoint a.h5: classes is 1, expected 2 to 32");
  EXPECT_EQ(message_of(UNetOptions{.dropout = 1.0}), "checkpoint a.h5: dropout is 1, expected at least 0 and below 1");
}

TEST(NetworkLimits, ExtentsOfEveryAxisAreChecked) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (std::size_t axis = 0; axis < 3; ++axis) {
    for (const std::int64_t extent : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{32}, kMost}) {
      FfnOptions options;
      options.fov[axis] = extent;
      EXPECT_NE(message_of(options), "") << extent;
    }
    FfnOptions far;
    far.deltas[axis] = kMost;
    EXPECT_NE(message_of(far), "");
    UNetOptions even;
    even.kernels[0][axis] = 2;
    EXPECT_NE(message_of(even), "");
    UNetOptions wide;
    wide.pools[0][axis] = 5;
    EXPECT_NE(message_of(wide), "");
  }
}

}  // namespace
}  // namespace floodtide::nn
