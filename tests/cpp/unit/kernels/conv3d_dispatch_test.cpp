// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "floodtide/base/error.hpp"
#include "kernels/conv3d/conv3d.hpp"
#include "kernels/conv3d/plan.hpp"

namespace floodtide::kernels {
namespace {

constexpr Conv3dShape kUsual{5, 5, 5, 32, 32};

ErrorCode code_of(const Conv3dShape& shape, Isa level, std::string_view kernel = "") {
  try {
    const Conv3d conv(shape, level, kernel);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::internal;
}

TEST(Conv3dDispatch, TakesTheBestKernelOfTheLevel) {
  EXPECT_EQ(Conv3d(kUsual, Isa::reference).kernel_names(),
            "forward reference, backward_data reference, backward_weights reference");
  EXPECT_EQ(Conv3d(kUsual, Isa::generic).kernel_names(),
            "forward generic_direct, backward_data generic_direct, backward_weights generic_direct");
  if (processor_isa() >= Isa::avx2) {
    EXPECT_EQ(Conv3d(kUsual, Isa::avx2).kernel_names(),
              "forward avx2_direct, backward_data avx2_direct, backward_weights avx2_direct");
    EXPECT_EQ(Conv3d({33, 33, 33, 32, 32}, Isa::avx2).kernel(), "avx2_winograd");
    EXPECT_EQ(Conv3d({9, 33, 33, 32, 32, 1, 3, 3}, Isa::avx2).kernel(), "avx2_winograd");
    EXPECT_EQ(Conv3d({33, 33, 33, 32, 32}, Isa::avx2, "", Compute::fp32_direct).kernel(), "avx2_direct");
  }
}

TEST(Conv3dDispatch, WinogradNeedsWholeVectorsOfChannelsAndTwoLongKernelExtents) {
  EXPECT_EQ(winograd_unsupported({33, 33, 33, 32, 32}), "");
  EXPECT_EQ(winograd_unsupported({33, 33, 33, 2, 32}), "channels are not multiples of 16");
  EXPECT_EQ(winograd_unsupported({33, 33, 33, 272, 32}), "more than 256 channels");
  EXPECT_EQ(winograd_unsupported({33, 33, 33, 32, 32, 3, 1, 1}), "fewer than two kernel extents are 3");
  EXPECT_NE(winograd_avoided({3, 3, 3, 32, 32}), "");
}

TEST(Conv3dDispatch, ShapesThatTheDirectKernelsRefuseGoToTheGeneralOnes) {
  EXPECT_EQ(Conv3d({2, 2, 2, 528, 16}, Isa::generic).kernel(), "eigen");
}

#if defined(FLOODTIDE_TEST_ONEDNN)
TEST(Conv3dDispatch, OneDnnIsTakenForWideLayersAndWhenItIsNamed) {
  if (processor_isa() < Isa::avx2) GTEST_SKIP() << "needs AVX2";
  EXPECT_EQ(Conv3d(kUsual, Isa::avx2, "onednn").kernel(), "onednn");
  EXPECT_EQ(Conv3d({1, 8, 8, 512, 512, 1, 3, 3}, Isa::avx2).kernel(), "onednn");
  EXPECT_EQ(Conv3d({1, 8, 8, 1024, 512, 1, 3, 3}, Isa::avx2).kernel(), "onednn");
  EXPECT_EQ(Conv3d({1, 8, 8, 16, 272, 1, 3, 3}, Isa::avx2).kernel(), "onednn");
  EXPECT_EQ(Conv3d({1, 8, 8, 256, 256, 1, 3, 3}, Isa::avx2).kernel(), "avx2_direct");
  EXPECT_EQ(Conv3d({1, 8, 8, 2, 272, 1, 3, 3}, Isa::avx2).kernel(), "avx2_direct");
  EXPECT_EQ(Conv3d({1, 8, 8, 1024, 512, 1, 3, 3}, Isa::generic).kernel(), "eigen");
}
#endif

TEST(Conv3dDispatch, LastCandidateIsTheReferenceAndAcceptsEverything) {
  const Conv3dCandidate last = conv3d_candidates().back();
  EXPECT_EQ(last.name, "reference");
  EXPECT_EQ(last.level, Isa::reference);
  EXPECT_EQ(last.unsupported({1, 1, 1, 4096, 4096}), "");
}

TEST(Conv3dDispatch, RefusesSizesOutsideTheLayout) {
  EXPECT_EQ(code_of({0, 5, 5, 32, 32}, Isa::generic), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({5, 5, 5, 32, 0}, Isa::generic), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({5, 5, 5, 32, 32, 5, 3, 3}, Isa::generic), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({5, 5, 5, 32, 32, 3, 2, 3}, Isa::generic), ErrorCode::invalid_argument);
}

TEST(Conv3dDispatch, RefusesKernelsThatAreUnknownOrAboveTheLevel) {
  EXPECT_EQ(code_of(kUsual, Isa::generic, "winograd"), ErrorCode::invalid_argument);
#if defined(__x86_64__)
  EXPECT_EQ(code_of(kUsual, Isa::generic, "avx2_direct"), ErrorCode::unsupported);
#endif
  EXPECT_EQ(code_of({5, 5, 5, 528, 32}, Isa::generic, "generic_direct"), ErrorCode::unsupported);
}

TEST(Conv3dDispatch, TellsTheListenerTheChoiceAndEachRefusal) {
  std::vector<std::string> lines;
  set_dispatch_listener([&lines](std::string_view line) { lines.emplace_back(line); });
  const Conv3d conv({5, 6, 7, 32, 528}, Isa::generic);
  set_dispatch_listener({});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("conv3d 3x3x3, 32 to 528 channels, 5x6x7 voxels: "), std::string::npos) << lines[0];
#if defined(__x86_64__)
  EXPECT_NE(lines[0].find("not avx2_direct: needs avx2, the level is generic"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("not onednn: needs avx2, the level is generic"), std::string::npos) << lines[0];
#endif
  EXPECT_NE(lines[0].find("not generic_direct: more than 512 channels"), std::string::npos) << lines[0];
}

}  // namespace
}  // namespace floodtide::kernels
