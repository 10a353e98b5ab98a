# SPDX-License-Identifier: Apache-2.0
"""What is probably wrong with volumes, judged from their statistics. Each problem says what to change.

An error is a mistake that no training or segmentation survives, such as an image given as labels. Everything that
somebody may want, or that a sample could misjudge, is a warning. docs/checks.md has the table.
"""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from floodtide.base import notes
from floodtide.data.formats.geometry import size_text
from floodtide.data.look.alignment import Alignment
from floodtide.data.look.image import ImageStatistics
from floodtide.data.look.labels import LabelStatistics
from floodtide.data.look.trained_on import TrainedOn
from floodtide.errors import ConfigurationError

# for an error and a warning: distance of the mean from 0, and standard deviation, of what the network reads
_FAR, _OFF = 10.0, 1.0
_FAINT, _FLAT = 0.05, 0.5
_SHIFT, _CONTRAST = 0.6, 1.5  # the same against the training images
_LENGTHS, _DETAIL = 1.6, 2.0  # ratio of correlation lengths, and of fine detail, of two images
_ORDER = 2.5  # ratio of one of these along an axis to the same along another axis
_INVERTED = 0.6  # distance in skewness from the inverted training image to that from itself
_SKEWED, _TEXTURE = 0.1, 1.2  # least skewness that is judged, and distance of other tissue
_ANISOTROPY = 3.0  # ratio of the correlation lengths of an image, in nm
_PADDING = 0.2  # share of an image that is padding, for a warning
_CERTAIN, _CLEARLY = 0.7, 4.0  # contrast of another orientation, and its ratio to the stored one
_EMPTY = 0.1  # share of sections without labels, for a warning
_AXES = "zyx"
_SAME_SIZE = 1.15  # ratio of voxel sizes up to which a network takes an image as it is


@dataclass(frozen=True)
class Problem:
    """Something that is probably wrong.

    Attributes:
        error: True if nobody can want it.
        text: One line: what is wrong, where, and what to change.
    """

    error: bool
    text: str


@dataclass(frozen=True)
class Reading:
    """How a network reads an image: as (grey level - mean) / std.

    Attributes:
        where: The volume in messages: "volume 'cube'".
        mean, std: Mean that is subtracted, and standard deviation that divides.
        keys: What sets them: "data.volumes.0.mean and std".
        voxel_size_nm: Voxel size (z, y, x) of the image; None if unknown.
        size_key: What states another voxel size than the file.
    """

    where: str
    mean: float
    std: float
    keys: str
    voxel_size_nm: tuple[float, float, float] | None = None
    size_key: str = "--voxel-nm"


def finding(text: str, error: bool = False) -> list[Problem]:
    """Return one problem: a warning, or an error."""
    return [Problem(error, text)]


def raise_errors(problems: Sequence[Problem]) -> tuple[str, ...]:
    """Raise the first error as ConfigurationError, else return the texts of the warnings."""
    for problem in problems:
        if problem.error:
            raise ConfigurationError(problem.text)
    return tuple(problem.text for problem in problems)


def settle(problems: Sequence[Problem]) -> None:
    """Raise the first error as ConfigurationError, else print each warning on standard error of rank 0."""
    for text in raise_errors(problems):
        notes.warn(text)


def of_grey_levels(
    image: ImageStatistics, reading: Reading, trained: Sequence[TrainedOn], *, adapts: bool = False
) -> list[Problem]:
    """Return what is wrong with mean and std: against the training images if they are known, else by themselves.

    Args:
        trained: What the network was trained on.
        adapts: True if the network is trained on this image, so that it may have other voxels.
    """
    found = _of_normalisation(image, reading)
    if not trained or any(problem.error for problem in found):
        return found
    size = _of_size(image, reading, trained, adapts=adapts)
    if size or image.std == 0:
        return size
    return min((_against(image, reading, volume) for volume in trained), key=lambda one: one[0])[1]


def _against(
    image: ImageStatistics, reading: Reading, volume: TrainedOn
) -> tuple[float, list[Problem]]:
    """Return how far an image is from what is usual for parts of a training image (1: the limit), and the warnings."""
    score, found = _of_contrast(image, reading, volume)
    shape, more = _of_scale(image, reading, volume)
    return max(score, shape), found + more


def _of_contrast(
    image: ImageStatistics, reading: Reading, volume: TrainedOn
) -> tuple[float, list[Problem]]:
    def read(mean: float, std: float) -> tuple[float, float]:
        return (mean - reading.mean) / reading.std, std / reading.std

    # With and without padding: a sample hardly tells padding from dark tissue.
    own = [read(image.mean, image.std), read(image.proposed_mean, image.proposed_std)]
    pairs = [pair for pair in zip(own, volume.normalised, strict=True) if pair[1][1] > 0]
    if not pairs:
        return 0.0, []

    def distance(pair: tuple[tuple[float, float], tuple[float, float]]) -> float:
        (mean, std), (away, spread) = pair
        contrast = abs(math.log(max(std, 1e-6) / spread)) / math.log(_CONTRAST)
        return max(abs(mean - away) / spread / _SHIFT, contrast)

    nearest = min(pairs, key=distance)
    (mean, std), (away, spread) = nearest
    if (score := distance(nearest)) <= 1:
        return score, []
    away_new, spread_new = volume.normalised[1]
    new_std = image.proposed_std / spread_new
    return score, finding(
        f"{reading.where}: {image.name} has another mean and contrast than the network was trained on: the network"
        f" reads values of {mean:.2f} +- {std:.2f}, and read {away:.2f} +- {spread:.2f} of {volume.name}: set"
        f" {reading.keys} to {image.proposed_mean - away_new * new_std:.4g} and {new_std:.4g}"
    )


def fits(own: Sequence[float], wanted: Sequence[float]) -> bool:
    """Return True if a network for voxels of the size `wanted` takes an image with voxels of the size `own`."""
    return all(max(a / b, b / a) <= _SAME_SIZE for a, b in zip(own, wanted, strict=True))


def resampling(image: str, own: Sequence[float], wanted: Sequence[float]) -> str:
    """Return the command that resamples an image from a voxel size (z, y, x) in nm to another one."""
    before, after = (",".join(f"{n:g}" for n in size) for size in (own, wanted))
    return (
        f"`floodtide convert {shlex.quote(image)} resampled.zarr"
        f" --voxel-nm {before} --resample-nm {after}`"
    )


def _of_normalisation(image: ImageStatistics, reading: Reading) -> list[Problem]:
    """Return what is wrong with mean and std for an image, whatever the network."""
    if image.std == 0:
        return finding(
            f"{reading.where}: all sampled voxels of {image.name} are {image.mean:g}, expected an image"
        )
    mean = (image.proposed_mean - reading.mean) / reading.std
    std = image.proposed_std / reading.std
    error = abs(mean) > _FAR or not _FAINT <= std <= 1 / _FAINT
    if not error and abs(mean) <= _OFF and _FLAT <= std <= 1 / _FLAT:
        return []
    return finding(
        f"{reading.where}: {image.name} ({image.dtype}) has mean {image.proposed_mean:.4g} and standard deviation"
        f" {image.proposed_std:.4g}, but mean = {reading.mean:g} and std = {reading.std:g} are set, so that the"
        f" network reads values of {mean:.3g} +- {std:.2g}, expected about 0 +- 1: set {reading.keys} to"
        f" {image.proposed_mean:.4g} and {image.proposed_std:.4g}",
        error,
    )


def _of_size(
    image: ImageStatistics,
    reading: Reading,
    trained: Sequence[TrainedOn],
    *,
    adapts: bool = False,
    pixels: bool = False,
) -> list[Problem]:
    """Return whether an image has other voxels, or `pixels`, than all training images, as far as sizes are known."""
    own = reading.voxel_size_nm
    known = [(one.voxel_size_nm, one.name) for one in trained if one.voxel_size_nm is not None]
    if own is None or not known or any(fits(own, size) for size, _ in known):
        return []
    wanted, name = min(
        known, key=lambda one: sum(abs(math.log(a / b)) for a, b in zip(own, one[0], strict=True))
    )
    what = "pixels" if pixels else "voxels"
    text = (
        f"{reading.where}: {image.name} has {what} of {size_text(own[pixels:])} nm, and the network was trained on"
        f" {what} of {size_text(wanted[pixels:])} nm ({name})"
    )
    if adapts:
        return finding(f"{text}: the training must adapt it to other sizes of structures")
    return finding(
        f"{text}: resample it first with {resampling(image.name, own, wanted)}; if the image has another voxel"
        f" size, state it ({reading.size_key})",
        error=True,
    )


def of_image(
    seen: ImageStatistics,
    *,
    mean: float,
    std: float,
    voxel_size_nm: tuple[float, float, float],
    wanted_nm: tuple[float, float, float],
    trained: Sequence[TrainedOn],
) -> list[Problem]:
    """Return what is wrong with an image that a network reads, resampled to `wanted_nm`, as (image - mean) / std.

    Args:
        seen: Statistics of the image as it is stored.
        mean, std: What the network reads the image with.
        voxel_size_nm: Voxel size (z, y, x) of the image.
        wanted_nm: Voxel size at which the network reads the image.
        trained: The images that the network was trained on; empty for a new network.
    """
    where = "the image"
    found = of_axes(seen, where, voxel_size_nm)
    if seen.sharpness is not None:
        z, y, x = (
            None if n is None else n * old / new
            for n, old, new in zip(seen.sharpness.length, voxel_size_nm, wanted_nm, strict=True)
        )
        sharpness = dataclasses.replace(seen.sharpness, length=(z, y, x))
        if voxel_size_nm != wanted_nm:  # resampling changes fine detail
            sharpness = dataclasses.replace(sharpness, autocorrelation=((), (), ()), skewness=())
        seen = dataclasses.replace(seen, sharpness=sharpness)
    reading = Reading(where, mean, std, "segment.mean and segment.std", wanted_nm)
    return found + of_grey_levels(seen, reading, trained)


def of_pixels(
    image: ImageStatistics, reading: Reading, trained: Sequence[TrainedOn]
) -> list[Problem]:
    """Return whether slices have other pixels (y, x) than those that a network was trained on."""
    own = reading.voxel_size_nm
    flat = [
        dataclasses.replace(one, voxel_size_nm=(own[0], *one.voxel_size_nm[1:]))
        for one in trained
        if own is not None and one.voxel_size_nm is not None
    ]
    return _of_size(image, reading, flat, pixels=True)


def _of_scale(
    image: ImageStatistics, reading: Reading, volume: TrainedOn
) -> tuple[float, list[Problem]]:
    """Return whether size, sharpness, order of axes or polarity of structures differ, with a score as `_against`."""
    seen = image.sharpness
    if seen is None:
        return 0.0, []
    lengths, detail = _ratios(seen.length, volume.length), _ratios(seen.detail, volume.detail)
    larger, finer = (math.prod(known.values()) ** (1 / max(1, len(known))) for known in (lengths, detail))  # fmt: skip
    by_length = math.log(larger) / math.log(_LENGTHS)
    by_detail = -math.log(finer) / math.log(_DETAIL)
    agree = by_length * by_detail > 0
    score = math.hypot(by_length, by_detail) if agree else max(abs(by_length), abs(by_detail))
    found = []
    if score > 1:
        differ = []
        if abs(by_length) > abs(by_detail) / 2:
            how = f"{max(larger, 1 / larger):.1f} times {'larger' if larger > 1 else 'smaller'}"
            differ.append(f"has structures that are {how} in voxels")
            if volume.voxel_size_nm is not None:
                like = size_text([float(f"{n / larger:.3g}") for n in volume.voxel_size_nm])
                differ[0] += f", as voxels of about {like} nm would make them"
        if abs(by_detail) > abs(by_length) / 2:
            what = "more" if finer > 1 else "less"
            differ.append(f"has {max(finer, 1 / finer):.1f} times {what} fine detail and noise")
        found += finding(
            f"{reading.where}: against {volume.name}, on which the network was trained, {image.name}"
            f" {', and '.join(differ)}. Compare the voxel size; if it is right, the image is blurred or noisy, or shows"
            " other tissue: compare previews at several voxel sizes"
        )
    order = max(_spread(lengths), _spread(detail)) / _ORDER
    if order > 1:
        table = lengths if _spread(lengths) >= _spread(detail) else detail
        most, least = max(table, key=table.__getitem__), min(table, key=table.__getitem__)
        if table is detail:
            most, least = least, most
        found += finding(
            f"{reading.where}: structures of {image.name} are longer along {_AXES[most]}, and shorter along"
            f" {_AXES[least]}, than those of {volume.name}, on which the network was trained: the axes are in another"
            " order than z, y, x, or the voxel size is wrong"
        )
    texture, inverted = _of_skewness(seen.skewness, volume.skewness)
    if texture > 1:
        what = "have other grey levels: they show another tissue, stain or microscope"
        opposite = (
            "are dark where they were bright, or bright where they were dark: invert the image"
        )
        what = opposite if inverted else what
        found += finding(
            f"{reading.where}: against {volume.name}, on which the network was trained, thin structures of"
            f" {image.name} {what}"
        )
    return max(score, order, texture), found


def _ratios(own: Sequence[float | None], theirs: Sequence[float | None]) -> dict[int, float]:
    """Return the ratio of two numbers along each axis (0 is z) along which both are known."""
    pairs = enumerate(zip(own, theirs, strict=True))
    return {axis: a / b for axis, (a, b) in pairs if a is not None and b is not None}


def _spread(ratios: dict[int, float]) -> float:
    return max(ratios.values()) / min(ratios.values()) if ratios else 1.0


def _of_skewness(own: Sequence[float], theirs: Sequence[float]) -> tuple[float, bool]:
    """Return how far fine structures differ, as a score as of `_against`, and whether they are rather the opposite."""
    if len(own) != len(theirs):
        return 0.0, False
    apart, inverse = math.dist(own, theirs), math.dist(own, [-value for value in theirs])
    inverted = 0.0
    if min(math.hypot(*own), math.hypot(*theirs)) >= _SKEWED:
        inverted = _INVERTED * apart / max(inverse, 1e-9)
    return max(inverted, apart / _TEXTURE), inverted > 1


def of_axes(
    image: ImageStatistics,
    where: str,
    voxel_size_nm: tuple[float, float, float] | None,
    trained: Sequence[TrainedOn] = (),
) -> list[Problem]:
    """Return whether the order of the axes, or the voxel size, contradicts what the image looks like.

    Nothing is judged if training images are known that `of_grey_levels` compares: blur and tissue may differ by axis.
    """
    if any(None not in one.length for one in trained):
        return []
    voxels = [n for n in image.sharpness.length if n is not None] if image.sharpness else []
    if len(voxels) != 3:
        return []
    nm = [n * size for n, size in zip(voxels, voxel_size_nm or (1.0, 1.0, 1.0), strict=True)]
    least, most = nm.index(min(nm)), nm.index(max(nm))
    times = nm[most] / nm[least]
    if times <= _ANISOTROPY:
        return []
    if voxel_size_nm is not None and len(set(voxel_size_nm)) > 1:
        return finding(
            f"{where}: with voxels of {size_text(voxel_size_nm)} nm (z, y, x), structures of {image.name} are"
            f" {times:.1f} times as long along {_AXES[most]} as along {_AXES[least]}: the voxel size or the order of"
            " the axes is probably wrong"
        )
    if least != 0:
        return finding(
            f"{where}: {image.name} changes fastest along {_AXES[least]} (half of the correlation is lost in"
            f" {voxels[least]:.1f} voxels, along {_AXES[most]} in {voxels[most]:.1f}), expected along z, across"
            " the sections: the axes are probably in another order than z, y, x"
        )
    if voxel_size_nm is None:
        return []  # thick sections, as usual, and no voxel size that says otherwise
    return finding(
        f"{where}: {image.name} changes {times:.1f} times as fast along z as along {_AXES[most]}, but the voxel size"
        f" is {size_text(voxel_size_nm)} nm: give the thickness of a section first, as in 40,4,4"
    )


def of_padding(image: ImageStatistics, where: str) -> list[Problem]:
    """Return whether much of an image is padding.

    Args:
        image: Statistics of the image, or of a part of it.
        where: What is judged: "the training box of volume 'cube'".
    """
    if image.padding < _PADDING:
        return []
    what = "black (0)" if image.lowest_share >= image.highest_share else "of the highest value"
    return finding(
        f"{where}: {100 * image.padding:.0f} % of the sampled voxels of {image.name} are {what}, as padding is:"
        " set the box to the part that shows something"
    )


def of_sections(image: ImageStatistics, where: str) -> list[Problem]:
    """Return bad sections, if the statistics have sections."""
    if image.sections is None or not image.sections.findings:
        return []
    found = image.sections.findings
    listed = ", ".join(f"{one.section} ({one.kind})" for one in found[:8])
    more = f" and {len(found) - 8} more" if len(found) > 8 else ""
    return finding(f"{where}: {image.name} has bad sections (z): {listed}{more}")


def of_labels(labels: LabelStatistics, where: str) -> list[Problem]:
    """Return what is wrong with labels by themselves."""
    if labels.like_image:
        return finding(
            f"{where}: {labels.name} looks like an image, not like labels: {100 * min(labels.changes):.0f} % of"
            " neighbouring voxels differ; expected one id for each object",
            labels.dtype in ("uint8", "int8") and labels.objects > 32,
        )
    if labels.flat_axis is not None:
        axis = _AXES[labels.flat_axis]
        return finding(
            f"{where}: {labels.name} holds labels of single sections: {100 * max(labels.changes):.0f} % of the"
            f" voxels change their id along {axis}; expected objects that keep their id through the volume"
        )
    if labels.objects == 0:
        return finding(f"{where}: all sampled voxels of {labels.name} are 0, no object")
    if labels.inner:
        names = ["background", *(f"class {value}" for value in labels.inner[1:])]
        rows = zip(labels.ranges, names, strict=True)
        table = ", ".join(f'{first}-{last} = "{name}"' for (first, last), name in rows)
        return finding(
            f"{where}: {labels.name} is {labels.kind_reason}, as after resizing or compression: use task.classes ="
            f" {{ {table} }}, or resize masks without interpolation"
        )
    if labels.form in ("box", "boxes", "sections"):
        empty = f"; {labels.empty_sections} of {labels.shape[0]} sections (z) have none"
        empty = empty if labels.empty_sections > 0 else ""
        return finding(
            f"{where}: {labels.name} has labels only in {labels.place}{empty}: voxels outside count as not labelled,"
            " rather than background: train on these parts only"
        )
    if labels.form == "scattered":
        return finding(
            f"{where}: labels of {labels.name} reach over {labels.place}, and fill {100 * labels.share:.0f} %"
            " of it: whether 0 is background, or not labelled, cannot be told"
        )
    if labels.empty_sections > _EMPTY * labels.shape[0]:
        return finding(
            f"{where}: {labels.empty_sections} of {labels.shape[0]} sections (z) of {labels.name} have no labels"
        )
    return []


def of_alignment(found: Alignment, where: str, labels: str) -> list[Problem]:
    """Return whether labels lie on their image in another orientation than the stored one, or nothing tells."""
    best, stored = found.clear, found.stored
    if best is None and found.verdict == "unclear":
        why = "few voxels lie at changes of label, or inside of objects"
        if stored is not None:
            why = f"changes of label differ from their surroundings by {stored.difference:.1f} grey levels only"
        return finding(
            f"{where}: whether {labels} lies on the image cannot be told: {why}: look at both in"
            " `floodtide inspect IMAGE --labels LABELS`"
        )
    if best is None:
        return []
    return finding(
        f"{where}: {labels} does not lie on the image: boundaries of labels differ from their surroundings by"
        f" {0.0 if stored is None else stored.difference:.1f} grey levels as stored, and by {best.difference:.1f}"
        f" with {best.orientation.words}: store {best.orientation.expression} instead",
        found.contrast(best) >= max(_CERTAIN, _CLEARLY * found.contrast(stored)),
    )
