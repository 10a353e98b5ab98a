// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace floodtide::segment {

/// Return the root of the tree of an item, and shorten the path to it. An item whose parent is itself is a root.
template <class Item>
Item root_of(std::vector<Item>& parents, Item item) {
  const auto parent = [&parents](Item of) -> Item& { return parents[static_cast<std::size_t>(of)]; };
  while (parent(item) != item) {
    parent(item) = parent(parent(item));
    item = parent(item);
  }
  return item;
}

}  // namespace floodtide::segment
