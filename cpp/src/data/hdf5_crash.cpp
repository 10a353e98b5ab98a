// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_crash.hpp"

#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

#include "data/hdf5_end.hpp"

namespace floodtide::data {
namespace {

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kInstalled = false;
#else
constexpr bool kInstalled = true;
#endif

// What the handler reads: it may call only functions that are safe in a signal handler.
std::array<struct sigaction, kSignals.size()> before;
std::atomic<pthread_t> reader;
std::atomic<const char*> reading{nullptr};  // the path; null: nothing is being read

void on_crash(int signal) {
  const char* const path = reading.load();
  if (path != nullptr && ::pthread_equal(reader.load(), ::pthread_self()) != 0) {
    end_with_damaged_file(path, "is damaged: the HDF5 library crashed while it read the file; use another copy of the file");
  }
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] == signal) ::sigaction(signal, &before[i], nullptr);
  }
  if (signal == SIGABRT) ::raise(signal);  // the others occur again when this function returns
}

void install() {
  struct sigaction action{};
  action.sa_handler = &on_crash;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before[i]);
}

}  // namespace

void begin_reading(const std::string& path) {
  if (!kInstalled) return;
  static std::once_flag once;
  std::call_once(once, &install);
  reader = ::pthread_self();
  reading = path.c_str();
}

void end_reading() noexcept { reading = nullptr; }

}  // namespace floodtide::data
