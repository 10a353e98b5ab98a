// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_end.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "floodtide/data/hdf5.hpp"

namespace floodtide::data {
namespace {

constexpr int kExitStatus = 2;  // wrong input
constexpr int kAfterRank0S = 3;
constexpr std::size_t kFiles = 64;  // a process holds the locks of a few outputs

// A signal handler reads these variables, so they are atomic and never freed.
constinit std::atomic<const char*> program{"floodtide"};
constinit std::atomic<int> rank{0};
constinit std::array<std::atomic<char*>, kFiles> files{};
constinit std::atomic<pid_t> owner{0};  // of the files: not its children after fork()

void print(const char* text) { static_cast<void>(::write(STDERR_FILENO, text, std::strlen(text)) > 0); }

}  // namespace

void end_with_damaged_file(const char* path, const char* text) noexcept {
  if (rank != 0) {
    timespec pause{};
    pause.tv_sec = kAfterRank0S;
    ::nanosleep(&pause, nullptr);
  }
  for (const char* part : {program.load(), ": ", path, ": ", text, "\n"}) print(part);
  for (const std::atomic<char*>& file : files) {
    const char* const name = file.load();
    if (name != nullptr && owner == ::getpid()) ::unlink(name);
  }
  ::_exit(kExitStatus);
}

void set_hdf5_program(const std::string& name) { program = ::strdup(name.c_str()); }

void set_hdf5_rank(int number) { rank = number; }

void remove_at_end(const std::string& path) {
  owner = ::getpid();
  char* const name = ::strdup(path.c_str());
  for (std::atomic<char*>& file : files) {
    char* expected = nullptr;
    if (file.compare_exchange_strong(expected, name)) return;
  }
  std::free(name);
}

void keep_at_end(const std::string& path) {
  for (std::atomic<char*>& file : files) {
    const char* const name = file.load();
    if (name != nullptr && path == name) {
      file = nullptr;
      return;
    }
  }
}

}  // namespace floodtide::data
