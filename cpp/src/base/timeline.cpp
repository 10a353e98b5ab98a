// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/timeline.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/staged_file.hpp"

namespace floodtide {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string arguments(const Timeline::Event& event) {
  std::string out;
  const auto add = [&](std::string_view name, std::int64_t value) {
    if (value >= 0) out += str_cat(out.empty() ? "" : ", ", quoted(name), ": ", value);
  };
  add("step", event.step);
  add("bucket", event.bucket);
  add("bytes", event.bytes);
  return str_cat('{', out, '}');
}

std::string microseconds(std::int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%lld.%03d", static_cast<long long>(ns / 1000), static_cast<int>(ns % 1000));
  return text;
}

/// A new or emptied file. The destructor closes it. Opening does not follow links, and does not wait for the reader of a pipe.
class File : Immovable {
 public:
  explicit File(const std::string& path)
      : path_(path),
        descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644)) {
    FLOODTIDE_REQUIRE(descriptor_ >= 0, io, path, ": cannot be opened for writing: ", std::strerror(errno));
  }
  ~File() { ::close(descriptor_); }

  /// Writes the text in one call if the system allows it, so that readers do not see a part of it.
  void write_at(std::int64_t offset, std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::pwrite(descriptor_, text.data(), text.size(), offset);
      FLOODTIDE_REQUIRE(written > 0, io, path_, ": cannot be written: ", std::strerror(errno));
      text.remove_prefix(static_cast<std::size_t>(written));
      offset += written;
    }
  }

 private:
  std::string path_;
  int descriptor_;
};

constexpr std::string_view kEnd = "\n]\n";

}  // namespace

struct Timeline::Impl {
  explicit Impl(std::size_t remembered) : ring(remembered) {}

  mutable std::mutex mutex;
  std::vector<Event> ring;
  std::uint64_t begun = 0;  // number of the next event; event n lies in ring[n % size]
  std::vector<Event> finished;
  std::unique_ptr<File> file;
  std::int64_t file_end = 0;  // where kEnd begins
  int rank = 0;
  std::int64_t offset_ns = 0;

  [[nodiscard]] std::uint64_t oldest() const { return begun > ring.size() ? begun - ring.size() : 0; }
  Event& slot(std::uint64_t number) { return ring[number % ring.size()]; }
  [[nodiscard]] const Event& slot(std::uint64_t number) const { return ring[number % ring.size()]; }

  [[nodiscard]] std::string line(const Event& event) const {
    return str_cat("{\"name\": ", quoted(event.name), ", \"ph\": \"X\", \"pid\": ", rank, ", \"tid\": ", quoted(event.track),
                   ", \"ts\": ", microseconds(event.start_ns + offset_ns),
                   ", \"dur\": ", microseconds(event.end_ns - event.start_ns), ", \"args\": ", arguments(event), '}');
  }
};

Timeline::Timeline(std::size_t remembered) : impl_(std::make_unique<Impl>(remembered)) {
  FLOODTIDE_REQUIRE(remembered >= 1, invalid_argument, "timeline: remembers ", remembered, " events, expected at least 1");
}

Timeline::~Timeline() {
  try {
    flush();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a destructor must not throw; callers of flush() get the error
  }
}

std::uint64_t Timeline::begin(const Event& event) {
  const std::lock_guard lock(impl_->mutex);
  const std::uint64_t number = impl_->begun++;
  Event& slot = impl_->slot(number);
  slot = event;
  slot.start_ns = now_ns();
  slot.end_ns = -1;
  return number;
}

void Timeline::end(std::uint64_t number) {
  const std::lock_guard lock(impl_->mutex);
  if (number < impl_->oldest()) return;  // newer events have replaced this one
  Event& event = impl_->slot(number);
  event.end_ns = now_ns();
  if (impl_->file) impl_->finished.push_back(event);
}

std::vector<Timeline::Event> Timeline::last() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Event> events;
  for (std::uint64_t number = impl_->oldest(); number < impl_->begun; ++number) events.push_back(impl_->slot(number));
  return events;
}

std::optional<Timeline::Event> Timeline::current(std::string_view track) const {
  const std::lock_guard lock(impl_->mutex);
  for (std::uint64_t number = impl_->begun; number > impl_->oldest(); --number) {
    const Event& event = impl_->slot(number - 1);
    if (event.end_ns < 0 && event.track == track) return event;
  }
  return std::nullopt;
}

void Timeline::open(const std::string& path, int rank, std::int64_t offset_ns) {
  const std::lock_guard lock(impl_->mutex);
  auto file = std::make_unique<File>(path);
  const std::string begin =
      str_cat("[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": ", rank, ", \"args\": {\"name\": \"rank ", rank, "\"}}");
  file->write_at(0, begin + std::string(kEnd));
  impl_->file = std::move(file);
  impl_->file_end = static_cast<std::int64_t>(begin.size());
  impl_->rank = rank;
  impl_->offset_ns = offset_ns;
}

void Timeline::flush() {
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->file || impl_->finished.empty()) return;
  std::string text;
  for (const Event& event : impl_->finished) text += ",\n" + impl_->line(event);
  impl_->finished.clear();
  impl_->file->write_at(impl_->file_end, text + std::string(kEnd));
  impl_->file_end += static_cast<std::int64_t>(text.size());
}

void Timeline::dump(const std::string& path, int rank, std::string_view reason) const {
  const std::int64_t now = now_ns();
  std::string text = str_cat("{\"rank\": ", rank, ", \"reason\": ", quoted(reason), ", \"events\": [");
  bool first = true;
  for (const Event& event : last()) {
    const std::int64_t end = event.end_ns < 0 ? now : event.end_ns;
    text += str_cat(first ? "\n" : ",\n", "{\"name\": ", quoted(event.name), ", \"track\": ", quoted(event.track),
                    ", \"ago_us\": ", microseconds(now - event.start_ns), ", \"took_us\": ", microseconds(end - event.start_ns),
                    ", \"done\": ", event.end_ns < 0 ? "false" : "true", ", \"about\": ", arguments(event), '}');
    first = false;
  }
  text += "\n]}\n";
  StagedFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit(false);  // the job is ending, perhaps because the disk does not answer
}

}  // namespace floodtide
