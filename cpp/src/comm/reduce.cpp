// SPDX-License-Identifier: Apache-2.0
#include "comm/reduce.hpp"

namespace floodtide::comm {
namespace {

template <class T>
void reduce_values(T* __restrict inout, const T* __restrict other, std::int64_t count, ReduceOp op) {
  // The comparisons keep a NaN of either side: x != x holds only for NaN, and a comparison with NaN is false.
  switch (op) {
    case ReduceOp::sum:
      for (std::int64_t i = 0; i < count; ++i) inout[i] += other[i];
      break;
    case ReduceOp::min:
      for (std::int64_t i = 0; i < count; ++i) inout[i] = (inout[i] < other[i] || inout[i] != inout[i]) ? inout[i] : other[i];
      break;
    case ReduceOp::max:
      for (std::int64_t i = 0; i < count; ++i) inout[i] = (inout[i] > other[i] || inout[i] != inout[i]) ? inout[i] : other[i];
      break;
  }
}

template <class T>
void reduce_bytes(const ReduceBuffer& inout, const std::byte* other, ReduceOp op) {
  reduce_values(reinterpret_cast<T*>(inout.data), reinterpret_cast<const T*>(other), inout.count, op);
}

}  // namespace

void reduce_into(const ReduceBuffer& inout, const std::byte* other, ReduceOp op) {
  switch (inout.type) {
    case ElementType::float32: reduce_bytes<float>(inout, other, op); break;
    case ElementType::float64: reduce_bytes<double>(inout, other, op); break;
    case ElementType::int64: reduce_bytes<std::int64_t>(inout, other, op); break;
  }
}

}  // namespace floodtide::comm
