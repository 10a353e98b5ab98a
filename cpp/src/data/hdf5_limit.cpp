// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_limit.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <thread>

#include "data/hdf5_crash.hpp"
#include "data/hdf5_end.hpp"

namespace floodtide::data {
namespace {

constexpr double kSlowestBytesPerS = 1 << 20;  // gzip alone is 100 times as fast
constexpr std::chrono::milliseconds kPeriod{500};

double seconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The call that runs now, and the thread that watches it. Never destroyed: calls may run while the process ends.
class Watch {
 public:
  static Watch& instance() {
    static auto* const watch = new Watch;
    return *watch;
  }

  /// False if a call is being watched already.
  bool begin(const std::string& path, std::uint64_t bytes, double limit_s) {
    const std::lock_guard lock(mutex_);
    if (path_ != nullptr) return false;
    if (process_ != ::getpid()) {  // the first call, or a child of fork(), which has no threads
      std::thread([this] { run(); }).detach();
      process_ = ::getpid();  // not before: the system may refuse the thread
    }
    ::pthread_getcpuclockid(::pthread_self(), &clock_);
    limit_s_ = limit_s + static_cast<double>(bytes) / kSlowestBytesPerS;
    end_s_ = seconds_of(clock_) + limit_s_;
    path_ = &path;
    begin_reading(path);
    return true;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    end_reading();
    path_ = nullptr;
  }

 private:
  void run() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for the threads that work
    for (;;) {
      std::this_thread::sleep_for(kPeriod);
      const std::lock_guard lock(mutex_);
      if (path_ != nullptr && seconds_of(clock_) > end_s_) give_up();
    }
  }

  [[noreturn]] void give_up() {
    std::array<char, 160> text{};  // needs no memory
    std::snprintf(
        text.data(), text.size(),
        "is damaged: the HDF5 library does not come to an end with it (%g s of processor time); use another copy of the "
        "file",
        limit_s_);
    end_with_damaged_file(path_->c_str(), text.data());
  }

  std::mutex mutex_;
  const std::string* path_ = nullptr;
  clockid_t clock_{};
  double limit_s_ = 0, end_s_ = 0;
  pid_t process_ = 0;
};

}  // namespace

Hdf5Limit::Hdf5Limit(const std::string& path, std::uint64_t bytes, double limit_s)
    : outermost_(Watch::instance().begin(path, bytes, limit_s)) {}
Hdf5Limit::~Hdf5Limit() {
  if (outermost_) Watch::instance().end();
}

}  // namespace floodtide::data
