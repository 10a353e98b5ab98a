// SPDX-License-Identifier: Apache-2.0
// floodtide's allreduce algorithms under SimGrid's SMPI: the collectives are the library's and the MPI calls the plug-in's own
// source, compiled against SMPI's mpi.h, so that each message of a real job is sent, over a simulated network and in simulated
// time. run.py starts it with smpirun; rank 0 prints a JSON object an algorithm.
//
// Usage: floodtide_smpi ELEMENTS [ALGORITHM...]   float32 values; default: every algorithm but the MPI library's own.
//
// Waiting is all that differs. The transport `mpi` asks MPI_Test again and again and sleeps by the real clock, which has
// nothing to do with simulated time, and each MPI_Test would cost some. Here a receive that is asked for is waited for in
// MPI_Wait; sends are done at once, because run.py lets SMPI buffer messages of any length.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/mpi/plugin.cpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide {
namespace {

using Message = std::array<char, kFloodtideMpiMessageBytes>;

const FloodtideMpiTable& table() { return *floodtide_mpi_table(); }

/// Calls a function of the plug-in with a buffer for its message, and throws what it reports.
template <class... Parameters, class... Arguments>
void call(int (*function)(Parameters...), Arguments... arguments) {
  Message message{};
  if (function(arguments..., message.data()) != 0) raise(ErrorCode::communication, message.data());
}

class SimulatedRequest final : public comm::Request {
 public:
  explicit SimulatedRequest(FloodtideMpiRequest* request) : request_(request) {}
  SimulatedRequest(const SimulatedRequest&) = delete;
  SimulatedRequest& operator=(const SimulatedRequest&) = delete;
  SimulatedRequest(SimulatedRequest&&) = delete;
  SimulatedRequest& operator=(SimulatedRequest&&) = delete;
  ~SimulatedRequest() override { table().release_request(request_); }

  bool test() override {
    wait();
    return true;
  }

  void wait() override {
    if (request_->request == MPI_REQUEST_NULL) return;
    MPI_Status status;
    Message message{};
    int bytes = 0;
    int failed = comm::mpi::checked(MPI_Wait(&request_->request, &status), "MPI_Wait", message.data());
    if (failed == 0 && request_->from >= 0) {
      failed = comm::mpi::checked(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count", message.data());
    }
    if (failed != 0) raise(ErrorCode::communication, message.data());
    FLOODTIDE_REQUIRE(request_->from < 0 || bytes == request_->bytes, communication, "message of ", bytes, " bytes, expected ",
                      request_->bytes);
  }

 private:
  FloodtideMpiRequest* request_;
};

class SimulatedCommunicator final : public comm::Communicator {
 public:
  struct Opened {
    FloodtideMpiComm* comm = nullptr;
    int rank = 0;
    int size = 0;
  };

  explicit SimulatedCommunicator(const Opened& opened) : Communicator(opened.rank, opened.size), comm_(opened.comm) {}
  SimulatedCommunicator(const SimulatedCommunicator&) = delete;
  SimulatedCommunicator& operator=(const SimulatedCommunicator&) = delete;
  SimulatedCommunicator(SimulatedCommunicator&&) = delete;
  SimulatedCommunicator& operator=(SimulatedCommunicator&&) = delete;
  ~SimulatedCommunicator() override {
    Message message{};
    table().release_comm(comm_, message.data());
  }

  static std::unique_ptr<comm::Communicator> world() {
    Opened opened;
    std::uint64_t handle = 0;
    call(table().world, &handle);
    call(table().duplicate, handle, &opened.comm, &opened.rank, &opened.size);
    return std::make_unique<SimulatedCommunicator>(opened);
  }

  std::string description() const override { return "mpi (SimGrid), " + node_name(); }

  /// The simulated host.
  std::string node_name() const override {
    std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
    int length = 0;
    MPI_Get_processor_name(name.data(), &length);
    return name.data();
  }

  std::unique_ptr<comm::Communicator> split(int color, int key) override {
    Opened opened;
    call(table().split, comm_, color, key, &opened.comm, &opened.rank, &opened.size);
    return std::make_unique<SimulatedCommunicator>(opened);
  }

  void abort(int status, std::string_view reason) override {
    std::fprintf(stderr, "rank %d: %.*s\n", rank(), static_cast<int>(reason.size()), reason.data());
    std::exit(status);
  }

 private:
  std::unique_ptr<comm::Request> start_send(int to, int tag, std::span<const std::byte> data) override {
    FloodtideMpiRequest* started = nullptr;
    call(table().send, comm_, to, tag, static_cast<const void*>(data.data()), static_cast<int>(data.size()), &started);
    return std::make_unique<SimulatedRequest>(started);
  }

  std::unique_ptr<comm::Request> start_receive(int from, int tag, std::span<std::byte> out_data) override {
    FloodtideMpiRequest* started = nullptr;
    call(table().receive, comm_, from, tag, static_cast<void*>(out_data.data()), static_cast<int>(out_data.size()), &started);
    return std::make_unique<SimulatedRequest>(started);
  }

  FloodtideMpiComm* comm_;
};

/// Simulated seconds of one sum, from the last rank's start to the last rank's end. Throws if the sum is wrong.
double time_allreduce(comm::Communicator& comm, std::vector<float>& values, std::string_view algorithm) {
  const int ranks = comm.size();
  // The first call with two levels finds out which ranks share nodes, which is no part of a sum.
  if (algorithm == "two_level") comm::allreduce(comm, std::span(values).first(1), comm::ReduceOp::max, algorithm);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i % 1000) + comm.rank());
  comm.barrier();
  std::array<double, 2> times = {MPI_Wtime(), 0.0};
  comm::allreduce(comm, std::span(values), comm::ReduceOp::sum, algorithm);
  times[1] = MPI_Wtime();
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Whole numbers below 2^24 (1,024 ranks reach 2.1 million): exact in whatever order they are added.
    const auto expected = static_cast<float>(ranks * static_cast<int>(i % 1000) + ranks * (ranks - 1) / 2);
    FLOODTIDE_REQUIRE(values[i] == expected, internal, algorithm, ": element ", i, " is ", values[i], ", expected ", expected);
  }
  FLOODTIDE_REQUIRE(MPI_Allreduce(MPI_IN_PLACE, times.data(), static_cast<int>(times.size()), MPI_DOUBLE, MPI_MAX,
                                  MPI_COMM_WORLD) == MPI_SUCCESS,
                    communication, "MPI_Allreduce failed");
  return times[1] - times[0];
}

void run(std::span<char* const> arguments) {
  const std::int64_t elements = arguments.empty() ? 0 : std::atoll(arguments[0]);
  FLOODTIDE_REQUIRE(elements > 0, invalid_argument, "usage: floodtide_smpi ELEMENTS [ALGORITHM...]");
  std::vector<std::string_view> algorithms;
  for (const char* name : arguments.subspan(1)) algorithms.push_back(comm::allreduce_row(name).name);
  if (algorithms.empty()) {
    for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
      if (row.name != "mpi") algorithms.push_back(row.name);
    }
  }
  const auto comm = SimulatedCommunicator::world();
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (const std::string_view algorithm : algorithms) {
    const double seconds = time_allreduce(*comm, values, algorithm);
    if (comm->rank() != 0) continue;
    std::printf(R"({"name": "allreduce %.*s", "kernel": "%.*s", "shape": "%lld float32", "ranks": %d, "median_s": %.9g})"
                "\n",
                static_cast<int>(algorithm.size()), algorithm.data(), static_cast<int>(algorithm.size()), algorithm.data(),
                static_cast<long long>(elements), comm->size(), seconds);
  }
}

}  // namespace
}  // namespace floodtide

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);  // by hand: SMPI tells the plug-in's start() that it has a single thread, which is enough here
  try {
    floodtide::run(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  MPI_Finalize();
  return 0;
}
