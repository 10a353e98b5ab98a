// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/coordinates.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "data/class_index.hpp"
#include "data/purposes.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::data {
namespace {

constexpr const char* kFormat = "floodtide coordinates";
constexpr std::int64_t kVersion = 1;
constexpr const char* kDataset = "centres";

std::vector<VolumePtr> open_all(const std::vector<NamedPartitions>& volumes) {
  FLOODTIDE_REQUIRE(!volumes.empty(), invalid_argument, "coordinates: no partition volume given");
  std::set<std::string> names;
  std::vector<VolumePtr> opened;
  for (const NamedPartitions& volume : volumes) {
    FLOODTIDE_REQUIRE(!volume.name.empty() && volume.name.find('\n') == std::string::npos && names.insert(volume.name).second,
                      invalid_argument, "coordinates: volume name '", volume.name,
                      "' is empty, has a line break or is given twice");
    opened.push_back(volume.partitions.open());
    for (const std::int64_t extent : opened.back()->shape()) {
      FLOODTIDE_REQUIRE(extent <= std::numeric_limits<std::int32_t>::max(), unsupported, opened.back()->name(),
                        ": coordinate files hold 32-bit positions");
    }
  }
  return opened;
}

std::vector<Box> boxes_inside(const std::vector<VolumePtr>& volumes, const Vec3& margin) {
  std::vector<Box> boxes;
  for (const VolumePtr& volume : volumes) {
    Box box = volume->box();
    for (std::size_t axis = 0; axis < 3; ++axis) {
      FLOODTIDE_REQUIRE(margin[axis] >= 0 && 2 * margin[axis] < box.size[axis], invalid_argument, volume->name(), ": margin ",
                        Show{margin}, " (z, y, x) leaves nothing of shape ", Show{volume->shape()});
      box.start[axis] += margin[axis];
      box.size[axis] -= 2 * margin[axis];
    }
    boxes.push_back(box);
  }
  return boxes;
}

std::vector<const Volume*> pointers(const std::vector<VolumePtr>& volumes) {
  std::vector<const Volume*> result;
  for (const VolumePtr& volume : volumes) result.push_back(volume.get());
  return result;
}

}  // namespace

struct CoordinatesJob::Impl {
  std::vector<NamedPartitions> names;
  std::vector<VolumePtr> volumes;
  ClassIndex index;
  IndexPermutation order;

  Impl(std::vector<NamedPartitions> given, const Vec3& margin, std::uint64_t seed, const Progress& progress)
      : names(std::move(given)),
        volumes(open_all(names)),
        index(pointers(volumes), boxes_inside(volumes, margin), progress),
        order(seed, stream_id(kCoordinatesPurpose), static_cast<std::uint64_t>(size())) {
    FLOODTIDE_REQUIRE(size() > 0, invalid_argument, volumes.front()->name(), ": every voxel inside the margin ", Show{margin},
                      " is 255 (no class), no centre to take");
  }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(index.classes().size()) * index.largest(); }
};

CoordinatesJob::CoordinatesJob(std::vector<NamedPartitions> volumes, const Vec3& margin, std::uint64_t seed,
                               const Progress& progress)
    : impl_(std::make_unique<Impl>(std::move(volumes), margin, seed, progress)) {}
CoordinatesJob::~CoordinatesJob() = default;

std::int64_t CoordinatesJob::size() const noexcept { return impl_->size(); }
const std::vector<int>& CoordinatesJob::classes() const noexcept { return impl_->index.classes(); }

std::vector<std::int64_t> CoordinatesJob::class_counts() const {
  std::vector<std::int64_t> counts;
  for (const int value : classes()) counts.push_back(impl_->index.count(value));
  return counts;
}

Tensor<std::int32_t, 2> CoordinatesJob::rows(std::int64_t begin, std::int64_t end, const Progress& progress) const {
  FLOODTIDE_REQUIRE(begin >= 0 && begin <= end && end <= size(), out_of_range, "coordinates: rows ", begin, " to ", end, " of ",
                    size());
  const ClassIndex& index = impl_->index;
  const std::int64_t largest = index.largest();
  Tensor<std::int32_t, 2> result({end - begin, 4});
  // Element (class, j) of the balanced list goes to row order(class * largest + j), so every row is written once, by
  // whichever thread has the block of its voxel.
  parallel_batches(0, index.blocks(), progress, [&](std::int64_t number) {
    const ClassIndex::Block block = index.block(number);
    const Tensor<std::uint8_t, 3> values = index.read(number);
    std::array<std::int64_t, 256> next{};
    std::array<std::int64_t, 256> ordinal{};
    for (std::size_t i = 0; i < index.classes().size(); ++i) {
      const auto value = static_cast<std::size_t>(index.classes()[i]);
      next[value] = index.before(index.classes()[i], number);
      ordinal[value] = static_cast<std::int64_t>(i);
    }
    const std::uint8_t* voxel = values.data();
    for (std::int64_t z = 0; z < block.box.size[0]; ++z) {
      for (std::int64_t y = 0; y < block.box.size[1]; ++y) {
        for (std::int64_t x = 0; x < block.box.size[2]; ++x) {
          const std::uint8_t value = *voxel++;
          if (value == kNoClass) continue;
          const std::int64_t count = index.count(value);
          for (std::int64_t j = next[value]++; j < largest; j += count) {
            const auto row = static_cast<std::int64_t>(impl_->order(static_cast<std::uint64_t>(ordinal[value] * largest + j)));
            if (row < begin || row >= end) continue;
            std::int32_t* out = result.data() + 4 * (row - begin);
            out[0] = static_cast<std::int32_t>(block.volume);
            out[1] = static_cast<std::int32_t>(block.box.start[0] + z);
            out[2] = static_cast<std::int32_t>(block.box.start[1] + y);
            out[3] = static_cast<std::int32_t>(block.box.start[2] + x);
          }
        }
      }
    }
  });
  return result;
}

CoordinatesFile::CoordinatesFile(const std::string& path) : file_(Hdf5File::open(path)) {
  const bool ours = file_.has_attribute("/", "format") && file_.read_text_attribute("/", "format") == kFormat;
  FLOODTIDE_REQUIRE(ours, invalid_file, path, ": is not a coordinates file (attribute format is not '", kFormat, "')");
  const std::int64_t version = file_.read_integer("/", "version");
  FLOODTIDE_REQUIRE(version == kVersion, invalid_file, path, ": coordinates file of version ", version, ", expected ",
                    kVersion);
  const DatasetInfo info = file_.info(kDataset);
  FLOODTIDE_REQUIRE(info.type == ElementType::int32 && info.shape.size() == 2 && info.shape[0] > 0 && info.shape[1] == 4,
                    invalid_file, path, ":", kDataset, ": is ", name(info.type), " of shape ", Show{info.shape},
                    ", expected int32 (n, 4)");
  size_ = info.shape[0];
  const std::string text = file_.read_text_attribute("/", "volumes");
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    volumes_.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
}

std::vector<Centre> CoordinatesFile::read(std::int64_t begin, std::int64_t end) const {
  std::vector<std::int32_t> values(static_cast<std::size_t>(4 * (end - begin)));
  const std::vector<std::int64_t> start{begin, 0};
  const std::vector<std::int64_t> count{end - begin, 4};
  file_.read_block<std::int32_t>(kDataset, start, count, values);
  std::vector<Centre> centres;
  centres.reserve(static_cast<std::size_t>(end - begin));
  for (std::size_t i = 0; i < values.size(); i += 4) {
    FLOODTIDE_REQUIRE(values[i] >= 0 && values[i] < static_cast<std::int64_t>(volumes_.size()), invalid_file, path(), ": row ",
                      begin + static_cast<std::int64_t>(i / 4), " names volume number ", values[i], ", the file has ",
                      volumes_.size());
    centres.push_back({values[i], {values[i + 1], values[i + 2], values[i + 3]}});
  }
  return centres;
}

}  // namespace floodtide::data
