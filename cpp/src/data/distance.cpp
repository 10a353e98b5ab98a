// SPDX-License-Identifier: Apache-2.0
#include "data/distance.hpp"

#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"

namespace floodtide::data {
namespace {

constexpr int kNone = -1;  // no mask voxel found so far

/// Replaces the squared distances of a line by the minimum over i of distances[i] + weight (x - i)^2. This is the lower
/// envelope of parabolas, which one forward and one backward sweep compute. Entries kNone have no parabola. Distances are
/// stored as `Stored` and computed as `Wide`.
template <class Stored, class Wide>
class Envelope {
 public:
  Envelope(std::int64_t length, Wide weight)
      : weight_(weight),
        apex_(static_cast<std::size_t>(length)),
        from_(static_cast<std::size_t>(length)),
        value_(static_cast<std::size_t>(length)) {}

  void run(Stored* line, std::int64_t length, std::int64_t stride) {
    std::size_t count = 0;
    for (std::int64_t x = 0; x < length; ++x) {
      const Wide distance = line[x * stride];
      if (distance == kNone) continue;
      std::int64_t begin = 0;
      while (count > 0) {
        begin = first_below(count - 1, x, distance, length);
        if (begin > from_[count - 1]) break;
        --count;
        begin = 0;
      }
      if (begin >= length) continue;
      apex_[count] = x;
      value_[count] = distance;
      from_[count] = begin;
      ++count;
    }
    if (count == 0) return;
    for (std::int64_t x = length - 1; x >= 0; --x) {
      while (from_[count - 1] > x) --count;
      const auto step = static_cast<Wide>(x - apex_[count - 1]);
      line[x * stride] = static_cast<Stored>(value_[count - 1] + weight_ * step * step);
    }
  }

 private:
  /// Return the first x, at most `length`, at which the parabola (apex, distance) is below parabola `i`, whose apex is smaller.
  [[nodiscard]] std::int64_t first_below(std::size_t i, std::int64_t apex, Wide distance, std::int64_t length) const {
    const std::int64_t other = apex_[i];
    const Wide numerator = distance - value_[i] + weight_ * static_cast<Wide>(apex * apex - other * other);
    const Wide denominator = 2 * weight_ * static_cast<Wide>(apex - other);
    if (numerator < 0) return 0;
    if (numerator >= denominator * static_cast<Wide>(length)) return length;
    return static_cast<std::int64_t>(numerator / denominator) + 1;
  }

  Wide weight_;
  std::vector<std::int64_t> apex_;
  std::vector<std::int64_t> from_;
  std::vector<Wide> value_;
};

template <class Stored, class Wide>
Tensor<Stored, 3> transform(View<const std::uint8_t, 3> mask, const std::array<Wide, 3>& weights, bool planes) {
  const auto [nz, ny, nx] = mask.shape();
  Tensor<Stored, 3> distance(mask.shape());
  for (std::int64_t i = 0; i < distance.size(); ++i) {
    distance.data()[i] = static_cast<Stored>(mask.data()[i] != 0 ? 0 : kNone);
  }
  const View<Stored, 3> view = distance.view();
  parallel_for(nz, [&, ny = ny, nx = nx](std::int64_t z) {
    Envelope<Stored, Wide> rows(nx, weights[2]), columns(ny, weights[1]);
    for (std::int64_t y = 0; y < ny; ++y) rows.run(&view(z, y, 0), nx, 1);
    for (std::int64_t x = 0; x < nx; ++x) columns.run(&view(z, 0, x), ny, nx);
  });
  if (planes) return distance;
  parallel_for(ny, [&, nz = nz, ny = ny, nx = nx](std::int64_t y) {
    Envelope<Stored, Wide> lines(nz, weights[0]);
    for (std::int64_t x = 0; x < nx; ++x) lines.run(&view(0, y, x), nz, ny * nx);
  });
  return distance;
}

}  // namespace

Tensor<std::int32_t, 3> squared_distance(View<const std::uint8_t, 3> mask, bool planes) {
  constexpr std::int64_t kLongestSide = 26754;  // 3 * side^2 < 2^31
  for (const std::int64_t side : mask.shape()) {
    FLOODTIDE_REQUIRE(side <= kLongestSide, unsupported, "distance transform: volume ", Show{mask.shape()},
                      " has a side above ", kLongestSide, " voxels");
  }
  return transform<std::int32_t, std::int64_t>(mask, {1, 1, 1}, planes);
}

Tensor<double, 3> squared_distance(View<const std::uint8_t, 3> mask, const std::array<double, 3>& voxel_size) {
  std::array<double, 3> weights{};
  for (std::size_t axis = 0; axis < 3; ++axis) weights[axis] = voxel_size[axis] * voxel_size[axis];
  return transform<double, double>(mask, weights, false);
}

}  // namespace floodtide::data
