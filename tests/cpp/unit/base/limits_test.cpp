// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/limits.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace floodtide {
namespace {

std::string message_of(const Limits& limits, auto value) {
  try {
    require_in(limits, value, "data.prefetch");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Limits, MessagesNameTheValueAndTheRange) {
  EXPECT_EQ(message_of({0, 1024}, std::int64_t{1} << 62), "data.prefetch is 4611686018427387904, expected 0 to 1024");
  EXPECT_EQ(message_of({.minimum = 0, .maximum = 1, .above = true}, 0.0), "data.prefetch is 0, expected above 0 and at most 1");
  EXPECT_EQ(message_of({.minimum = 0, .above = true, .below = true}, -0.5), "data.prefetch is -0.5, expected above 0");
}

TEST(Limits, BoundsAreInsideUnlessTheyAreExcluded) {
  EXPECT_EQ(message_of({1, 3}, std::int64_t{1}), "");
  EXPECT_EQ(message_of({1, 3}, 3.0), "");
  EXPECT_NE(message_of({.minimum = 1, .maximum = 3, .below = true}, 3.0), "");
  EXPECT_NE(message_of({1, 3}, std::nextafter(3.0, 4.0)), "");
}

TEST(Limits, WholeNumbersAreComparedExactly) {
  EXPECT_EQ(message_of({0, 0x1p53}, std::int64_t{1} << 53), "");
  EXPECT_NE(message_of({0, 0x1p53}, (std::int64_t{1} << 53) + 1), "");
}

TEST(Limits, NanAndInfinityAreInNoRange) {
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    EXPECT_NE(message_of({}, value), "");
    EXPECT_NE(message_of({0, 1}, value), "");
  }
}

TEST(Limits, NarrowRefusesWhatTheTypeCannotHold) {
  EXPECT_EQ(narrow<int>(7, "depth"), 7);
  for (const std::int64_t value :
       {std::int64_t{1} << 31, (std::int64_t{1} << 32) + 2, std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_THROW(static_cast<void>(narrow<int>(value, "depth")), Error);
  }
  EXPECT_THROW(static_cast<void>(narrow<int>(7, "depth", {1, 5})), Error);
}

}  // namespace
}  // namespace floodtide
