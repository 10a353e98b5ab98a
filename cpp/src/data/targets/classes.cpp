// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/error.hpp"
#include "floodtide/data/labels.hpp"
#include "floodtide/data/targets.hpp"
#include "floodtide/tensor/box.hpp"

namespace floodtide::data {
namespace {

class ClassTargets final : public Targets {
 public:
  explicit ClassTargets(std::int64_t count) : count_(count) {
    FLOODTIDE_REQUIRE(count >= 2 && count <= kUnlabelled, invalid_argument, "classes: ", count, " given, expected 2 to 255");
  }
  [[nodiscard]] std::int64_t outputs() const noexcept override { return count_; }
  [[nodiscard]] bool classes() const noexcept override { return true; }

 private:
  void fill(View<const std::int64_t, 3> labels, bool /*training*/, Sample& out_sample) const override {
    for (std::int64_t flat = 0; flat < labels.size(); ++flat) {
      const std::int64_t label = labels.data()[flat];
      FLOODTIDE_REQUIRE(label >= kNoLabel && label < count_, invalid_file, "class ", label, " in the labels, expected at most ",
                        count_ - 1, " (classes = ", count_, ")");
      out_sample.classes.data()[flat] = label == kNoLabel ? kUnlabelled : static_cast<std::uint8_t>(label);
    }
  }

  std::int64_t count_;
};

}  // namespace

void Targets::make(View<const std::int64_t, 3> labels, bool training, Sample& out_sample) const {
  const Vec3 size = labels.shape() - margin(training) - margin(training);
  if (classes()) {
    out_sample.classes = Tensor<std::uint8_t, 3>(size);
  } else {
    out_sample.targets = Tensor<float, 4>({size[0], size[1], size[2], outputs()});
    out_sample.weights = Tensor<float, 4>(out_sample.targets.shape());
  }
  fill(labels, training, out_sample);
}

std::unique_ptr<Targets> class_targets(std::int64_t count) { return std::make_unique<ClassTargets>(count); }

}  // namespace floodtide::data
