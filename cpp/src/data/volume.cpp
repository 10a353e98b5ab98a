// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/volume.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/with_type.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::data {
namespace {

/// Throws Error(invalid_file) naming the voxel that has row-major number `flat` in a box.
[[noreturn]] void refuse_voxel(const std::string& name, const Box& box, std::int64_t flat, double value, const char* expected) {
  const Vec3 at = box.start + position_of(flat, box.size);
  raise(ErrorCode::invalid_file, name, ": voxel ", Show{at}, " (z, y, x) is ", value, ", expected ", expected);
}

/// The reader of arrays in memory.
class ArrayVolume final : public Volume {
 public:
  ArrayVolume(std::string name, const ArrayLayout& layout, std::shared_ptr<const void> owner)
      : Volume({std::move(name), layout.shape, layout.shape, layout.type}), layout_(layout), owner_(std::move(owner)) {}

 private:
  void read_voxels(const Box& box, std::byte* out) const override {
    const auto item = static_cast<std::int64_t>(size_in_bytes(type()));
    const Vec3& strides = layout_.strides_bytes;
    for (std::int64_t z = 0; z < box.size[0]; ++z) {
      for (std::int64_t y = 0; y < box.size[1]; ++y) {
        const std::byte* from =
            layout_.data + (box.start[0] + z) * strides[0] + (box.start[1] + y) * strides[1] + box.start[2] * strides[2];
        if (strides[2] == item) {
          std::memcpy(out, from, static_cast<std::size_t>(box.size[2] * item));
          out += box.size[2] * item;
          continue;
        }
        for (std::int64_t x = 0; x < box.size[2]; ++x, from += strides[2], out += item) {
          std::memcpy(out, from, static_cast<std::size_t>(item));
        }
      }
    }
  }

  ArrayLayout layout_;
  std::shared_ptr<const void> owner_;
};

}  // namespace

Volume::Volume(VolumeInfo info) : info_(std::move(info)) {
  FLOODTIDE_REQUIRE(std::ranges::all_of(info_.shape, [](std::int64_t n) { return n > 0; }), invalid_file, info_.name,
                    ": has no voxels, shape ", Show{info_.shape});
  FLOODTIDE_REQUIRE(std::ranges::all_of(info_.chunks, [](std::int64_t n) { return n > 0; }), invalid_file, info_.name,
                    ": chunks of ", Show{info_.chunks}, ", expected sizes above 0");
}

Volume::~Volume() = default;

std::string Volume::text(const std::string& /*attribute*/) const { return {}; }

std::vector<std::string> Volume::texts(const std::string& /*attribute*/) const { return {}; }
std::optional<Array<std::int64_t>> Volume::integers(const std::string& /*attribute*/) const { return std::nullopt; }
std::optional<Array<double>> Volume::numbers(const std::string& /*attribute*/) const { return std::nullopt; }

template <>
void Volume::require_type<float>() const {
  FLOODTIDE_REQUIRE(!is_integer(type()) || size_in_bytes(type()) <= 2, invalid_file, name(), ": elements are ",
                    data::name(type()), "; expected an image of (u)int8, (u)int16, float32 or float64");
}

template <>
void Volume::require_type<std::uint8_t>() const {
  FLOODTIDE_REQUIRE(type() == ElementType::uint8, invalid_file, name(), ": elements are ", data::name(type()),
                    "; expected uint8");
}

void Volume::require_inside(const Box& wanted) const {
  FLOODTIDE_REQUIRE(wanted.size[0] > 0 && wanted.size[1] > 0 && wanted.size[2] > 0 && box().contains(wanted), out_of_range,
                    name(), ": box at ", Show{wanted.start}, " of size ", Show{wanted.size},
                    " (z, y, x) is not inside the volume ", Show{shape()});
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
  if constexpr (!std::is_same_v<T, std::int64_t>) require_type<T>();
  require_inside(wanted);
  FLOODTIDE_REQUIRE(out.shape() == wanted.size, shape_mismatch, name(), ": box of size ", Show{wanted.size},
                    " into an array of shape ", Show{out.shape()});
  with_type(type(), [&](auto sample) {
    using Stored = decltype(sample);
    if constexpr (std::is_same_v<Stored, T>) {
      read_stored(wanted, std::as_writable_bytes(out.span()));
    } else {
      Tensor<Stored, 3> stored(wanted.size);
      read_stored(wanted, std::as_writable_bytes(stored.span()));
      if constexpr (std::is_same_v<T, std::int64_t> && std::is_floating_point_v<Stored>) {
        constexpr Stored kLimit = 0x1p63;
        for (std::int64_t i = 0; i < stored.size(); ++i) {
          const Stored value = stored.data()[i];
          if (!(value >= -kLimit && value < kLimit && value == std::trunc(value))) {
            refuse_voxel(name(), wanted, i, static_cast<double>(value), "whole numbers as labels");
          }
        }
      }
      for (std::int64_t i = 0; i < stored.size(); ++i) out.data()[i] = static_cast<T>(stored.data()[i]);
    }
  });
  if constexpr (std::is_same_v<T, float>) {
    for (std::int64_t i = 0; i < out.size(); ++i) {
      if (!std::isfinite(out.data()[i])) refuse_voxel(name(), wanted, i, double{out.data()[i]}, "finite intensities");
    }
  }
}

void Volume::read_stored(const Box& wanted, std::span<std::byte> out) const {
  require_inside(wanted);
  const std::size_t bytes = static_cast<std::size_t>(wanted.voxels()) * size_in_bytes(type());
  FLOODTIDE_REQUIRE(out.size() == bytes, shape_mismatch, name(), ": box of size ", Show{wanted.size}, " has ", bytes,
                    " bytes, the memory for it ", out.size());
  read_voxels(wanted, out.data());
}

VolumePtr VolumeReference::open(std::size_t chunk_cache_bytes) const {
  return volume_ ? volume_ : open_volume(name_, chunk_cache_bytes);
}

VolumePtr array_volume(std::string name, const ArrayLayout& layout, std::shared_ptr<const void> owner) {
  return std::make_shared<ArrayVolume>(std::move(name), layout, std::move(owner));
}

template Tensor<float, 3> Volume::read_block<float>(const Box&) const;
template Tensor<std::int64_t, 3> Volume::read_block<std::int64_t>(const Box&) const;
template Tensor<std::uint8_t, 3> Volume::read_block<std::uint8_t>(const Box&) const;
template void Volume::read_block<float>(const Box&, View<float, 3>) const;
template void Volume::read_block<std::int64_t>(const Box&, View<std::int64_t, 3>) const;
template void Volume::read_block<std::uint8_t>(const Box&, View<std::uint8_t, 3>) const;

}  // namespace floodtide::data
