// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/watchdog.hpp"

#include <pybind11/stl.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "floodtide/comm/activity.hpp"
#include "floodtide/comm/communicator.hpp"
#include "unlocked.hpp"

namespace floodtide::bindings {
namespace {

using comm::ActivityLog;
using comm::Communicator;
using comm::Watchdog;

/// Write the reason to standard error, and to a file for the program that started the ranks. This function does not call
/// Python, because Python may be what hangs.
void report(int rank, const std::string& path, const std::string& reason) {
  static_cast<void>(std::fprintf(stderr, "rank %d: %s\n", rank, reason.c_str()));
  static_cast<void>(std::fflush(stderr));
  if (path.empty()) return;
  if (std::FILE* const file = std::fopen(path.c_str(), "w"); file != nullptr) {
    static_cast<void>(std::fputs(reason.c_str(), file));
    static_cast<void>(std::fclose(file));
  }
}

}  // namespace

void register_watchdog(py::module_& m) {
  py::module_ c = m.attr("comm");
  py::class_<ActivityLog, std::shared_ptr<ActivityLog>>(c, "ActivityLog", "A log of what this rank does and waits for.")
      .def(py::init<>())
      .def("set_limit", &ActivityLog::set_limit, py::arg("limit_s"),
           "Set the time limit in seconds for waiting while there is no trainer; 0: no limit.")
      .def(
          "observe",
          [](const std::shared_ptr<ActivityLog>& log, const std::shared_ptr<Communicator>& communicator, std::string ranks) {
            communicator->set_on_wait([log, ranks = std::move(ranks), weak = std::weak_ptr(communicator)] {
              if (const auto waiting = weak.lock()) log->note_wait(*waiting, ranks);
              const py::gil_scoped_acquire lock;
              if (PyErr_CheckSignals() != 0) throw py::error_already_set();
            });
          },
          py::arg("communicator").none(false), py::arg("ranks"),
          "From now on, record when this rank waits on a communicator. `ranks` names its ranks in messages (empty: all).");
  py::class_<Watchdog, std::shared_ptr<Watchdog>>(c, "Watchdog",
                                                  "A watchdog that ends the job if ranks wait too long for another rank.")
      .def(py::init([](Communicator& communicator, const ActivityLog& log, const std::vector<int>& numbers,
                       const std::string& path) {
             const py::gil_scoped_release unlock;
             comm::WatchdogOptions options;
             options.numbers = numbers;
             const int rank = numbers.empty() ? communicator.rank() : numbers.at(static_cast<std::size_t>(communicator.rank()));
             options.report = [rank, path](const std::string& reason) { report(rank, path, reason); };
             options.warn = [rank](const std::string& reason) { report(rank, "", reason); };
             return freed_unlocked(std::make_unique<Watchdog>(communicator, log, std::move(options)));
           }),
           py::arg("communicator"), py::arg("log"), py::arg("numbers"), py::arg("report_path"), py::keep_alive<1, 3>(),
           "Start a watchdog. Collective. Messages name ranks by `numbers` (empty: 0, 1, ...). The reason for ending the job "
           "goes to standard error, and to the file `report_path` unless it is empty.")
      .def("leave", &Watchdog::leave, "Tell the other ranks that this rank will not start another collective.")
      .def_property_readonly("over", &Watchdog::over, "True if all ranks have left.");
}

}  // namespace floodtide::bindings
