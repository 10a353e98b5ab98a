# SPDX-License-Identifier: Apache-2.0
"""What does not fit between an image, its labels, the stated voxel size, and the images of a training."""

from __future__ import annotations

from collections.abc import Sequence

from floodtide.data import Volume, look
from floodtide.data.look import Alignment, ImageStatistics, Sharpness
from floodtide.errors import InvalidArgumentError
from floodtide.plan.known import KnownNetwork, SizeNm

MEAN_OFF = 0.25
"""Distance of the means, in standard deviations, up to which two images count as equally normalised."""
STD_OFF = 1.25
"""Ratio of standard deviations up to which two images count as equally normalised."""

SAME_SIZE = 1.15
"""Ratio of voxel sizes up to which a network segments an image without resampling."""

_SCALE = 1.5  # ratio of correlation lengths that images of one kind of tissue may have
_UNEVEN = 1.8  # ratio of correlation lengths in nm along two axes that tissue hardly has
_NAMES = "zyx"


def voxel_size_of(volume: Volume, given: Sequence[float] | None) -> SizeNm:
    """Return the voxel size that was given, else the one that the file states.

    Raises:
        InvalidArgumentError: If there is none.
    """
    size = given or volume.geometry.voxel_size_nm
    if size is None:
        raise InvalidArgumentError(
            f"{volume.name}: states no voxel size; expected --voxel-nm z,y,x, for example --voxel-nm 8,8,8"
        )
    return float(size[0]), float(size[1]), float(size[2])


def needs_resampling(voxel_size_nm: Sequence[float], wanted: Sequence[float] | None) -> bool:
    """Return True if a network for voxels of `wanted` nm cannot take an image of `voxel_size_nm` as it is."""
    if wanted is None:
        return False
    pairs = zip(voxel_size_nm, wanted, strict=True)
    return any(max(a / b, b / a) > SAME_SIZE for a, b in pairs)


def same_levels(mean: float, std: float, trained_mean: float, trained_std: float) -> bool:
    """Return True if an image of this mean and standard deviation is like the images of a training."""
    near = abs(mean - trained_mean) <= MEAN_OFF * trained_std
    return near and 1 / STD_OFF <= std / trained_std <= STD_OFF


def voxel_size_notes(
    found: Sharpness | None, voxel_size_nm: Sequence[float], stated: Sequence[float] | None
) -> list[str]:
    """Return what speaks against a voxel size: the file's own, and how far grey levels stay alike along each axis."""
    notes = []
    if stated is not None and any(
        abs(a / b - 1) > 0.02 for a, b in zip(voxel_size_nm, stated, strict=True)
    ):
        notes.append(
            f"the file states voxels of {size_text(stated)} nm, and {size_text(voxel_size_nm)} nm were given: check"
            " which is right"
        )
    if found is None:
        return notes
    lengths = found.length_nm(voxel_size_nm)
    known = [n for n in lengths if n is not None]
    if len(known) == 3 and max(known) > _UNEVEN * min(known):
        text = ", ".join(f"{n:.0f} nm along {axis}" for n, axis in zip(known, _NAMES, strict=True))
        notes.append(
            f"grey levels stay alike over {text}, which differs more than in tissue: check the voxel size, and that the"
            " axes are z, y, x"
        )
    return notes


def scale_note(
    found: Sharpness | None, voxel_size_nm: Sequence[float], network: KnownNetwork
) -> str:
    """Return what speaks against the scale of an image for a network; empty for nothing, or if it cannot be told."""
    known = [] if found is None else [n for n in found.length_nm(voxel_size_nm) if n is not None]
    if not known or network.correlation_nm is None:
        return ""
    middle = sorted(known)[len(known) // 2]
    low, high = network.correlation_nm
    if low / _SCALE <= middle <= high * _SCALE:
        return ""
    factor = (low * high) ** 0.5 / middle
    return (
        f"grey levels stay alike over {middle:.0f} nm, in the images that {network.name} was trained for over"
        f" {low:.0f} to {high:.0f} nm: check the voxel size; one {factor:.1f} times as large would fit"
    )


def alignment_note(image: Volume, labels: Volume) -> str:
    """Return a note if the labels would lie better on the image in another order of axes; empty for nothing."""
    found: Alignment = look.alignment(image, labels, budget=look.QUICK)
    other = found.clear
    if other is None:
        return ""
    return (
        f"the labels lie on the image as {other.orientation.words}, not as stored: write them again, for example as"
        f" {other.orientation.expression} (`floodtide inspect` shows it)"
    )


def level_notes(found: ImageStatistics) -> list[str]:
    """Return notes on grey levels: clipped voxels and what the normalisation leaves out."""
    notes = []
    if found.left_out:
        notes.append(f"mean and standard deviation leave out {found.left_out}")
    clipped = max(found.lowest_share, found.highest_share)
    if found.dtype in ("uint8", "uint16", "int16", "int8") and clipped > 0.05:
        notes.append(f"{100 * clipped:.0f} % of the voxels have the lowest or highest grey level")
    return notes


def size_text(size_nm: Sequence[float]) -> str:
    """Return "40 x 4 x 4"."""
    return " x ".join(f"{n:g}" for n in size_nm)
