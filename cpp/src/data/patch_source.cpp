// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/patch_source.hpp"

#include <algorithm>
#include <cmath>

#include "data/class_index.hpp"
#include "data/purposes.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/data/deformation.hpp"
#include "floodtide/data/intensity.hpp"

namespace floodtide::data {
namespace {

/// The windows of validation over a box: they overlap by a quarter of their size, and the last one along an axis ends with the
/// box. A box that is smaller than a window has one, in whose middle it lies as far as the image allows.
struct Windows {
  Box box;
  Vec3 image, size;  // of the image, of a window

  [[nodiscard]] Vec3 counts() const {
    return by_axis([&](std::size_t axis) { return room(axis) <= 0 ? 1 : (room(axis) + stride(axis) - 1) / stride(axis) + 1; });
  }
  [[nodiscard]] Box operator[](std::int64_t number) const {
    const Vec3 index = position_of(number, counts());
    return {by_axis([&](std::size_t axis) { return begin(axis, index[axis]); }), size};
  }
  /// Return the voxels that count in a window: from the middle of its overlap with the window before to that with the next.
  [[nodiscard]] Box counted(std::int64_t number) const {
    const Vec3 index = position_of(number, counts());
    const Vec3 start = by_axis([&](std::size_t axis) { return border(axis, index[axis]); });
    return {start, by_axis([&](std::size_t axis) { return border(axis, index[axis] + 1); }) - start};
  }

 private:
  [[nodiscard]] std::int64_t room(std::size_t axis) const { return box.size[axis] - size[axis]; }
  [[nodiscard]] std::int64_t stride(std::size_t axis) const { return std::max<std::int64_t>(1, size[axis] - size[axis] / 4); }
  [[nodiscard]] std::int64_t begin(std::size_t axis, std::int64_t i) const {
    if (room(axis) > 0) return box.start[axis] + std::min(i * stride(axis), room(axis));
    return std::clamp<std::int64_t>(box.start[axis] + room(axis) / 2, 0, image[axis] - size[axis]);
  }
  /// Return the first voxel that counts in window i of an axis.
  [[nodiscard]] std::int64_t border(std::size_t axis, std::int64_t i) const {
    if (i == 0) return box.start[axis];
    if (i == counts()[axis]) return box.end()[axis];
    return (begin(axis, i) + begin(axis, i - 1) + size[axis]) / 2;
  }
};

struct OpenImage {
  LabelledImage given;
  std::vector<VolumePtr> channels;
  Labels labels;

  explicit OpenImage(const LabelledImage& image) : given(image), labels(image.labels, image.labels_start) {
    FLOODTIDE_REQUIRE(!given.channels.empty(), invalid_argument, given.name, ": no image given");
    for (const LabelledImage::Channel& channel : given.channels) {
      const VolumePtr& opened = channels.emplace_back(channel.image.open(kPatchCacheBytes));
      opened->require_type<float>();
      require_same_shape(*opened, *channels.front());
      FLOODTIDE_REQUIRE(channel.std > 0 && std::isfinite(channel.std) && std::isfinite(channel.mean), invalid_argument,
                        opened->name(), ": mean ", channel.mean, " and std ", channel.std,
                        ", expected finite ones, std above 0");
    }
    FLOODTIDE_REQUIRE(channels.front()->box().contains(labels.box()), out_of_range, labels.name(), ": labels at ",
                      Show{labels.box().start}, " of size ", Show{labels.box().size}, " (z, y, x) are not inside the image ",
                      channels.front()->name(), " of ", Show{shape()},
                      "; give their place in the image by labels_start = [z, y, x]");
  }
  [[nodiscard]] const Vec3& shape() const noexcept { return channels.front()->shape(); }
};

/// Return a box as configurations have it.
std::string text_of(const Box& box) {
  std::string text;
  for (std::size_t axis = 0; axis < 3; ++axis) text += str_cat(axis == 0 ? "\"" : ",", box.start[axis], ":", box.end()[axis]);
  return text + "\"";
}

}  // namespace

struct PatchSource::Impl {
  std::vector<OpenImage> images;
  std::vector<Region> regions;
  std::vector<std::string> groups;
  std::shared_ptr<const Targets> targets;
  PatchOptions options;
  std::vector<Windows> windows;               // of each region
  std::vector<std::int64_t> first_window{0};  // number of the first window of each region, and of all
  std::optional<ClassIndex> index;            // set by the constructor
  std::vector<double> shares;                 // of the index's classes in the training patches, added up
  std::optional<SampleOrder> order;           // set by the constructor

  [[nodiscard]] const OpenImage& image(const Region& region) const { return images[static_cast<std::size_t>(region.image)]; }

  /// Labels of a box as the index counts them: the class of each voxel, or 0 for objects; kNoClass without a label.
  [[nodiscard]] Tensor<std::uint8_t, 3> classes_of(std::int64_t number, const Box& box) const {
    const Region& region = regions[static_cast<std::size_t>(number)];
    const Tensor<std::int64_t, 3> labels = image(region).labels.read(box, region.box);
    Tensor<std::uint8_t, 3> classes(box.size);
    for (std::int64_t i = 0; i < labels.size(); ++i) {
      const std::int64_t label = labels.data()[i];
      FLOODTIDE_REQUIRE(!targets->classes() || (label >= kNoLabel && label < targets->outputs()), invalid_file,
                        image(region).labels.name(), ": class ", label, " in the box at ", Show{box.start}, " of size ",
                        Show{box.size}, " (z, y, x), expected 0 to ", targets->outputs() - 1);
      const std::int64_t own = targets->classes() ? label : 0;
      classes.data()[i] = label == kNoLabel ? std::uint8_t{kNoClass} : static_cast<std::uint8_t>(own);
    }
    return classes;
  }

  void open(const std::vector<LabelledImage>& given) {
    FLOODTIDE_REQUIRE(!given.empty(), invalid_argument, "patches: no image given");
    for (const LabelledImage& image : given) {
      images.emplace_back(image);
      FLOODTIDE_REQUIRE(image.channels.size() == given.front().channels.size(), invalid_argument, image.name, ": has ",
                        image.channels.size(), " channels, ", given.front().name, " has ", given.front().channels.size());
    }
  }

  void check_regions() const {
    FLOODTIDE_REQUIRE(!regions.empty(), invalid_argument, "patches: no region of an image given");
    for (const Region& region : regions) {
      FLOODTIDE_REQUIRE(
          region.image >= 0 && region.image < std::ssize(images) && region.group >= 0 && region.group < std::ssize(groups),
          invalid_argument, "patches: a region is of image ", region.image, " and group ", region.group, ", there are ",
          images.size(), " images and ", groups.size(), " groups");
      const OpenImage& own = image(region);
      const std::string& name = own.channels.front()->name();
      FLOODTIDE_REQUIRE(region.box.voxels() > 0 && own.channels.front()->box().contains(region.box), out_of_range, name,
                        ": box = ", text_of(region.box), " is not inside the volume ", Show{own.shape()}, " (z, y, x)");
      FLOODTIDE_REQUIRE(intersection(region.box, own.labels.box()).voxels() > 0, out_of_range, name,
                        ": box = ", text_of(region.box), " has no voxel of the labels ", own.labels.name(),
                        ", which lie at box = ", text_of(own.labels.box()));
      for (std::size_t axis = 0; axis < 3; ++axis) {
        FLOODTIDE_REQUIRE(options.whole || options.patch[axis] <= own.shape()[axis], invalid_argument, name, ": patches of ",
                          Show{options.patch}, " (z, y, x) are larger than the volume ", Show{own.shape()},
                          "; give smaller patches by data.patch = [z, y, x]");
      }
    }
  }

  void count(const Progress& progress) {
    std::vector<std::string> volumes;
    std::vector<Box> boxes;
    for (const Region& region : regions) {
      volumes.push_back(image(region).labels.name());
      boxes.push_back(region.box);
    }
    const Vec3 block = options.patch[0] == 1 ? Vec3{1, 256, 256} : Vec3{32, 32, 32};
    index.emplace(
        std::move(volumes), boxes, [this](std::int64_t number, const Box& part) { return classes_of(number, part); }, block,
        progress);
    for (std::size_t i = 0; i < regions.size(); ++i) {
      FLOODTIDE_REQUIRE(index->count_in(static_cast<std::int64_t>(i)) > 0, invalid_argument, image(regions[i]).labels.name(),
                        ": no voxel of box = ", text_of(regions[i].box),
                        " has a label; give boxes with labels by box = \"z0:z1,y0:y1,x0:x1\"");
    }
  }

  void weigh_classes() {
    const std::vector<double>& weights = options.class_weights;
    FLOODTIDE_REQUIRE(weights.empty() || (targets->classes() && std::ssize(weights) == targets->outputs()), invalid_argument,
                      "class_weights: ", weights.size(), " given, expected one for each of the ",
                      targets->classes() ? targets->outputs() : 0, " classes");
    double sum = 0;
    for (const int value : index->classes()) {
      const double weight =
          weights.empty() ? static_cast<double>(index->count(value)) : weights[static_cast<std::size_t>(value)];
      FLOODTIDE_REQUIRE(weight >= 0 && std::isfinite(weight), invalid_argument, "class_weights: ", weight,
                        " given, expected numbers of 0 and more");
      shares.push_back(sum += weight);
    }
    FLOODTIDE_REQUIRE(sum > 0, invalid_argument, "class_weights: all classes that occur have weight 0");
  }

  struct Drawn {
    const Region* region;
    Box box;
    Box counted;  // voxels outside of it have no label; of validation patches only
    [[nodiscard]] Region place() const { return {region->image, box, region->group}; }
  };
  [[nodiscard]] Drawn fixed(std::int64_t number) const {
    FLOODTIDE_REQUIRE(number >= 0 && number < first_window.back(), out_of_range, "sample ", number, ": there are ",
                      first_window.back());
    const auto after = std::upper_bound(first_window.begin(), first_window.end(), number);
    const auto own = static_cast<std::size_t>(after - first_window.begin() - 1);
    const std::int64_t in_region = number - first_window[own];
    if (!options.whole) return {&regions[own], windows[own][in_region], windows[own].counted(in_region)};
    const Vec3 room = regions[own].box.size - options.patch;
    const Box around{regions[own].box.start + Vec3{in_region, room[1] / 2, room[2] / 2}, options.patch};  // the section
    return {&regions[own], around, around};
  }

  [[nodiscard]] Drawn draw(const ExampleKey& key) const {
    Philox random = key.random(kPatchPurpose);
    const double at = random.uniform() * shares.back();
    const auto found = std::upper_bound(shares.begin(), shares.end() - 1, at) - shares.begin();
    const int value = index->classes()[static_cast<std::size_t>(found)];
    const Centre voxel =
        index->find(value, static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(index->count(value)))));
    const Region& region = regions[static_cast<std::size_t>(voxel.volume)];
    const Vec3 start = by_axis([&](std::size_t axis) {
      const bool fits = region.box.size[axis] >= options.patch[axis];
      const std::int64_t first = fits ? region.box.start[axis] : 0;
      const std::int64_t end = fits ? region.box.end()[axis] : image(region).shape()[axis];
      const std::int64_t low = std::max(first, voxel.position[axis] - options.patch[axis] + 1);
      const std::int64_t high = std::min(end - options.patch[axis], voxel.position[axis]);
      return low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low + 1)));
    });
    return {&region, {start, options.patch}, {}};
  }

  [[nodiscard]] Drawn training(const ExampleKey& key) const { return options.whole ? fixed(key.number) : draw(key); }
  [[nodiscard]] ExampleKey key(std::int64_t epoch, std::int64_t number) const { return {options.order.seed, epoch, number}; }
  [[nodiscard]] Sample read(const Drawn& drawn, const Deformation& deformation, bool training, const ExampleKey& key) const {
    const Region& region = *drawn.region;
    const OpenImage& own = image(region);
    const Vec3& size = options.patch;
    const Vec3 margin = targets->margin(training);
    const bool cube = margin[0] == margin[1] && margin[1] == margin[2];
    const bool copies = deformation.moves_axes_only() && !options.whole && (cube || deformation.axes.keeps_axes());
    std::optional<Places> places;
    if (!copies) places.emplace(deformation, drawn.box, margin);
    Sample sample;
    sample.group = region.group;
    const std::int64_t channels = std::ssize(own.channels);
    sample.image = Tensor<float, 4>({size[0], size[1], size[2], channels});
    const Box box = copies ? drawn.box : places->bounds(own.channels.front()->box(), margin);
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const auto number = static_cast<std::size_t>(channel);
      const auto mean = static_cast<float>(own.given.channels[number].mean);
      const auto scale = static_cast<float>(1 / own.given.channels[number].std);
      const std::optional<float> outside = options.whole ? std::optional(mean) : std::nullopt;
      const Tensor<float, 3> read = own.channels[number]->read_block<float>(box);
      const Tensor<float, 3> patch =
          copies ? apply<float>(deformation.axes, read.view()) : interpolate(*places, margin, read.view(), box.start, outside);
      for (std::int64_t i = 0; i < patch.size(); ++i) {
        sample.image.data()[i * channels + channel] = (patch.data()[i] - mean) * scale;
      }
    }
    const Box labelled = copies ? drawn.box.grown(margin) : places->bounds(region.box);
    const Tensor<std::int64_t, 3> read = own.labels.read(labelled, region.box);
    const Tensor<std::int64_t, 3> labels =
        copies ? apply<std::int64_t>(deformation.axes, read.view()) : nearest(*places, read.view(), labelled.start, kNoLabel);
    if (training) {
      make_objects_faint(options.augmentation.faint_object, labels.view(), margin, key.random(kObjectPurpose),
                         sample.image.view());
    }
    targets->make(labels.view(), training, sample);
    return sample;
  }
};

PatchSource::PatchSource(std::vector<LabelledImage> images, std::vector<Region> regions, std::vector<std::string> groups,
                         std::shared_ptr<const Targets> targets, const PatchOptions& options, const Progress& progress)
    : impl_(std::make_unique<Impl>()) {
  FLOODTIDE_REQUIRE(*std::min_element(options.patch.begin(), options.patch.end()) >= 1, invalid_argument,
                    "patch: ", Show{options.patch}, " (z, y, x) given, expected sizes above 0");
  FLOODTIDE_REQUIRE(!options.whole || options.patch[0] == 1, invalid_argument, "patch: whole sections of ", Show{options.patch},
                    " (z, y, x), expected one section");
  require_valid(options.augmentation, options.patch);
  FLOODTIDE_REQUIRE(options.augmentation.faint_object == 0 || !targets->classes(), invalid_argument,
                    "augmentation: faint_object is ", options.augmentation.faint_object,
                    ", but the labels are classes; expected 0, or a task with objects");
  targets->check(options.patch);
  impl_->options = options;
  impl_->open(images);
  impl_->regions = std::move(regions);
  impl_->groups = std::move(groups);
  impl_->targets = std::move(targets);
  impl_->check_regions();
  for (const Region& region : impl_->regions) {
    const Windows& windows = impl_->windows.emplace_back(region.box, impl_->image(region).shape(), options.patch);
    const std::int64_t count = options.whole ? region.box.size[0] : volume<3>(windows.counts());
    impl_->first_window.push_back(impl_->first_window.back() + count);
  }
  impl_->count(progress);
  impl_->weigh_classes();
  impl_->order.emplace(options.whole ? fixed_size() : options.patches.value_or(fixed_size()), options.order,
                       options.whole ? "sections" : "patches of an epoch (data.patches)");
}

PatchSource::~PatchSource() = default;

const PatchOptions& PatchSource::options() const noexcept { return impl_->options; }
const Targets& PatchSource::targets() const noexcept { return *impl_->targets; }
std::int64_t PatchSource::channels() const noexcept { return std::ssize(impl_->images.front().channels); }
const SampleOrder& PatchSource::order() const noexcept { return *impl_->order; }
const std::vector<std::string>& PatchSource::groups() const noexcept { return impl_->groups; }
std::int64_t PatchSource::fixed_size() const noexcept { return impl_->first_window.back(); }

std::vector<std::int64_t> PatchSource::label_counts() const {
  std::vector<std::int64_t> counts;
  const std::int64_t classes = impl_->targets->classes() ? impl_->targets->outputs() : 1;
  for (int value = 0; value < classes; ++value) counts.push_back(impl_->index->count(value));
  return counts;
}

Region PatchSource::fixed_place(std::int64_t number) const { return impl_->fixed(number).place(); }

Region PatchSource::training_place(std::int64_t epoch, std::int64_t number) const {
  return impl_->training(impl_->key(epoch, number)).place();
}

Sample PatchSource::fixed(std::int64_t number) const {
  const Impl::Drawn drawn = impl_->fixed(number);
  Sample sample = impl_->read(drawn, {}, false, {});
  if (impl_->options.whole) return sample;
  const bool classes = targets().classes();
  std::vector<Vec3> middles;  // of the voxels on which an output depends, from its own voxel
  for (std::int64_t output = 0; output < (classes ? 1 : targets().outputs()); ++output) {
    const Vec3 offset = targets().offset(output);
    middles.push_back(by_axis([&](std::size_t axis) {
      const std::int64_t most = impl_->options.patch[axis] / 4 / 2;  // the voxel itself stays in its window
      return std::clamp(offset[axis] / 2, -most, most);
    }));
  }
  std::int64_t flat = 0;
  for_each_voxel(drawn.box, [&](const Vec3& at) {
    for (const Vec3& middle : middles) {
      if (!drawn.counted.contains(at + middle)) {
        if (classes) {
          sample.classes.data()[flat] = kUnlabelled;
        } else {
          sample.weights.data()[flat] = 0.0F;
        }
      }
      ++flat;
    }
  });
  return sample;
}

Sample PatchSource::load(const Cursor& cursor) const {
  const ExampleKey key = impl_->key(cursor.epoch, order().number(cursor));
  const Augmentation& augmentation = impl_->options.augmentation;
  const Impl::Drawn drawn = impl_->training(key);
  Sample sample = impl_->read(drawn, draw_deformation(augmentation, impl_->options.patch, key), true, key);
  std::vector<float> black;
  for (const LabelledImage::Channel& channel : impl_->image(*drawn.region).given.channels) {
    black.push_back(static_cast<float>(-channel.mean / channel.std));
  }
  change(draw_intensities(augmentation, impl_->options.patch[0], key), black, key.random(kNoisePurpose), sample.image.view());
  sample.cursor = cursor;
  return sample;
}

}  // namespace floodtide::data
