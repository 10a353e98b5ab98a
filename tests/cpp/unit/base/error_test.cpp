// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/error.hpp"

#include <gtest/gtest.h>

namespace floodtide {
namespace {

TEST(Error, RequireNamesOperationAndBothValues) {
  try {
    const int channels = 16;
    FLOODTIDE_REQUIRE(channels == 32, shape_mismatch, "conv3d: weight has ", channels, " input channels, input has ", 32);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::shape_mismatch);
    EXPECT_STREQ(error.what(), "conv3d: weight has 16 input channels, input has 32");
  }
}

}  // namespace
}  // namespace floodtide
