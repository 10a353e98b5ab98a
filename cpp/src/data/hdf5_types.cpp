// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_types.hpp"

#include <array>

namespace floodtide::data {
namespace {

struct TypeRow {
  ElementType type;
  std::string_view name;
  std::size_t bytes;
  H5T_class_t kind;
  H5T_sign_t sign;
};

constexpr std::array<TypeRow, 10> kTypes{{
    {ElementType::uint8, "uint8", 1, H5T_INTEGER, H5T_SGN_NONE},
    {ElementType::int8, "int8", 1, H5T_INTEGER, H5T_SGN_2},
    {ElementType::uint16, "uint16", 2, H5T_INTEGER, H5T_SGN_NONE},
    {ElementType::int16, "int16", 2, H5T_INTEGER, H5T_SGN_2},
    {ElementType::uint32, "uint32", 4, H5T_INTEGER, H5T_SGN_NONE},
    {ElementType::int32, "int32", 4, H5T_INTEGER, H5T_SGN_2},
    {ElementType::uint64, "uint64", 8, H5T_INTEGER, H5T_SGN_NONE},
    {ElementType::int64, "int64", 8, H5T_INTEGER, H5T_SGN_2},
    {ElementType::float32, "float32", 4, H5T_FLOAT, H5T_SGN_ERROR},
    {ElementType::float64, "float64", 8, H5T_FLOAT, H5T_SGN_ERROR},
}};

const TypeRow& row(ElementType type) { return kTypes[static_cast<std::size_t>(type)]; }

herr_t keep_innermost(unsigned depth, const H5E_error2_t* error, void* out_text) {
  if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(out_text) = error->desc;
  return 0;
}

}  // namespace

std::string_view name(ElementType type) noexcept { return row(type).name; }
std::size_t size_in_bytes(ElementType type) noexcept { return row(type).bytes; }
bool is_integer(ElementType type) noexcept { return row(type).kind == H5T_INTEGER; }

hid_t native_type(ElementType type) {
  switch (type) {
    case ElementType::uint8: return H5T_NATIVE_UINT8;
    case ElementType::int8: return H5T_NATIVE_INT8;
    case ElementType::uint16: return H5T_NATIVE_UINT16;
    case ElementType::int16: return H5T_NATIVE_INT16;
    case ElementType::uint32: return H5T_NATIVE_UINT32;
    case ElementType::int32: return H5T_NATIVE_INT32;
    case ElementType::uint64: return H5T_NATIVE_UINT64;
    case ElementType::int64: return H5T_NATIVE_INT64;
    case ElementType::float32: return H5T_NATIVE_FLOAT;
    case ElementType::float64: return H5T_NATIVE_DOUBLE;
  }
  return H5I_INVALID_HID;
}

ElementType element_type_of(hid_t type, const std::string& what) {
  const H5T_class_t kind = H5Tget_class(type);
  const std::size_t bytes = H5Tget_size(type);
  const H5T_sign_t sign = kind == H5T_INTEGER ? H5Tget_sign(type) : H5T_SGN_ERROR;
  for (const TypeRow& candidate : kTypes) {
    if (candidate.kind == kind && candidate.bytes == bytes && candidate.sign == sign) return candidate.type;
  }
  const char* found = "of an unusual kind";
  if (kind == H5T_STRING) found = "text";
  if (kind == H5T_COMPOUND) found = "compound records";
  if (kind == H5T_ENUM) found = "enumerated (h5py stores booleans so)";
  if (kind == H5T_FLOAT) found = "floating-point numbers";
  raise(ErrorCode::invalid_file, what, ": elements are ", found, " of ", bytes,
        " bytes, expected integers of 1 to 8 bytes, float32 or float64");
}

std::string hdf5_cause() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, &keep_innermost, &text);
  H5Eclear2(H5E_DEFAULT);
  // File drivers add names, flags and addresses to what strerror() says; only that is of use.
  constexpr std::string_view kMarker = "error message = '";
  const std::size_t begin = text.find(kMarker);
  if (begin != std::string::npos) {
    const std::size_t from = begin + kMarker.size();
    return text.substr(from, text.find('\'', from) - from);
  }
  return text.empty() ? "unknown cause" : text;
}

}  // namespace floodtide::data
