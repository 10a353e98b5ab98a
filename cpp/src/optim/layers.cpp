// SPDX-License-Identifier: Apache-2.0
#include "optim/layers.hpp"

#include <algorithm>

namespace floodtide::optim {

Layers::Layers(const ParameterLayout& layout, bool biases) {
  constexpr std::int64_t kPiece = 1 << 14;
  for (const ParameterLayout::Entry& entry : layout.entries()) {
    if (entry.offset >= layout.trained_size()) break;
    const std::int64_t end = entry.offset + entry.size;
    for (std::int64_t begin = entry.offset; begin < end; begin += kPiece) {
      pieces_.push_back({begin, std::min(begin + kPiece, end), adapts_.size()});
    }
    adapts_.push_back(biases || entry.shape.size() > 1 ? 1 : 0);
  }
  of_pieces_.resize(pieces_.size());
  of_layers_.resize(adapts_.size());
}

void Layers::add_up() noexcept {
  std::ranges::fill(of_layers_, Squares{});
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    Squares& sum = of_layers_[pieces_[i].layer];
    sum.parameters += of_pieces_[i].parameters;
    sum.directions += of_pieces_[i].directions;
  }
}

}  // namespace floodtide::optim
