// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace floodtide {

/// Base of classes whose objects are neither copied nor moved.
class Immovable {
 public:
  Immovable(const Immovable&) = delete;
  Immovable& operator=(const Immovable&) = delete;
  Immovable(Immovable&&) = delete;
  Immovable& operator=(Immovable&&) = delete;

 protected:
  Immovable() = default;
  ~Immovable() = default;
};

}  // namespace floodtide
