// SPDX-License-Identifier: Apache-2.0
// Volumes: HDF5 datasets, NumPy arrays, and Python objects that the core's reader threads ask for blocks.
//
// A thread of the core takes the interpreter lock only while it calls Python. So every bound function that may read a volume
// releases the lock first, and what owns reader threads is destroyed without the lock (unlocked.hpp). A thread that asked for
// the lock of an interpreter that is ending would be lost, so reads end before the interpreter does.
#include <pthread.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/base/immovable.hpp"
#include "floodtide/data/volume.hpp"
#include "volume_reference.hpp"

namespace floodtide::bindings {
namespace {

using data::ElementType;
using data::Volume;
using data::VolumePtr;
using VolumeObject = std::shared_ptr<Volume>;
using ReadBlock =
    Typed<"collections.abc.Callable[[tuple[int, int, int], tuple[int, int, int]], numpy.typing.NDArray[typing.Any]]">;

std::atomic<int> calls_into_python = 0;        // of reader threads, under way
std::atomic<bool> interpreter_ending = false;  // no new ones

/// A call into Python that the end of the interpreter waits for.
class Call : Immovable {
 public:
  explicit Call(const std::string& name) {
    ++calls_into_python;
    if (!interpreter_ending) return;
    --calls_into_python;
    raise(ErrorCode::io, name, ": cannot be read: Python is ending");
  }
  ~Call() { --calls_into_python; }
};

/// What Python calls when it ends. A read that does not come back within seconds is not waited for.
void end_reads() {
  constexpr auto kLongest = std::chrono::seconds(10);
  constexpr auto kPause = std::chrono::milliseconds(1);
  interpreter_ending = true;
  const py::gil_scoped_release unlocked;
  for (auto waited = kPause; calls_into_python > 0 && waited < kLongest; waited += kPause) std::this_thread::sleep_for(kPause);
}

/// Frees a Python object with the interpreter lock held, on whichever thread; leaves it alone after the interpreter's end.
void free_locked(py::object* object) {
  if (Py_IsInitialized() == 0) return;
  const py::gil_scoped_acquire lock;
  delete object;
}

std::shared_ptr<const py::object> kept(const py::object& object) { return {new py::object(object), &free_locked}; }

ElementType element_type_of(const py::dtype& dtype, const std::string& name) {
  const auto text = py::str(dtype).cast<std::string>();  // ">u2" in another byte order
  const std::optional<ElementType> type = element_type_named(text);
  FLOODTIDE_REQUIRE(type, invalid_file, name, ": elements are ", text,
                    "; expected (u)int8, (u)int16, (u)int32, (u)int64, float32 or float64 in this machine's byte order");
  return *type;
}

Vec3 shape_of(const py::array& array, const std::string& name) {
  FLOODTIDE_REQUIRE(array.ndim() == 3, invalid_file, name, ": has ", array.ndim(), " axes, shape ",
                    py::str(py::object(array.attr("shape"))).cast<std::string>(), "; expected three (z, y, x)");
  return {array.shape(0), array.shape(1), array.shape(2)};
}

VolumePtr array_volume_of(const py::array& array, const std::string& name, std::shared_ptr<const void> owner) {
  const data::ArrayLayout layout{static_cast<const std::byte*>(array.data()),
                                 element_type_of(array.dtype(), name),
                                 shape_of(array, name),
                                 {array.strides(0), array.strides(1), array.strides(2)}};
  return data::array_volume(name, layout, std::move(owner));
}

/// Asks a Python function for blocks.
class PythonVolume final : public Volume {
 public:
  PythonVolume(data::VolumeInfo info, const py::object& read) : Volume(std::move(info)), read_(kept(read)) {}

 private:
  void read_voxels(const Box& box, std::byte* out) const override {
    const Call call(name());
    const py::gil_scoped_acquire lock;
    try {
      const py::object block = (*read_)(triple_of(box.start), triple_of(box.size));
      FLOODTIDE_REQUIRE(py::isinstance<py::array>(block), invalid_file, name(), ": the reader returned ",
                        py::type::of(block).attr("__name__").cast<std::string>(), ", expected an array");
      const VolumePtr volume = array_volume_of(py::reinterpret_borrow<py::array>(block), name(), nullptr);
      FLOODTIDE_REQUIRE(volume->shape() == box.size && volume->type() == type(), invalid_file, name(), ": the reader returned ",
                        data::name(volume->type()), " of shape ", Show{volume->shape()}, ", expected ", data::name(type()),
                        " of ", Show{box.size});
      const std::size_t bytes = static_cast<std::size_t>(box.voxels()) * data::size_in_bytes(type());
      const py::gil_scoped_release copying;  // `block` is alive, and freed with the lock held
      volume->read_stored(volume->box(), {out, bytes});
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_Exception)) throw;  // Ctrl-C
      const py::object reason = py::module_::import("floodtide.base.reading").attr("reason")(error.value());
      const std::string text = py::str(reason).cast<std::string>();
      if (error.matches(py::module_::import("floodtide.errors").attr("Error"))) raise(ErrorCode::invalid_file, text);
      raise(ErrorCode::invalid_file, name(), ": cannot be read: ", text);
    }
  }

  std::shared_ptr<const py::object> read_;
};

VolumeObject object_of(VolumePtr volume) { return std::const_pointer_cast<Volume>(std::move(volume)); }

/// The voxels of a box in the volume's own element type.
AnyArray read_volume(const Volume& volume, const Vec3& start, const Vec3& size) {
  const Box box{start, size};
  volume.require_inside(box);
  const std::string type(name(volume.type()));
  py::array block(py::dtype(type), std::vector<py::ssize_t>(size.begin(), size.end()));
  const std::span bytes(static_cast<std::byte*>(block.mutable_data()), static_cast<std::size_t>(block.nbytes()));
  without_lock([&] { volume.read_stored(box, bytes); });
  return block;
}

/// The voxels of a box as image intensities: float32, checked to be finite.
FloatArray read_intensities(const Volume& volume, const Vec3& start, const Vec3& size) {
  return to_numpy(without_lock([&] { return volume.read_block<float>({start, size}); }));
}

template <class T>
std::optional<std::vector<T>> values_of(std::optional<data::Array<T>> attribute) {
  if (!attribute) return std::nullopt;
  return std::move(attribute->values);
}

}  // namespace

void register_volumes(py::module_& m) {
  using Unlock = py::call_guard<py::gil_scoped_release>;
  py::class_<Volume, VolumeObject>(m, "Volume", "A volume that is open for reading, whatever stores it.")
      .def(py::init([](const std::string& file, const std::string& dataset, std::optional<std::int64_t> channel) {
             return object_of(data::open_volume(file, dataset, channel));
           }),
           py::arg("file"), py::arg("dataset"), py::arg("channel") = std::nullopt,
           "The dataset of an HDF5 file, or one of its channels.")
      .def_property_readonly("name", &Volume::name)
      .def_property_readonly("shape", [](const Volume& v) { return triple_of(v.shape()); })
      .def_property_readonly("chunks", [](const Volume& v) { return triple_of(v.chunks()); })
      .def_property_readonly("dtype", [](const Volume& v) { return std::string(name(v.type())); })
      .def("read", &read_volume, py::arg("start"), py::arg("size"))
      .def("read_intensities", &read_intensities, py::arg("start"), py::arg("size"))
      .def("text", &Volume::text, py::arg("attribute"), Unlock(), "A text that the dataset carries; empty if it has none.")
      .def("texts", &Volume::texts, py::arg("attribute"), Unlock(), "Texts that the dataset carries; none if it has none.")
      .def(
          "integers", [](const Volume& volume, const std::string& name) { return values_of(volume.integers(name)); },
          py::arg("attribute"), Unlock(), "Integers that the dataset carries, or None.")
      .def(
          "numbers", [](const Volume& volume, const std::string& name) { return values_of(volume.numbers(name)); },
          py::arg("attribute"), Unlock(), "Numbers that the dataset carries, or None.");
  m.def(
      "array_volume",
      [](const AnyArray& array, const std::string& name) {
        FLOODTIDE_REQUIRE(py::isinstance<py::array>(array), invalid_argument, name, ": expected a NumPy array, got ",
                          py::type::of(array).attr("__name__").cast<std::string>());
        return object_of(array_volume_of(py::reinterpret_borrow<py::array>(array), name, kept(array)));
      },
      py::arg("array"), py::arg("name"), "A volume that reads a NumPy array without copying the array.");
  m.def(
      "python_volume",
      [](const ReadBlock& read, const std::string& name, const Vec3& shape, const Vec3& chunks, const std::string& dtype) {
        data::VolumeInfo info{name, shape, chunks, element_type_of(py::dtype(dtype), name)};
        return object_of(std::make_shared<PythonVolume>(std::move(info), read));
      },
      py::arg("read"), py::arg("name"), py::kw_only(), py::arg("shape"), py::arg("chunks"), py::arg("dtype"),
      "A volume that calls read(start, size), on whichever thread, for the array of a box. What `read` raises becomes an\n"
      "InvalidFileError.");
  py::module_::import("atexit").attr("register")(py::cpp_function(&end_reads));
  ::pthread_atfork(nullptr, nullptr, [] { calls_into_python = 0; });  // those of threads that a child of fork() does not have
}

}  // namespace floodtide::bindings
