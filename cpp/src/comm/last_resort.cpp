// SPDX-License-Identifier: Apache-2.0
#include "comm/last_resort.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide::comm {
namespace {

constexpr double kLookS = 0.25;  // seconds between two checks of the script

// Arguments of the script: number of checks before it acts, launchers, all processes. Each process is NUMBER:START. START is
// the start time of the process, because another process may have the same number later.
constexpr const char* kScript = R"(
is_there() {
  IFS= read -r line < "/proc/${1%:*}/stat" || return 1
  start=${1#*:}
  set -- ${line##*) }
  [ "$1" != Z ] && [ "${20}" = "$start" ]
}
send() {
  signal=$1; shift
  for process; do is_there "$process" && kill "-$signal" "${process%:*}"; done
}
any_left() {
  for process; do is_there "$process" && return 0; done
  return 1
}
looks=$1
while any_left $3; do
  case $looks in
    0) send TERM $2 ;;
    -2) send KILL $3; exit ;;
  esac
  looks=$((looks - 1))
  sleep 0.25
done
)";

// Names as in the kernel, which keeps 15 letters.
constexpr std::array<std::string_view, 11> kLaunchers = {"mpiexec",         "mpirun",  "mpiexec.hydra",  "mpirun.hydra",
                                                         "hydra_pmi_proxy", "prterun", "prte",           "prted",
                                                         "orterun",         "orted",   "hydra_bstrap_pr"};

struct Process {
  int parent = 0;
  std::string name;
  std::string started;
};

/// Reads /proc/NUMBER/stat. False if the process is gone.
bool read_process(const std::string& number, Process& out_process) {
  std::ifstream file("/proc/" + number + "/stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  const std::size_t open = line.find('('), close = line.rfind(')');  // names may contain any character
  if (open == std::string::npos || close == std::string::npos) return false;
  out_process.name = line.substr(open + 1, close - open - 1);
  std::istringstream rest(line.substr(close + 1));
  std::string state;
  rest >> state >> out_process.parent;
  for (int field = 5; field <= 22; ++field) rest >> out_process.started;  // field numbers as in "man 5 proc"
  return static_cast<bool>(rest);
}

/// Calls function(NUMBER) for the entries of a folder that are numbers.
template <class Function>
void for_numbers_in(const char* folder, Function function) {
  std::error_code failed;  // ignored: a process may end meanwhile
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename();
    int number = 0;
    const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && rest == name.data() + name.size()) function(number);
  }
}

std::map<int, Process> all_processes() {
  std::map<int, Process> processes;
  for_numbers_in("/proc", [&](int number) {
    if (Process process; read_process(std::to_string(number), process)) processes.emplace(number, std::move(process));
  });
  return processes;
}

bool is_launcher(const std::map<int, Process>& processes, int number) {
  const auto found = processes.find(number);
  return found != processes.end() && std::ranges::find(kLaunchers, found->second.name) != kLaunchers.end();
}

/// Return the nearest launcher among the ancestors of this process, and launchers directly above it: for example a proxy and
/// mpiexec.
std::vector<int> launchers_above(const std::map<int, Process>& processes) {
  const auto parent = [&](int number) {
    const auto found = processes.find(number);
    return found == processes.end() ? 0 : found->second.parent;
  };
  int number = parent(::getpid());
  while (number > 1 && !is_launcher(processes, number)) number = parent(number);
  std::vector<int> launchers;
  for (; number > 1 && is_launcher(processes, number); number = parent(number)) launchers.push_back(number);
  return launchers;
}

/// Return a process and all its descendants.
std::vector<int> tree_of(const std::map<int, Process>& processes, int root) {
  std::vector<int> tree = {root};
  for (std::size_t i = 0; i < tree.size(); ++i) {
    for (const auto& [number, process] : processes) {
      if (process.parent == tree[i] && number != tree[i]) tree.push_back(number);
    }
  }
  return tree;
}

std::string listed(const std::map<int, Process>& processes, const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) {
    if (const auto found = processes.find(number); found != processes.end()) {
      text += str_cat(number, ':', found->second.started, ' ');
    }
  }
  return text;
}

/// Starts the script in its own session. The script inherits no open files, because the launcher waits until the files of its
/// ranks are closed. Returns false if the script cannot be started.
bool run_script(const std::string& looks, const std::string& launchers, const std::string& all) {
  std::array<std::string, 7> texts = {"sh", "-c", kScript, "sh", looks, launchers, all};
  std::array<char*, 8> arguments{};
  std::ranges::transform(texts, arguments.begin(), [](std::string& text) { return text.data(); });
  std::string path = "PATH=/usr/bin:/bin";  // no other variables: LD_PRELOAD, for example, must not affect the shell
  std::array<char*, 2> environment = {path.data(), nullptr};

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  if (::posix_spawn_file_actions_init(&files) != 0) return false;
  if (::posix_spawnattr_init(&attributes) != 0) {
    ::posix_spawn_file_actions_destroy(&files);
    return false;
  }
  for (int file = 0; file < 3; ++file) ::posix_spawn_file_actions_addopen(&files, file, "/dev/null", O_RDWR, 0);
  for_numbers_in("/proc/self/fd", [&](int file) {
    if (file > 2) ::posix_spawn_file_actions_addclose(&files, file);
  });
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  const int error = ::posix_spawn(nullptr, "/bin/sh", &files, &attributes, arguments.data(), environment.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return error == 0;
}

}  // namespace

void end_host_within(double seconds) {
  static std::atomic<bool> called = false;
  if (called.exchange(true)) return;
  const std::map<int, Process> processes = all_processes();
  const std::vector<int> launchers = launchers_above(processes);
  const std::vector<int> all = tree_of(processes, launchers.empty() ? ::getpid() : launchers.back());
  const std::string looks = std::to_string(std::lround(std::max(seconds, 0.0) / kLookS));
  if (run_script(looks, listed(processes, launchers), listed(processes, all))) return;
  std::thread([seconds] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    ::_exit(1);
  }).detach();
}

}  // namespace floodtide::comm
