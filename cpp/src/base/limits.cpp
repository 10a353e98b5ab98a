// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/limits.hpp"

#include <array>
#include <charconv>

namespace floodtide {
namespace {

/// Return the shortest text that reads back as the same number: 1024, 0.05, 1e+300.
std::string shown(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

template <class Number>
void require(const Limits& limits, bool inside, Number value, std::string_view what, ErrorCode code) {
  if (!inside) raise(code, what, " is ", value, ", expected ", describe(limits));
}

}  // namespace

std::string describe(const Limits& limits) {
  const bool lower = limits.minimum > -std::numeric_limits<double>::max();
  const bool upper = limits.maximum < std::numeric_limits<double>::max();
  if (!lower && !upper) return "a finite number";
  if (lower && upper && !limits.above && !limits.below) return shown(limits.minimum) + " to " + shown(limits.maximum);
  std::string text;
  if (lower) text += (limits.above ? "above " : "at least ") + shown(limits.minimum);
  if (lower && upper) text += " and ";
  if (upper) text += (limits.below ? "below " : "at most ") + shown(limits.maximum);
  return text;
}

void require_in(const Limits& limits, double value, std::string_view what, ErrorCode code) {
  require(limits, limits.contains(value), shown(value), what, code);
}

void require_in(const Limits& limits, std::int64_t value, std::string_view what, ErrorCode code) {
  // On x86-64, long double represents every std::int64_t exactly.
  require(limits, limits.contains(static_cast<long double>(value)), value, what, code);
}

}  // namespace floodtide
