// SPDX-License-Identifier: Apache-2.0
#include "floodtide/flood/canvas.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "floodtide/base/error.hpp"

namespace floodtide::flood {
namespace {

constexpr float kUnvisited = std::numeric_limits<float>::quiet_NaN();

}  // namespace

double google_ffn_logit(double probability, const char* what) {
  FLOODTIDE_REQUIRE(probability > 0.0 && probability < 1.0, invalid_argument, what, " is ", probability,
                    ", expected a probability between 0 and 1");
  const auto p = static_cast<double>(static_cast<float>(probability));
  return std::log(p / (1.0 - p));
}

Canvas::Canvas(const Vec3& shape, const Vec3& fov, float pad_logit)
    : logits_(shape),
      fov_(fov),
      pad_logit_(pad_logit),
      touched_begin_(shape),
      touched_end_{0, 0, 0},
      reach_(static_cast<std::size_t>(shape[0] * shape[1])) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    FLOODTIDE_REQUIRE(fov[axis] >= 1 && fov[axis] % 2 == 1, invalid_argument, "canvas: field of view ", Show{fov},
                      " (z, y, x) has an even size, expected odd sizes");
    FLOODTIDE_REQUIRE(fov[axis] <= shape[axis], shape_mismatch, "canvas: field of view ", Show{fov},
                      " (z, y, x) is larger than the volume ", Show{shape});
  }
  std::fill(logits_.span().begin(), logits_.span().end(), kUnvisited);
}

bool Canvas::holds_fov(const Vec3& position) const noexcept {
  for (std::size_t axis = 0; axis < 3; ++axis) {  // without sums, because a caller may ask for any position
    const std::int64_t half = fov_[axis] / 2;
    if (position[axis] < half || position[axis] >= shape()[axis] - half) return false;
  }
  return true;
}

void Canvas::touch(const Box& box) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    touched_begin_[axis] = std::min(touched_begin_[axis], box.start[axis]);
    touched_end_[axis] = std::max(touched_end_[axis], box.end()[axis]);
  }
  const auto begin = static_cast<std::int32_t>(box.start[2]);
  const auto end = static_cast<std::int32_t>(box.end()[2]);
  for (std::int64_t z = box.start[0]; z < box.end()[0]; ++z) {
    for (std::int64_t y = box.start[1]; y < box.end()[1]; ++y) {
      Reach& row = reach_[row_number(z, y)];
      row = row.begin == row.end ? Reach{begin, end} : Reach{std::min(row.begin, begin), std::max(row.end, end)};
    }
  }
}

void Canvas::clear() {
  const View<float, 3> view = logits_.view();
  for (std::int64_t z = touched_begin_[0]; z < touched_end_[0]; ++z) {
    for (std::int64_t y = touched_begin_[1]; y < touched_end_[1]; ++y) {
      Reach& row = reach_[row_number(z, y)];
      std::fill_n(&view(z, y, row.begin), row.end - row.begin, kUnvisited);
      row = {};
    }
  }
  touched_begin_ = shape();
  touched_end_ = {0, 0, 0};
}

Box Canvas::touched() const noexcept {
  Box box{touched_begin_, {0, 0, 0}};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    box.size[axis] = std::max<std::int64_t>(touched_end_[axis] - touched_begin_[axis], 0);
  }
  return box;
}

void Canvas::restore(const Box& touched, View<const float, 3> logits) {
  FLOODTIDE_ASSERT(logits.shape() == touched.size);
  clear();
  paste_box(logits, logits_.view(), touched);
  touch(touched);
}

void Canvas::reset(const Vec3& seed, float seed_logit) {
  clear();
  logits_.view().at(seed) = seed_logit;
  touch({seed, {1, 1, 1}});
}

void Canvas::cut(const Vec3& centre, View<float, 3> out_logits) const {
  FLOODTIDE_ASSERT(out_logits.shape() == fov_ && holds_fov(centre));
  copy_box(logits_.view(), centred_box(centre, fov_), out_logits);
  for (float& value : out_logits.span()) value = std::isnan(value) ? pad_logit_ : value;
}

void Canvas::paste(const Vec3& centre, View<const float, 3> logits) {
  FLOODTIDE_ASSERT(logits.shape() == fov_ && holds_fov(centre));
  const Box box = centred_box(centre, fov_);
  paste_box(logits, logits_.view(), box);
  touch(box);
}

void Canvas::keep_disconnected(const Vec3& centre, float object_logit, double share, View<float, 3> out_logits) const {
  FLOODTIDE_ASSERT(out_logits.shape() == fov_ && holds_fov(centre));
  const auto object = std::count_if(out_logits.span().begin(), out_logits.span().end(),
                                    [object_logit](float value) { return value >= object_logit; });
  if (!(static_cast<double>(object) / static_cast<double>(out_logits.size()) > share)) return;
  const Box box = centred_box(centre, fov_);
  for (std::int64_t z = 0; z < fov_[0]; ++z) {
    for (std::int64_t y = 0; y < fov_[1]; ++y) {
      const float* before = &logits_.view()(box.start[0] + z, box.start[1] + y, box.start[2]);
      float* after = &out_logits(z, y, 0);
      for (std::int64_t x = 0; x < fov_[2]; ++x) {
        // Comparisons with NaN, the mark of unvisited voxels, are false.
        if (before[x] < 0.0F && after[x] > before[x]) after[x] = before[x];
      }
    }
  }
}

}  // namespace floodtide::flood
