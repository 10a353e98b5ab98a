// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/components.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace floodtide::segment {
namespace {

std::vector<std::int32_t> components(const Vec3& shape, const std::vector<std::uint8_t>& mask, std::int64_t min_size = 1) {
  const Tensor<std::int32_t, 3> labels = connected_components(View<const std::uint8_t, 3>(mask.data(), shape), min_size);
  return {labels.span().begin(), labels.span().end()};
}

using Labels = std::vector<std::int32_t>;

TEST(ConnectedComponents, JoinVoxelsOverFacesAlongEveryAxisOnly) {
  EXPECT_EQ(components({1, 2, 3}, {1, 0, 1,  //
                                   0, 1, 1}),
            (Labels{1, 0, 2, 0, 2, 2}));
  EXPECT_EQ(components({2, 1, 2}, {7, 0, 1, 0}), (Labels{1, 0, 1, 0}));
}

TEST(ConnectedComponents, JoinArmsThatMeetLater) {
  EXPECT_EQ(components({1, 3, 5}, {1, 0, 1, 0, 1,  //
                                   1, 0, 1, 0, 1,  //
                                   1, 1, 1, 0, 1}),
            (Labels{1, 0, 1, 0, 2, 1, 0, 1, 0, 2, 1, 1, 1, 0, 2}));
}

TEST(ConnectedComponents, DropSmallPiecesAndNumberTheRestWithoutGaps) {
  EXPECT_EQ(components({1, 1, 6}, {1, 0, 1, 1, 0, 1}, 2), (Labels{0, 0, 1, 1, 0, 0}));
}

TEST(ConnectedComponents, AreNoneInAnEmptyMask) { EXPECT_EQ(components({1, 2, 2}, {0, 0, 0, 0}), Labels(4)); }

}  // namespace
}  // namespace floodtide::segment
