// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace floodtide::data {

/// Reader of TensorFlow checkpoints ("bundle", version 2), without TensorFlow. `<prefix>.index` is a sorted string table with
/// the place of each array. `<prefix>.data-<shard>-of-<shards>` has the raw little-endian values. All checksums are verified.
/// Arrays of all element types are listed, but only float32 arrays can be read.
///
/// Source: tensorflow/core/protobuf/tensor_bundle.proto and LevelDB's doc/table_format.md.
class TensorflowCheckpoint {
 public:
  struct Entry {
    std::string name;
    std::vector<std::int64_t> shape;
    int type;  ///< TensorFlow's DataType number
    std::int64_t shard;
    std::int64_t offset;  ///< bytes
    std::int64_t size;    ///< bytes
    std::uint32_t checksum;
  };

  /// @param prefix path without `.index`. Throws Error(invalid_file) for a missing, truncated or corrupt index and
  /// Error(unsupported) for a compressed or big-endian one.
  explicit TensorflowCheckpoint(const std::string& prefix);

  /// Return all arrays, sorted by name.
  [[nodiscard]] std::span<const Entry> entries() const noexcept { return entries_; }
  [[nodiscard]] static bool is_float(const Entry& entry) noexcept;
  /// Read the values of an array, row-major. Throws Error(unsupported) for other types than float32, Error(invalid_file) for
  /// missing, truncated or corrupt data.
  [[nodiscard]] std::vector<float> read(const Entry& entry) const;

 private:
  std::string prefix_;
  std::int64_t shards_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace floodtide::data
