// SPDX-License-Identifier: Apache-2.0
// HDF5 files without hdf5.h. Any thread may call any function here: one mutex of the process is held around every call of the
// HDF5 library, so that no two HDF5 calls run at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace floodtide::data {

/// Element types that floodtide reads and writes. Byte order in the file does not matter.
enum class ElementType { uint8, int8, uint16, int16, uint32, int32, uint64, int64, float32, float64 };

/// NumPy's name of the type, for example "uint8".
[[nodiscard]] std::string_view name(ElementType type) noexcept;
[[nodiscard]] std::size_t size_in_bytes(ElementType type) noexcept;
[[nodiscard]] bool is_integer(ElementType type) noexcept;

template <class T>
[[nodiscard]] constexpr ElementType element_type() noexcept {
  if constexpr (std::is_same_v<T, std::uint8_t>)
    return ElementType::uint8;
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return ElementType::int8;
  else if constexpr (std::is_same_v<T, std::uint16_t>)
    return ElementType::uint16;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return ElementType::int16;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return ElementType::uint32;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return ElementType::int32;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return ElementType::uint64;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return ElementType::int64;
  else if constexpr (std::is_same_v<T, float>)
    return ElementType::float32;
  else {
    static_assert(std::is_same_v<T, double>, "no HDF5 element type for this C++ type");
    return ElementType::float64;
  }
}

/// What a dataset is. `chunks` is empty for contiguous storage.
struct DatasetInfo {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> chunks;
  ElementType type;
};

/// How a dataset is stored. Without chunks, floodtide chooses them. gzip 1 to 9 (with the shuffle filter) needs chunks; 0
/// stores as is.
struct DatasetOptions {
  std::vector<std::int64_t> chunks = {};
  int gzip = 0;
  double fill = 0;        ///< value of voxels that are never written
  bool checksums = true;  ///< false only if the caller stores a checksum of the values itself
};

/// The values of a whole dataset or attribute, row-major. Scalars have an empty shape and one value.
template <class T>
struct Array {
  std::vector<std::int64_t> shape;
  std::vector<T> values;
};

/// The HDF5 library can crash on a damaged file, or never come to an end. The process then ends with one line and status 2.
/// Set how the line begins ("floodtide predict"), and which rank this is: rank 0 prints its line first.
void set_hdf5_program(const std::string& name);
void set_hdf5_rank(int rank);
/// Remove the file with this absolute path if the process ends so, or no longer do so. For lock files.
void remove_at_end(const std::string& path);
void keep_at_end(const std::string& path);

/// What a command writes into an HDF5 file, and so what it may replace there.
///
/// A file that exists is taken for an older result, and replaced, only if it holds nothing but `objects` that the same command
/// wrote: their attribute `written_by` says so. Other datasets in it stay: the file is then copied, the objects are replaced
/// or added in the copy, and the copy takes the file's name. Anything else is refused with Error(invalid_argument): an object
/// of that name which the command did not write, a file that is not HDF5, with `format` a file of another format, and without
/// it a file of one of floodtide's formats, such as a checkpoint.
struct Hdf5Result {
  std::string command;               ///< for example "floodtide partition"
  std::vector<std::string> objects;  ///< datasets and groups, full names without the leading slash
  /// Attribute `format` of files that hold such a result and nothing else. Empty: other datasets may lie beside it.
  std::string format = {};
  /// The one of `objects` that the others describe. A file without it whose other objects are there holds another result of
  /// the command, and is refused.
  std::string described = {};
};

inline constexpr std::size_t kChunkCacheBytes = std::size_t{64} << 20;

/// An HDF5 file, open for reading or being written. Move-only; safe to use from several threads.
///
/// A file being written is a StagedFile until commit() has put it safely on disk and renamed it; destroyed before that, it is
/// removed, so that no partial output is ever left.
///
/// All that is written has checksums (but see DatasetOptions), and reading verifies them. Pipes and devices are refused, and so
/// are values in other files (external links and storage, virtual datasets) unless the environment variable
/// FLOODTIDE_ALLOW_EXTERNAL is 1. A call that crashes or makes no progress because the file is damaged ends the
/// process (see set_hdf5_program).
///
/// Errors: a missing, truncated, damaged or foreign file, and a missing dataset or one of another type or shape than asked
/// for, is Error(invalid_file); failures of writing (disk full, permissions) are Error(io). All name the file.
class Hdf5File {
 public:
  /// Opens for reading. `chunk_cache_bytes` bounds the decompressed chunks kept for each dataset.
  [[nodiscard]] static Hdf5File open(const std::string& path, std::size_t chunk_cache_bytes = kChunkCacheBytes);
  /// Starts a new file that commit() moves to `path`, replacing whatever file is there.
  [[nodiscard]] static Hdf5File create(const std::string& path, std::size_t chunk_cache_bytes = kChunkCacheBytes);
  /// Starts what commit() moves to `path`: a new file, or a copy of the one that is there with room for the result.
  /// Throws Error(invalid_argument) if that would lose anything but an older result of the same command; commit() marks the
  /// objects as this command's.
  [[nodiscard]] static Hdf5File create(const std::string& path, const Hdf5Result& result,
                                       std::size_t chunk_cache_bytes = kChunkCacheBytes);
  /// Throws what create() would throw for an output, without making anything.
  static void check_output(const std::string& path, const Hdf5Result& result);

  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;
  ~Hdf5File();

  /// Closes the file, waits until it is on disk and gives it its final name. Nothing may be written afterwards.
  void commit();

  /// The final path.
  [[nodiscard]] const std::string& path() const noexcept;

  [[nodiscard]] bool exists(const std::string& object) const;
  /// Names in a group, sorted. Throws Error(invalid_file) if there is no such group.
  [[nodiscard]] std::vector<std::string> list(const std::string& group = "/") const;
  /// Full names of all datasets, sorted, without the leading slash.
  [[nodiscard]] std::vector<std::string> datasets() const;
  [[nodiscard]] DatasetInfo info(const std::string& dataset) const;
  /// True if the file has a checksum of each value of the dataset, which reading verifies.
  [[nodiscard]] bool has_checksum(const std::string& dataset) const;

  /// A whole dataset of exactly this element type.
  template <class T>
  [[nodiscard]] Array<T> read_array(const std::string& dataset) const {
    Array<T> array;
    array.shape = checked_info(dataset, element_type<T>()).shape;
    const std::size_t elements = element_count(dataset, array.shape);
    require_room(dataset, elements, element_type<T>());
    array.values.resize(elements);
    const std::vector<std::int64_t> start(array.shape.size(), 0);
    read_raw(dataset, start, array.shape, element_type<T>(), array.values.data());
    close_dataset(dataset);
    return array;
  }
  /// A whole dataset of exactly this element type and shape, into memory of the caller.
  template <class T>
  void read_into(const std::string& dataset, std::span<const std::int64_t> shape, std::span<T> out) const {
    require_shape(dataset, element_type<T>(), shape, out.size());
    const std::vector<std::int64_t> start(shape.size(), 0);
    read_raw(dataset, start, shape, element_type<T>(), out.data());
    close_dataset(dataset);
  }
  /// Throws Error(invalid_file) unless a dataset has this element type and shape.
  void require_shape(const std::string& dataset, ElementType type, std::span<const std::int64_t> shape) const;
  /// The block [start, start + count) of a dataset of exactly this element type. out has as many elements as the block.
  template <class T>
  void read_block(const std::string& dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count,
                  std::span<T> out) const {
    checked_block(dataset, element_type<T>(), start, count, out.size());
    read_raw(dataset, start, count, element_type<T>(), out.data());
  }

  /// Creates a dataset (and the groups on its way).
  void create_dataset(const std::string& dataset, ElementType type, std::span<const std::int64_t> shape,
                      const DatasetOptions& options = {});
  template <class T>
  void write_block(const std::string& dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count,
                   std::span<const T> values) {
    checked_block(dataset, element_type<T>(), start, count, values.size());
    write_raw(dataset, start, count, element_type<T>(), values.data());
  }
  /// Creates a dataset and writes all of it. An empty shape makes a scalar.
  template <class T>
  void write_array(const std::string& dataset, std::span<const std::int64_t> shape, std::span<const T> values,
                   const DatasetOptions& options = {}) {
    create_dataset(dataset, element_type<T>(), shape, options);
    const std::vector<std::int64_t> start(shape.size(), 0);
    write_block<T>(dataset, start, shape, values);
    close_dataset(dataset);
  }
  void create_group(const std::string& group);

  /// Attributes of a group or dataset ("/" is the file itself). T is std::int64_t or double; an empty shape is a scalar.
  template <class T>
  void write_attribute(const std::string& object, const std::string& attribute, std::span<const std::int64_t> shape,
                       std::span<const T> values) {
    write_attribute_raw(object, attribute, shape, element_type<T>(), values.data(), values.size());
  }
  void write_attribute(const std::string& object, const std::string& attribute, std::int64_t value);
  void write_attribute(const std::string& object, const std::string& attribute, double value);
  void write_attribute(const std::string& object, const std::string& attribute, const std::string& text);

  [[nodiscard]] bool has_attribute(const std::string& object, const std::string& attribute) const;
  /// Integer attributes of any width are read as std::int64_t, floating ones as double. Throws Error(invalid_file) for others.
  template <class T>
  [[nodiscard]] Array<T> read_attribute(const std::string& object, const std::string& attribute) const;
  /// An attribute of one integer.
  [[nodiscard]] std::int64_t read_integer(const std::string& object, const std::string& attribute) const;
  [[nodiscard]] std::string read_text_attribute(const std::string& object, const std::string& attribute) const;

 private:
  struct Impl;
  explicit Hdf5File(std::unique_ptr<Impl> impl) noexcept;
  /// Whether a result joins the objects of a file that exists; throws as check_output does.
  [[nodiscard]] static bool joins_others(const std::string& path, const Hdf5Result& result);

  [[nodiscard]] std::size_t element_count(const std::string& dataset, std::span<const std::int64_t> shape) const;
  [[nodiscard]] DatasetInfo checked_info(const std::string& dataset, ElementType type) const;
  void require_shape(const std::string& dataset, ElementType type, std::span<const std::int64_t> shape,
                     std::size_t elements) const;
  /// Throws Error(io) unless there is memory for the elements.
  void require_room(const std::string& dataset, std::size_t elements, ElementType type) const;
  /// Frees the chunks that are kept of a dataset.
  void close_dataset(const std::string& dataset) const;
  void checked_block(const std::string& dataset, ElementType type, std::span<const std::int64_t> start,
                     std::span<const std::int64_t> count, std::size_t elements) const;
  void read_raw(const std::string& dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count,
                ElementType type, void* out) const;
  void write_raw(const std::string& dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count,
                 ElementType type, const void* values);
  void write_attribute_raw(const std::string& object, const std::string& attribute, std::span<const std::int64_t> shape,
                           ElementType type, const void* values, std::size_t elements);

  std::unique_ptr<Impl> impl_;
};

template <>
Array<std::int64_t> Hdf5File::read_attribute<std::int64_t>(const std::string& object, const std::string& attribute) const;
template <>
Array<double> Hdf5File::read_attribute<double>(const std::string& object, const std::string& attribute) const;

}  // namespace floodtide::data
