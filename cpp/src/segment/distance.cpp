// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "segment/filters.hpp"

namespace floodtide::segment {
namespace {

constexpr std::int64_t kNone = -1;  // no mask voxel found so far

/// Replaces the squared distances of a line by the minimum over i of distances[i] + (x - i)^2. This is the lower envelope of
/// parabolas, which one forward and one backward sweep compute. Entries kNone have no parabola.
class Envelope {
 public:
  explicit Envelope(std::int64_t length)
      : apex_(static_cast<std::size_t>(length)),
        from_(static_cast<std::size_t>(length)),
        value_(static_cast<std::size_t>(length)) {}

  void run(std::int32_t* line, std::int64_t length, std::int64_t stride) {
    std::size_t count = 0;
    for (std::int64_t x = 0; x < length; ++x) {
      const std::int64_t distance = line[x * stride];
      if (distance == kNone) continue;
      std::int64_t begin = 0;
      while (count > 0) {
        begin = first_below(count - 1, x, distance);
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
      const std::int64_t step = x - apex_[count - 1];
      line[x * stride] = static_cast<std::int32_t>(value_[count - 1] + step * step);
    }
  }

 private:
  /// Return the first x at which the parabola (apex, distance) is below parabola `i`, whose apex is smaller.
  [[nodiscard]] std::int64_t first_below(std::size_t i, std::int64_t apex, std::int64_t distance) const {
    const std::int64_t other = apex_[i];
    const std::int64_t numerator = distance + apex * apex - value_[i] - other * other;
    const std::int64_t denominator = 2 * (apex - other);
    if (numerator < 0) return 0;
    return numerator / denominator + 1;
  }

  std::vector<std::int64_t> apex_;
  std::vector<std::int64_t> from_;
  std::vector<std::int64_t> value_;
};

}  // namespace

Tensor<std::int32_t, 3> squared_distance(View<const std::uint8_t, 3> mask) {
  constexpr std::int64_t kLongestSide = 26754;  // 3 * side^2 < 2^31
  for (const std::int64_t side : mask.shape()) {
    FLOODTIDE_REQUIRE(side <= kLongestSide, unsupported, "distance transform: volume ", Show{mask.shape()},
                      " has a side above ", kLongestSide, " voxels");
  }
  const auto [nz, ny, nx] = mask.shape();
  Tensor<std::int32_t, 3> distance(mask.shape());
  for (std::int64_t i = 0; i < distance.size(); ++i) {
    distance.data()[i] = mask.data()[i] != 0 ? 0 : static_cast<std::int32_t>(kNone);
  }
  const View<std::int32_t, 3> view = distance.view();
  parallel_for(nz, [&, ny = ny, nx = nx](std::int64_t z) {
    Envelope envelope(std::max(ny, nx));
    for (std::int64_t y = 0; y < ny; ++y) envelope.run(&view(z, y, 0), nx, 1);
    for (std::int64_t x = 0; x < nx; ++x) envelope.run(&view(z, 0, x), ny, nx);
  });
  parallel_for(ny, [&, nz = nz, ny = ny, nx = nx](std::int64_t y) {
    Envelope envelope(nz);
    for (std::int64_t x = 0; x < nx; ++x) envelope.run(&view(0, y, x), nz, ny * nx);
  });
  return distance;
}

}  // namespace floodtide::segment
