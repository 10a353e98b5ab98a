// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_limit.hpp"

#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "floodtide/data/hdf5.hpp"

namespace floodtide::data {
namespace {

double processor_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

TEST(Hdf5LimitDeathTest, EndsTheProcessWithOneLineWhenACallTakesTooMuchProcessorTime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const std::string path = "damaged.h5";
        const Hdf5Limit limit(path, 0, 0.1);
        const double end_s = processor_s() + 60;
        while (processor_s() < end_s) {
        }
      },
      testing::ExitedWithCode(2),
      "^floodtide: damaged.h5: is damaged: the HDF5 library does not come to an end with it \\(0.1 s [^\n]*\n$");
}

#if !defined(__SANITIZE_ADDRESS__)  // the sanitizer reports crashes itself
TEST(Hdf5CrashDeathTest, EndsTheProcessWithOneLineWhenACallCrashes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) {
    EXPECT_EXIT(
        {
          const std::string path = "damaged.h5";
          const Hdf5Limit limit(path);
          ::raise(signal);
        },
        testing::ExitedWithCode(2), "^floodtide: damaged.h5: is damaged: the HDF5 library crashed [^\n]*\n$");
  }
}

TEST(Hdf5CrashDeathTest, NamesTheProgramAndRemovesItsLocks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto folder = std::filesystem::temp_directory_path();
  const std::string removed = folder / "floodtide-removed-at-end", kept = folder / "floodtide-kept-at-end";
  std::ofstream(removed) << "lock";
  std::ofstream(kept) << "lock";
  EXPECT_EXIT(
      {
        set_hdf5_program("floodtide predict");
        remove_at_end(removed);
        remove_at_end(kept);
        keep_at_end(kept);
        const std::string path = "damaged.h5";
        const Hdf5Limit limit(path);
        ::raise(SIGSEGV);
      },
      testing::ExitedWithCode(2), "^floodtide predict: damaged.h5: is damaged: [^\n]*\n$");
  EXPECT_FALSE(std::filesystem::exists(removed));
  EXPECT_TRUE(std::filesystem::remove(kept));
}

TEST(Hdf5CrashDeathTest, LeavesOtherCrashesAlone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int signal : {SIGSEGV, SIGABRT}) {
    EXPECT_EXIT(
        {
          const std::string path = "whole.h5";
          {
            const Hdf5Limit limit(path);
          }
          ::raise(signal);
          ::raise(signal);  // raise() does not occur again by itself, as a wrong access does
        },
        testing::KilledBySignal(signal), "");
    EXPECT_EXIT(
        {
          const std::string path = "whole.h5";
          const Hdf5Limit limit(path);
          std::thread([&] {
            ::raise(signal);
            ::raise(signal);
          }).join();
        },
        testing::KilledBySignal(signal), "");
  }
}
#endif

TEST(Hdf5Limit, DoesNotCountTheTimeOfWaiting) {
  const std::string path = "slow.h5";
  const Hdf5Limit limit(path, 0, 0.2);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // time for two checks of the limit
}

TEST(Hdf5Limit, EndsWithItsScope) {
  const std::string path = "whole.h5";
  {
    const Hdf5Limit limit(path, 0, 0.05);
  }
  const double end_s = processor_s() + 0.2;
  while (processor_s() < end_s) {
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
}

}  // namespace
}  // namespace floodtide::data
