// SPDX-License-Identifier: Apache-2.0
// A program that reads an HDF5 file as floodtide would, so that a damaged file ends this process and not the one that needs the
// file. Usage: _hdf5_check FILE OBJECT, or _hdf5_check FILE DATASET START... COUNT... for a block. It writes one byte to its
// standard output, an Hdf5Tried.
//
// The library's own errors are no result: who needs the file meets the same error, and reports it.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "floodtide/data/hdf5.hpp"

namespace {

using floodtide::data::Hdf5File;
using floodtide::data::Hdf5Tried;

constexpr rlim_t kLimitS = 10;                   // of processor time; most files take a few milliseconds
constexpr rlim_t kBytesPerS = rlim_t{1} << 27;   // the slowest sensible rate, beyond that
constexpr rlim_t kStackBytes = rlim_t{4} << 20;  // half of what threads have: deep recursion ends here first

void limit(int resource, rlim_t value) {
  rlimit now{};
  ::getrlimit(static_cast<__rlimit_resource_t>(resource), &now);
  const rlim_t most = now.rlim_max == RLIM_INFINITY ? value : std::min(value, now.rlim_max);
  const rlimit wanted{most, now.rlim_max};
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &wanted);
}

/// Limits the processor time and the stack. Leaves no core file and no process behind, and does not keep open what the starting
/// process has open, such as the connections of an MPI library.
void limit_this_process(const char* path) {
  struct stat status{};
  const rlim_t bytes = ::stat(path, &status) == 0 ? static_cast<rlim_t>(status.st_size) : 0;
  limit(RLIMIT_CPU, kLimitS + bytes / kBytesPerS);
  limit(RLIMIT_STACK, kStackBytes);
  limit(RLIMIT_CORE, 0);
  ::prctl(PR_SET_DUMPABLE, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#ifdef SYS_close_range
  ::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
#endif
}

Hdf5Tried check(const std::vector<std::string>& words) {
  const auto file = Hdf5File::open(words[0]);
  if (words.size() == 2) return file.try_metadata(words[1]);
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 2; i < words.size(); ++i) numbers.push_back(std::strtoll(words[i].c_str(), nullptr, 10));
  const std::span<const std::int64_t> all(numbers);
  file.try_block(words[1], all.first(all.size() / 2), all.last(all.size() / 2));
  return Hdf5Tried::part;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3 || count % 2 == 0) return 64;
  limit_this_process(arguments[1]);
  Hdf5Tried answer = Hdf5Tried::unopened;
  try {
    answer = check({arguments + 1, arguments + count});
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): see above
  }
  const bool written = ::write(STDOUT_FILENO, &answer, 1) == 1;
  ::_exit(written ? 0 : 1);
}
