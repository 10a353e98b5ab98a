// SPDX-License-Identifier: Apache-2.0
// Names of enumeration values, for configurations and messages. Each such enumeration E has a function names_of(E) in the
// namespace of E. The function returns the table of names.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "floodtide/base/error.hpp"

namespace floodtide {

template <class E, std::size_t N>
struct Names {
  struct Row {
    std::string_view name;
    E value;
  };
  std::string_view what;  ///< what messages call the enumeration
  std::array<Row, N> rows;
};

template <class E>
concept HasNames = requires(E value) { names_of(value); };

/// Return the name of an enumeration value, or "unknown" if the table does not contain the value.
template <HasNames E>
[[nodiscard]] constexpr std::string_view name(E value) noexcept {
  constexpr auto kNames = names_of(E{});
  for (const auto& row : kNames.rows) {
    if (row.value == value) return row.name;
  }
  return "unknown";
}

/// Return all names as text for a message: "a, b or c".
template <HasNames E>
[[nodiscard]] std::string listed_names() {
  constexpr auto kNames = names_of(E{});
  std::string text;
  for (std::size_t i = 0; i < kNames.rows.size(); ++i) {
    if (i > 0) text += i + 1 < kNames.rows.size() ? ", " : " or ";
    text += kNames.rows[i].name;
  }
  return text;
}

/// Return the enumeration value with the name `text`. Throws Error(invalid_argument) for an unknown name; the message lists the
/// known names and calls the enumeration `what`.
template <HasNames E>
[[nodiscard]] E named(std::string_view text, std::string_view what = names_of(E{}).what) {
  constexpr auto kNames = names_of(E{});
  for (const auto& row : kNames.rows) {
    if (row.name == text) return row.value;
  }
  raise(ErrorCode::invalid_argument, what, " is '", text, "', expected ", listed_names<E>());
}

}  // namespace floodtide
