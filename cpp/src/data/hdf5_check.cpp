// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_check.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "data/hdf5_handle.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/immovable.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::data {
namespace {

constexpr std::size_t kMostKnown = 10'000;  // answers that are remembered
constexpr int kNotRun = 127;                // exit status of a program whose libraries cannot be loaded
// What the HDF5 library and the checks read. Nothing else of the environment reaches the program: no launcher of ranks, and no
// library to preload.
constexpr std::array kVariables{"FLOODTIDE_ALLOW_EXTERNAL", "HDF5_PLUGIN_PATH", "HDF5_USE_FILE_LOCKING", "LD_LIBRARY_PATH"};

std::atomic<const char*> checker{nullptr};

/// What tells a file from another one, and from itself before a change.
using Identity = std::tuple<dev_t, ino_t, off_t, time_t, time_t, long, long>;

Identity identity_of(const std::string& path) {
  struct stat status{};
  FLOODTIDE_REQUIRE(::stat(path.c_str(), &status) == 0, invalid_file, path, ": cannot be read: ", std::strerror(errno));
  return {status.st_dev,         status.st_ino,          status.st_size,        status.st_mtim.tv_sec,
          status.st_ctim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_nsec};
}

/// A pipe of which the program writes one end.
class Pipe : Immovable {
 public:
  Pipe() { FLOODTIDE_REQUIRE(::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) == 0, io, "pipe: ", std::strerror(errno)); }
  ~Pipe() {
    for (const int end : ends_) ::close(end);
  }

  [[nodiscard]] int write_end() const noexcept { return ends_[1]; }
  /// Return the byte that was written; 0 if there is none.
  [[nodiscard]] char read() const {
    char byte = 0;
    return ::read(ends_[0], &byte, 1) == 1 ? byte : '\0';
  }

 private:
  std::array<int, 2> ends_{};
};

/// The first call reads the environment, as the HDF5 library does with its first call.
const std::vector<std::string>& environment() {
  static const std::vector<std::string> variables = [] {
    std::vector<std::string> lines;
    for (const char* const name : kVariables) {
      if (const char* const value = std::getenv(name); value != nullptr) lines.push_back(str_cat(name, '=', value));
    }
    return lines;
  }();
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// Starts a program with a pipe as its standard output. Neither Ctrl-C nor another signal of the terminal ends it. Returns its
/// number. Throws Error(io).
pid_t start(std::vector<std::string> words, const Pipe& pipe) {
  std::vector<std::string> variables = environment();
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t blocked, all;
  ::sigemptyset(&blocked);
  for (const int number : {SIGINT, SIGQUIT, SIGHUP, SIGTSTP}) ::sigaddset(&blocked, number);
  ::sigfillset(&all);
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, pipe.write_end(), 1);
  ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &blocked);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t number = -1;
  const int error =
      ::posix_spawn(&number, words.front().c_str(), &files, &attributes, pointers(words).data(), pointers(variables).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  FLOODTIDE_REQUIRE(error == 0, io, words.front(), ": cannot be started, to check ", words[1], ": ", std::strerror(error));
  return number;
}

/// What the program says about a file, and why the file is refused; empty if it is not.
struct Answer {
  Hdf5Tried tried;
  std::string refusal = {};
};

/// Runs the program with these words, the first of which is the path of the file. Throws Error(io).
Answer run(std::vector<std::string> words) {
  const std::string path = words.front();
  words.insert(words.begin(), checker.load());
  const Pipe pipe;
  const pid_t number = start(words, pipe);
  int status = 0;
  pid_t waited = 0;
  do {
    waited = ::waitpid(number, &status, 0);
  } while (waited < 0 && errno == EINTR);
  // Handlers of SIGCHLD may take the status. The byte in the pipe tells that the program has reached its end.
  if (const char answer = pipe.read(); answer != '\0') {
    const auto tried = static_cast<Hdf5Tried>(answer);
    return {tried, tried == Hdf5Tried::damaged ? "chunks of a dataset do not have the size that they should have" : ""};
  }
  FLOODTIDE_REQUIRE(waited == number, io, path, ": could not be checked: ", words.front(), " ended early, and a handler of ",
                    "SIGCHLD in this program took its exit status");
  FLOODTIDE_REQUIRE(!WIFEXITED(status) || WEXITSTATUS(status) != kNotRun, io, words.front(), ": cannot be run, to check ", path,
                    ": exit status ", kNotRun);
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  FLOODTIDE_REQUIRE(signal != SIGKILL && signal != SIGTERM, io, path, ": could not be checked: ", words.front(),
                    " was killed (signal ", signal, ")");
  return {Hdf5Tried::damaged, str_cat("the HDF5 library ", signal == SIGXCPU ? "does not come to an end with it"
                                                                             : "crashed while it read the file")};
}

void require_sound(const Answer& answer, const std::string& path) {
  FLOODTIDE_REQUIRE(answer.refusal.empty(), invalid_file, path, ": is damaged: ", answer.refusal,
                    "; use another copy of the file");
}

}  // namespace

void set_hdf5_checker(const std::string& program) { checker = program.empty() ? nullptr : ::strdup(program.c_str()); }

bool check_hdf5(const std::string& path, const std::string& object) {
  if (checker == nullptr) return true;
  using Key = std::pair<Identity, std::string>;
  static auto* const known = new std::map<Key, Answer>;  // guarded by the lock; never destroyed, as threads may read at the end
  const Key key{identity_of(path), object};
  std::optional<Answer> answer;
  {
    const Hdf5Lock lock;
    if (const auto found = known->find(key); found != known->end()) answer = found->second;
  }
  if (!answer) {
    answer = run({path, object});
    const Hdf5Lock lock;
    if (known->size() >= kMostKnown) known->clear();
    // Who reads a file that cannot be opened meets the error. The file may be open for writing just now.
    if (answer->tried != Hdf5Tried::unopened) known->insert_or_assign(key, *answer);
  }
  require_sound(*answer, path);
  return answer->tried == Hdf5Tried::whole;
}

void check_hdf5_block(const std::string& path, const std::string& dataset, std::span<const std::int64_t> start,
                      std::span<const std::int64_t> count) {
  if (checker == nullptr) return;
  std::vector<std::string> words{path, dataset};
  for (const std::span<const std::int64_t> numbers : {start, count}) {
    for (const std::int64_t number : numbers) words.push_back(std::to_string(number));
  }
  require_sound(run(words), path);
}

}  // namespace floodtide::data
