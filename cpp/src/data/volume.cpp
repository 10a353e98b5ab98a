// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/volume.hpp"

#include <cmath>
#include <utility>

#include "data/with_type.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::data {
namespace {

Vec3 vec3(const std::vector<std::int64_t>& values) { return {values[0], values[1], values[2]}; }

template <class T>
void require_finite(const std::string& name, const Box& box, View<const T, 3> values) {
  for (std::int64_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values.data()[i])) continue;
    const Vec3 at{box.start[0] + i / (box.size[1] * box.size[2]), box.start[1] + i / box.size[2] % box.size[1],
                  box.start[2] + i % box.size[2]};
    raise(ErrorCode::invalid_file, name, ": voxel ", Show{at}, " (z, y, x) is ", values.data()[i],
          ", expected finite intensities");
  }
}

}  // namespace

DatasetName parse_dataset_name(std::string_view reference) {
  const std::size_t colon = reference.rfind(':');
  FLOODTIDE_REQUIRE(colon != std::string_view::npos && colon > 0 && colon + 1 < reference.size(), invalid_argument, "volume '",
                    reference, "': expected file:dataset, for example stack.h5:raw");
  return {std::string(reference.substr(0, colon)), std::string(reference.substr(colon + 1))};
}

Volume Volume::open(std::string_view reference, std::size_t chunk_cache_bytes) {
  const DatasetName name = parse_dataset_name(reference);
  return open(name.file, name.dataset, chunk_cache_bytes);
}

Volume Volume::open(const std::string& file, const std::string& dataset, std::size_t chunk_cache_bytes) {
  Hdf5File opened = Hdf5File::open(file, chunk_cache_bytes);
  const DatasetInfo info = opened.info(dataset);
  FLOODTIDE_REQUIRE(info.shape.size() == 3, invalid_file, file, ":", dataset, ": has ", info.shape.size(), " axes, shape ",
                    Show{info.shape}, "; expected three (z, y, x)");
  FLOODTIDE_REQUIRE(volume<3>(vec3(info.shape)) > 0, invalid_file, file, ":", dataset, ": has no voxels, shape ",
                    Show{info.shape});
  return Volume(std::move(opened), dataset, info);
}

Volume::Volume(Hdf5File file, std::string dataset, const DatasetInfo& info)
    : file_(std::move(file)),
      dataset_(std::move(dataset)),
      name_(file_.path() + ":" + dataset_),
      shape_(vec3(info.shape)),
      chunks_(info.chunks.empty() ? shape_ : vec3(info.chunks)),
      type_(info.type) {}

template <>
void Volume::require_type<float>() const {
  FLOODTIDE_REQUIRE(!is_integer(type_) || size_in_bytes(type_) <= 2, invalid_file, name_, ": elements are ", data::name(type_),
                    "; expected an image of (u)int8, (u)int16, float32 or float64");
}

template <>
void Volume::require_type<std::int64_t>() const {
  FLOODTIDE_REQUIRE(is_integer(type_), invalid_file, name_, ": elements are ", data::name(type_), "; expected integer labels");
}

template <>
void Volume::require_type<std::uint8_t>() const {
  FLOODTIDE_REQUIRE(type_ == ElementType::uint8, invalid_file, name_, ": elements are ", data::name(type_), "; expected uint8");
}

void Volume::require_inside(const Box& wanted) const {
  FLOODTIDE_REQUIRE(wanted.size[0] > 0 && wanted.size[1] > 0 && wanted.size[2] > 0 && box().contains(wanted), out_of_range,
                    name_, ": box at ", Show{wanted.start}, " of size ", Show{wanted.size},
                    " (z, y, x) is not inside the volume ", Show{shape_});
}

template <class T>
Tensor<T, 3> Volume::read_block(const Box& wanted) const {
  require_inside(wanted);
  Tensor<T, 3> block(wanted.size);
  read_block<T>(wanted, block.view());
  return block;
}

template <class T>
void Volume::read_block(const Box& wanted, View<T, 3> out) const {
  require_type<T>();
  require_inside(wanted);
  FLOODTIDE_REQUIRE(out.shape() == wanted.size, shape_mismatch, name_, ": box of size ", Show{wanted.size},
                    " into an array of shape ", Show{out.shape()});
  with_type(type_, [&](auto sample) {
    using Stored = decltype(sample);
    if constexpr (std::is_same_v<Stored, T>) {
      file_.read_block<T>(dataset_, wanted.start, wanted.size, out.span());
    } else {
      Tensor<Stored, 3> stored(wanted.size);
      file_.read_block<Stored>(dataset_, wanted.start, wanted.size, stored.span());
      for (std::int64_t i = 0; i < stored.size(); ++i) out.data()[i] = static_cast<T>(stored.data()[i]);
    }
  });
  if constexpr (std::is_same_v<T, float>) {
    if (!is_integer(type_)) require_finite<float>(name_, wanted, out);
  }
}

template Tensor<float, 3> Volume::read_block<float>(const Box&) const;
template Tensor<std::int64_t, 3> Volume::read_block<std::int64_t>(const Box&) const;
template Tensor<std::uint8_t, 3> Volume::read_block<std::uint8_t>(const Box&) const;
template void Volume::read_block<float>(const Box&, View<float, 3>) const;
template void Volume::read_block<std::int64_t>(const Box&, View<std::int64_t, 3>) const;
template void Volume::read_block<std::uint8_t>(const Box&, View<std::uint8_t, 3>) const;

}  // namespace floodtide::data
