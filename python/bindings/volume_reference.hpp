// SPDX-License-Identifier: Apache-2.0
// Volumes as Python hands them to the core: an open volume, or the name "file:dataset" of an HDF5 dataset.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "floodtide/data/volume.hpp"

namespace floodtide::bindings {

/// Return the element type with one of NumPy's names; nothing for another name.
inline std::optional<data::ElementType> element_type_named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(data::ElementType::float64); ++i) {
    if (data::name(static_cast<data::ElementType>(i)) == name) return static_cast<data::ElementType>(i);
  }
  return std::nullopt;
}

}  // namespace floodtide::bindings

namespace pybind11::detail {

template <>
struct type_caster<floodtide::data::VolumeReference> {
  PYBIND11_TYPE_CASTER(floodtide::data::VolumeReference, const_name("str | floodtide._core.data.Volume"));

  bool load(handle source, bool convert) {
    using floodtide::data::Volume;
    make_caster<std::string> text;
    if (text.load(source, convert)) {
      value = cast_op<std::string&&>(std::move(text));
      return true;
    }
    if (!isinstance<Volume>(source)) return false;
    value = floodtide::data::VolumePtr(source.cast<std::shared_ptr<Volume>>());
    return true;
  }
};

}  // namespace pybind11::detail
