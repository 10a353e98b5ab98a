// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/isa.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "base/isa_scope.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide {
namespace {

TEST(Isa, VariableCapsTheLevel) {
  EXPECT_EQ(isa_up_to("generic"), Isa::generic);
  EXPECT_EQ(isa_up_to(""), processor_isa());
}

TEST(Isa, UnknownNameIsAnError) { EXPECT_THROW(static_cast<void>(isa_up_to("neon")), Error); }

TEST(Isa, ChangesOfTheVariableDuringARunHaveNoEffect) {
  const Isa used = active_isa();
  const char* const value = std::getenv("FLOODTIDE_ISA");
  const std::optional<std::string> before = value == nullptr ? std::nullopt : std::optional<std::string>(value);
  ASSERT_EQ(::setenv("FLOODTIDE_ISA", used == Isa::generic ? "reference" : "generic", 1), 0);
  EXPECT_EQ(active_isa(), used);
  ASSERT_EQ(before ? ::setenv("FLOODTIDE_ISA", before->c_str(), 1) : ::unsetenv("FLOODTIDE_ISA"), 0);
}

TEST(Isa, TestsMayChooseALevel) {
  const Isa used = active_isa();
  {
    const IsaScope scope(Isa::reference);
    EXPECT_EQ(active_isa(), Isa::reference);
  }
  EXPECT_EQ(active_isa(), used);
}

}  // namespace
}  // namespace floodtide
