// SPDX-License-Identifier: Apache-2.0
// One object at a time, inside its bounding box: prefix sums along x, a sliding sum of rows along y and one of planes along z
// give the voxels of the object in the box around every position. Rows and planes without the object cost nothing.
#include "data/partition_block.hpp"

#include <algorithm>

#include "data/objects.hpp"

namespace floodtide::data {
namespace {

/// The extents of an object.
struct Extents {
  Extent all;    ///< in the whole block
  Extent inner;  ///< in the part that results are wanted for
};

std::vector<Extents> find_objects(View<const std::uint32_t, 3> objects, std::uint32_t object_count, const Vec3& radius) {
  std::vector<Extents> found(object_count + 1);
  const Vec3& shape = objects.shape();
  for (std::int64_t z = 0; z < shape[0]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const bool inner_row = z >= radius[0] && z < shape[0] - radius[0] && y >= radius[1] && y < shape[1] - radius[1];
      const std::uint32_t* row = &objects(z, y, 0);
      for (std::int64_t x = 0; x < shape[2];) {
        std::int64_t end = x + 1;
        while (end < shape[2] && row[end] == row[x]) ++end;
        Extents& object = found[row[x]];
        object.all.add({z, y, x}, {z, y, end - 1});
        const std::int64_t first = std::max(x, radius[2]);
        const std::int64_t last = std::min(end, shape[2] - radius[2]) - 1;
        if (inner_row && first <= last) object.inner.add({z, y, first}, {z, y, last});
        x = end;
      }
    }
  }
  return found;
}

/// Counts one object; its memory serves one object after another.
class ObjectCounter {
 public:
  ObjectCounter(View<const std::uint32_t, 3> objects, const Vec3& radius) : objects_(objects), radius_(radius) {}

  /// Calls use(z, y, first x, counts along x) for every row of the object's inner box; z, y, x count in the block.
  template <class Use>
  void count(std::uint32_t number, const Extents& object, const Use& use) {
    number_ = number;
    extent_ = object.all;
    low_ = object.inner.low;
    size_ = object.inner.box().size;
    const auto plane_size = static_cast<std::size_t>(size_[1] * size_[2]);
    const std::int64_t planes = 2 * radius_[0] + 2;  // the window and the plane that leaves it
    ring_.resize(static_cast<std::size_t>(planes) * plane_size);
    sum_.assign(plane_size, 0);
    const auto plane = [&](std::int64_t z) {
      return std::span(ring_).subspan(static_cast<std::size_t>(z % planes) * plane_size, plane_size);
    };
    const auto has_plane = [&](std::int64_t z) { return z >= extent_.low[0] && z <= extent_.high[0]; };

    std::int64_t entered = std::max(low_[0] - radius_[0], extent_.low[0]);
    for (std::int64_t z = low_[0]; z < low_[0] + size_[0]; ++z) {
      for (; entered <= std::min(z + radius_[0], extent_.high[0]); ++entered) {
        count_in_plane(entered, plane(entered));
        add(plane(entered));
      }
      const std::int64_t left = z - radius_[0] - 1;
      if (has_plane(left) && left >= low_[0] - radius_[0]) subtract(plane(left));
      for (std::int64_t y = 0; y < size_[1]; ++y) use(z, low_[1] + y, low_[2], &sum_[static_cast<std::size_t>(y * size_[2])]);
    }
  }

 private:
  void add(std::span<const std::uint32_t> values) {
    for (std::size_t i = 0; i < values.size(); ++i) sum_[i] += values[i];
  }
  void subtract(std::span<const std::uint32_t> values) {
    for (std::size_t i = 0; i < values.size(); ++i) sum_[i] -= values[i];
  }

  /// Voxels of the object in row y of plane z within radius of each x; false if the row has none.
  bool count_in_row(std::int64_t z, std::int64_t y, std::uint32_t* out) {
    const std::int64_t begin = low_[2] - radius_[2];
    const std::int64_t length = size_[2] + 2 * radius_[2];
    prefix_.resize(static_cast<std::size_t>(length) + 1);
    const std::uint32_t* row = &objects_(z, y, begin);
    std::uint32_t sum = 0;
    prefix_[0] = 0;
    for (std::int64_t x = 0; x < length; ++x) {
      sum += row[x] == number_ ? 1U : 0U;
      prefix_[static_cast<std::size_t>(x) + 1] = sum;
    }
    if (sum == 0) return false;
    const std::uint32_t* low = prefix_.data();
    const std::uint32_t* high = prefix_.data() + 2 * radius_[2] + 1;
    for (std::int64_t x = 0; x < size_[2]; ++x) out[x] = high[x] - low[x];
    return true;
  }

  void count_in_plane(std::int64_t z, std::span<std::uint32_t> out) {
    const std::int64_t begin = low_[1] - radius_[1];
    const std::int64_t length = size_[1] + 2 * radius_[1];
    const std::int64_t width = size_[2];
    rows_.resize(static_cast<std::size_t>(length * width));
    has_row_.resize(static_cast<std::size_t>(length));
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t y = begin + i;
      has_row_[static_cast<std::size_t>(i)] =
          y >= extent_.low[1] && y <= extent_.high[1] && count_in_row(z, y, &rows_[static_cast<std::size_t>(i * width)]);
    }
    row_sum_.assign(static_cast<std::size_t>(width), 0);
    const auto slide = [&](std::int64_t i, std::uint32_t sign) {
      if (i < 0 || !has_row_[static_cast<std::size_t>(i)]) return;
      const std::uint32_t* row = &rows_[static_cast<std::size_t>(i * width)];
      for (std::size_t x = 0; x < row_sum_.size(); ++x) row_sum_[x] += sign * row[x];  // sign -1 wraps round and back
    };
    for (std::int64_t i = 0; i < 2 * radius_[1]; ++i) slide(i, 1);
    for (std::int64_t y = 0; y < size_[1]; ++y) {
      slide(y + 2 * radius_[1], 1);
      slide(y - 1, std::uint32_t(-1));
      std::copy(row_sum_.begin(), row_sum_.end(), out.begin() + y * width);
    }
  }

  View<const std::uint32_t, 3> objects_;
  Vec3 radius_;
  std::uint32_t number_ = 0;
  Extent extent_;
  Vec3 low_{};   ///< first position of the object's inner box
  Vec3 size_{};  ///< size of that box
  std::vector<std::uint32_t> ring_, sum_, rows_, row_sum_, prefix_;
  std::vector<char> has_row_;
};

}  // namespace

std::vector<std::int64_t> threshold_counts(std::span<const double> thresholds, std::int64_t box_voxels) {
  const auto total = static_cast<double>(box_voxels);
  std::vector<std::int64_t> counts;
  for (const double threshold : thresholds) {
    auto count = static_cast<std::int64_t>(threshold * total) - 2;
    while (static_cast<double>(count) / total < threshold) ++count;
    counts.push_back(count);
  }
  return counts;
}

Tensor<std::uint8_t, 3> partition_block(View<const std::uint32_t, 3> objects, std::uint32_t object_count, const Vec3& radius,
                                        std::span<const std::int64_t> threshold_counts) {
  const Vec3& shape = objects.shape();
  Tensor<std::uint8_t, 3> result(shape - radius - radius);
  const View<std::uint8_t, 3> out = result.view();
  const std::vector<Extents> found = find_objects(objects, object_count, radius);
  ObjectCounter counter(objects, radius);
  for (std::uint32_t number = 1; number <= object_count; ++number) {
    const Extents& object = found[number];
    if (object.inner.empty()) continue;
    const std::int64_t width = object.inner.box().size[2];
    counter.count(number, object, [&](std::int64_t z, std::int64_t y, std::int64_t x, const std::uint32_t* counts) {
      const std::uint32_t* row = &objects(z, y, x);
      std::uint8_t* classes = &out(z - radius[0], y - radius[1], x - radius[2]);
      for (std::int64_t i = 0; i < width; ++i) {
        if (row[i] != number) continue;
        const auto above =
            std::upper_bound(threshold_counts.begin(), threshold_counts.end(), static_cast<std::int64_t>(counts[i]));
        classes[i] = static_cast<std::uint8_t>(above - threshold_counts.begin() + 1);
      }
    });
  }
  return result;
}

}  // namespace floodtide::data
