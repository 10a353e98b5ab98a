// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "optim/courses.hpp"

namespace floodtide::optim {
namespace {

/// decay^(number of milestones that the step has reached). Source: torch.optim.lr_scheduler.MultiStepLR.
class Step final : public Course {
 public:
  Step(std::vector<std::int64_t> milestones, double decay) : milestones_(std::move(milestones)), decay_(decay) {}

  double at(std::int64_t step) const override {
    const auto reached = std::ranges::upper_bound(milestones_, step) - milestones_.begin();
    return std::pow(decay_, static_cast<double>(reached));
  }

 private:
  std::vector<std::int64_t> milestones_;  // ascending
  double decay_;
};

std::vector<std::int64_t> milestones_of(const std::string& text) {
  std::vector<std::int64_t> milestones;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at < end) {
    std::int64_t milestone = 0;
    const auto [rest, error] = std::from_chars(at, end, milestone);
    const bool ascends = milestones.empty() || milestone > milestones.back();
    FLOODTIDE_REQUIRE(error == std::errc() && milestone > 0 && ascends && (rest == end || (*rest == ',' && rest + 1 < end)),
                      invalid_argument, "schedule step: milestones are '", text,
                      "', expected ascending numbers of updates, such as 3000,6000");
    milestones.push_back(milestone);
    at = rest == end ? end : rest + 1;
  }
  return milestones;
}

}  // namespace

std::unique_ptr<Course> make_step(const ParameterValues& values, std::int64_t /*steps*/) {
  return std::make_unique<Step>(milestones_of(text(values, "milestones")), number(values, "decay"));
}

}  // namespace floodtide::optim
