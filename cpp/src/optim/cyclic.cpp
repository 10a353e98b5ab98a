// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "optim/courses.hpp"

namespace floodtide::optim {
namespace {

enum class Mode { triangular, triangular2, exp_range };

/// Triangles between `lowest` and a top of 1. In mode triangular2 each cycle is half as high as the cycle before; in mode
/// exp_range the height is decay^step. Source: Smith, "Cyclical learning rates", WACV 2017; torch.optim.lr_scheduler.CyclicLR.
class Cyclic final : public Course {
 public:
  Cyclic(double half_cycle, double lowest, Mode mode, double decay)
      : half_cycle_(half_cycle), lowest_(lowest), mode_(mode), decay_(decay) {}

  double at(std::int64_t step) const override {
    const auto s = static_cast<double>(step);
    const double cycle = std::floor(s / (2 * half_cycle_));
    const double place = s / half_cycle_ - 2 * cycle;  // 0 to 2, the top is at 1
    double height = 1 - std::abs(place - 1);
    if (mode_ == Mode::triangular2) height *= std::exp2(-cycle);
    if (mode_ == Mode::exp_range) height *= std::pow(decay_, s);
    return lowest_ + (1 - lowest_) * height;
  }

 private:
  double half_cycle_, lowest_;
  Mode mode_;
  double decay_;
};

}  // namespace

std::unique_ptr<Course> make_cyclic(const ParameterValues& values, std::int64_t /*steps*/) {
  const std::string mode = text(values, "mode");
  return std::make_unique<Cyclic>(number(values, "half_cycle"), number(values, "lowest"),
                                  mode == "triangular"    ? Mode::triangular
                                  : mode == "triangular2" ? Mode::triangular2
                                                          : Mode::exp_range,
                                  number(values, "decay"));
}

}  // namespace floodtide::optim
