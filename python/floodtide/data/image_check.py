# SPDX-License-Identifier: Apache-2.0
"""Check before a segmentation or prediction that the image looks like the images that the network was trained on."""

from __future__ import annotations

import dataclasses
import os

from floodtide.base import notes
from floodtide.data.boxes import Box, is_inside
from floodtide.data.formats.geometry import SizeNm, size_text
from floodtide.data.look import problems
from floodtide.data.look.image import ImageStatistics, image_statistics
from floodtide.data.look.problems import Problem, Reading, settle
from floodtide.data.look.sampling import QUICK, whole_of
from floodtide.data.look.trained_on import training_images
from floodtide.data.volumes import Volume, settled_size


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
        found = problems.of_grey_levels(statistics, reading, () if slices else trained)
        if checkpoint is None:
            return found
        if slices:
            return found + problems.of_pixels(statistics, reading, trained)
        return found + problems.of_axes(statistics, reading.where, reading.voxel_size_nm, trained)

    statistics = image_statistics(image, box=box, budget=QUICK, sections=False)
    found = compared(statistics)
    if found and statistics.std > 0 and box not in (None, whole_of(image.shape)):
        return compared(image_statistics(image, budget=QUICK, sections=False))
    return found
