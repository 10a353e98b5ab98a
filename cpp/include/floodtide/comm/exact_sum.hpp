// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/parallel.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// Sums arrays over ranks so that the result depends neither on how many arrays each rank holds nor on the order of summation:
/// every value is rounded once to a fixed-point number, integers are added, which is associative, and the sum is rounded
/// once to float. The point is fixed for each part of the array by the largest value in it over all arrays, so that no sum can
/// overflow; a value loses what lies below 2^-(61 - log2 arrays) of that largest one, at worst.
///
/// Costs twice the bytes of a sum of floats and a maximum of one number a part before it.
class ExactSum {
 public:
  /// @param parts   cut an array from its begin to its end without gaps
  /// @param arrays  at most this many over all ranks
  ExactSum(Communicator& comm, std::vector<Range> parts, std::int64_t arrays, std::string algorithm);

  /// Collective: out_sum = the sum of this rank's arrays (one after another, perhaps none) and all others'. Same bits on all
  /// ranks, and on any number of them. A value that is not finite makes its whole part NaN.
  void run(std::span<const float> own, std::span<float> out_sum);

 private:
  Communicator& comm_;
  std::vector<Range> parts_;
  std::int64_t length_;
  int spare_bits_;  // that a sum of so many needs
  std::string algorithm_;
  std::vector<std::int64_t> exponents_;  // one a part
  std::vector<std::int64_t> sums_;
};

}  // namespace floodtide::comm
