// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/exact_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/allreduce.hpp"

namespace floodtide::comm {
namespace {

constexpr int kBits = 62;                                             // bits of an int64 without the sign and one spare bit
constexpr std::int64_t kZero = std::numeric_limits<int>::min();       // exponent of a part with zeros only
constexpr std::int64_t kNotFinite = std::numeric_limits<int>::max();  // exponent of a part with a value that is not finite

/// Return e with |value| < 2^e. `bits` are the bits of a float without its sign.
std::int64_t exponent_of(std::uint32_t bits) {
  const float value = std::bit_cast<float>(bits);
  if (!std::isfinite(value)) return kNotFinite;
  if (value == 0.0F) return kZero;
  int exponent = 0;
  static_cast<void>(std::frexp(value, &exponent));
  return exponent;
}

}  // namespace

ExactSum::ExactSum(Communicator& comm, std::vector<Range> parts, std::int64_t arrays, std::string algorithm)
    : comm_(comm),
      parts_(std::move(parts)),
      length_(parts_.empty() ? 0 : parts_.back().end),
      spare_bits_(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(arrays)))),
      algorithm_(std::move(algorithm)),
      exponents_(parts_.size()),
      sums_(static_cast<std::size_t>(length_)) {
  FLOODTIDE_REQUIRE(arrays >= 1 && arrays < (std::int64_t{1} << 30U), invalid_argument, "exact sum: ", arrays,
                    " arrays, expected 1 to 2^30 - 1");
}

void ExactSum::run(std::span<const float> own, std::span<float> out_sum) {
  FLOODTIDE_REQUIRE(std::ssize(out_sum) == length_ && (length_ == 0 || std::ssize(own) % length_ == 0), shape_mismatch,
                    "exact sum: ", own.size(), " values into ", out_sum.size(), ", expected arrays of ", length_);
  const std::int64_t arrays = length_ == 0 ? 0 : std::ssize(own) / length_;
  parallel_for(std::ssize(parts_), [&](std::int64_t number) {
    const auto part = static_cast<std::size_t>(number);
    // Without the sign, the bits of floats have the same order as the floats. Values that are not finite are the largest.
    std::uint32_t largest = 0;
    for (std::int64_t array = 0; array < arrays; ++array) {
      const float* const values = own.data() + array * length_;
      for (std::int64_t i = parts_[part].begin; i < parts_[part].end; ++i) {
        largest = std::max(largest, std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFU);
      }
    }
    exponents_[part] = exponent_of(largest);
  });
  allreduce(comm_, std::span(exponents_), ReduceOp::max, algorithm_);
  std::ranges::fill(sums_, 0);
  parallel_for(std::ssize(parts_), [&](std::int64_t number) {
    const auto part = static_cast<std::size_t>(number);
    if (exponents_[part] == kZero || exponents_[part] == kNotFinite) return;
    const double scale = std::ldexp(1.0, kBits - spare_bits_ - static_cast<int>(exponents_[part]));  // the product is exact
    for (std::int64_t array = 0; array < arrays; ++array) {
      const float* const values = own.data() + array * length_;
      for (std::int64_t i = parts_[part].begin; i < parts_[part].end; ++i) {
        sums_[static_cast<std::size_t>(i)] += std::llrint(scale * static_cast<double>(values[i]));
      }
    }
  });
  allreduce(comm_, std::span(sums_), ReduceOp::sum, algorithm_);
  parallel_for(std::ssize(parts_), [&](std::int64_t number) {
    const auto part = static_cast<std::size_t>(number);
    const auto begin = static_cast<std::size_t>(parts_[part].begin), end = static_cast<std::size_t>(parts_[part].end);
    if (exponents_[part] == kNotFinite) {
      std::fill(out_sum.begin() + parts_[part].begin, out_sum.begin() + parts_[part].end,
                std::numeric_limits<float>::quiet_NaN());
      return;
    }
    const double scale =
        exponents_[part] == kZero ? 1.0 : std::ldexp(1.0, static_cast<int>(exponents_[part]) + spare_bits_ - kBits);
    for (std::size_t i = begin; i < end; ++i) out_sum[i] = static_cast<float>(scale * static_cast<double>(sums_[i]));
  });
}

}  // namespace floodtide::comm
