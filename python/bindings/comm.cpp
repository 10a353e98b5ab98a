// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "floodtide/comm/activity.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/mpi.hpp"
#include "floodtide/comm/watchdog.hpp"
#include "unlocked.hpp"

namespace floodtide::bindings {
namespace {

using comm::ActivityLog;
using comm::Communicator;
using comm::MpiLibrary;
using comm::Watchdog;

/// Return the communicator with an on_wait function that raises KeyboardInterrupt if the user presses Ctrl-C while a rank
/// waits.
std::shared_ptr<Communicator> interruptible(std::unique_ptr<Communicator> communicator) {
  communicator->set_on_wait([] {
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  });
  return communicator;
}

void register_communicator(py::module_& c) {
  CommunicatorClass group(c, "Communicator", "A group of ranks. Every method except abort is collective; properties are not.");
  register_operations(c, group);
  group.def_property_readonly("rank", &Communicator::rank)
      .def_property_readonly("size", &Communicator::size)
      .def_property_readonly("description", &Communicator::description, "Name of the transport and the MPI library.")
      .def_property_readonly("node_name", &Communicator::node_name,
                             "A text that is equal on all ranks of a host and different on other hosts.")
      .def_property_readonly(
          "traffic", [](const Communicator& communicator)->Typed<"dict[str, int]"> {
            const comm::Traffic traffic = communicator.traffic();
            return py::dict(py::arg("messages") = traffic.messages, py::arg("bytes") = traffic.bytes,
                            py::arg("notices") = traffic.notices);
          },
          "Numbers of messages and bytes that this rank has sent, and of notices about collectives.")
      .def(
          "join",
          [](Communicator& communicator) {
            const py::gil_scoped_release unlock;
            return comm::join(communicator);
          },
          "Take part in collectives of other ranks until all ranks have joined. Return the last rank that joined.")
      .def("barrier", &Communicator::barrier, py::call_guard<py::gil_scoped_release>())
      .def(
          "split",
          [](Communicator& communicator, int color, int key) {
            const py::gil_scoped_release unlock;
            return interruptible(communicator.split(color, key));
          },
          py::arg("color"), py::arg("key"))
      .def(
          "abort",
          [](Communicator& communicator, int status, const std::string& reason) {
            const py::gil_scoped_release unlock;
            communicator.abort(status, reason);
          },
          py::arg("status"), py::arg("reason"), "End the job. Any single rank can call this.");
  c.def("self", [] { return interruptible(comm::self()); }, "Return a communicator of only this rank.");
}

/// Write the reason to standard error. This function does not call Python, because Python may be what hangs.
void report(int rank, const std::string& reason) {
  static_cast<void>(std::fprintf(stderr, "rank %d: %s\n", rank, reason.c_str()));
  static_cast<void>(std::fflush(stderr));
}

void register_watchdog(py::module_& c) {
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
      .def(py::init([](Communicator& communicator, ActivityLog& log, const std::vector<int>& numbers) {
             const py::gil_scoped_release unlock;
             comm::WatchdogOptions options;
             options.numbers = numbers;
             const int rank = numbers.empty() ? communicator.rank() : numbers.at(static_cast<std::size_t>(communicator.rank()));
             options.report = [rank](const std::string& reason) { report(rank, reason); };
             options.warn = options.report;
             return freed_unlocked(std::make_unique<Watchdog>(communicator, log, std::move(options)));
           }),
           py::arg("communicator"), py::arg("log"), py::arg("numbers"), py::keep_alive<1, 3>(),
           "Start a watchdog. Collective. Messages name ranks by `numbers` (empty: 0, 1, ...). The reason for ending the job "
           "goes to standard error.")
      .def("leave", &Watchdog::leave, "Tell the other ranks that this rank will not start another collective.")
      .def_property_readonly("over", &Watchdog::over, "True if all ranks have left.");
}

}  // namespace

void register_comm(py::module_& m) {
  auto c = m.def_submodule("comm", "Ranks and collectives");
  register_communicator(c);
  register_watchdog(c);
  c.def(
      "allreduce_rows",
      []() -> Records {
        py::list rows;
        for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
          rows.append(py::dict(py::arg("name") = std::string(row.name), py::arg("help") = std::string(row.help),
                               py::arg("own") = row.schedule != nullptr));
        }
        return rows;
      },
      "Return the rows of the registry of allreduce algorithms. `own` is False for that of the MPI library, which has no wire "
      "format.");
  c.attr("default_allreduce") = std::string(comm::kDefaultAllreduce);
  py::class_<MpiLibrary>(c, "MpiLibrary", "An MPI library and the plug-in for its family. Loading it does not start MPI.")
      .def(py::init([](std::string plugin, std::vector<std::string> libraries) {
             return std::make_unique<MpiLibrary>(comm::MpiOptions{std::move(plugin), std::move(libraries)});
           }),
           py::arg("plugin"), py::arg("libraries"))
      .def_property_readonly("family", &MpiLibrary::family)
      .def_property_readonly("library", &MpiLibrary::library)
      .def_property_readonly("version", &MpiLibrary::version)
      .def_property_readonly("handle_bytes", &MpiLibrary::handle_bytes)
      .def("start", &MpiLibrary::start, py::call_guard<py::gil_scoped_release>(), "Start MPI and return the thread level.")
      .def(
          "world",
          [](MpiLibrary& library) {
            const py::gil_scoped_release unlock;
            return interruptible(library.world());
          },
          "Return a duplicate of MPI_COMM_WORLD. Collective.")
      .def(
          "adopt",
          [](MpiLibrary& library, std::uint64_t handle) {
            const py::gil_scoped_release unlock;
            return interruptible(library.adopt(handle));
          },
          py::arg("handle"), "Return a duplicate of the communicator with this handle. Collective.")
      .def("finish", &MpiLibrary::finish, py::call_guard<py::gil_scoped_release>(), "End MPI if this object started it.");
}

}  // namespace floodtide::bindings
