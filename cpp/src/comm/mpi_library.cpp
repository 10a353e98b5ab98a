// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "comm/access.hpp"
#include "comm/backoff.hpp"
#include "comm/last_resort.hpp"
#include "comm/mpi/table.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/mpi.hpp"

namespace floodtide::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::microseconds kCancelPeriod{20};
constexpr milliseconds kGiveUp{500}, kGiveUpAgain{10};
constexpr double kAbortS = 2;  // seconds that MPI_Abort and the launcher have to end the job

using Message = std::array<char, kFloodtideMpiMessageBytes>;

/// Return the first line of a library's version, with single spaces.
std::string one_line(const std::string& text) {
  std::istringstream words(text.substr(0, text.find('\n')));
  std::string line;
  for (std::string word; words >> word;) line += line.empty() ? word : " " + word;
  return line;
}

/// Return the kernel's boot id, which differs between machines and between boots, or an empty text if it cannot be read.
std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

void* load(const std::string& file, int flags, std::string& out_reason) {
  void* const handle = ::dlopen(file.c_str(), flags);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    out_reason = reason != nullptr ? reason : file;
  }
  return handle;
}

}  // namespace

/// Plug-in and library are never unloaded, because MPI does not support this, and communicators may outlive this object.
class MpiLibrary::Implementation {
 public:
  explicit Implementation(const MpiOptions& options) : max_message_bytes(options.max_message_bytes) {
    FLOODTIDE_REQUIRE(max_message_bytes >= 8 && max_message_bytes <= std::size_t{1} << 30U, out_of_range,
                      "mpi: messages of at most ", max_message_bytes, " bytes, expected 8 to 2^30");
    // The plug-in is not linked to a library, so that it works with every library of its family under any file name. It uses
    // the symbols of the library that is loaded here. If mpi4py has loaded the library before, this only makes its symbols
    // visible.
    std::string reason;
    std::string tried;
    for (const std::string& candidate : options.libraries) {
      if (load(candidate, RTLD_NOW | RTLD_GLOBAL, reason) != nullptr) {
        library = candidate;
        break;
      }
      tried += str_cat(tried.empty() ? "" : ", ", candidate);
    }
    FLOODTIDE_REQUIRE(!library.empty(), unsupported, "mpi: no MPI library could be loaded (tried ", tried, "): ", reason);
    void* const plugin = load(options.plugin, RTLD_NOW | RTLD_LOCAL, reason);
    FLOODTIDE_REQUIRE(plugin != nullptr, unsupported, "mpi: plug-in cannot be loaded beside ", library, ": ", reason);
    const auto function = reinterpret_cast<FloodtideMpiTableFunction>(::dlsym(plugin, kFloodtideMpiTableSymbol));
    FLOODTIDE_REQUIRE(function != nullptr, unsupported, "mpi: ", options.plugin, " is not a plug-in of floodtide");
    table = function();
    FLOODTIDE_REQUIRE(table->version == kFloodtideMpiTableVersion, unsupported, "mpi: plug-in ", options.plugin,
                      " has interface version ", table->version, ", this build expects ", int{kFloodtideMpiTableVersion});
    std::array<char, 8192> text{};
    call(table->library_version, text.data(), static_cast<int>(text.size()));
    version = text.data();
    const std::string library_family = version.find("Open MPI") != std::string::npos ? "openmpi" : "mpich";
    FLOODTIDE_REQUIRE(library_family == table->family, unsupported, "mpi: plug-in ", options.plugin, " is for ", table->family,
                      ", but the library ", library, " is ", one_line(version));
  }

  /// Calls a function of the table with a buffer for its message. Throws Error(communication) if the function reports an error.
  template <class... Parameters, class... Arguments>
  void call(int (*function)(Parameters...), Arguments... arguments) const {
    Message message{};
    if (function(arguments..., message.data()) != 0) raise(ErrorCode::communication, message.data());
  }

  /// Throws Error(unsupported) in a child of the process that has called start().
  void require_own_process() const {
    if (started_in) comm::require_own_process(*started_in);
  }

  const FloodtideMpiTable* table = nullptr;
  std::optional<OwnProcess> started_in;
  std::string library;
  std::string version;
  std::size_t max_message_bytes;
  bool started_here = false;
};

namespace {

/// The functions of a plug-in, for objects that belong to one process. MPI does not survive fork(): a child must neither call
/// it nor wait for a lock that a thread of its parent holds.
class MpiTable {
 public:
  explicit MpiTable(const FloodtideMpiTable& table) : table_(&table) {}

  /// Throws Error(unsupported) in a child of fork().
  const FloodtideMpiTable* operator->() const {
    require_own_process(process_);
    return table_;
  }
  [[nodiscard]] bool is_here() const noexcept { return process_.is_here(); }

 private:
  const FloodtideMpiTable* table_;
  OwnProcess process_;
};

/// One or several MPI requests, because messages longer than the limit are split.
class MpiRequest final : public Request {
 public:
  MpiRequest(const MpiTable& table, Communicator& owner) : table_(table), owner_(owner) {}

  // Nobody may receive a send that is not complete here: this rank or another one has left its calls by an exception. The
  // request is given up after a short time, which is shorter if the communicator is spoiled. A receive is taken back at once.
  ~MpiRequest() override {
    if (!table_.is_here()) return;
    const auto deadline = steady_clock::now() + (owner_.is_spoiled() ? kGiveUpAgain : kGiveUp);
    Message message{};
    for (FloodtideMpiRequest* const part : parts_) {
      if (part == nullptr) continue;
      table_->cancel(part, message.data());
      int done = 0;
      while (table_->test(part, &done, message.data()) == 0 && done == 0 && steady_clock::now() < deadline) {
        std::this_thread::sleep_for(kCancelPeriod);
      }
      if (done != 0) {
        table_->release_request(part);
      } else {
        owner_.spoil();
      }
    }
  }

  /// Return where the plug-in writes the next request. Call this before the request is started, because it may throw.
  [[nodiscard]] FloodtideMpiRequest** add() { return &parts_.emplace_back(nullptr); }

  bool test() override {
    Message message{};
    for (; next_ < parts_.size(); ++next_) {
      int done = 0;
      const int status = table_->test(parts_[next_], &done, message.data());
      if (status == 0 && done == 0) return false;
      table_->release_request(std::exchange(parts_[next_], nullptr));
      if (status != 0) {
        ++next_;
        raise(ErrorCode::communication, "rank ", owner_.rank(), ": ", message.data());
      }
    }
    return true;
  }

  void wait() override {
    for (Backoff backoff(owner_.on_wait()); !test();) backoff.pause();
  }

 private:
  MpiTable table_;
  Communicator& owner_;
  std::vector<FloodtideMpiRequest*> parts_;
  std::size_t next_ = 0;
};

static_assert(int{kFloodtideMpiSum} == int(ReduceOp::sum) && int{kFloodtideMpiMin} == int(ReduceOp::min) &&
              int{kFloodtideMpiMax} == int(ReduceOp::max) && int{kFloodtideMpiProduct} == int(ReduceOp::product));
static_assert(int{kFloodtideMpiFloat32} == int(ReduceType::float32) && int{kFloodtideMpiFloat64} == int(ReduceType::float64) &&
              int{kFloodtideMpiInt64} == int(ReduceType::int64) && int{kFloodtideMpiInt32} == int(ReduceType::int32));

/// Return the type as the plug-in has it. Overflowing sums of 8-bit integers saturate in some libraries (open-mpi/ompi#8045),
/// but wrap around in ours.
int library_type(ReduceType type) {
  FLOODTIDE_REQUIRE(type <= ReduceType::int32, unsupported, "allreduce 'mpi': MPI libraries have no ", name(type),
                    " that all of them reduce alike; use 'ring'");
  return static_cast<int>(type);
}

class MpiCommunicator final : public Communicator {
 public:
  struct Opened {
    FloodtideMpiComm* comm = nullptr;
    int rank = 0;
    int size = 0;
  };

  MpiCommunicator(const MpiTable& table, std::string version, std::size_t max_message_bytes, const Opened& opened)
      : Communicator(opened.rank, opened.size),
        table_(table),
        version_(std::move(version)),
        max_message_bytes_(max_message_bytes),
        comm_(opened.comm) {}
  ~MpiCommunicator() override {
    if (!table_.is_here()) return;
    if (is_spoiled()) return;  // MPI would give its number to a new communicator, which would receive old messages
    Message message{};
    table_->release_comm(comm_, message.data());
  }

  std::string description() const override { return str_cat("mpi (", one_line(version_), ")"); }

  std::string node_name() const override {
    std::array<char, 1024> name{};
    Message message{};
    check(table_->processor_name(name.data(), static_cast<int>(name.size()), message.data()), message);
    return str_cat(name.data(), ' ', boot_id());
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    FLOODTIDE_REQUIRE(color >= 0, invalid_argument, "split: color is ", color, ", expected at least 0");
    Message message{};
    Opened opened;
    check(table_->split(comm_, color, key, &opened.comm, &opened.rank, &opened.size, message.data()), message);
    return std::make_unique<MpiCommunicator>(table_, version_, max_message_bytes_, opened);
  }

  void require_library_allreduce(ReduceType type) const override { static_cast<void>(library_type(type)); }

  std::unique_ptr<Request> start_library_allreduce(const ReduceBuffer& buffer, ReduceOp op) override {
    auto request = std::make_unique<MpiRequest>(table_, *this);
    for_library_parts(buffer, op, [&](const ReduceBuffer& part, int type, int operation) {
      Message message{};
      check(table_->allreduce(comm_, part.data, static_cast<int>(part.count), type, operation, request->add(), message.data()),
            message);
    });
    return request;
  }

  void blocking_library_allreduce(const ReduceBuffer& buffer, ReduceOp op) override {
    for_library_parts(buffer, op, [&](const ReduceBuffer& part, int type, int operation) {
      Message message{};
      check(table_->blocking_allreduce(comm_, part.data, static_cast<int>(part.count), type, operation, message.data()),
            message);
    });
  }

  void end_host_within(double seconds) override { comm::end_host_within(seconds); }

  void abort(int status, std::string_view reason) override {
    const FloodtideMpiTable& table = *table_.operator->();
    end_host_within(kAbortS);
    Message message{};
    table.abort(comm_, status, message.data());
    raise(ErrorCode::communication, "rank ", rank(), " could not end the job (", message.data(), "): ", reason);
  }

 private:
  void check(int status, const Message& message) const {
    if (status != 0) raise(ErrorCode::communication, "rank ", rank(), ": ", message.data());
  }

  /// Calls body(part, type, operation) for parts of at most max_message_bytes_ bytes.
  template <class Body>
  void for_library_parts(const ReduceBuffer& buffer, ReduceOp op, Body&& body) const {
    const int type = library_type(buffer.type);
    const auto limit = static_cast<std::int64_t>(max_message_bytes_ / element_bytes(buffer.type));
    for (std::int64_t first = 0; first < buffer.count; first += limit) {
      body(buffer.part(first, std::min(limit, buffer.count - first)), type, static_cast<int>(op));
    }
  }

  /// Calls start() for parts of at most max_message_bytes_ bytes. An empty message is one empty part.
  template <class Byte, class Start>
  std::unique_ptr<Request> start_parts(std::span<Byte> data, Start&& start) {
    auto request = std::make_unique<MpiRequest>(table_, *this);
    std::size_t done = 0;
    do {
      const auto part = data.subspan(done, std::min(max_message_bytes_, data.size() - done));
      Message message{};
      check(start(part.data(), static_cast<int>(part.size()), request->add(), message.data()), message);
      done += part.size();
    } while (done < data.size());
    return request;
  }

  std::unique_ptr<Request> start_send(int to, int tag, std::span<const std::byte> data) override {
    return start_parts(data, [&](const std::byte* part, int bytes, FloodtideMpiRequest** out_request, char* out_message) {
      return table_->send(comm_, to, tag, part, bytes, out_request, out_message);
    });
  }

  std::unique_ptr<Request> start_receive(int from, int tag, std::span<std::byte> out_data) override {
    return start_parts(out_data, [&](std::byte* part, int bytes, FloodtideMpiRequest** out_request, char* out_message) {
      return table_->receive(comm_, from, tag, part, bytes, out_request, out_message);
    });
  }

  MpiTable table_;
  std::string version_;
  std::size_t max_message_bytes_;
  FloodtideMpiComm* comm_;
};

}  // namespace

MpiLibrary::MpiLibrary(const MpiOptions& options) : implementation_(std::make_unique<Implementation>(options)) {}
MpiLibrary::~MpiLibrary() = default;

std::string MpiLibrary::family() const { return implementation_->table->family; }
std::string MpiLibrary::library() const { return implementation_->library; }
std::string MpiLibrary::version() const { return implementation_->version; }
int MpiLibrary::handle_bytes() const { return implementation_->table->handle_bytes; }

std::string MpiLibrary::start() {
  implementation_->require_own_process();
  int started_here = 0;
  const char* level = "unknown";
  Message message{};
  const int status = implementation_->table->start(&started_here, &level, message.data());
  implementation_->started_here = implementation_->started_here || started_here != 0;
  FLOODTIDE_REQUIRE(status == 0, unsupported, "mpi: ", message.data());
  if (!implementation_->started_in) implementation_->started_in.emplace();
  return level;
}

std::unique_ptr<Communicator> MpiLibrary::world() {
  start();
  std::uint64_t handle = 0;
  implementation_->call(implementation_->table->world, &handle);
  return adopt(handle);
}

std::unique_ptr<Communicator> MpiLibrary::adopt(std::uint64_t handle) {
  start();
  MpiCommunicator::Opened opened;
  implementation_->call(implementation_->table->duplicate, handle, &opened.comm, &opened.rank, &opened.size);
  return std::make_unique<MpiCommunicator>(MpiTable(*implementation_->table), implementation_->version,
                                           implementation_->max_message_bytes, opened);
}

void MpiLibrary::finish() {
  const std::optional<OwnProcess>& started_in = implementation_->started_in;
  if (!started_in || !started_in->is_here()) return;  // a child of fork() leaves MPI to its parent
  int finalized = 0;
  implementation_->call(implementation_->table->finalized, &finalized);
  if (!implementation_->started_here || finalized != 0) return;
  implementation_->call(implementation_->table->finish);
}

}  // namespace floodtide::comm
