// SPDX-License-Identifier: Apache-2.0
// Values that every rank can compute for all ranks, and checks of the results of collectives on these values.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "floodtide/comm/collectives.hpp"

namespace floodtide::test {

inline constexpr std::int64_t kFfnParameters = 472353;  // number of parameters of the published network (depth 9, 32 features)
inline constexpr std::size_t kSmallSegmentBytes = 64;   // so that short arrays are sent in many segments

/// Return the value of element i on a rank. All ranks know it, so that each can compute the expected result.
template <class T>
T value(int rank, std::int64_t i) {
  const auto bits =
      (static_cast<std::uint64_t>(i) * 2654435761U + static_cast<std::uint64_t>(rank) * 40503U) * 0x9E3779B97F4A7C15U;
  const auto small = static_cast<std::int64_t>(bits >> 40U) - (1 << 23);  // 24 bits, signed
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(small);  // narrow types keep the lowest bits
  } else {
    return static_cast<T>(small) / T{1000};
  }
}

/// Elements that a rank checks.
enum class Part {
  all,
  own  ///< elements with index = rank modulo the number of ranks; enough if all ranks hold the same values
};

template <class T>
void expect_reduced(const comm::Communicator& comm, std::span<const T> values, comm::ReduceOp op, const std::string& what,
                    Part part = Part::all) {
  const bool own = part == Part::own;
  for (std::int64_t i = own ? comm.rank() : 0; i < std::ssize(values); i += own ? comm.size() : 1) {
    long double sum = 0;
    long double magnitude = 0;
    long double product = 1;
    std::uint64_t wrapped_sum = 0;
    std::uint64_t wrapped_product = 1;
    T smallest = std::numeric_limits<T>::max();
    T largest = std::numeric_limits<T>::lowest();
    for (int rank = 0; rank < comm.size(); ++rank) {
      const T x = value<T>(rank, i);
      sum += static_cast<long double>(x);
      magnitude += std::abs(static_cast<long double>(x));
      product *= static_cast<long double>(x);
      if constexpr (std::is_integral_v<T>) {
        wrapped_sum += static_cast<std::uint64_t>(x);
        wrapped_product *= static_cast<std::uint64_t>(x);
      }
      smallest = std::min(smallest, x);
      largest = std::max(largest, x);
    }
    const T got = values[static_cast<std::size_t>(i)];
    const bool sums = op == comm::ReduceOp::sum;
    if (std::is_integral_v<T> && (sums || op == comm::ReduceOp::product)) {
      ASSERT_EQ(got, static_cast<T>(sums ? wrapped_sum : wrapped_product)) << what << ", element " << i;
    } else if (op == comm::ReduceOp::product) {
      // The relative rounding error of each of the N - 1 products is at most eps / 2.
      const long double bound =
          (comm.size() - 1) * static_cast<long double>(std::numeric_limits<T>::epsilon()) * std::abs(product);
      ASSERT_LE(std::abs(static_cast<long double>(got) - product), bound) << what << ", element " << i;
    } else if (sums) {
      // The rounding error of each of the N - 1 additions is at most eps / 2 times a partial sum. A partial sum is at most
      // `magnitude` (1 + eps)^N.
      const long double bound = (comm.size() - 1) * static_cast<long double>(std::numeric_limits<T>::epsilon()) * magnitude;
      ASSERT_LE(std::abs(static_cast<long double>(got) - sum), bound) << what << ", element " << i;
    } else {
      ASSERT_EQ(got, op == comm::ReduceOp::min ? smallest : largest) << what << ", element " << i;
    }
  }
}

template <class T>
void expect_same_bits_everywhere(comm::Communicator& comm, std::span<const T> values, const std::string& what) {
  const auto bytes = std::as_bytes(values);
  std::uint64_t hash = 14695981039346656037U;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211U;
  const auto all = comm::allgather(comm, std::as_bytes(std::span(&hash, 1)));
  for (const auto& other : all) ASSERT_EQ(other, all.front()) << what;
}

template <class T>
std::vector<T> values_of(int rank, std::int64_t length) {
  std::vector<T> values(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) values[static_cast<std::size_t>(i)] = value<T>(rank, i);
  return values;
}

template <class T>
constexpr comm::ReduceType element_type() {
  if (std::is_same_v<T, float>) return comm::ReduceType::float32;
  if (std::is_same_v<T, double>) return comm::ReduceType::float64;
  if (std::is_same_v<T, std::int64_t>) return comm::ReduceType::int64;
  if (std::is_same_v<T, std::int32_t>) return comm::ReduceType::int32;
  if (std::is_same_v<T, std::uint8_t>) return comm::ReduceType::uint8;
  return comm::ReduceType::int8;
}

template <class T>
comm::ReduceBuffer buffer_of(std::vector<T>& values) {
  return {std::as_writable_bytes(std::span(values)).data(), std::ssize(values), element_type<T>()};
}

/// Return the value of a float16, from the definition of the format.
inline double half_value(std::uint16_t half) {
  const int exponent = half >> 10U & 0x1F;
  const int fraction = half & 0x3FF;
  const double sign = (half & 0x8000U) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

/// Return the message of the error that a call throws. The test fails if it does not throw.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

inline bool runs_on(const comm::AllreduceRow& row, const comm::Communicator& comm, bool has_library_allreduce) {
  return row.schedule != nullptr || has_library_allreduce || comm.size() == 1;
}

}  // namespace floodtide::test
