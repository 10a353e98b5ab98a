// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string>

#include <unistd.h>

#include "bindings.hpp"

namespace floodtide::bindings {
namespace {

constexpr int kInterrupted = 130;  // exit status of a program that Ctrl-C has ended

// Global variables, because a signal handler has no other access to its data.
volatile std::sig_atomic_t interrupts = 0;
char texts[2][256];
std::size_t bytes[2];
void (*next_handler)(int) = nullptr;

void count(int number) {
  const int before = interrupts;
  interrupts = 1;
  static_cast<void>(!::write(STDERR_FILENO, texts[before], bytes[before]));
  if (before > 0) ::_exit(kInterrupted);
  next_handler(number);
}

/// Install a handler that runs before Python's handler. Python's handler only sets a flag for the interpreter.
void count_interrupts(const std::string& first, const std::string& second) {
  struct sigaction action{};
  ::sigaction(SIGINT, nullptr, &action);
  if ((action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL) return;
  bytes[0] = first.copy(texts[0], sizeof texts[0]);
  bytes[1] = second.copy(texts[1], sizeof texts[1]);
  interrupts = 0;
  if (action.sa_handler != count) next_handler = action.sa_handler;
  action.sa_handler = count;
  ::sigaction(SIGINT, &action, nullptr);
}

}  // namespace

void register_signals(py::module_& m) {
  m.def("count_interrupts", &count_interrupts, py::arg("first"), py::arg("second"),
        "Handle SIGINT until Python sets another handler: each of the first two signals writes its text, and the second one "
        "ends the process at once.");
}

}  // namespace floodtide::bindings
