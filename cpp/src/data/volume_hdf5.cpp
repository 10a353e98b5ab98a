// SPDX-License-Identifier: Apache-2.0
// The reader of HDF5 datasets.
#include <utility>

#include "data/with_type.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/data/volume.hpp"

namespace floodtide::data {
namespace {

Vec3 vec3(const std::vector<std::int64_t>& values) { return {values[0], values[1], values[2]}; }

class Hdf5Volume final : public Volume {
 public:
  Hdf5Volume(Hdf5File file, std::string dataset, VolumeInfo info)
      : Volume(std::move(info)), file_(std::move(file)), dataset_(std::move(dataset)) {}

  [[nodiscard]] std::string text(const std::string& attribute) const override {
    return file_.has_attribute(dataset_, attribute) ? file_.read_text_attribute(dataset_, attribute) : "";
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
    with_type(type(), [&](auto sample) {
      using Stored = decltype(sample);
      const std::span<Stored> values(reinterpret_cast<Stored*>(out), static_cast<std::size_t>(box.voxels()));
      file_.read_block<Stored>(dataset_, box.start, box.size, values);
    });
  }

  Hdf5File file_;
  std::string dataset_;
};

}  // namespace

DatasetName parse_dataset_name(std::string_view reference) {
  const std::size_t colon = reference.rfind(':');
  FLOODTIDE_REQUIRE(colon != std::string_view::npos && colon > 0 && colon + 1 < reference.size(), invalid_argument, "volume '",
                    reference, "': expected file:dataset, for example stack.h5:raw");
  return {std::string(reference.substr(0, colon)), std::string(reference.substr(colon + 1))};
}

VolumePtr open_volume(std::string_view reference, std::size_t chunk_cache_bytes) {
  const DatasetName name = parse_dataset_name(reference);
  return open_volume(name.file, name.dataset, chunk_cache_bytes);
}

VolumePtr open_volume(const std::string& file, const std::string& dataset, std::size_t chunk_cache_bytes) {
  Hdf5File opened = Hdf5File::open(file, chunk_cache_bytes);
  const DatasetInfo info = opened.info(dataset);
  std::string name = opened.path() + ":" + dataset;
  FLOODTIDE_REQUIRE(info.shape.size() == 3, invalid_file, name, ": has ", info.shape.size(), " axes, shape ", Show{info.shape},
                    "; expected three (z, y, x)");
  const Vec3 shape = vec3(info.shape);
  const Vec3 chunks = info.chunks.empty() ? shape : vec3(info.chunks);
  return std::make_shared<Hdf5Volume>(std::move(opened), dataset, VolumeInfo{std::move(name), shape, chunks, info.type});
}

}  // namespace floodtide::data
