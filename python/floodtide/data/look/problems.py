# SPDX-License-Identifier: Apache-2.0
"""What is probably wrong with volumes, judged from their statistics. Each problem says what to change.

An error is a mistake that no training or segmentation survives, such as an image given as labels. Everything that
somebody may want, or that a sample could misjudge, is a warning. docs/checks.md has the table.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from floodtide.base import notes
from floodtide.data.boxes import Box, is_inside
from floodtide.data.formats.geometry import SizeNm, size_text
from floodtide.data.look.alignment import Alignment
from floodtide.data.look.image import ImageStatistics, Sharpness, image_statistics
from floodtide.data.look.labels import LabelStatistics
from floodtide.data.look.sampling import QUICK, whole_of
from floodtide.data.look.trained_on import TrainedOn, training_images
from floodtide.data.volumes import Volume, settled_size
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
    if not trained or image.std == 0 or any(problem.error for problem in found):
        return found
    if size := of_size(image, reading, trained, adapts=adapts):
        return size
    return min((_against(image, reading, volume) for volume in trained), key=lambda one: one[0])[1]


def _against(
    image: ImageStatistics, reading: Reading, volume: TrainedOn
) -> tuple[float, list[Problem]]:
    """Return how far an image is from what is usual for parts of a training image (1: the limit), and the warnings."""
    parts = [_of_contrast(image, reading, volume)]
    if image.sharpness is not None:
        start = f"{reading.where}: against {volume.name}, on which the network was trained,"
        parts += [
            (score, f"{start} {image.name} {text}")
            for score, text in _of_structures(image.sharpness, volume)
        ]
    found = [Problem(False, text) for score, text in parts if score > 1]
    return max(score for score, _ in parts), found


def _of_contrast(image: ImageStatistics, reading: Reading, volume: TrainedOn) -> tuple[float, str]:
    # With and without padding: a sample hardly tells padding from dark tissue.
    own = (image.mean, image.std), (image.proposed_mean, image.proposed_std)
    known = volume.image_mean, volume.image_std
    compared = []
    for (mean, std), (away, spread) in zip(own, (known, volume.unpadded or known), strict=True):
        if spread > 0:
            mean, std = (mean - reading.mean) / reading.std, std / reading.std
            away, spread = (away - volume.mean) / volume.std, spread / volume.std
            contrast = abs(math.log(max(std, 1e-6) / spread)) / math.log(_CONTRAST)
            score = max(abs(mean - away) / spread / _SHIFT, contrast)
            compared.append((score, mean, std, away, spread))
    if not compared:
        return 0.0, ""
    *_, away_new, spread_new = compared[-1]
    new_std = image.proposed_std / spread_new
    score, mean, std, away, spread = min(compared)
    return score, (
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


def of_size(
    image: ImageStatistics,
    reading: Reading,
    trained: Sequence[TrainedOn],
    *,
    adapts: bool = False,
    pixels: bool = False,
) -> list[Problem]:
    """Return whether an image has other voxels, or `pixels` (y, x), than all training images, if sizes are known."""
    own = reading.voxel_size_nm
    known = [(one.voxel_size_nm, one.name) for one in trained if one.voxel_size_nm is not None]
    if own is not None and pixels:
        known = [((own[0], *size[1:]), name) for size, name in known]
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


def _of_structures(seen: Sharpness, volume: TrainedOn) -> list[tuple[float, str]]:
    """Return whether size, sharpness, order of axes and grey levels of structures differ: scores as of `_against`."""
    lengths, detail = _ratios(seen.length, volume.length), _ratios(seen.detail, volume.detail)
    larger, finer = (math.prod(known.values()) ** (1 / max(1, len(known))) for known in (lengths, detail))  # fmt: skip
    by_length = math.log(larger) / math.log(_LENGTHS)
    by_detail = -math.log(finer) / math.log(_DETAIL)
    agree = by_length * by_detail > 0
    scale = math.hypot(by_length, by_detail) if agree else max(abs(by_length), abs(by_detail))
    found = [
        (
            scale,
            f"has structures of {larger:.2g} times the size in voxels, and {finer:.2g} times the fine detail and noise."
            " Compare the voxel size; if it is right, the image is blurred or noisy, or shows other tissue: compare"
            " previews at several voxel sizes",
        )
    ]
    for what, ratios in (("longer structures", lengths), ("more fine detail", detail)):
        if ratios:
            most, least = max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)
            text = (
                f"has {what} along {_AXES[most]} than along {_AXES[least]}: the axes are in another order than z, y, x,"
                " or the voxel size is wrong"
            )
            found.append((ratios[most] / ratios[least] / _ORDER, text))
    own, theirs = seen.skewness, volume.skewness
    if len(own) == len(theirs):
        inverse = math.dist(own, [-value for value in theirs])
        apart, inverted = math.dist(own, theirs), 0.0
        if min(math.hypot(*own), math.hypot(*theirs)) >= _SKEWED:
            inverted = _INVERTED * apart / max(inverse, 1e-9)
        text = "has thin structures of other grey levels: another tissue, stain or microscope"
        if inverted > 1:
            text = "has dark thin structures instead of bright ones, or bright ones instead of dark: invert the image"
        found.append((max(inverted, apart / _TEXTURE), text))
    return found


def _ratios(own: Sequence[float | None], theirs: Sequence[float | None]) -> dict[int, float]:
    """Return the ratio of two numbers along each axis (0 is z) along which both are known."""
    pairs = enumerate(zip(own, theirs, strict=True))
    return {axis: a / b for axis, (a, b) in pairs if a is not None and b is not None}


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
    if times <= _ANISOTROPY or (voxel_size_nm is None and least == 0):
        return []  # thick sections are usual, if no voxel size says otherwise
    text = f"{where}: structures of {image.name} are {times:.1f} times as long along {_AXES[most]}"
    text += f" as along {_AXES[least]}"
    if voxel_size_nm is None:
        return finding(
            f"{text}, expected the shortest along z, across the sections: the axes are probably in another order than"
            " z, y, x"
        )
    return finding(
        f"{text}, with voxels of {size_text(voxel_size_nm)} nm (z, y, x): the voxel size or the order of the axes is"
        " probably wrong; the thickness of a section comes first, as in 40,4,4"
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
    found = image.sections.findings if image.sections else ()
    if not found:
        return []
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
    empty = f"{labels.empty_sections} of {labels.shape[0]} sections (z)"
    if labels.form in ("box", "boxes", "sections"):
        empty = f"; {empty} have none" if labels.empty_sections else ""
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
        return finding(f"{where}: {empty} of {labels.name} have no labels")
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
        f" in another orientation: store {best.expression} instead",
        found.contrast(best) >= max(_CERTAIN, _CLEARLY * found.contrast(stored)),
    )


def checked_image(
    name: str,
    checkpoint: str | os.PathLike[str],
    reading: Reading,
    what: str,
    *,
    box: Box | None = None,
    slices: bool = False,
) -> tuple[Volume, SizeNm | None]:
    """Open an image for a network, and settle the problems of `image_problems`.

    Return the image and its voxel size (z, y, x) in nm: the stated one, else its own.

    Args:
        checkpoint, box, slices: As for `image_problems`.
        reading: Mean and std that are set, and the voxel size that the user states.
        what: The result that gets this voxel size, for notes.
    """
    image, reading = opened(name, reading, what)
    settle(image_problems(image, checkpoint, reading, box=box, slices=slices))
    trained = {one.voxel_size_nm for one in training_images(checkpoint)} - {None}
    unknown = reading.voxel_size_nm is None and not slices
    if unknown and trained and (box is None or is_inside(box, image.shape)):
        sizes = " or ".join(size_text(size) for size in sorted(filter(None, trained)))
        notes.show(
            f"{image.name}: states no voxel size; the network was trained on voxels of {sizes} nm: they are taken as"
            " alike"
        )
    return image, reading.voxel_size_nm


def opened(name: str, reading: Reading, what: str) -> tuple[Volume, Reading]:
    """Return an image, and the reading with the voxel size that counts. Arguments as for `checked_image`."""
    image = Volume(name)
    size = settled_size(image, reading.voxel_size_nm, what)
    return image, dataclasses.replace(reading, voxel_size_nm=size)


def image_problems(
    image: Volume,
    checkpoint: str | os.PathLike[str] | None,
    reading: Reading,
    *,
    box: Box | None = None,
    slices: bool = False,
) -> list[Problem]:
    """Return how an image differs from what a network was trained on, from a sample of the image.

    Mean and contrast, sizes and polarity of structures, voxel size and order of axes are compared, as far as the
    checkpoint keeps statistics. Only what differs in the whole image is a problem of a part.

    Args:
        checkpoint: A floodtide checkpoint, or the prefix of a TensorFlow checkpoint; None: judge only mean and std.
        box: The part of the image to segment; None: the whole image.
        slices: The image is a stack of slices (n, y, x), whose first axis is no length.
    """
    if box is not None and not is_inside(box, image.shape):
        return []  # the engine refuses the box
    trained = () if checkpoint is None else training_images(checkpoint)

    def compared(statistics: ImageStatistics) -> list[Problem]:
        found = of_grey_levels(statistics, reading, () if slices else trained)
        if checkpoint is None:
            return found
        if slices:
            return found + of_size(statistics, reading, trained, pixels=True)
        return found + of_axes(statistics, reading.where, reading.voxel_size_nm, trained)

    statistics = image_statistics(image, box=box, budget=QUICK)
    found = compared(statistics)
    if found and statistics.std > 0 and box not in (None, whole_of(image.shape)):
        return compared(image_statistics(image, budget=QUICK))
    return found
