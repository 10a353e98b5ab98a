// SPDX-License-Identifier: Apache-2.0
// HDF5 files that Python writes. A file gets its final name when it is complete.
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/data/hdf5.hpp"
#include "path_name.hpp"
#include "volume_reference.hpp"

namespace floodtide::bindings {
namespace {

using Extents = std::vector<std::int64_t>;

[[noreturn]] void raise_unusual(const std::string& what, const std::string& type) {
  raise(ErrorCode::invalid_argument, what, ": cannot store arrays of ", type,
        ", expected (u)int8, (u)int16, (u)int32, (u)int64, float32 or float64 in this machine's byte order");
}

/// Call use(values, shape) with the elements of an array whose type is one of T. Throws Error(invalid_argument) for another
/// type; the message begins with `what`.
template <class... T>
void with_values(const py::array& array, const std::string& what, const auto& use) {
  const auto used = [&]<class Value>(std::type_identity<Value>) {
    if (!py::isinstance<py::array_t<Value>>(array)) return false;
    require_plain(array, what);
    const Extents shape(array.shape(), array.shape() + array.ndim());
    use(std::span<const Value>(static_cast<const Value*>(array.data()), static_cast<std::size_t>(array.size())), shape);
    return true;
  };
  FLOODTIDE_REQUIRE(array, invalid_argument, what, ": expected an array");
  if (!(used(std::type_identity<T>()) || ...)) raise_unusual(what, py::str(array.dtype()).cast<std::string>());
}

/// HDF5 file that gets its final name in finish(). Without finish(), it is discarded.
class Hdf5Writer {
 public:
  Hdf5Writer(const PathName& path, const std::string& command, const std::vector<std::string>& objects,
             const std::string& format, const std::string& described)
      : file_(data::Hdf5File::create(path.text,
                                     {.command = command, .objects = objects, .format = format, .described = described})) {}

  void create(const std::string& dataset, const std::string& type, const Extents& shape, const Extents& chunks, int gzip,
              double fill) {
    const std::optional<data::ElementType> found = element_type_named(type);
    if (!found) raise_unusual(str_cat(file().path(), ":", dataset), type);
    file().create_dataset(dataset, *found, shape, {.chunks = chunks, .gzip = gzip, .fill = fill});
  }
  void write(const std::string& dataset, const Extents& start, const py::array& block) {
    using std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t;
    with_values<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, float, double>(
        block, str_cat(file().path(), ":", dataset), [&]<class T>(std::span<const T> values, const Extents& count) {
          const py::gil_scoped_release unlocked;
          file().write_block<T>(dataset, start, count, values);
        });
  }
  void attribute(const std::string& object, const std::string& name, const py::object& value) {
    if (py::isinstance<py::str>(value)) return file().write_attribute(object, name, value.cast<std::string>());
    with_values<std::int64_t, double>(py::array::ensure(value), str_cat(file().path(), ":", object, ": attribute ", name),
                                      [&]<class T>(std::span<const T> values, const Extents& shape) {
                                        file().write_attribute<T>(object, name, shape, values);
                                      });
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
  py::class_<Hdf5Writer>(m, "Hdf5Writer",
                         "An HDF5 file that is written, and takes its name when it is finished; see data::Hdf5Result.")
      .def(py::init<const PathName&, const std::string&, const std::vector<std::string>&, const std::string&,
                    const std::string&>(),
           py::arg("path"), py::arg("command"), py::arg("objects"), py::arg("format") = "", py::arg("described") = "",
           py::call_guard<py::gil_scoped_release>())
      .def("create", &Hdf5Writer::create, py::arg("dataset"), py::arg("type"), py::arg("shape"), py::arg("chunks"),
           py::arg("gzip"), py::arg("fill") = 0.0)
      .def("write", &Hdf5Writer::write, py::arg("dataset"), py::arg("start"), py::arg("block"))
      .def("attribute", &Hdf5Writer::attribute, py::arg("object"), py::arg("name"), py::arg("value"),
           "Write a text, integers or floating-point numbers as an attribute of an object, or of the file (\"/\").")
      .def("finish", &Hdf5Writer::finish, py::call_guard<py::gil_scoped_release>(), "Put it on disk and rename it.")
      .def("discard", &Hdf5Writer::discard, "Remove it, unless it is finished.");
}

}  // namespace floodtide::bindings
