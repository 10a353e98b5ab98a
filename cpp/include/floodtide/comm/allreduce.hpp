// SPDX-License-Identifier: Apache-2.0
// Allreduce: sums, minima, maxima and products over ranks. Algorithms, choice of the algorithm, and functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "floodtide/base/named.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/operation.hpp"
#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// Largest size of one message. Messages are long enough to hide the latency, and short enough that sending and adding overlap.
inline constexpr std::size_t kDefaultSegmentBytes = 256 * 1024;

/// Format of the values in messages. `bf16` halves the bytes of float32: ranks add in float32, and round to bfloat16 (to
/// nearest, ties to even) whenever they send. The algorithm `mpi` supports `native` only.
enum class Wire { native, bf16 };
constexpr Names<Wire, 2> names_of(Wire) { return {"wire format", {{{"native", Wire::native}, {"bf16", Wire::bf16}}}}; }

/// Row of the registry of allreduce algorithms. See docs/algorithms.md for steps, bytes on the wire and order of summation.
struct AllreduceRow {
  std::string_view name;
  std::string_view help;
  /// Returns the steps of one rank: no steps for one rank or for no elements. Null for `mpi`, whose steps the library chooses.
  MessageSchedule (*schedule)(const RankPlace& place, std::int64_t count) = nullptr;
  /// The steps depend on the nodes of the ranks. They are worth it only on several nodes of which one has several ranks.
  bool nodes_only = false;
};

/// Return all algorithms, in the order in which help texts show them.
[[nodiscard]] std::span<const AllreduceRow> allreduce_rows();
/// Return the row with this name. Throws Error(invalid_argument), which lists the known names.
[[nodiscard]] const AllreduceRow& allreduce_row(std::string_view name);

/// Table that chooses the algorithm by the number of bytes of the array on one rank, in the wire format.
class AllreduceTable {
 public:
  struct Entry {
    std::string_view algorithm;  ///< name of a row
    std::int64_t last_bytes;     ///< largest size of this entry; its range begins after the entry before
  };
  explicit AllreduceTable(std::vector<Entry> entries) : entries_(std::move(entries)) {}
  /// Read a table from text: "ring" for all sizes, or ranges in bytes without gaps, such as
  /// "recursive_doubling:0-8192,rabenseifner:8193-". Throws Error(invalid_argument) for a text that is not such a table.
  [[nodiscard]] static AllreduceTable parse(std::string_view text);

  /// Return the algorithm for an array of this size.
  [[nodiscard]] std::string_view algorithm(std::int64_t bytes) const;

 private:
  std::vector<Entry> entries_;
};

/// Return the algorithm for an array of `elements` float32 values.
///
/// `algorithm` is the name of a row, or a table as text. Throws Error(invalid_argument) for another text.
[[nodiscard]] const AllreduceRow& chosen_row(std::string_view algorithm, Wire wire, std::int64_t elements);

/// Default table: few steps for short arrays, few bytes for long arrays.
inline constexpr std::string_view kDefaultAllreduce = "recursive_doubling:0-8192,rabenseifner:8193-";

struct AllreduceOptions {
  /// Name of a row, or a table as text.
  std::string_view algorithm = kDefaultAllreduce;
  Wire wire = Wire::native;
  std::size_t segment_bytes = kDefaultSegmentBytes;  ///< largest size of a message; a message has at least one element
  /// The caller's description of the values, such as "average of float32 (2, 3)". All ranks must pass the same words: the ranks
  /// compare them, and the error message quotes them if ranks differ. Empty: the message names operation, length and type.
  std::string_view words = {};
};

/// Start to replace the values by their sum, minimum, maximum or product over all ranks. Collective.
///
/// Pass the same length, type, op and options on all ranks. If ranks differ in these or in the collective, every rank throws
/// the same AgreedError(communication) when it waits. The error names what each rank has started. No array is changed then,
/// and the communicator can still be used.
///
/// The array must stay alive and untouched until the operation is done. Then all ranks hold the same bits. Except with `mpi`,
/// the bits depend only on the values, the length, the number of ranks and the algorithm (`two_level`: also on the nodes). A
/// NaN on any rank gives NaN, with undefined sign and payload. With one rank there is nothing to do.
///
/// Throws Error(invalid_argument) for an unknown algorithm, or a wire format that does not fit the type or the algorithm.
/// Throws Error(unsupported) for `mpi` with several ranks on another transport. Throws Error(communication).
[[nodiscard]] Operation start_allreduce(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op,
                                        const AllreduceOptions& options = {});

/// Replace the values by their sum, minimum, maximum or product over all ranks, and wait until this is done. Collective. Throws
/// as start_allreduce.
void allreduce(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, const AllreduceOptions& options = {});
template <class T, std::size_t Extent>
void allreduce(Communicator& comm, std::span<T, Extent> values, ReduceOp op, std::string_view algorithm = kDefaultAllreduce,
               std::size_t segment_bytes = kDefaultSegmentBytes) {
  allreduce(comm, ReduceBuffer::of(values), op, {.algorithm = algorithm, .segment_bytes = segment_bytes});
}

}  // namespace floodtide::comm
