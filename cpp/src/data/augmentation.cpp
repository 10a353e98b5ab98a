// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/augmentation.hpp"

#include <cmath>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/data/axis_map.hpp"

namespace floodtide::data {
namespace {

void require_range(const char* name, double value, double low, double high, const char* expected) {
  FLOODTIDE_REQUIRE(value >= low && value <= high, invalid_argument, "augmentation: ", name, " is ", value, ", expected ",
                    expected);
}

}  // namespace

void require_valid(const Augmentation& augmentation, const Vec3& patch_size) {
  constexpr double kLarge = 1e6;
  require_axes(augmentation.permutable_axes, augmentation.reflectable_axes, patch_size);
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
        std::pair{"defocused_section", augmentation.defocused_section},
        std::pair{"shifted_section", augmentation.shifted_section},
        std::pair{"missing_section + dark_section + defocused_section", defects}}) {
    require_range(name, value, 0, 1, "a probability, 0 (off) to 1");
  }
}

}  // namespace floodtide::data
