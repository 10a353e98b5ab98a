// SPDX-License-Identifier: Apache-2.0
#include "floodtide/nn/network_use.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "floodtide/base/error.hpp"
#include "support/watchdog.hpp"

namespace floodtide::nn {
namespace {

using Hold = NetworkUse::Hold;

/// Runs `body` in another thread to its end, and returns the message of the Error(in_use) that it threw, or "".
template <class Body>
std::string refused_elsewhere(Body body) {
  std::string message;
  std::jthread([&] {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::in_use);
      message = error.what();
    }
  }).join();
  return message;
}

/// Runs `body` in another thread. It should wait until `release` was called.
template <class Body, class Release>
void expect_waits(Body body, Release release) {
  std::atomic<bool> done = false;
  const std::jthread thread([&] {
    body();
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(done);
  release();
}

class NetworkUses : public testing::Test {
 protected:
  const test::Watchdog watchdog_{std::chrono::seconds(60)};
  NetworkUse use_;
};

TEST_F(NetworkUses, ReadingsGoTogether) {
  const Hold reading = use_.read(), calling = use_.read(NetworkUse::Calls::caller);
  EXPECT_EQ(refused_elsewhere([&] { const Hold other = use_.read(); }), "");
  EXPECT_EQ(refused_elsewhere([&] { const Hold other = use_.read(NetworkUse::Calls::caller); }), "");
}

TEST_F(NetworkUses, ChangesWaitForReadingsAndCount) {
  const std::uint64_t version = use_.version();
  Hold reading = use_.read();
  expect_waits([&] { const Hold change = use_.change(); }, [&] { reading = {}; });
  EXPECT_EQ(use_.version(), version + 1);
}

TEST_F(NetworkUses, ReadingsWaitForChanges) {
  Hold change = use_.change();
  expect_waits([&] { const Hold reading = use_.read(); }, [&] { change = {}; });
}

TEST_F(NetworkUses, ReadingsWaitForAChangeThatWaits) {
  Hold reading = use_.read();
  expect_waits([&] { const Hold change = use_.change(); },
               [&] { expect_waits([&] { const Hold later = use_.read(); }, [&] { reading = {}; }); });
}

TEST_F(NetworkUses, AStepExcludesStepsAndChangesOfOtherThreads) {
  {
    const Hold step = use_.step(), inside = use_.step();
    {
      const Hold change = use_.change();
    }
    EXPECT_EQ(refused_elsewhere([&] { const Hold reading = use_.read(); }), "");
    for (const std::string& message : {refused_elsewhere([&] { const Hold other = use_.step(); }),
                                       refused_elsewhere([&] { const Hold other = use_.change(); }),
                                       refused_elsewhere([&] { const Hold other = use_.read(NetworkUse::Calls::caller); })}) {
      EXPECT_EQ(message,
                "the network is in use by another thread, which trains it; expected one thread that trains or changes a "
                "network, and copies of it for others");
    }
  }
  EXPECT_EQ(refused_elsewhere([&] { const Hold step = use_.step(); }), "");
}

TEST_F(NetworkUses, NobodyWaitsForAReadingThatCallsFunctionsOfTheCaller) {
  Hold calling = use_.read(NetworkUse::Calls::caller);
  EXPECT_THROW(static_cast<void>(use_.change()), Error);  // for example in such a function
  EXPECT_NE(refused_elsewhere([&] { const Hold change = use_.change(); }).find("in use by a training pass"), std::string::npos);
  EXPECT_NE(refused_elsewhere([&] { const Hold step = use_.step(); }).find("in use by a training pass"), std::string::npos);
  calling = {};
  EXPECT_EQ(refused_elsewhere([&] { const Hold change = use_.change(); }), "");
}

TEST_F(NetworkUses, OnlyOtherParametersAreAChange) {
  std::vector<float> parameters(1000, 1.0F);
  use_.look_at(parameters);
  const std::uint64_t version = use_.version();
  use_.look_at(parameters);
  use_.require_version(version, "segment");
  parameters[999] = 2;
  use_.look_at(parameters);
  try {
    use_.require_version(version, "segment");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::in_use);
    EXPECT_EQ(
        std::string(error.what()).find("segment: the network is in use by another thread, which has changed its parameters"),
        0U);
  }
}

TEST_F(NetworkUses, ManyThreadsSeeWholeChanges) {
  std::vector<std::int64_t> values(64);
  std::vector<std::jthread> threads;
  for (int number = 0; number < 6; ++number) {
    threads.emplace_back([&, number] {
      for (int round = 0; round < 300; ++round) {
        if (number < 2) {
          const Hold change = use_.change();
          for (std::int64_t& value : values) ++value;
        } else {
          const Hold reading = use_.read();
          for (const std::int64_t value : values) EXPECT_EQ(value, values[0]);
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(values[63], 600);
}

}  // namespace
}  // namespace floodtide::nn
