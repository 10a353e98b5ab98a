// SPDX-License-Identifier: Apache-2.0
// Table of algorithms by array size, and its text form.
#include <algorithm>
#include <charconv>
#include <limits>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/allreduce.hpp"

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

}  // namespace

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

}  // namespace floodtide::comm
