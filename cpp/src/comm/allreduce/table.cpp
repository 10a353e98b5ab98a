// SPDX-License-Identifier: Apache-2.0
// Table of algorithms by array size: its text form, and the measurement that fills it.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "comm/allreduce/table.hpp"
#include "comm/engine.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::comm {
namespace {

constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
constexpr int kWarmUps = 3;
constexpr int kTimed = 7;
constexpr double kHopeless = 4.0;  // an algorithm whose first run is this many times slower than the best is not timed further
constexpr std::array<std::int64_t, 6> kMeasuredBytes = {64, 2048, 16384, 131072, 524288, 2097152};

std::int64_t parse_bytes(std::string_view text, std::string_view whole) {
  std::int64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  FLOODTIDE_REQUIRE(error == std::errc{} && end == text.data() + text.size() && bytes >= 0, invalid_argument,
                    "allreduce table '", whole, "': '", text, "' is no number of bytes");
  return bytes;
}

/// Return the seconds that one allreduce takes on this rank. Collective.
double timed_run(Communicator& comm, std::span<float> values, std::string_view algorithm) {
  std::ranges::fill(values, 1.0F);
  comm.barrier();
  const auto start = std::chrono::steady_clock::now();
  allreduce(comm, values, ReduceOp::sum, algorithm);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double slowest(Communicator& comm, double seconds) {
  allreduce(comm, std::span(&seconds, 1), ReduceOp::max, "recursive_doubling");
  return seconds;
}

/// Return the time of an algorithm on the slowest rank, which is the same on all ranks. Collective.
double measure(Communicator& comm, std::span<float> values, std::string_view algorithm, double best_s) {
  const double first_s = slowest(comm, timed_run(comm, values, algorithm));
  if (first_s > kHopeless * best_s) return first_s;
  for (int run = 1; run < kWarmUps; ++run) static_cast<void>(timed_run(comm, values, algorithm));
  std::array<double, kTimed> times_s{};
  for (double& time_s : times_s) time_s = timed_run(comm, values, algorithm);
  std::ranges::sort(times_s);
  return slowest(comm, times_s[kTimed / 2]);
}

std::vector<std::string_view> candidates(Communicator& comm) {
  const std::span<const int> nodes = comm.nodes();
  const int last_node = *std::ranges::max_element(nodes);
  const bool two_levels = last_node > 0 && last_node + 1 < comm.size();
  std::vector<std::string_view> names;
  for (const AllreduceRow& row : allreduce_rows()) {
    if (row.schedule != nullptr && (!row.nodes_only || two_levels)) names.push_back(row.name);
  }
  return names;
}

}  // namespace

AllreduceTable measured_table(Communicator& comm) {
  const std::vector<std::string_view> names = candidates(comm);
  std::vector<float> values(kMeasuredBytes.back() / sizeof(float));
  std::vector<AllreduceTable::Entry> entries;
  std::int64_t before = 0;
  for (const std::int64_t bytes : kMeasuredBytes) {
    double best_s = std::numeric_limits<double>::infinity();
    std::string_view best;
    for (const std::string_view algorithm : names) {
      const auto array = std::span(values).first(static_cast<std::size_t>(bytes) / sizeof(float));
      const double time_s = measure(comm, array, algorithm, best_s);
      if (time_s < best_s) {
        best_s = time_s;
        best = algorithm;
      }
    }
    // The border between two measured sizes is their geometric mean, because the sizes are spaced geometrically.
    const auto middle = static_cast<std::int64_t>(std::sqrt(static_cast<double>(before) * static_cast<double>(bytes)));
    if (!entries.empty() && entries.back().algorithm != best) entries.back().last_bytes = middle;
    if (entries.empty() || entries.back().algorithm != best) entries.push_back({best, kLast});
    before = bytes;
  }
  std::string text = AllreduceTable(std::move(entries)).text();
  std::int64_t length = static_cast<std::int64_t>(text.size());
  broadcast(comm, std::as_writable_bytes(std::span(&length, 1)), 0);
  text.resize(static_cast<std::size_t>(length));
  broadcast(comm, std::as_writable_bytes(std::span(text)), 0);
  return AllreduceTable::parse(text);
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

std::string AllreduceTable::text() const {
  if (entries_.size() == 1) return std::string(entries_.front().algorithm);
  std::string text;
  std::int64_t first = 0;
  for (const Entry& entry : entries_) {
    text += str_cat(text.empty() ? "" : ",", entry.algorithm, ":", first, "-");
    if (entry.last_bytes != kLast) text += std::to_string(entry.last_bytes);
    first = entry.last_bytes == kLast ? kLast : entry.last_bytes + 1;
  }
  return text;
}

const AllreduceTable& allreduce_table(Communicator& comm, std::string_view words) {
  std::optional<AllreduceTable>& table = comm.engine().table();
  if (!table) {
    const char* const given = std::getenv("FLOODTIDE_ALLREDUCE");
    if (given != nullptr && *given != '\0' && given != kAutoAllreduce) {
      table = AllreduceTable::parse(given);
    } else if (comm.size() == 1) {
      table = AllreduceTable::parse(kDefaultAllreduce);
    } else {
      comm.engine().start_empty(Collective::measure, words).wait();
      const Engine::GroupAside aside(comm.engine());
      table = measured_table(comm);
    }
  }
  return *table;
}

}  // namespace floodtide::comm
