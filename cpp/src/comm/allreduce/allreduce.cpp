// SPDX-License-Identifier: Apache-2.0
// The algorithms of allreduce, the choice among them by the size of the array, and the start.
#include "floodtide/comm/allreduce.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "comm/access.hpp"
#include "comm/engine.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::comm {
namespace {

constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();

std::int64_t parse_bytes(std::string_view text, std::string_view whole) {
  std::int64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  FLOODTIDE_REQUIRE(error == std::errc{} && end == text.data() + text.size() && bytes >= 0, invalid_argument,
                    "allreduce table '", whole, "': '", text, "' is no number of bytes");
  return bytes;
}

const AllreduceRow& choose(std::string_view algorithm, std::int64_t bytes) {
  if (algorithm.find(':') == std::string_view::npos) return allreduce_row(algorithm);
  return allreduce_row(AllreduceTable::parse(algorithm).algorithm(bytes));
}

}  // namespace

// Each is in the file of its algorithm.
extern const AllreduceRow kRing;
extern const AllreduceRow kRabenseifner;
extern const AllreduceRow kRecursiveDoubling;
extern const AllreduceRow kTwoLevel;

std::span<const AllreduceRow> allreduce_rows() {
  static const std::array rows = {
      kRing,
      kRabenseifner,
      kRecursiveDoubling,
      kTwoLevel,
      AllreduceRow{.name = "mpi", .help = "the allreduce of the MPI library, with the algorithm that the library chooses"},
  };
  return rows;
}

const AllreduceRow& allreduce_row(std::string_view name) {
  std::string known;
  for (const AllreduceRow& row : allreduce_rows()) {
    if (row.name == name) return row;
    known += str_cat(known.empty() ? "" : ", ", row.name);
  }
  raise(ErrorCode::invalid_argument, "allreduce: unknown algorithm '", name, "', expected one of ", known);
}

AllreduceTable AllreduceTable::parse(std::string_view text) {
  if (text.find(':') == std::string_view::npos) return AllreduceTable({{allreduce_row(text).name, kLast}});
  std::vector<Entry> entries;
  std::int64_t expected = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t colon = item.find(':');
    const std::size_t dash = item.find('-', colon == std::string_view::npos ? 0 : colon);
    FLOODTIDE_REQUIRE(colon != std::string_view::npos && dash != std::string_view::npos, invalid_argument, "allreduce table '",
                      text, "': '", item, "' is not as name:first-last");
    FLOODTIDE_REQUIRE(entries.empty() || entries.back().last_bytes != kLast, invalid_argument, "allreduce table '", text,
                      "': only the last range may be open");
    const std::int64_t first = parse_bytes(item.substr(colon + 1, dash - colon - 1), text);
    const std::string_view last = item.substr(dash + 1);
    const Entry entry{allreduce_row(item.substr(0, colon)).name, last.empty() ? kLast : parse_bytes(last, text)};
    FLOODTIDE_REQUIRE(first == expected && entry.last_bytes >= first, invalid_argument, "allreduce table '", text, "': '", item,
                      "', expected a range that begins at ", expected);
    expected = entry.last_bytes == kLast ? kLast : entry.last_bytes + 1;
    entries.push_back(entry);
  }
  FLOODTIDE_REQUIRE(entries.back().last_bytes == kLast, invalid_argument, "allreduce table '", text,
                    "': the last range must be open, as in ", entries.back().algorithm, ":", expected, "-");
  return AllreduceTable(std::move(entries));
}

std::string_view AllreduceTable::algorithm(std::int64_t bytes) const {
  const auto covers = [&](const Entry& entry) { return bytes <= entry.last_bytes; };
  return std::ranges::find_if(entries_, covers)->algorithm;
}

const AllreduceRow& chosen_row(std::string_view algorithm, Wire wire, std::int64_t elements) {
  const Payload payload{.element_bytes = sizeof(float), .wire = wire};
  return choose(algorithm, elements * static_cast<std::int64_t>(payload.wire_bytes()));
}

Operation start_allreduce(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, const AllreduceOptions& options) {
  require_wire("allreduce", options.wire, buffer.type);
  const Payload payload = Payload::of(buffer, op, options.wire);
  const AllreduceRow& row = choose(options.algorithm, buffer.count * static_cast<std::int64_t>(payload.wire_bytes()));
  FLOODTIDE_REQUIRE(options.wire == Wire::native || row.schedule != nullptr, invalid_argument, "allreduce: the algorithm ",
                    row.name, " has no wire format ", name(options.wire));
  const Notice notice{.collective = Collective::allreduce,
                      .algorithm = static_cast<std::int32_t>(&row - allreduce_rows().data()),
                      .type = buffer.type,
                      .op = op,
                      .wire = options.wire,
                      .count = buffer.count,
                      .segment_bytes = static_cast<std::int64_t>(options.segment_bytes)};
  Engine& engine = engine_of(comm);
  if (row.schedule == nullptr) return engine.start_library(notice, buffer, options.words);
  return engine.start(notice, engine.allreduce_schedule(row, buffer.count), payload, options.words);
}

void allreduce(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, const AllreduceOptions& options) {
  start_allreduce(comm, buffer, op, options).wait();
}

}  // namespace floodtide::comm
