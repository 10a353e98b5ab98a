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

import numpy as np

from floodtide import config
from floodtide.base.data_options import TrainingVolume
from floodtide.base.outputs import files_of
from floodtide.config import Config, SegmentOptions
from floodtide.data import Box, Volume, look
from floodtide.data.boxes import Progress, as_vec3, box_text, intersection, middle
from floodtide.data.copies import write_blocks
from floodtide.data.formats.geometry import Geometry, SizeNm, size_text
from floodtide.data.formats.writers import Plan
from floodtide.data.look import problems
from floodtide.data.resampling import Resampled, labels_at
from floodtide.errors import InvalidArgumentError, OutOfRangeError
from floodtide.plan import judging, measuring
from floodtide.plan.known import KnownNetwork, known_network
from floodtide.segment import Segmenter
from floodtide.train.setup import set_threads

SECONDS = 120.0
"""Seconds that flooding the box should take."""
LIMIT_S = 210.0
"""Seconds after which flooding stops. The rest of five minutes is for reading, scores and the picture."""

COMMAND = "floodtide segment"
_LEAST_SIDE = 48  # voxels of the network along each side of the box, if the volume has them


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a network sees an image.

    Attributes:
        voxel_size_nm: Voxel size (z, y, x) of the image.
        wanted_nm: Voxel size that the network segments at; the image is resampled if they differ.
        options: Options of the segmentation, with mean and std.
        levels: The reason for mean and std.
        notes: What does not fit together.
    """

    image: Volume
    network: KnownNetwork
    voxel_size_nm: SizeNm
    wanted_nm: SizeNm
    options: SegmentOptions
    levels: str
    notes: tuple[str, ...]

    @property
    def resampled(self) -> bool:
        """True if the image is resampled for the network."""
        return self.voxel_size_nm != self.wanted_nm


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
    size = judging.voxel_size_of(opened, voxel_nm)
    seen = look.image_statistics(opened, voxel_size_nm=size, sections=False)
    mean, std, why = judging.levels_for(seen, network, "the image")
    if options.mean is not None and options.std is not None:
        mean, std, why = options.mean, options.std, "As given."
    wanted = network.voxel_size_nm
    if wanted is None or problems.fits(size, wanted):
        wanted = size
    found = problems.of_image(
        seen, mean=mean, std=std, voxel_size_nm=size, wanted_nm=wanted, trained=network.images
    )
    notes = problems.raise_errors(found)
    if network.voxel_size_nm is None:
        text = f"{network.name} does not state its voxel size: the image is taken as it is"
        notes = (*notes, text)
    options = dataclasses.replace(options, mean=mean, std=std)
    setting = Setting(
        image=opened,
        network=network,
        voxel_size_nm=size,
        wanted_nm=wanted,
        options=options,
        levels=why,
        notes=notes,
    )
    volume = TrainingVolume(name="image", image=image, mean=mean, std=std, voxel_size_nm=size)
    named = dataclasses.replace(options, image=volume.name)
    data = dataclasses.replace(settings.data, volumes=(volume,))
    return dataclasses.replace(settings, data=data, segment=named), setting


def require_same_voxels(setting: Setting) -> None:
    """Raise InvalidArgumentError if an image must be resampled first. The message has the command that does."""
    if setting.resampled:
        image, own, wanted = setting.image.name, setting.voxel_size_nm, setting.wanted_nm
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
        box: Box (start, size) of the image; None: one in the middle that takes about two minutes.
        progress: Called as progress(voxels settled, voxels).

    Returns:
        `box` of the image; `segments`, `coverage`, `network_calls`, `seconds` as `floodtide segment` prints them;
        `stopped`: True if the time was over before the whole box was settled; `whole_hours`: an estimate for the whole
        image on this machine.

    Raises:
        InvalidArgumentError: If the box is too small.
        OutOfRangeError: If the box is not inside the image.
        StorageError: If the result cannot be written.
    """
    image = setting.image
    new = Resampled(image, setting.voxel_size_nm, setting.wanted_nm)
    if box is not None and intersection(box, ((0, 0, 0), image.shape)) != box:
        raise OutOfRangeError(
            f"{image.name}: box {box_text(box)} is not inside the image of {size_text(image.shape)} voxels"
        )
    segmenter = Segmenter(setting.network.model, setting.options)
    if box is None:
        calls = measuring.call_rate(segmenter.model) * SECONDS
        box = new.old_box_of(_middle(new.shape, calls * math.prod(segmenter.model.deltas)))
    inner = new.box_of(box)
    start_s = time.monotonic()
    share = 1.0  # of the box that is settled

    def settled(done: int, total: int) -> None:
        nonlocal share
        share = done / max(1, total)
        if progress is not None:
            progress(done, total)

    found = segmenter.segment(new.read(inner), None, settled, limit_s=LIMIT_S)
    seconds = time.monotonic() - start_s
    segmentation = labels_at(found.segmentation, inner[0], new.ratio, box)
    plan = Plan(
        shape=box[1],
        dtype=segmentation.dtype,
        geometry=Geometry(voxel_size_nm=setting.voxel_size_nm, offset=box[0]),
        command=COMMAND,
        notes={"image": image.name, "checkpoint": setting.network.path},
    )
    write_blocks(out, plan, Volume(segmentation).read, inputs=files_of([image.name]))
    whole = math.prod(image.shape) / math.prod(box[1]) / max(share, 1e-3)
    return {
        "box": box_text(box),
        "segments": len(found.origins),
        "coverage": float(np.count_nonzero(segmentation) / segmentation.size),
        "network_calls": found.counters.get("inference-calls", 0),
        "seconds": seconds,
        "stopped": not found.complete,
        "whole_hours": seconds * whole / 3600,
    }


def _middle(shape: Sequence[int], voxels: float) -> Box:
    """Return a box in the middle of the volume with about `voxels` voxels: a cube, unless the volume is too thin."""
    size = [0, 0, 0]
    for count, axis in enumerate(sorted(range(3), key=lambda i: shape[i])):
        rest = voxels / math.prod(size[i] for i in range(3) if size[i])
        size[axis] = min(shape[axis], max(_LEAST_SIDE, round(rest ** (1 / (3 - count)))))
    return middle(((0, 0, 0), as_vec3(shape)), size)
