// SPDX-License-Identifier: Apache-2.0
// Sums, minima and maxima over ranks: the algorithms, how one is chosen, and the calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/named.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/operation.hpp"
#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// Bytes of one message: enough to hide the cost of a message, few enough that sending and adding overlap.
inline constexpr std::size_t kDefaultSegmentBytes = 256 * 1024;

/// How values travel. `bf16` halves the bytes of float32: sums are made in float32 and rounded (to nearest, ties to even)
/// whenever they are sent. Own algorithms only.
enum class Wire { native, bf16 };
constexpr Names<Wire, 2> names_of(Wire) { return {"wire format", {{{"native", Wire::native}, {"bf16", Wire::bf16}}}}; }

/// A way to sum over ranks. See docs/algorithms.md for steps, bytes on the wire and order of summation.
struct AllreduceRow {
  std::string_view name;
  std::string_view help;
  /// Null where the library has its own way. Without steps for one rank or no elements.
  MessageSchedule (*schedule)(const RankPlace& place, std::int64_t count);
};

/// The registry: all algorithms, in the order in which help texts show them.
[[nodiscard]] std::span<const AllreduceRow> allreduce_rows();
/// Throws Error(invalid_argument) naming the known ones.
[[nodiscard]] const AllreduceRow& allreduce_row(std::string_view name);

/// Which algorithm for which number of bytes (of the array on one rank, as it travels).
class AllreduceTable {
 public:
  struct Entry {
    std::string_view algorithm;  ///< a row's name
    std::int64_t last_bytes;     ///< used up to here, from where the entry before ends
  };
  explicit AllreduceTable(std::vector<Entry> entries) : entries_(std::move(entries)) {}
  /// "ring" for all sizes, or ranges in bytes without gaps: "recursive_doubling:0-8192,rabenseifner:8193-". Throws
  /// Error(invalid_argument) saying what is wrong.
  [[nodiscard]] static AllreduceTable parse(std::string_view text);

  [[nodiscard]] std::string_view algorithm(std::int64_t bytes) const;
  /// As parse reads it.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Entry> entries_;
};

/// Return the row that `algorithm` stands for: its name, a table, or "auto", which is measured on these ranks the first time.
/// `elements` are float32. Collective if it is "auto". Throws Error(invalid_argument) for another text.
[[nodiscard]] const AllreduceRow& chosen_row(Communicator& comm, std::string_view algorithm, Wire wire, std::int64_t elements);

/// The fixed rule for those who want neither to choose nor to measure: few steps for short arrays, few bytes for long ones.
inline constexpr std::string_view kDefaultAllreduce = "recursive_doubling:0-8192,rabenseifner:8193-";
inline constexpr std::string_view kAutoAllreduce = "auto";

struct AllreduceOptions {
  /// A row's name, a table's text, or "auto": the table of allreduce_table().
  std::string_view algorithm = kDefaultAllreduce;
  Wire wire = Wire::native;
  std::size_t segment_bytes = kDefaultSegmentBytes;  ///< of a message; at least one element
  /// How the caller describes the values, such as "average of float32 (2, 3)": the same on all ranks. It is compared with the
  /// other ranks' words, and is what the error says where ranks differ. Empty: operation, length and type.
  std::string_view words = {};
};

/// Collective the first time: the table behind "auto". It is the environment variable FLOODTIDE_ALLREDUCE (a name or a table)
/// if that is set; otherwise our own algorithms are timed on this communicator (3 runs to warm up, 7 timed, median, maximum
/// over ranks; a fraction of a second) and rank 0's choice holds for all. `mpi` is never chosen: its order of summation is not
/// ours. Another run may measure another table, and with it get other last bits: to repeat a run, pass its table's text.
/// `words` as in AllreduceOptions.
[[nodiscard]] const AllreduceTable& allreduce_table(Communicator& comm, std::string_view words = {});

/// Collective: starts to replace the values by their sum, minimum or maximum over ranks. Same length, type, op and options on
/// all ranks; where ranks differ, in these or in the collective, every rank throws the same AgreedError(communication), which
/// names the ranks by what they have started: no array is changed, and the communicator can be used further. The array must
/// stay alive and untouched until the operation is done. Afterwards all ranks hold the same bits; with our own algorithms they
/// depend only on the values, the length, the number of ranks (for `two_level` also on their nodes) and the algorithm. A NaN on
/// any rank gives NaN (its sign and payload are not defined). One rank: nothing to do. Throws Error(invalid_argument) for an
/// unknown algorithm or a wire that does not fit the type or algorithm, Error(unsupported) for `mpi` on other transports with
/// several ranks, and Error(communication).
[[nodiscard]] Operation start_allreduce(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op,
                                        const AllreduceOptions& options = {});

/// Collective: start_allreduce, and waits.
void allreduce(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, const AllreduceOptions& options = {});
void allreduce(Communicator& comm, std::span<float> values, ReduceOp op, std::string_view algorithm = kDefaultAllreduce,
               std::size_t segment_bytes = kDefaultSegmentBytes);
void allreduce(Communicator& comm, std::span<double> values, ReduceOp op, std::string_view algorithm = kDefaultAllreduce,
               std::size_t segment_bytes = kDefaultSegmentBytes);
void allreduce(Communicator& comm, std::span<std::int64_t> values, ReduceOp op, std::string_view algorithm = kDefaultAllreduce,
               std::size_t segment_bytes = kDefaultSegmentBytes);

}  // namespace floodtide::comm
