// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/parallel.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// Sum of arrays over ranks. The result depends neither on how many arrays each rank holds nor on the order of summation.
///
/// Every value is rounded to a fixed-point number. The sum of these integers is exact in any order, and is rounded once to
/// float. Each part of the array has its own scale, from the largest absolute value of this part in all arrays. The scale is
/// chosen so that no sum can overflow. The rounding error of a value is at most 2^-(61 - log2 arrays) times this largest value.
///
/// The sum takes twice the bytes of a sum of floats, because integers have 64 bits. An allreduce of one number per part, for
/// the largest values, comes first.
class ExactSum {
 public:
  /// @param parts     ranges that cover an array from its begin to its end without gaps
  /// @param arrays    largest number of arrays over all ranks, from 1 to 2^30 - 1 (Error(invalid_argument) otherwise)
  /// @param algorithm as in AllreduceOptions
  ExactSum(Communicator& comm, std::vector<Range> parts, std::int64_t arrays, std::string algorithm);

  /// Sum the arrays of all ranks. `own` holds the arrays of this rank, one after another; it may be empty. Collective.
  ///
  /// The result has the same bits on all ranks, and for any number of ranks. A value that is not finite makes its whole part
  /// NaN. Throws Error(shape_mismatch) for wrong sizes.
  void run(std::span<const float> own, std::span<float> out_sum);

 private:
  Communicator& comm_;
  std::vector<Range> parts_;
  std::int64_t length_;
  int spare_bits_;  // bits that a sum of `arrays` values needs in addition to those of one value
  std::string algorithm_;
  std::vector<std::int64_t> exponents_;  // of the largest value of each part
  std::vector<std::int64_t> sums_;
};

}  // namespace floodtide::comm
