// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/error.hpp"
#include "floodtide/data/labels.hpp"
#include "floodtide/data/targets.hpp"

namespace floodtide::data {
namespace {

class ClassTargets final : public Targets {
 public:
  explicit ClassTargets(std::int64_t count) : count_(count) {
    FLOODTIDE_REQUIRE(count >= 2 && count <= kUnlabelled, invalid_argument, "classes: ", count, " given, expected 2 to 255");
  }
  [[nodiscard]] std::int64_t outputs() const noexcept override { return count_; }
  [[nodiscard]] bool classes() const noexcept override { return true; }

  void make(View<const std::int64_t, 3> labels, bool /*training*/, Sample& out_sample) const override {
    for (std::int64_t flat = 0; flat < labels.size(); ++flat) {
      const std::int64_t label = labels.data()[flat];
      FLOODTIDE_REQUIRE(label >= kNoLabel && label < count_, invalid_file, "class ", label, " in the labels, expected at most ",
                        count_ - 1, " (classes = ", count_, ")");
      out_sample.classes.data()[flat] = label == kNoLabel ? kUnlabelled : static_cast<std::uint8_t>(label);
    }
  }

 private:
  std::int64_t count_;
};

}  // namespace

void Targets::check(const Vec3& /*patch_size*/) const {}

std::unique_ptr<Targets> class_targets(std::int64_t count) { return std::make_unique<ClassTargets>(count); }

}  // namespace floodtide::data
