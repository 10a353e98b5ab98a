// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/patch_source.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/class_index.hpp"
#include "data/purposes.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/data/deformation.hpp"
#include "floodtide/data/intensity.hpp"

namespace floodtide::data {
namespace {

constexpr std::size_t kCacheBytes = std::size_t{4} << 20;  // of a volume: patches come in random order, volumes may be many

/// The windows of validation over a box: they overlap by a quarter of their size, and the last one along an axis ends with the
/// box. A box that is smaller than a window has one, in whose middle it lies as far as the image allows.
struct Windows {
  Box box, image;
  Vec3 size, stride, counts;

  Windows(const Box& whole, const Vec3& image_shape, const Vec3& window)
      : box(whole), image{{}, image_shape}, size(window), stride(), counts() {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      stride[axis] = std::max<std::int64_t>(1, size[axis] - size[axis] / 4);
      counts[axis] = box.size[axis] <= size[axis] ? 1 : (box.size[axis] - size[axis] + stride[axis] - 1) / stride[axis] + 1;
    }
  }
  [[nodiscard]] std::int64_t count() const { return volume<3>(counts); }
  [[nodiscard]] Vec3 index_of(std::int64_t number) const {
    return {number / (counts[1] * counts[2]), number / counts[2] % counts[1], number % counts[2]};
  }
  [[nodiscard]] Box operator[](std::int64_t number) const {
    const Vec3 index = index_of(number);
    Box result{{}, size};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::int64_t room = box.size[axis] - size[axis];
      result.start[axis] = room > 0 ? box.start[axis] + std::min(index[axis] * stride[axis], room)
                                    : std::clamp<std::int64_t>(box.start[axis] + room / 2, 0, image.size[axis] - size[axis]);
    }
    return result;
  }
  /// Return the voxels that count in a window: from the middle of its overlap with the window before to that with the next.
  [[nodiscard]] Box counted(std::int64_t number) const {
    const Vec3 index = index_of(number);
    Box result;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const auto border = [&](std::int64_t i) {  // before window i of this axis
        if (i == 0) return box.start[axis];
        if (i == counts[axis]) return box.end()[axis];
        const std::int64_t begin = box.start[axis] + std::min(i * stride[axis], box.size[axis] - size[axis]);
        const std::int64_t end_of_last = box.start[axis] + (i - 1) * stride[axis] + size[axis];
        return (begin + end_of_last) / 2;
      };
      result.start[axis] = border(index[axis]);
      result.size[axis] = border(index[axis] + 1) - result.start[axis];
    }
    return result;
  }
};

struct OpenImage {
  std::vector<VolumePtr> channels;
  Labels labels;
  Vec3 shape;

  explicit OpenImage(const LabelledImage& given) : labels(given.labels, given.labels_start), shape() {
    FLOODTIDE_REQUIRE(!given.channels.empty(), invalid_argument, given.name, ": no image given");
    for (const LabelledImage::Channel& channel : given.channels) {
      const VolumePtr& opened = channels.emplace_back(channel.image.open(kCacheBytes));
      opened->require_type<float>();
      FLOODTIDE_REQUIRE(opened->shape() == channels.front()->shape(), shape_mismatch, opened->name(), ": has shape ",
                        Show{opened->shape()}, ", the image ", channels.front()->name(), " has ",
                        Show{channels.front()->shape()});
      FLOODTIDE_REQUIRE(channel.std > 0 && std::isfinite(channel.std) && std::isfinite(channel.mean), invalid_argument,
                        opened->name(), ": mean ", channel.mean, " and std ", channel.std,
                        ", expected finite ones, std above 0");
    }
    shape = channels.front()->shape();
    FLOODTIDE_REQUIRE((Box{{}, shape}.contains(labels.box())), out_of_range, labels.name(), ": labels at ",
                      Show{labels.box().start}, " of size ", Show{labels.box().size}, " (z, y, x) are not inside the image ",
                      channels.front()->name(), " of ", Show{shape},
                      "; give their place in the image by labels_start = [z, y, x]");
  }
};

/// Return a box as configurations have it.
std::string text_of(const Box& box) {
  std::string text;
  for (std::size_t axis = 0; axis < 3; ++axis) text += str_cat(axis == 0 ? "\"" : ",", box.start[axis], ":", box.end()[axis]);
  return text + "\"";
}

Box intersection(const Box& a, const Box& b) {
  Box result;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    result.start[axis] = std::max(a.start[axis], b.start[axis]);
    result.size[axis] = std::max<std::int64_t>(0, std::min(a.end()[axis], b.end()[axis]) - result.start[axis]);
  }
  return result;
}

}  // namespace

struct PatchSource::Impl {
  std::vector<LabelledImage> names;
  std::vector<OpenImage> images;
  std::vector<Region> regions;
  std::vector<std::string> groups;
  std::shared_ptr<const Targets> targets;
  PatchOptions options;
  SampleFormat format;
  std::vector<Windows> windows;               // of each region
  std::vector<std::int64_t> first_window{0};  // number of the first window of each region, and of all
  std::optional<ClassIndex> index;            // set by the constructor
  std::vector<double> shares;                 // of the index's classes in the training patches, added up
  std::optional<SampleOrder> order;           // set by the constructor

  [[nodiscard]] const OpenImage& image(const Region& region) const { return images[static_cast<std::size_t>(region.image)]; }

  /// Labels of a box, and kNoLabel outside of the region.
  [[nodiscard]] Tensor<std::int64_t, 3> labels_in(const Region& region, const Box& box) const {
    Tensor<std::int64_t, 3> labels(box.size);
    std::fill_n(labels.data(), labels.size(), kNoLabel);
    const Box known = intersection(box, region.box);
    if (known.voxels() == 0) return labels;
    const Tensor<std::int64_t, 3> read = image(region).labels.read(known);
    Box to = known;
    for (std::size_t axis = 0; axis < 3; ++axis) to.start[axis] -= box.start[axis];
    paste_box<std::int64_t>(read.view(), labels.view(), to);
    return labels;
  }

  /// Labels of a box as the index counts them: the class of each voxel, or 0 for objects; kNoClass without a label.
  [[nodiscard]] Tensor<std::uint8_t, 3> classes_of(std::int64_t number, const Box& box) const {
    const Region& region = regions[static_cast<std::size_t>(number)];
    const Tensor<std::int64_t, 3> labels = labels_in(region, box);
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

  void open(const std::vector<LabelledImage>& given);
  void check_regions() const;
  void count(const Progress& progress);
  void weigh_classes();

  [[nodiscard]] std::int64_t region_of_window(std::int64_t number) const {
    return std::upper_bound(first_window.begin(), first_window.end(), number) - first_window.begin() - 1;
  }
  [[nodiscard]] std::int64_t in_region(std::int64_t number) const {
    return number - first_window[static_cast<std::size_t>(region_of_window(number))];
  }

  /// The patch that holds a section in its middle.
  [[nodiscard]] Box around_section(const Region& region, std::int64_t section) const {
    Box box{{region.box.start[0] + section, 0, 0}, options.patch};
    for (std::size_t axis = 1; axis < 3; ++axis) {
      const std::int64_t room = region.box.size[axis] - options.patch[axis];
      box.start[axis] = region.box.start[axis] + (room >= 0 ? room / 2 : -((-room) / 2));
    }
    return box;
  }

  struct Drawn {
    const Region* region;
    Box box;
  };
  [[nodiscard]] Drawn fixed(std::int64_t number) const {
    const auto region = static_cast<std::size_t>(region_of_window(number));
    const std::int64_t own = in_region(number);
    return {&regions[region], options.whole ? around_section(regions[region], own) : windows[region][own]};
  }
  [[nodiscard]] Drawn draw(const ExampleKey& key) const;
  /// Return a channel of a patch. Without places, the deformation moves axes only.
  [[nodiscard]] Tensor<float, 3> channel_of(const Drawn& drawn, const Deformation& deformation, const Places* places,
                                            const Volume& volume, float mean) const;
  /// Return the labels of a patch with the margin of the targets.
  [[nodiscard]] Tensor<std::int64_t, 3> labels_of(const Drawn& drawn, const Deformation& deformation, const Places* places,
                                                  const Vec3& margin) const;
  [[nodiscard]] Sample read(const Drawn& drawn, const Deformation& deformation, bool training) const;
};

void PatchSource::Impl::open(const std::vector<LabelledImage>& given) {
  FLOODTIDE_REQUIRE(!given.empty(), invalid_argument, "patches: no image given");
  for (const LabelledImage& image : given) {
    images.emplace_back(image);
    FLOODTIDE_REQUIRE(image.channels.size() == given.front().channels.size(), invalid_argument, image.name, ": has ",
                      image.channels.size(), " channels, ", given.front().name, " has ", given.front().channels.size());
  }
}

void PatchSource::Impl::check_regions() const {
  FLOODTIDE_REQUIRE(!regions.empty(), invalid_argument, "patches: no region of an image given");
  for (const Region& region : regions) {
    FLOODTIDE_REQUIRE(
        region.image >= 0 && region.image < std::ssize(images) && region.group >= 0 && region.group < std::ssize(groups),
        invalid_argument, "patches: a region is of image ", region.image, " and group ", region.group, ", there are ",
        images.size(), " images and ", groups.size(), " groups");
    const OpenImage& own = image(region);
    const std::string& name = own.channels.front()->name();
    FLOODTIDE_REQUIRE(region.box.voxels() > 0 && (Box{{}, own.shape}.contains(region.box)), out_of_range, name,
                      ": box = ", text_of(region.box), " is not inside the volume ", Show{own.shape}, " (z, y, x)");
    FLOODTIDE_REQUIRE(intersection(region.box, own.labels.box()).voxels() > 0, out_of_range, name,
                      ": box = ", text_of(region.box), " has no voxel of the labels ", own.labels.name(),
                      ", which lie at box = ", text_of(own.labels.box()));
    for (std::size_t axis = 0; axis < 3; ++axis) {
      FLOODTIDE_REQUIRE(options.whole || options.patch[axis] <= own.shape[axis], invalid_argument, name, ": patches of ",
                        Show{options.patch}, " (z, y, x) are larger than the volume ", Show{own.shape},
                        "; give smaller patches by data.patch = [z, y, x]");
    }
  }
}

void PatchSource::Impl::count(const Progress& progress) {
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

void PatchSource::Impl::weigh_classes() {
  const std::vector<double>& weights = options.class_weights;
  FLOODTIDE_REQUIRE(weights.empty() || (targets->classes() && std::ssize(weights) == targets->outputs()), invalid_argument,
                    "class_weights: ", weights.size(), " given, expected one for each of the ",
                    targets->classes() ? targets->outputs() : 0, " classes");
  double sum = 0;
  for (const int value : index->classes()) {
    const double weight = weights.empty() ? static_cast<double>(index->count(value)) : weights[static_cast<std::size_t>(value)];
    FLOODTIDE_REQUIRE(weight >= 0 && std::isfinite(weight), invalid_argument, "class_weights: ", weight,
                      " given, expected numbers of 0 and more");
    shares.push_back(sum += weight);
  }
  FLOODTIDE_REQUIRE(sum > 0, invalid_argument, "class_weights: all classes that occur have weight 0");
}

PatchSource::Impl::Drawn PatchSource::Impl::draw(const ExampleKey& key) const {
  Philox random = key.random(kPatchPurpose);
  const double at = random.uniform() * shares.back();
  const auto found = std::upper_bound(shares.begin(), shares.end() - 1, at) - shares.begin();
  const int value = index->classes()[static_cast<std::size_t>(found)];
  const Centre voxel =
      index->find(value, static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(index->count(value)))));
  const Region& region = regions[static_cast<std::size_t>(voxel.volume)];
  Box box{{}, options.patch};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const bool fits = region.box.size[axis] >= options.patch[axis];
    const std::int64_t first = fits ? region.box.start[axis] : 0;
    const std::int64_t end = fits ? region.box.end()[axis] : image(region).shape[axis];
    const std::int64_t low = std::max(first, voxel.position[axis] - options.patch[axis] + 1);
    const std::int64_t high = std::min(end - options.patch[axis], voxel.position[axis]);
    box.start[axis] = low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low + 1)));
  }
  return {&region, box};
}

Tensor<float, 3> PatchSource::Impl::channel_of(const Drawn& drawn, const Deformation& deformation, const Places* places,
                                               const Volume& volume, float mean) const {
  if (!places) return apply<float>(deformation.axes, volume.read_block<float>(drawn.box).view());
  const Box read = intersection(places->bounds(), volume.box());
  const std::optional<float> outside = options.whole ? std::optional(mean) : std::nullopt;
  return interpolate(*places, volume.read_block<float>(read).view(), read.start, outside);
}

Tensor<std::int64_t, 3> PatchSource::Impl::labels_of(const Drawn& drawn, const Deformation& deformation, const Places* places,
                                                     const Vec3& margin) const {
  if (!places) {
    Box box = drawn.box;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      box.start[axis] -= margin[axis];
      box.size[axis] += 2 * margin[axis];
    }
    return apply<std::int64_t>(deformation.axes, labels_in(*drawn.region, box).view());
  }
  const Places with_margin(deformation, drawn.box, margin);
  const Box read = with_margin.bounds();
  return nearest(with_margin, labels_in(*drawn.region, read).view(), read.start, kNoLabel);
}

Sample PatchSource::Impl::read(const Drawn& drawn, const Deformation& deformation, bool training) const {
  const Region& region = *drawn.region;
  const Vec3 &size = options.patch, margin = targets->margin(training);
  const bool cube = margin[0] == margin[1] && margin[1] == margin[2];
  const bool copies = deformation.moves_axes_only() && !options.whole && (cube || deformation.axes.keeps_axes());
  std::optional<Places> places;
  if (!copies) places.emplace(deformation, drawn.box);
  const Places* map = places ? &*places : nullptr;
  Sample sample;
  sample.group = region.group;
  sample.image = Tensor<float, 4>({size[0], size[1], size[2], format.channels});
  const LabelledImage& name = names[static_cast<std::size_t>(region.image)];
  for (std::int64_t channel = 0; channel < format.channels; ++channel) {
    const auto number = static_cast<std::size_t>(channel);
    const auto mean = static_cast<float>(name.channels[number].mean);
    const Tensor<float, 3> patch = channel_of(drawn, deformation, map, *image(region).channels[number], mean);
    const auto scale = static_cast<float>(1 / name.channels[number].std);
    for (std::int64_t i = 0; i < patch.size(); ++i) {
      sample.image.data()[i * format.channels + channel] = (patch.data()[i] - mean) * scale;
    }
  }
  if (format.labelled) {
    sample.classes = Tensor<std::uint8_t, 3>(size);
  } else {
    sample.targets = Tensor<float, 4>({size[0], size[1], size[2], format.outputs});
    sample.weights = Tensor<float, 4>(sample.targets.shape());
  }
  targets->make(labels_of(drawn, deformation, map, margin).view(), training, sample);
  return sample;
}

PatchSource::PatchSource(std::vector<LabelledImage> images, std::vector<Region> regions, std::vector<std::string> groups,
                         std::shared_ptr<const Targets> targets, const PatchOptions& options, const Progress& progress)
    : impl_(std::make_unique<Impl>()) {
  FLOODTIDE_REQUIRE(*std::min_element(options.patch.begin(), options.patch.end()) >= 1, invalid_argument,
                    "patch: ", Show{options.patch}, " (z, y, x) given, expected sizes above 0");
  FLOODTIDE_REQUIRE(!options.whole || options.patch[0] == 1, invalid_argument, "patch: whole sections of ", Show{options.patch},
                    " (z, y, x), expected one section");
  require_valid(options.augmentation, options.patch);
  targets->check(options.patch);
  impl_->options = options;
  impl_->open(images);
  impl_->names = std::move(images);
  impl_->regions = std::move(regions);
  impl_->groups = std::move(groups);
  impl_->targets = std::move(targets);
  impl_->format = {.shape = options.patch,
                   .outputs = impl_->targets->outputs(),
                   .labelled = impl_->targets->classes(),
                   .soft_from = impl_->targets->soft_from(),
                   .channels = std::ssize(impl_->names.front().channels)};
  impl_->check_regions();
  for (const Region& region : impl_->regions) {
    const Windows& windows = impl_->windows.emplace_back(region.box, impl_->image(region).shape, options.patch);
    impl_->first_window.push_back(impl_->first_window.back() + (options.whole ? region.box.size[0] : windows.count()));
  }
  impl_->count(progress);
  impl_->weigh_classes();
  impl_->order.emplace(options.whole ? fixed_size() : options.patches.value_or(fixed_size()), options.order,
                       options.whole ? "sections" : "patches of an epoch");
}

PatchSource::~PatchSource() = default;

const PatchOptions& PatchSource::options() const noexcept { return impl_->options; }
const SampleFormat& PatchSource::format() const noexcept { return impl_->format; }
const SampleOrder& PatchSource::order() const noexcept { return *impl_->order; }
std::int64_t PatchSource::groups() const noexcept { return std::ssize(impl_->groups); }
std::int64_t PatchSource::fixed_size() const noexcept { return impl_->first_window.back(); }

std::string PatchSource::group_name(std::int64_t group) const {
  FLOODTIDE_REQUIRE(group >= 0 && group < groups(), out_of_range, "group ", group, " of ", groups());
  return impl_->groups[static_cast<std::size_t>(group)];
}

std::vector<std::int64_t> PatchSource::label_counts() const {
  std::vector<std::int64_t> counts;
  const std::int64_t classes = impl_->targets->classes() ? impl_->targets->outputs() : 1;
  for (int value = 0; value < classes; ++value) counts.push_back(impl_->index->count(value));
  return counts;
}

PatchSource::Place PatchSource::fixed_place(std::int64_t number) const {
  FLOODTIDE_REQUIRE(number >= 0 && number < fixed_size(), out_of_range, "patch ", number, " of ", fixed_size());
  const Impl::Drawn drawn = impl_->fixed(number);
  return {drawn.region->image, drawn.box};
}

PatchSource::Place PatchSource::training_place(std::int64_t epoch, std::int64_t number) const {
  if (impl_->options.whole) return fixed_place(number);
  const Impl::Drawn drawn = impl_->draw({impl_->options.order.seed, epoch, number});
  return {drawn.region->image, drawn.box};
}

Sample PatchSource::read_fixed(std::int64_t number) const {
  const Impl::Drawn drawn = impl_->fixed(number);
  Sample sample = impl_->read(drawn, {}, false);
  if (impl_->options.whole) return sample;
  const Box counted =
      impl_->windows[static_cast<std::size_t>(impl_->region_of_window(number))].counted(impl_->in_region(number));
  std::vector<Vec3> middles;  // of the voxels on which an output depends, from its own voxel
  for (std::int64_t output = 0; output < (impl_->format.labelled ? 1 : impl_->format.outputs); ++output) {
    Vec3& middle = middles.emplace_back(impl_->targets->offset(output));
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const std::int64_t most = impl_->options.patch[axis] / 4 / 2;  // the voxel itself stays in its window
      middle[axis] = std::clamp(middle[axis] / 2, -most, most);
    }
  }
  std::int64_t flat = 0;
  for_each_voxel(drawn.box, [&](const Vec3& at) {
    for (const Vec3& middle : middles) {
      if (!counted.contains(Vec3{at[0] + middle[0], at[1] + middle[1], at[2] + middle[2]})) {
        if (impl_->format.labelled) {
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

Sample PatchSource::read_training(std::int64_t epoch, std::int64_t number) const {
  const ExampleKey key{impl_->options.order.seed, epoch, number};
  const Augmentation& augmentation = impl_->options.augmentation;
  const Impl::Drawn drawn = impl_->options.whole ? impl_->fixed(number) : impl_->draw(key);
  Sample sample = impl_->read(drawn, draw_deformation(augmentation, impl_->options.patch, key), true);
  std::vector<float> black;
  for (const LabelledImage::Channel& channel : impl_->names[static_cast<std::size_t>(drawn.region->image)].channels) {
    black.push_back(static_cast<float>(-channel.mean / channel.std));
  }
  change(draw_intensities(augmentation, impl_->options.patch[0], key), black, key.random(kNoisePurpose), sample.image.view());
  return sample;
}

}  // namespace floodtide::data
