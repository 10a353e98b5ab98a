// SPDX-License-Identifier: Apache-2.0
// Arrays of several channels, such as affinities, that are read in boxes.
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::bindings {
namespace {

/// A dataset (channels, z, y, x) of float32, or of uint8, whose values are divided by 255.
class Channels {
 public:
  Channels(const std::string& path, std::string dataset)
      : file_(data::Hdf5File::open(path)), dataset_(std::move(dataset)), info_(file_.info(dataset_)) {
    FLOODTIDE_REQUIRE(info_.shape.size() == 4, invalid_file, path, ":", dataset_, ": has ", info_.shape.size(),
                      " axes, expected 4 (channels, z, y, x)");
    FLOODTIDE_REQUIRE(info_.type == data::ElementType::float32 || info_.type == data::ElementType::uint8, invalid_file, path,
                      ":", dataset_, ": holds ", data::name(info_.type), ", expected float32 or uint8");
  }

  [[nodiscard]] const std::vector<std::int64_t>& shape() const noexcept { return info_.shape; }

  [[nodiscard]] std::string text(const std::string& attribute) const {
    return file_.has_attribute(dataset_, attribute) ? file_.read_text_attribute(dataset_, attribute) : "";
  }
  [[nodiscard]] std::optional<Vec3> start() const {
    if (!file_.has_attribute(dataset_, "box_start")) return std::nullopt;
    const data::Array<std::int64_t> values = file_.read_attribute<std::int64_t>(dataset_, "box_start");
    FLOODTIDE_REQUIRE(values.values.size() == 3 && std::ranges::min(values.values) >= 0, invalid_file, file_.path(), ":",
                      dataset_, ": attribute box_start has not three numbers of at least 0");
    return Vec3{values.values[0], values.values[1], values.values[2]};
  }
  [[nodiscard]] std::optional<std::vector<double>> numbers(const std::string& attribute) const {
    if (!file_.has_attribute(dataset_, attribute)) return std::nullopt;
    return file_.read_attribute<double>(dataset_, attribute).values;
  }
  [[nodiscard]] Tensor<float, 4> read(const Vec3& start, const Vec3& size, std::optional<std::int64_t> channels) const {
    const std::vector<std::int64_t> first{0, start[0], start[1], start[2]};
    const std::vector<std::int64_t> count{channels.value_or(info_.shape[0]), size[0], size[1], size[2]};
    for (std::size_t axis = 0; axis < 4; ++axis) {
      FLOODTIDE_REQUIRE(first[axis] >= 0 && count[axis] >= 0 && first[axis] <= info_.shape[axis] - count[axis], out_of_range,
                        file_.path(), ":", dataset_, ": box from ", Show{start}, " of ", Show{size}, " voxels is not inside ",
                        Show{info_.shape});
    }
    Tensor<float, 4> out({count[0], count[1], count[2], count[3]});
    if (info_.type == data::ElementType::float32) {
      file_.read_block<float>(dataset_, first, count, out.span());
      return out;
    }
    std::vector<std::uint8_t> values(static_cast<std::size_t>(out.size()));
    file_.read_block<std::uint8_t>(dataset_, first, count, values);
    std::ranges::transform(values, out.data(), [](std::uint8_t value) { return static_cast<float>(value) / 255.0F; });
    return out;
  }

 private:
  data::Hdf5File file_;
  std::string dataset_;
  data::DatasetInfo info_;
};

}  // namespace

void register_channels(py::module_& m) {
  py::class_<Channels>(m, "Channels", "A dataset (channels, z, y, x) of float32, or of uint8 from 0 to 255, read as 0 to 1.")
      .def(py::init<const std::string&, std::string>(), py::arg("path"), py::arg("dataset"),
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("shape", &Channels::shape)
      .def_property_readonly("start", &Channels::start)
      .def("text", &Channels::text, py::arg("attribute"), "A text that the dataset carries; empty if it has none.")
      .def("numbers", &Channels::numbers, py::arg("attribute"), "Numbers that the dataset carries, or None.")
      .def(
          "read",
          [](const Channels& channels, const Vec3& start, const Vec3& size, std::optional<std::int64_t> first) {
            return to_numpy(without_lock([&] { return channels.read(start, size, first); }));
          },
          py::arg("start"), py::arg("size"), py::arg("channels") = py::none(),
          "Return a box, float32 (channels, z, y, x), of the first channels or of all.");
}

}  // namespace floodtide::bindings
