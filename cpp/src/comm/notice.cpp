// SPDX-License-Identifier: Apache-2.0
#include "comm/notice.hpp"

#include "floodtide/base/error.hpp"
#include "floodtide/base/hash.hpp"

namespace floodtide::comm {
namespace {

std::string_view words_of(const Notice& notice) {
  switch (notice.collective) {
    case Collective::barrier: return "barrier";
    case Collective::broadcast: return "broadcast";
    case Collective::allgather: return "allgather";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::allreduce: return "allreduce";
    case Collective::lengths: return "allgather";
    case Collective::locate: return "exchange of node names";
    case Collective::alltoall: return "alltoall";
    case Collective::group: return "group";
    case Collective::join: return "join";
  }
  return "unknown collective";
}

std::string_view algorithm_of(const Notice& notice) {
  return allreduce_rows()[static_cast<std::size_t>(notice.algorithm)].name;
}

/// Return a description of the values that a collective moves, or an empty text if it does not move values of the caller.
std::string values_of(const Notice& notice) {
  switch (notice.collective) {
    case Collective::allreduce:
    case Collective::reduce_scatter: return str_cat(name(notice.op), " of ", notice.count, " ", name(notice.type));
    case Collective::broadcast: return str_cat(notice.count, " bytes from rank ", notice.root);
    case Collective::allgather: return notice.count < 0 ? "of any lengths" : str_cat(notice.count, " bytes");
    case Collective::lengths:
    case Collective::alltoall: return "of any lengths";
    case Collective::group: return str_cat(notice.count, " collectives");
    default: return "";
  }
}

}  // namespace

std::int64_t notice_hash(std::span<const std::byte> bytes) {
  return bytes.empty() ? 0 : static_cast<std::int64_t>(hash_of(bytes));
}

std::string describe(const Notice& notice) {
  const bool reduces = notice.collective == Collective::allreduce || notice.collective == Collective::reduce_scatter;
  std::string values = values_of(notice);
  if (values.empty()) return std::string(words_of(notice));
  if (notice.collective == Collective::allreduce) values = str_cat(algorithm_of(notice), ", ", values);
  if (notice.wire != Wire::native) values += str_cat(" as ", name(notice.wire));
  if (reduces) values += str_cat(" in segments of ", notice.segment_bytes, " bytes");
  return str_cat(words_of(notice), " (", values, ")");
}

std::string in_words(const Notice& notice, std::string_view words, const Shown& shown) {
  std::string values = words.empty() ? values_of(notice) : std::string(words);
  if (shown.algorithm && notice.collective == Collective::allreduce) values += str_cat(", ", algorithm_of(notice));
  if (shown.wire) values += str_cat(", sent as ", name(notice.wire));
  if (shown.segments) values += str_cat(", in segments of ", notice.segment_bytes, " bytes");
  if (shown.blocks && notice.collective != Collective::group)
    values += str_cat(", cut into blocks of hash ", std::hex, static_cast<std::uint64_t>(notice.blocks));
  const std::string_view what = words_of(notice);
  return values.empty() ? std::string(what) : str_cat(what, " (", values, ")");
}

bool can_be_joined(const Notice& notice) {
  switch (notice.collective) {
    case Collective::group: return notice.algorithm == 0;
    case Collective::barrier:
    case Collective::broadcast:
    case Collective::allreduce:
    case Collective::locate:
    case Collective::join: return true;
    default: return false;
  }
}

}  // namespace floodtide::comm
