// SPDX-License-Identifier: Apache-2.0
// HDF5 files, without the header hdf5.h. Any thread may call any function here, because one mutex of the process serialises all
// calls of the HDF5 library.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace floodtide::data {

/// Element types that floodtide reads and writes. Byte order in the file does not matter.
enum class ElementType { uint8, int8, uint16, int16, uint32, int32, uint64, int64, float32, float64 };

/// Return NumPy's name of the type, for example "uint8".
[[nodiscard]] std::string_view name(ElementType type) noexcept;
[[nodiscard]] std::size_t size_in_bytes(ElementType type) noexcept;
[[nodiscard]] bool is_integer(ElementType type) noexcept;

/// Return the element type of a C++ type.
template <class T>
[[nodiscard]] constexpr ElementType element_type() noexcept {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8, "no HDF5 element type for this type");
  constexpr bool is_float = std::is_floating_point_v<T>;
  // Integers are in the order of their sizes, without a sign and with one.
  constexpr int integer = 2 * std::countr_zero(sizeof(T)) + (std::is_signed_v<T> ? 1 : 0);
  return is_float ? (sizeof(T) == 4 ? ElementType::float32 : ElementType::float64) : static_cast<ElementType>(integer);
}
static_assert(element_type<std::uint8_t>() == ElementType::uint8 && element_type<std::int64_t>() == ElementType::int64);

/// Properties of a dataset. `chunks` is empty for contiguous storage.
struct DatasetInfo {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> chunks;
  ElementType type;
};

/// How a dataset is stored. If `chunks` is empty, floodtide chooses the chunks. gzip is 1 to 9 (with the shuffle filter), or 0
/// for no compression.
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

/// Set the path of the program `_hdf5_check`, which reads the metadata of every file before this process does. The HDF5 library
/// crashes with some damaged files, and does not come to an end with others. Without the program (an empty path), such a file
/// ends this process. The Python module sets the program.
void set_hdf5_checker(const std::string& program);

/// The objects that a command writes into an HDF5 file, and may replace there.
///
/// If the file exists and holds only `objects` that the same command wrote (attribute `written_by`), it is an older result and
/// is replaced. If the file holds other datasets too, the file is copied, the objects are replaced or added in the copy, and
/// the copy takes the name of the file. Everything else is refused with Error(invalid_argument): an object with one of the
/// names that the command did not write, a file that is not HDF5, with `format` a file of another format, and without `format`
/// a file of one of floodtide's formats, such as a checkpoint.
struct Hdf5Result {
  std::string command;               ///< for example "floodtide partition"
  std::vector<std::string> objects;  ///< datasets and groups, full names without the leading slash
  /// Attribute `format` of files that hold only this result. Empty: the file may hold other datasets too.
  std::string format = {};
  /// The main object, which the other objects describe. A file with other objects but without the main object holds another
  /// result of the command, and is refused.
  std::string described = {};
};

/// Result of the program of set_hdf5_checker(). whole: it has used the metadata of all objects. part: it has used the metadata
/// of one object. damaged: chunks do not have the size that their dataset says. unopened: the library did not open the file.
enum class Hdf5Tried : char { whole = 'w', part = 'p', damaged = 'd', unopened = 'u' };

inline constexpr std::size_t kChunkCacheBytes = std::size_t{64} << 20;

/// An HDF5 file, open for reading or for writing. Several threads may use it at the same time.
///
/// A new file has a temporary name (StagedFile) until commit() has flushed it to disk and renamed it. Without commit(), the
/// destructor removes the file, so that no partial output is left.
///
/// All data are written with checksums (but see DatasetOptions), and reading verifies the checksums. Pipes and devices are
/// refused. Values in other files (external links and storage, virtual datasets) are refused unless the environment variable
/// FLOODTIDE_ALLOW_EXTERNAL is 1. A file with which the HDF5 library crashes or makes no progress is refused as damaged
/// (set_hdf5_checker). The first opening of a file by a process takes some milliseconds for this reason.
///
/// All functions throw Error(invalid_file) for a missing, truncated, damaged or foreign file, for a missing dataset, and for a
/// dataset of another type or shape than requested. They throw Error(io) if writing fails (disk full, permissions). All
/// messages name the file.
class Hdf5File {
 public:
  /// Open a file for reading. `chunk_cache_bytes` limits the decompressed chunks that are kept of each dataset.
  [[nodiscard]] static Hdf5File open(const std::string& path, std::size_t chunk_cache_bytes = kChunkCacheBytes);
  /// Start a new file. commit() moves the file to `path`, and replaces any file there.
  [[nodiscard]] static Hdf5File create(const std::string& path);
  /// Start a new file, or a copy of the file at `path` without an older result. commit() marks the objects with the name of the
  /// command, and moves the file to `path`. Throws Error(invalid_argument) if data other than an older result of the same
  /// command would be lost.
  [[nodiscard]] static Hdf5File create(const std::string& path, const Hdf5Result& result);
  /// Throw the error that create() would throw, without making a file.
  static void check_output(const std::string& path, const Hdf5Result& result);

  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;
  ~Hdf5File();

  /// Close the file, wait until it is on disk, and give it its final name. Do not write to the file afterwards.
  void commit();

  /// Return the final path.
  [[nodiscard]] const std::string& path() const noexcept;

  [[nodiscard]] bool exists(const std::string& object) const;
  /// Return the sorted names in a group. Throws Error(invalid_file) if there is no such group.
  [[nodiscard]] std::vector<std::string> list(const std::string& group = "/") const;
  /// Return the sorted full names of all datasets, without the leading slash.
  [[nodiscard]] std::vector<std::string> datasets() const;
  [[nodiscard]] DatasetInfo info(const std::string& dataset) const;
  /// Return how many chunks of a dataset do not exist and are read as its fill value, and how many it has if all exist. A
  /// dataset without chunks counts as one. Returns (0, 0) if its values are elsewhere, or of more than 65,536 chunks.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> absent_chunks(const std::string& dataset) const;
  /// Throws Error(invalid_file) if a chunk of a block has not the size that it should have: the library gives random values for
  /// such a chunk. Throws Error(out_of_range) if the block is not inside the dataset. All reading functions call this.
  void require_block(const std::string& dataset, std::span<const std::int64_t> start,
                     std::span<const std::int64_t> count) const;
  /// Return true if checksums cover all values of the dataset. Reading verifies these checksums.
  [[nodiscard]] bool has_checksum(const std::string& dataset) const;

  /// Read a whole dataset, which must have this element type.
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
  /// Read a whole dataset, which must have this element type and shape, into memory of the caller.
  template <class T>
  void read_into(const std::string& dataset, std::span<const std::int64_t> shape, std::span<T> out) const {
    require_shape(dataset, element_type<T>(), shape);
    const std::vector<std::int64_t> start(shape.size(), 0);
    read_block<T>(dataset, start, shape, out);
    close_dataset(dataset);
  }
  /// Throws Error(invalid_file) unless a dataset has this element type and shape.
  void require_shape(const std::string& dataset, ElementType type, std::span<const std::int64_t> shape) const;
  /// Read the block [start, start + count) of a dataset, which must have this element type. `out` has the elements of the
  /// block.
  template <class T>
  void read_block(const std::string& dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count,
                  std::span<T> out) const {
    checked_block(dataset, element_type<T>(), start, count, out.size());
    read_raw(dataset, start, count, element_type<T>(), out.data());
  }

  /// For the program of set_hdf5_checker(): use all metadata as a reader may, and ignore errors that the reader meets too.
  /// If there are too many objects, or the library cannot list them, use only the metadata of `object`.
  [[nodiscard]] Hdf5Tried try_metadata(const std::string& object) const;
  /// For the same program: read a block of a dataset, and forget it.
  void try_block(const std::string& dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count) const;

  /// Create a dataset, and the groups in its name.
  void create_dataset(const std::string& dataset, ElementType type, std::span<const std::int64_t> shape,
                      const DatasetOptions& options = {});
  template <class T>
  void write_block(const std::string& dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count,
                   std::span<const T> values) {
    checked_block(dataset, element_type<T>(), start, count, values.size());
    write_raw(dataset, start, count, element_type<T>(), values.data());
  }
  /// Write a chunk that filtered_chunk() returned for the options of the dataset. `start` is its first element.
  void write_chunk(const std::string& dataset, std::span<const std::int64_t> start, std::uint32_t skipped,
                   std::span<const std::byte> filtered);
  /// Create a dataset and write all values. An empty shape makes a scalar.
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
  template <class T>
    requires(std::is_same_v<T, std::int64_t> || std::is_same_v<T, double>)
  void write_attribute(const std::string& object, const std::string& attribute, T value) {
    write_attribute_raw(object, attribute, {}, element_type<T>(), &value, 1);
  }
  void write_attribute(const std::string& object, const std::string& attribute, const std::string& text);

  [[nodiscard]] bool has_attribute(const std::string& object, const std::string& attribute) const;
  /// Integer attributes of any width are read as std::int64_t, floating ones as double. Throws Error(invalid_file) for others.
  template <class T>
  [[nodiscard]] Array<T> read_attribute(const std::string& object, const std::string& attribute) const;
  /// Read an attribute that is one integer.
  [[nodiscard]] std::int64_t read_integer(const std::string& object, const std::string& attribute) const;
  [[nodiscard]] std::string read_text_attribute(const std::string& object, const std::string& attribute) const;
  /// Read an attribute that is one text or an array of texts.
  [[nodiscard]] std::vector<std::string> read_texts(const std::string& object, const std::string& attribute) const;

 private:
  struct Impl;
  explicit Hdf5File(std::unique_ptr<Impl> impl) noexcept;
  /// Start a new file or, if the result `joins` others, a copy of the file at `path` without an older result.
  [[nodiscard]] static Hdf5File start(const std::string& path, const Hdf5Result& result, bool joins);
  /// Return true if the result is added to an existing file with other objects. Throws the errors of check_output().
  [[nodiscard]] static bool joins_others(const std::string& path, const Hdf5Result& result);

  [[nodiscard]] bool try_object(const std::string& name) const;
  [[nodiscard]] std::size_t element_count(const std::string& dataset, std::span<const std::int64_t> shape) const;
  [[nodiscard]] DatasetInfo checked_info(const std::string& dataset, ElementType type) const;
  /// Throws Error(io) unless there is memory for the elements.
  void require_room(const std::string& dataset, std::size_t elements, ElementType type) const;
  /// Free the cached chunks of a dataset.
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

/// Return what a file stores of one chunk: the bytes after the filters of `options`, and a mask of the filters that were
/// skipped (compression, where it would not help). `values` has the shape options.chunks. Throws Error(io) if the library
/// fails.
[[nodiscard]] std::pair<std::uint32_t, std::vector<std::byte>> filtered_chunk(std::span<const float> values,
                                                                              const DatasetOptions& options);

}  // namespace floodtide::data
