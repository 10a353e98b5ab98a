// SPDX-License-Identifier: Apache-2.0
// Rates of single layers, for the rules that have them (lars, lamb).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/tensor/parameters.hpp"

namespace floodtide::optim {

/// The trained arrays of a layout, cut into pieces for all threads. The pieces do not depend on the number of threads.
class Layers {
 public:
  struct Piece {
    std::int64_t begin, end;  // in the buffer of parameters
    std::size_t layer;        // index of its array
  };
  /// Sums of squares of two quantities.
  struct Squares {
    double parameters = 0, directions = 0;
  };

  /// @param biases false: arrays with one axis (biases, batch normalisation) have no rate and no weight decay of a layer
  Layers(const ParameterLayout& layout, bool biases);

  /// Return whether the array has a rate and a weight decay of its layer.
  [[nodiscard]] bool adapts(std::size_t layer) const noexcept { return adapts_[layer] != 0; }

  /// Calls squares(piece) for each piece on all threads, then adds the results of each array in a fixed order.
  template <class Function>
  void sum(const Function& squares) {
    Squares* const sums = of_pieces_.data();
    parallel_for(std::ssize(pieces_), [&](std::int64_t i) { sums[i] = squares(pieces_[static_cast<std::size_t>(i)]); });
    add_up();
  }
  /// Return the result of sum() for an array.
  [[nodiscard]] const Squares& squares(std::size_t layer) const noexcept { return of_layers_[layer]; }

  /// Calls body(piece) for each piece on all threads.
  template <class Body>
  void for_pieces(const Body& body) const {
    parallel_for(std::ssize(pieces_), [&](std::int64_t i) { body(pieces_[static_cast<std::size_t>(i)]); });
  }

 private:
  void add_up() noexcept;

  std::vector<Piece> pieces_;  // in ascending order
  std::vector<Squares> of_pieces_, of_layers_;
  std::vector<char> adapts_;
};

}  // namespace floodtide::optim
