// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/gradient_products.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"

namespace floodtide::train {

GradientProducts::GradientProducts(std::shared_ptr<Walkers> walkers)
    : walkers_(std::move(walkers)),
      trained_(walkers_->layout().trained_size()),
      terms_(walkers_->local() * walkers_->layout().size()),
      sums_(walkers_->local() * trained_),
      squares_(static_cast<std::size_t>(walkers_->local())) {
  const WalkersOptions& options = walkers_->options();
  FLOODTIDE_REQUIRE(options.ranks == 1 && options.walkers >= 2 && options.cycle, invalid_argument,
                    "gradient products: ", options.walkers, " walkers on ", options.ranks, " ranks",
                    options.cycle ? "" : " that end", ", expected at least 2 on one rank that repeat their shards");
  std::ranges::fill(sums_.span(), 0.0);
  walkers_->network().parameters_changed();
  walkers_->start_prefetcher();
}

std::int64_t GradientProducts::batch() const noexcept { return walkers_->examples_per_pass() / walkers_->options().walkers; }

void GradientProducts::add_pass() {
  const nn::NetworkUse::Hold training = walkers_->use().step();
  walkers_->prepare();
  walkers_->compute_each(terms_.span(), 1 / static_cast<double>(batch()));
  walkers_->finish(passes_);
  const std::int64_t all = walkers_->layout().size();
  parallel_for(walkers_->local(), [&](std::int64_t walker) {
    const float* const term = terms_.data() + walker * all;
    double* const sum = sums_.data() + walker * trained_;
    double square = 0;
    for (std::int64_t i = 0; i < trained_; ++i) {
      const double value = term[i];
      square += value * value;
      sum[i] += value;
    }
    squares_[static_cast<std::size_t>(walker)] += square;
  });
  ++passes_;
}

std::span<const double> GradientProducts::sum(std::int64_t walker) const {
  return {sums_.data() + walker * trained_, static_cast<std::size_t>(trained_)};
}

Tensor<double, 2> GradientProducts::products() const {
  const std::int64_t count = walkers_->local();
  Tensor<double, 2> result({count, count});
  parallel_for(count, [&](std::int64_t row) {
    for (std::int64_t column = 0; column <= row; ++column) {
      const std::span<const double> a = sum(row), b = sum(column);
      const double product = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
      result.data()[row * count + column] = product;
      result.data()[column * count + row] = product;
    }
  });
  return result;
}

}  // namespace floodtide::train
