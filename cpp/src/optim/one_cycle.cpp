// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include "optim/courses.hpp"

namespace floodtide::optim {
namespace {

/// From `first` up to 1 in a share of the steps, then down to `last`, along half cosines or lines. It stays at `last`
/// afterwards. Source: Smith and Topin, "Super-convergence", arXiv 1708.07120; torch.optim.lr_scheduler.OneCycleLR with two
/// phases.
class OneCycle final : public Course {
 public:
  OneCycle(std::int64_t steps, double rise, double first, double last, bool cosine)
      : last_step_(static_cast<double>(steps - 1)),
        top_(rise * static_cast<double>(steps) - 1),
        first_(first),
        last_(last),
        cosine_(cosine) {}

  double at(std::int64_t step) const override {
    const double s = std::min(static_cast<double>(step), last_step_);
    if (s <= top_) return between(first_, 1.0, top_ > 0 ? s / top_ : 1.0);
    return between(1.0, last_, (s - top_) / (last_step_ - top_));
  }

 private:
  [[nodiscard]] double between(double from, double to, double share) const {
    if (cosine_) return to + (from - to) * 0.5 * (1.0 + std::cos(std::numbers::pi * share));
    return from + (to - from) * share;
  }

  double last_step_, top_, first_, last_;
  bool cosine_;
};

}  // namespace

std::unique_ptr<Course> make_one_cycle(const ParameterValues& values, std::int64_t steps) {
  FLOODTIDE_REQUIRE(steps >= 2, invalid_argument, "schedule one_cycle: ", steps, " steps in all, expected at least 2");
  return std::make_unique<OneCycle>(steps, number(values, "rise"), number(values, "first"), number(values, "last"),
                                    text(values, "shape") == "cosine");
}

}  // namespace floodtide::optim
