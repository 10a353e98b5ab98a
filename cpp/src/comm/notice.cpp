// SPDX-License-Identifier: Apache-2.0
#include "comm/notice.hpp"

#include "floodtide/base/error.hpp"

namespace floodtide::comm {
namespace {

std::string_view name(Collective collective) {
  switch (collective) {
    case Collective::barrier: return "barrier";
    case Collective::broadcast: return "broadcast";
    case Collective::allgather: return "allgather";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::allreduce: return "allreduce";
    case Collective::measure: return "measurement of allreduce algorithms";
    case Collective::locate: return "exchange of node names";
  }
  return "unknown collective";
}

}  // namespace

std::int64_t hash_of(std::span<const std::int64_t> blocks) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a over whole words
  for (const std::int64_t begin : blocks) hash = (hash ^ static_cast<std::uint64_t>(begin)) * 1099511628211U;
  return static_cast<std::int64_t>(hash);
}

std::string describe(const Notice& notice) {
  const auto values = [&] {
    return str_cat(name(notice.op), " of ", notice.count, " ", name(notice.type),
                   notice.wire == Wire::native ? "" : str_cat(" as ", name(notice.wire)), " in segments of ",
                   notice.segment_bytes, " bytes");
  };
  const std::string_view what = name(notice.collective);
  switch (notice.collective) {
    case Collective::allreduce:
      return str_cat(what, " (", allreduce_rows()[static_cast<std::size_t>(notice.algorithm)].name, ", ", values(), ")");
    case Collective::reduce_scatter: return str_cat(what, " (", values(), ")");
    case Collective::broadcast: return str_cat(what, " (", notice.count, " bytes from rank ", notice.detail, ")");
    case Collective::allgather: return str_cat(what, " (", notice.count, " bytes)");
    default: return std::string(what);
  }
}

std::string mismatch(int here, const Notice& own, int there, const Notice& theirs) {
  const auto shown = [](const Notice& notice) {
    return notice.purpose == Purpose::collective ? describe(notice) : std::string("join");
  };
  if (own.number != theirs.number) {
    return str_cat("rank ", here, ": collective ", own.number, " here is ", shown(own), ", but rank ", there,
                   " is at collective ", theirs.number, ": ", shown(theirs));
  }
  const bool alike = shown(own) == shown(theirs);
  return str_cat("rank ", here, ": collective ", own.number, " is ", shown(own), " here, but ", shown(theirs), " on rank ",
                 there, alike ? " (with other blocks)" : "");
}

}  // namespace floodtide::comm
