// SPDX-License-Identifier: Apache-2.0
// The reader of HDF5 datasets.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "data/with_type.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/data/volume.hpp"

namespace floodtide::data {
namespace {

/// Return the last three of some values.
Vec3 vec3(const std::vector<std::int64_t>& values) {
  const std::size_t first = values.size() - 3;
  return {values[first], values[first + 1], values[first + 2]};
}

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
    with_type(type(), [&](auto sample) {
      using Stored = decltype(sample);
      const std::span<Stored> values(reinterpret_cast<Stored*>(out), static_cast<std::size_t>(box.voxels()));
      if (channel_) {
        const std::array<std::int64_t, 4> start{*channel_, box.start[0], box.start[1], box.start[2]};
        const std::array<std::int64_t, 4> size{1, box.size[0], box.size[1], box.size[2]};
        file_.read_block<Stored>(dataset_, start, size, values);
      } else {
        file_.read_block<Stored>(dataset_, box.start, box.size, values);
      }
    });
  }

  Hdf5File file_;
  std::string dataset_;
  std::optional<std::int64_t> channel_;
};

/// Open a dataset of three axes; or, with a channel, of four axes, or of three that are channel 0.
VolumePtr open_dataset(const std::string& file, const std::string& dataset, std::optional<std::int64_t> channel,
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
  return open_dataset(file, dataset, std::nullopt, chunk_cache_bytes);
}

VolumePtr open_channel(const std::string& file, const std::string& dataset, std::int64_t channel,
                       std::size_t chunk_cache_bytes) {
  return open_dataset(file, dataset, channel, chunk_cache_bytes);
}

}  // namespace floodtide::data
