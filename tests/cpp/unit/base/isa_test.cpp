// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/isa.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "floodtide/base/error.hpp"

namespace floodtide {
namespace {

class IsaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* value = std::getenv("FLOODTIDE_ISA")) before_ = value;
  }
  void TearDown() override {
    if (before_.empty()) {
      unsetenv("FLOODTIDE_ISA");
    } else {
      setenv("FLOODTIDE_ISA", before_.c_str(), 1);
    }
  }

 private:
  std::string before_;
};

TEST_F(IsaTest, VariableCapsTheLevel) {
  setenv("FLOODTIDE_ISA", "generic", 1);
  EXPECT_EQ(active_isa(), Isa::generic);
  unsetenv("FLOODTIDE_ISA");
  EXPECT_EQ(active_isa(), processor_isa());
}

TEST_F(IsaTest, UnknownNameIsAnError) {
  setenv("FLOODTIDE_ISA", "neon", 1);
  EXPECT_THROW(static_cast<void>(active_isa()), Error);
}

}  // namespace
}  // namespace floodtide
