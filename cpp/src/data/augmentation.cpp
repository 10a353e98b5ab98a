// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/augmentation.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "floodtide/base/error.hpp"

namespace floodtide::data {
namespace {

void require_range(const char* name, double value, double low, double high, const char* expected) {
  FLOODTIDE_REQUIRE(value >= low && value <= high, invalid_argument, "augmentation: ", name, " is ", value, ", expected ",
                    expected);
}

void require_axes(const std::vector<int>& axes, const char* name) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    FLOODTIDE_REQUIRE(axes[i] >= 0 && axes[i] <= 2 && std::count(axes.begin(), axes.end(), axes[i]) == 1, invalid_argument,
                      name, ": expected different axes out of 0 (z), 1 (y), 2 (x), got ", axes[i]);
  }
}

}  // namespace

void require_valid(const Augmentation& augmentation, const Vec3& patch_size) {
  constexpr double kLarge = 1e6;
  require_axes(augmentation.permutable_axes, "augmentation.permutable_axes");
  require_axes(augmentation.reflectable_axes, "augmentation.reflectable_axes");
  for (const int axis : augmentation.permutable_axes) {
    const auto first = static_cast<std::size_t>(augmentation.permutable_axes.front());
    FLOODTIDE_REQUIRE(patch_size[static_cast<std::size_t>(axis)] == patch_size[first], invalid_argument,
                      "augmentation.permutable_axes: axes ", first, " and ", axis, " have different patch sizes in ",
                      Show{patch_size}, "; expected equal ones, or augmentation.permutable_axes = []");
  }
  require_range("rotation_deg", augmentation.rotation_deg, 0, 180, "0 to 180");
  require_range("scale", augmentation.scale, 0, kLarge, "0 (off) or more, for factors from 1 / (1 + scale) to 1 + scale");
  require_range("gamma", augmentation.gamma, 0, kLarge, "0 (off) or more, for exponents from 1 / (1 + gamma) to 1 + gamma");
  require_range("gain", augmentation.gain, 0, std::nextafter(1.0, 0.0), "0 (off) or more, below 1");
  for (const auto& [name, value] : {std::pair{"elastic", augmentation.elastic}, std::pair{"blur", augmentation.blur},
                                    std::pair{"offset", augmentation.offset}, std::pair{"noise", augmentation.noise}}) {
    require_range(name, value, 0, kLarge, "0 (off) or more");
  }
  const double defects = augmentation.missing_section + augmentation.dark_section + augmentation.defocused_section;
  for (const auto& [name, value] :
       {std::pair{"missing_section", augmentation.missing_section}, std::pair{"dark_section", augmentation.dark_section},
        std::pair{"defocused_section", augmentation.defocused_section}, std::pair{"faint_object", augmentation.faint_object},
        std::pair{"shifted_section", augmentation.shifted_section},
        std::pair{"missing_section + dark_section + defocused_section", defects}}) {
    require_range(name, value, 0, 1, "a probability, 0 (off) to 1");
  }
}

}  // namespace floodtide::data
