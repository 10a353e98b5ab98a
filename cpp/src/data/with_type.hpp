// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "floodtide/data/hdf5.hpp"

namespace floodtide::data {

/// Call visit(U{}), where U is the C++ type of `type`.
template <class Visit>
void with_type(ElementType type, const Visit& visit) {
  switch (type) {
    case ElementType::uint8: return visit(std::uint8_t{});
    case ElementType::int8: return visit(std::int8_t{});
    case ElementType::uint16: return visit(std::uint16_t{});
    case ElementType::int16: return visit(std::int16_t{});
    case ElementType::uint32: return visit(std::uint32_t{});
    case ElementType::int32: return visit(std::int32_t{});
    case ElementType::uint64: return visit(std::uint64_t{});
    case ElementType::int64: return visit(std::int64_t{});
    case ElementType::float32: return visit(float{});
    case ElementType::float64: return visit(double{});
  }
}

}  // namespace floodtide::data
