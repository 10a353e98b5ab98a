// SPDX-License-Identifier: Apache-2.0
// The reader of arrays in memory.
#include <cstring>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/data/volume.hpp"

namespace floodtide::data {
namespace {

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

VolumePtr array_volume(std::string name, const ArrayLayout& layout, std::shared_ptr<const void> owner) {
  return std::make_shared<ArrayVolume>(std::move(name), layout, std::move(owner));
}

}  // namespace floodtide::data
