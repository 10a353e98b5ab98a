// SPDX-License-Identifier: Apache-2.0
// HDF5 files that Python writes block by block. A file gets its final name when it is complete.
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::bindings {
namespace {

using Extents = std::vector<std::int64_t>;

template <class T>
bool write_as(data::Hdf5File& file, const std::string& dataset, const Extents& start, const py::array& block) {
  if (!py::isinstance<py::array_t<T>>(block)) return false;
  require_plain(block, str_cat(file.path(), ":", dataset));
  const Extents count(block.shape(), block.shape() + block.ndim());
  const std::span<const T> values(static_cast<const T*>(block.data()), static_cast<std::size_t>(block.size()));
  const py::gil_scoped_release unlocked;
  file.write_block<T>(dataset, start, count, values);
  return true;
}

/// HDF5 file that gets its final name in finish(). Without finish(), it is discarded.
class Hdf5Writer {
 public:
  Hdf5Writer(const std::string& path, const std::string& command, const std::vector<std::string>& datasets)
      : file_(data::Hdf5File::create(path, {.command = command, .objects = datasets})) {}

  void create(const std::string& dataset, const std::string& type, const Extents& shape, const Extents& chunks, int gzip) {
    constexpr std::array kTypes{data::ElementType::uint8,  data::ElementType::int8,   data::ElementType::uint16,
                                data::ElementType::int16,  data::ElementType::uint32, data::ElementType::int32,
                                data::ElementType::uint64, data::ElementType::int64,  data::ElementType::float32,
                                data::ElementType::float64};
    const auto* const found = std::ranges::find_if(kTypes, [&](data::ElementType known) { return data::name(known) == type; });
    FLOODTIDE_REQUIRE(found != kTypes.end(), invalid_argument, "hdf5 writer: type is '", type,
                      "', expected (u)int8, (u)int16, (u)int32, (u)int64, float32 or float64");
    file().create_dataset(dataset, *found, shape, {.chunks = chunks, .gzip = gzip});
  }
  void write(const std::string& dataset, const Extents& start, const py::array& block) {
    const auto write_any = [&]<class... T>(std::type_identity<T>...) {
      return (write_as<T>(file(), dataset, start, block) || ...);
    };
    using std::type_identity;
    const bool written = write_any(type_identity<std::uint8_t>(), type_identity<std::int8_t>(), type_identity<std::uint16_t>(),
                                   type_identity<std::int16_t>(), type_identity<std::uint32_t>(), type_identity<std::int32_t>(),
                                   type_identity<std::uint64_t>(), type_identity<std::int64_t>(), type_identity<float>(),
                                   type_identity<double>());
    FLOODTIDE_REQUIRE(written, invalid_argument, file().path(), ":", dataset, ": cannot store arrays of ",
                      py::str(block.dtype()).cast<std::string>());
  }
  void attribute(const std::string& object, const std::string& name, const std::string& text) {
    file().write_attribute(object, name, text);
  }
  void attribute(const std::string& object, const std::string& name, const Extents& values) {
    const std::int64_t shape[] = {std::ssize(values)};
    file().write_attribute<std::int64_t>(object, name, shape, values);
  }
  void numbers(const std::string& object, const std::string& name, const std::vector<double>& values) {
    const std::int64_t shape[] = {std::ssize(values)};
    file().write_attribute<double>(object, name, shape, values);
  }
  void finish() { file().commit(); }
  void discard() { file_.reset(); }

 private:
  data::Hdf5File& file() {
    FLOODTIDE_REQUIRE(file_.has_value(), invalid_argument, "hdf5 writer: the file was discarded");
    return *file_;
  }
  std::optional<data::Hdf5File> file_;
};

}  // namespace

void register_hdf5_writer(py::module_& m) {
  py::class_<Hdf5Writer>(m, "Hdf5Writer", "Datasets of an HDF5 file, written block by block and named when they are finished.")
      .def(py::init<const std::string&, const std::string&, const std::vector<std::string>&>(), py::arg("path"),
           py::arg("command"), py::arg("datasets"))
      .def("create", &Hdf5Writer::create, py::arg("dataset"), py::arg("type"), py::arg("shape"), py::arg("chunks"),
           py::arg("gzip"), "A dataset of uint8 or float32.")
      .def("write", &Hdf5Writer::write, py::arg("dataset"), py::arg("start"), py::arg("block"))
      .def("attribute", py::overload_cast<const std::string&, const std::string&, const std::string&>(&Hdf5Writer::attribute),
           py::arg("object"), py::arg("name"), py::arg("value"), "A text or integers, of a dataset or of the file (\"/\").")
      .def("attribute", py::overload_cast<const std::string&, const std::string&, const Extents&>(&Hdf5Writer::attribute),
           py::arg("object"), py::arg("name"), py::arg("value"))
      .def("numbers", &Hdf5Writer::numbers, py::arg("object"), py::arg("name"), py::arg("value"), "Numbers as an attribute.")
      .def("finish", &Hdf5Writer::finish, py::call_guard<py::gil_scoped_release>(), "Put it on disk and rename it.")
      .def("discard", &Hdf5Writer::discard, "Remove it, unless it is finished.");
}

}  // namespace floodtide::bindings
