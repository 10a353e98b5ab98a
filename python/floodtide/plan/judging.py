# SPDX-License-Identifier: Apache-2.0
"""How an image is normalised, and what does not fit between it, its labels, its voxel size and a training's images."""

from __future__ import annotations

from collections.abc import Sequence

from floodtide.data import Box, Volume, look
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.look import problems
from floodtide.data.look.image import ImageStatistics
from floodtide.data.look.problems import Problem
from floodtide.data.volumes import settled_size
from floodtide.errors import InvalidArgumentError
from floodtide.plan.known import KnownNetwork

MEAN_OFF = 0.25
"""Distance of the means, in standard deviations, up to which two images count as equally normalised."""
STD_OFF = 1.25
"""Ratio of standard deviations up to which two images count as equally normalised."""


def voxel_size_of(volume: Volume, given: Sequence[float] | None) -> SizeNm:
    """Return the voxel size that was given, with a note if the file states another one; else that of the file."""
    size = settled_size(volume, given, "--voxel-nm")
    if size is None:
        raise InvalidArgumentError(
            f"{volume.name}: states no voxel size; expected --voxel-nm z,y,x, for example --voxel-nm 8,8,8"
        )
    z, y, x = map(float, size)
    return z, y, x


def same_levels(mean: float, std: float, trained_mean: float, trained_std: float) -> bool:
    """Return True if an image of this mean and standard deviation is like the images of a training."""
    near = abs(mean - trained_mean) <= MEAN_OFF * trained_std
    return near and 1 / STD_OFF <= std / trained_std <= STD_OFF


def levels_for(
    seen: ImageStatistics, start: KnownNetwork | None, where: str
) -> tuple[float, float, str]:
    """Return mean, standard deviation and the reason.

    Args:
        start: The network that will see the image; None for a new one.
        where: What was measured: "the training box".
    """
    mean, std = round(seen.proposed_mean, 4), round(seen.proposed_std, 4)
    if seen.proposed_std <= 0 or std <= 0:
        raise InvalidArgumentError(
            f"{seen.name}: all voxels have one grey level, expected an image"
        )
    left_out = f" (without {seen.left_out})" if seen.left_out else ""
    own = f"Measured in {where}{left_out}."
    if start is None or start.mean is None or start.std is None:
        return mean, std, own
    if same_levels(mean, std, start.mean, start.std):
        why = f"As {start.name} was trained; {where} has mean {mean:g}, standard deviation {std:g}."
        return start.mean, start.std, why
    why = (
        f"{own} {start.name} was trained on mean {start.mean:g}, standard deviation {start.std:g}: with the image's own"
        " numbers, the network receives the same range of values."
    )
    return mean, std, why


def label_problems(image: Volume, labels: Volume, box: Box) -> list[Problem]:
    """Return what is wrong with labels in a box, and whether they lie on their image in another order of axes."""
    name = "the labels"
    found = problems.of_labels(look.label_statistics(labels, box=box, budget=look.QUICK), name)
    return found + problems.of_alignment(
        look.alignment(image, labels, budget=look.QUICK), name, labels.name
    )
