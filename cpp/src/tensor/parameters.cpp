// SPDX-License-Identifier: Apache-2.0
#include "floodtide/tensor/parameters.hpp"

#include <algorithm>

#include "floodtide/base/error.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide {

std::size_t ParameterLayout::add(std::string name, std::vector<std::int64_t> shape) {
  FLOODTIDE_REQUIRE(trained_size_ == size_, invalid_argument, "parameters: '", name,
                    "' is trained and comes after a statistic, expected it before");
  const std::size_t number = add_statistic(std::move(name), std::move(shape));
  trained_size_ = size_;
  return number;
}

std::size_t ParameterLayout::add_statistic(std::string name, std::vector<std::int64_t> shape) {
  const bool taken = std::ranges::any_of(entries_, [&](const Entry& entry) { return entry.name == name; });
  FLOODTIDE_REQUIRE(!taken, invalid_argument, "parameters: the name '", name, "' is used twice");
  const std::int64_t size = checked_volume(shape);
  entries_.push_back({std::move(name), std::move(shape), size_, size});
  size_ += size;
  return entries_.size() - 1;
}

const ParameterLayout::Entry& ParameterLayout::find(std::string_view name) const {
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.name == name; });
  FLOODTIDE_REQUIRE(found != entries_.end(), invalid_argument, "parameters: there is no array '", name, "'");
  return *found;
}

}  // namespace floodtide
