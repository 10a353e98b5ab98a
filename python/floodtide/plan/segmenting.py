# SPDX-License-Identifier: Apache-2.0
"""Segmentation of an image with a network that is known, without a configuration; and its preview.

A preview segments a box in the middle of the image, small enough for a few minutes.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from floodtide import config
from floodtide.base.data_options import TrainingVolume
from floodtide.config import Config, SegmentOptions
from floodtide.data import Box, Volume, look
from floodtide.data.boxes import Progress, box_text, is_inside, middle
from floodtide.data.formats.geometry import Geometry, SizeNm, size_text
from floodtide.data.look import problems
from floodtide.data.resampling import Resampled, labels_at
from floodtide.errors import InvalidArgumentError, OutOfRangeError
from floodtide.plan.networks import KnownNetwork, known_network, levels_for, voxel_size_of
from floodtide.segment import Segmenter
from floodtide.segment.affinities import write_segments
from floodtide.train.setup import set_threads

SIDE = 96
"""Voxels of the network along each side of the box, if the volume has them."""
LIMIT_S = 210.0
"""Seconds after which flooding stops. The rest of five minutes is for reading, scores and the picture."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a network sees an image.

    Attributes:
        voxel_size_nm: Voxel size (z, y, x) of the image.
        wanted_nm: Voxel size that the network segments at; the image is resampled if they differ.
        options: Options of the segmentation, with mean and std.
        words: The same for the user, and the reason for mean and std, in one line.
        notes: What does not fit together.
    """

    image: Volume
    network: KnownNetwork
    voxel_size_nm: SizeNm
    wanted_nm: SizeNm
    options: SegmentOptions
    words: str
    notes: tuple[str, ...]


def settings_for(
    image: str, model: str, voxel_nm: Sequence[float] | None, overrides: Sequence[str] = ()
) -> tuple[Config, Setting]:
    """Return a configuration that segments an image with a network, and how the network sees the image.

    A look at the image's grey levels gives mean and std, unless `overrides` have both.

    Args:
        model: fib25, a checkpoint or a run directory.
        voxel_nm: Voxel size (z, y, x) of the image in nm; None: what the image states.
    """
    network = known_network(model)
    base: dict[str, Any] = {"image": image, "checkpoint": network.path, "reflect": True}
    base |= {"pad_value": network.seed_pad}
    settings = config.from_dict({"segment": base}, "segment --model", overrides)
    set_threads(settings.run.threads)
    options = settings.segment
    if options.fov is not None or options.deltas is not None:
        raise InvalidArgumentError(
            "--set segment.fov or segment.deltas with --model, expected a configuration for another field of view"
        )
    opened = Volume(image)
    size = voxel_size_of(opened, voxel_nm)
    seen = look.image_statistics(opened, voxel_size_nm=size)
    if options.mean is not None and options.std is not None:
        mean, std, why = options.mean, options.std, "As given."
    else:
        mean, std, why = levels_for(seen, network, "the image")
    wanted = network.voxel_size_nm or size
    wanted = size if problems.fits(size, wanted) else wanted
    read = Volume(Resampled(opened, size, wanted), name=image) if wanted != size else opened
    reading = problems.Reading("the image", mean, std, "segment.mean and segment.std", wanted)
    found = problems.image_problems(read, network.path, reading)
    if network.voxel_size_nm is None:
        text = f"{network.name} does not state its voxel size: the image is taken as it is"
        found += problems.finding(text)
    voxels = f"{size_text(size)} nm"
    if size != wanted:
        voxels += f", resampled to {size_text(wanted)} nm for {network.name}"
    options = dataclasses.replace(options, mean=mean, std=std)
    setting = Setting(
        image=opened,
        network=network,
        voxel_size_nm=size,
        wanted_nm=wanted,
        options=options,
        words=f"{image}: {voxels}; mean {mean:g}, std {std:g}. {why}",
        notes=problems.raise_errors(found),
    )
    volume = TrainingVolume(name="image", image=image, mean=mean, std=std, voxel_size_nm=size)
    named = dataclasses.replace(options, image=volume.name)
    data = dataclasses.replace(settings.data, volumes=(volume,))
    return dataclasses.replace(settings, data=data, segment=named), setting


def require_same_voxels(setting: Setting) -> None:
    """Raise InvalidArgumentError if an image must be resampled first. The message has the command that does."""
    image, own, wanted = setting.image.name, setting.voxel_size_nm, setting.wanted_nm
    if own != wanted:
        raise InvalidArgumentError(
            f"{image}: has voxels of {size_text(own)} nm, {setting.network.name} needs"
            f" {size_text(wanted)} nm: resample it first with {problems.resampling(image, own, wanted)};"
            " --preview resamples by itself"
        )


def preview(
    setting: Setting, out: str, *, box: Box | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Segment a box of an image and write it, at the voxels of the image.

    The faces of the box are reflected, so that fields of view reach them.

    Args:
        box: Box (start, size) of the image; None: one in the middle.
        progress: Called as progress(voxels settled, voxels).

    Returns:
        `box` of the image; `segments`, `coverage`, `network_calls`, `seconds` as `floodtide segment` prints them;
        `stopped`: True if the time was over before the whole box was settled; else `whole_hours`: an estimate for the
        whole image on this machine.

    Raises:
        InvalidArgumentError: If the box is too small.
        OutOfRangeError: If the box is not inside the image.
        StorageError: If the result cannot be written.
    """
    image = setting.image
    new = Resampled(image, setting.voxel_size_nm, setting.wanted_nm)
    if box is None:
        sides = [min(n, SIDE) for n in new.shape]
        box = new.old_box_of(middle(((0, 0, 0), new.shape), sides))
    elif not is_inside(box, image.shape):
        raise OutOfRangeError(
            f"{image.name}: box {box_text(box)} is not inside the image of {size_text(image.shape)} voxels"
        )
    segmenter = Segmenter(setting.network.model, setting.options)
    inner = new.box_of(box)
    start_s = time.monotonic()
    found = segmenter.segment(new.read(inner), None, progress, limit_s=LIMIT_S)
    seconds = time.monotonic() - start_s
    hours = seconds / 3600 * math.prod(image.shape) / math.prod(box[1])
    report = write_segments(
        labels_at(found.segmentation, inner[0], new.ratio, box),
        out,
        Geometry(voxel_size_nm=setting.voxel_size_nm, offset=box[0]),
        command="floodtide segment",
        notes={"image": image.name, "checkpoint": setting.network.path},
        inputs=image.name,
    )
    report |= {"box": box_text(box), "network_calls": found.network_calls}
    report |= {"seconds": seconds, "stopped": not found.complete}
    return report | {"whole_hours": hours if found.complete else None}
