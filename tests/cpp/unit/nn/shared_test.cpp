// SPDX-License-Identifier: Apache-2.0
// Several threads use one network at the same time. Results are those of one thread, bit for bit.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <set>
#include <thread>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/nn/unet.hpp"
#include "support/watchdog.hpp"

namespace floodtide::nn {
namespace {

using Values = std::vector<float>;

constexpr int kRounds = 8;

Values drawn(std::int64_t count, std::uint64_t stream) {
  Philox random(29, stream);
  Values values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

/// Calls body(number) on `count` threads at the same time.
template <class Body>
void on_threads(int count, Body body) {
  const int before = num_threads();
  std::latch all(count);
  std::vector<std::jthread> threads;
  for (int number = 0; number < count; ++number) {
    threads.emplace_back([&, number] {
      set_num_threads(1 + number % 2);
      all.arrive_and_wait();
      body(number);
    });
  }
  threads.clear();
  set_num_threads(before);
}

Values forward(Ffn& network, const Vec3& size, std::optional<Forward> by = {}) {
  const Values image = drawn(volume<3>(size), 1), logits = drawn(volume<3>(size), 2);
  Values out(image.size());
  const FfnExample example{{image.data(), size}, {logits.data(), size}, {out.data(), size}, {}, {}};
  network.forward({&example, 1}, by);
  return out;
}

/// Return the gradients of a batch of two examples.
Values gradients(Ffn& network, const Vec3& size, const OnReady& on_ready = {}) {
  const Values image = drawn(volume<3>(size), 3), logits = drawn(volume<3>(size), 4), labels(image.size(), 0.95F);
  Values out[2] = {Values(image.size()), Values(image.size())}, result(network.parameters().size());
  std::vector<FfnExample> batch;
  for (Values& one : out) {
    batch.push_back({{image.data(), size}, {logits.data(), size}, {one.data(), size}, {labels.data(), size}, {}});
  }
  network.loss_and_gradients(batch, result, 1, on_ready);
  return result;
}

Values forward(UNet& network, std::int64_t n, const Vec3& size) {
  const Values images = drawn(n * volume<3>(size), 5);
  Tensor<float, 5> out({n, size[0], size[1], size[2], network.options().classes});
  network.forward({images.data(), {n, size[0], size[1], size[2], 1}}, out.view());
  return {out.span().begin(), out.span().end()};
}

Values gradients(UNet& network, std::int64_t n, const Vec3& size, const SumOverRanks& sum = {}) {
  const Values images = drawn(n * volume<3>(size), 6);
  const std::vector<std::uint8_t> labels(images.size(), 1);
  const SampleBatch batch{
      {images.data(), {n, size[0], size[1], size[2], 1}}, {{labels.data(), {n, size[0], size[1], size[2]}}, {}, {}}, 1, {}, {}};
  Values result(network.parameters().size());
  static_cast<void>(network.loss_and_gradients(batch, {}, result, 1, {}, sum));
  return result;
}

UNet slices() {
  UNetOptions options;
  options.depth = 2;
  return UNet(options);
}

class SharedNetworks : public testing::Test {
 protected:
  const test::Watchdog watchdog_{std::chrono::seconds(300)};
};

TEST_F(SharedNetworks, PassesOfAnFfnAreThoseOfOneThread) {
  const Ffn own({.depth = 2, .fov = {9, 9, 9}, .deltas = {2, 2, 2}, .features = 16, .seed = 3});
  Ffn shared({.depth = 2, .fov = {9, 9, 9}, .deltas = {2, 2, 2}, .features = 16, .seed = 3});
  const std::vector<Vec3> sizes = {{9, 9, 9}, {5, 7, 12}, {11, 11, 11}, {9, 9, 9}};
  std::vector<Values> expected, expected_gradients;
  for (const Vec3& size : sizes) {
    Ffn alone(own.options());
    expected.push_back(forward(alone, size, Forward::layers));
    expected_gradients.push_back(gradients(alone, size));
  }
  on_threads(8, [&](int number) {
    for (int round = 0; round < kRounds; ++round) {
      const auto which = static_cast<std::size_t>(number + round) % sizes.size();
      if (number < 6) {
        EXPECT_EQ(forward(shared, sizes[which], Forward::layers), expected[which]);
      } else {
        EXPECT_EQ(gradients(shared, sizes[which]), expected_gradients[which]);
      }
    }
  });
}

TEST_F(SharedNetworks, FourierTransformsAndLayersAtTheSameTime) {
  const Vec3 size{11, 11, 22};
  Ffn shared({.depth = 2, .fov = {11, 11, 11}, .deltas = {2, 2, 2}, .features = 16, .seed = 3});
  if (!shared.fft_unsupported(size).empty()) GTEST_SKIP() << "this processor has no Fourier transforms";
  const Values layers = forward(shared, size, Forward::layers), fft = forward(shared, size, Forward::fft);
  ASSERT_NE(layers, fft);
  on_threads(6, [&](int number) {
    const bool by_fft = number % 2 == 0;
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_EQ(forward(shared, size, by_fft ? Forward::fft : Forward::layers), by_fft ? fft : layers);
    }
  });
}

TEST_F(SharedNetworks, PassesOfAUNetAreThoseOfOneThread) {
  UNet shared = slices();
  const std::vector<std::pair<std::int64_t, Vec3>> sizes = {{1, {1, 8, 8}}, {2, {1, 8, 12}}, {1, {3, 7, 9}}};
  std::vector<Values> expected;
  for (const auto& [n, size] : sizes) {
    UNet alone = slices();
    expected.push_back(forward(alone, n, size));
  }
  UNet alone = slices();
  const Values expected_gradients = gradients(alone, 2, {1, 8, 12});
  on_threads(8, [&](int number) {
    for (int round = 0; round < kRounds; ++round) {
      const auto which = static_cast<std::size_t>(number + round) % sizes.size();
      if (number < 6) {
        EXPECT_EQ(forward(shared, sizes[which].first, sizes[which].second), expected[which]);
      } else {
        EXPECT_EQ(gradients(shared, 2, {1, 8, 12}), expected_gradients);
      }
    }
  });
}

TEST_F(SharedNetworks, PassesUseTheParametersBeforeOrAfterAChange) {
  const Vec3 size{7, 8, 9};
  Ffn shared({.depth = 2, .fov = {7, 7, 7}, .deltas = {2, 2, 2}, .features = 16, .seed = 3});
  std::vector<Values> parameters;
  std::set<Values> expected;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    Ffn alone({.depth = 2, .fov = {7, 7, 7}, .deltas = {2, 2, 2}, .features = 16, .seed = seed});
    parameters.emplace_back(alone.parameters().begin(), alone.parameters().end());
    expected.insert(forward(alone, size));
  }
  ASSERT_EQ(expected.size(), 3U);
  std::ranges::copy(parameters[0], shared.parameters().begin());
  std::atomic<bool> over = false;
  on_threads(5, [&](int number) {
    if (number == 0) {
      for (std::size_t round = 0; round < 60; ++round) {
        static_cast<void>(gradients(shared, size));
        const NetworkUse::Hold change = shared.use().change();
        std::ranges::copy(parameters[round % 3], shared.parameters().begin());
      }
      over = true;
    }
    while (!over) EXPECT_TRUE(expected.contains(forward(shared, size)));
  });
}

TEST_F(SharedNetworks, TrainingPassesThatCallExcludeChanges) {
  Ffn ffn({.depth = 2, .fov = {7, 7, 7}, .deltas = {2, 2, 2}, .features = 4});
  int refused = 0;
  static_cast<void>(gradients(ffn, {7, 7, 7}, [&](std::size_t) {
    static_cast<void>(forward(ffn, {5, 5, 5}));
    std::jthread([&] {
      static_cast<void>(forward(ffn, {7, 7, 7}));
      EXPECT_THROW(static_cast<void>(ffn.use().change()), Error);
      ++refused;
    }).join();
  }));
  EXPECT_EQ(refused, 10);
  UNetOptions options;
  options.depth = 2;
  options.synchronised = true;
  UNet unet(options);
  static_cast<void>(gradients(unet, 1, {1, 8, 8}, [&](std::span<double>) {
    const Values statistics(unet.parameters().size());
    EXPECT_THROW(unet.move_statistics(statistics, 1), Error);
  }));
}

TEST_F(SharedNetworks, MemoryIsThatOfOneThreadAfterItsNextPasses) {
  Ffn shared({.depth = 2, .fov = {7, 7, 7}, .deltas = {2, 2, 2}, .features = 16});
  static_cast<void>(forward(shared, {7, 7, 7}));
  const std::size_t alone = shared.workspace_bytes();
  on_threads(6, [&](int number) { static_cast<void>(forward(shared, {5 + number, 7, 7})); });
  static_cast<void>(forward(shared, {7, 7, 7}));
  static_cast<void>(forward(shared, {7, 7, 7}));
  EXPECT_EQ(shared.workspace_bytes(), alone);
}

}  // namespace
}  // namespace floodtide::nn
