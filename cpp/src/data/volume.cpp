// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/volume.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "floodtide/base/error.hpp"

namespace floodtide::data {
namespace {

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

/// Return the last three of some values.
Vec3 vec3(const std::vector<std::int64_t>& values) {
  const std::size_t first = values.size() - 3;
  return {values[first], values[first + 1], values[first + 2]};
}

/// The reader of HDF5 datasets.
class Hdf5Volume final : public Volume {
 public:
  /// @param channel index along the first of four axes; no value: the dataset has three axes
  Hdf5Volume(Hdf5File file, std::string dataset, VolumeInfo info, std::optional<std::int64_t> channel)
      : Volume(std::move(info)), file_(std::move(file)), dataset_(std::move(dataset)), channel_(channel) {}

  [[nodiscard]] std::string text(const std::string& attribute) const override {
    return file_.has_attribute(dataset_, attribute) ? file_.read_text_attribute(dataset_, attribute) : "";
  }

  [[nodiscard]] std::vector<std::string> texts(const std::string& attribute) const override {
    return file_.has_attribute(dataset_, attribute) ? file_.read_texts(dataset_, attribute) : std::vector<std::string>();
  }

  [[nodiscard]] std::optional<Array<std::int64_t>> integers(const std::string& attribute) const override {
    return array<std::int64_t>(attribute);
  }

  [[nodiscard]] std::optional<Array<double>> numbers(const std::string& attribute) const override {
    return array<double>(attribute);
  }

 private:
  template <class T>
  [[nodiscard]] std::optional<Array<T>> array(const std::string& attribute) const {
    if (!file_.has_attribute(dataset_, attribute)) return std::nullopt;
    return file_.read_attribute<T>(dataset_, attribute);
  }

  void read_voxels(const Box& box, std::byte* out) const override {
    const std::array<std::int64_t, 4> start{channel_.value_or(0), box.start[0], box.start[1], box.start[2]};
    const std::array<std::int64_t, 4> size{1, box.size[0], box.size[1], box.size[2]};
    const std::size_t first = channel_ ? 0 : 1;  // axis that the dataset has
    with_type(type(), [&](auto sample) {
      using Stored = decltype(sample);
      const std::span<Stored> values(reinterpret_cast<Stored*>(out), static_cast<std::size_t>(box.voxels()));
      file_.read_block<Stored>(dataset_, std::span(start).subspan(first), std::span(size).subspan(first), values);
    });
  }

  Hdf5File file_;
  std::string dataset_;
  std::optional<std::int64_t> channel_;
};

}  // namespace

Volume::Volume(VolumeInfo info) : info_(std::move(info)) {
  FLOODTIDE_REQUIRE(std::ranges::all_of(info_.shape, [](std::int64_t n) { return n > 0; }), invalid_file, info_.name,
                    ": has no voxels, shape ", Show{info_.shape});
  FLOODTIDE_REQUIRE(std::ranges::all_of(info_.chunks, [](std::int64_t n) { return n > 0; }), invalid_file, info_.name,
                    ": chunks of ", Show{info_.chunks}, ", expected sizes above 0");
}

Volume::~Volume() = default;

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
void Volume::read_block(const Box& wanted, View<T, 3> out) const {
  if constexpr (!std::is_same_v<T, std::int64_t>) require_type<T>();
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

DatasetName parse_dataset_name(std::string_view reference) {
  const std::size_t colon = reference.rfind(':');
  FLOODTIDE_REQUIRE(colon != std::string_view::npos && colon > 0 && colon + 1 < reference.size(), invalid_argument, "volume '",
                    reference, "': expected file:dataset, for example stack.h5:raw");
  return {std::string(reference.substr(0, colon)), std::string(reference.substr(colon + 1))};
}

VolumePtr open_volume(std::string_view reference, std::size_t chunk_cache_bytes) {
  const DatasetName name = parse_dataset_name(reference);
  return open_volume(name.file, name.dataset, std::nullopt, chunk_cache_bytes);
}

VolumePtr open_volume(const std::string& file, const std::string& dataset, std::optional<std::int64_t> channel,
                      std::size_t chunk_cache_bytes) {
  Hdf5File opened = Hdf5File::open(file, chunk_cache_bytes);
  const DatasetInfo info = opened.info(dataset);
  std::string name = opened.path() + ":" + dataset;
  const std::size_t axes = info.shape.size();
  const bool several = channel && axes == 4;
  FLOODTIDE_REQUIRE(axes == 3 || several, invalid_file, name, ": has ", axes, " axes, shape ", Show{info.shape},
                    channel ? "; expected (z, y, x) or (channel, z, y, x)" : "; expected three (z, y, x)");
  const std::int64_t channels = several ? info.shape.front() : 1;
  FLOODTIDE_REQUIRE(!channel || (*channel >= 0 && *channel < channels), invalid_file, name, ": has ", channels,
                    channels == 1 ? " channel" : " channels", ", expected one with the index ", *channel);
  if (!several) channel = std::nullopt;
  const Vec3 shape = vec3(info.shape);
  const Vec3 chunks = info.chunks.empty() ? shape : vec3(info.chunks);
  return std::make_shared<Hdf5Volume>(std::move(opened), dataset, VolumeInfo{std::move(name), shape, chunks, info.type},
                                      channel);
}

VolumePtr VolumeReference::open(std::size_t chunk_cache_bytes) const {
  return volume_ ? volume_ : open_volume(name_, chunk_cache_bytes);
}

VolumePtr array_volume(std::string name, const ArrayLayout& layout, std::shared_ptr<const void> owner) {
  return std::make_shared<ArrayVolume>(std::move(name), layout, std::move(owner));
}

template void Volume::read_block<float>(const Box&, View<float, 3>) const;
template void Volume::read_block<std::int64_t>(const Box&, View<std::int64_t, 3>) const;
template void Volume::read_block<std::uint8_t>(const Box&, View<std::uint8_t, 3>) const;

}  // namespace floodtide::data
