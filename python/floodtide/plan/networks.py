# SPDX-License-Identifier: Apache-2.0
"""Networks to start from, how they see an image, and how fast this machine trains networks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from floodtide import nn
from floodtide.data import Vec3, Volume, look
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.look.image import ImageStatistics
from floodtide.data.look.trained_on import TrainedOn
from floodtide.data.volumes import settled_size
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.nn.load import load_ffn
from floodtide.segment import trained
from floodtide.segment.trained import PUBLISHED, published

MEAN_OFF = 0.25
"""Distance of the means, in standard deviations, up to which two images count as equally normalised."""
STD_OFF = 1.25
"""Ratio of standard deviations up to which two images count as equally normalised."""

_LEAST_S = 3.0  # that passes are timed for
_LEAST_PASSES = 3
_QUIET = 0.25  # share of the passes that may be faster than the one that counts


@dataclass(frozen=True, kw_only=True)
class KnownNetwork:
    """A trained flood-filling network, and the images that it was trained on.

    Attributes:
        name: What messages call it.
        path: Its checkpoint.
        levels: The network received (image - mean) / std of these (mean, std); None if the checkpoint stores none.
        voxel_size_nm: Voxel size (z, y, x) of the images; None if unknown.
        seed_pad: Probability of voxels that were not visited yet.
        images: Statistics of the images of its training; empty if unknown.
    """

    name: str
    path: str
    model: nn.FFN
    levels: tuple[float, float] | None
    voxel_size_nm: SizeNm | None
    seed_pad: float
    images: tuple[TrainedOn, ...]


def known_network(text: str) -> KnownNetwork:
    """Return the network that a name of the published ones, a checkpoint of any kind or a run directory means."""
    if text in PUBLISHED:
        seen, path = published(text)
        levels: tuple[float, float] | None = (seen.mean, seen.std)
        settings, size = None, seen.voxel_size_nm
    else:
        try:
            path = str(trained.newest_checkpoint(text))
        except InvalidFileError as error:
            names = f"nor the name of a published network ({' or '.join(PUBLISHED)})"
            raise InvalidFileError(f"{error}, {names}") from None
        levels = next(iter(trained.normalisations(path, "") or ()), None)
        settings, size = trained.stored_configuration(path), trained.voxel_size_of(path)
    return KnownNetwork(
        name=text,
        path=path,
        model=load_ffn(path),
        levels=levels,
        voxel_size_nm=size,
        seed_pad=0.05 if settings is None else settings.training.seed_pad,
        images=look.training_images(path),
    )


def voxel_size_of(volume: Volume, given: Sequence[float] | None) -> SizeNm:
    """Return the voxel size that was given, with a note if the file states another one; else that of the file."""
    size = settled_size(volume, given, "--voxel-nm")
    if size is None:
        raise InvalidArgumentError(
            f"{volume.name}: states no voxel size; expected --voxel-nm z,y,x, for example --voxel-nm 8,8,8"
        )
    return size


def levels_for(
    seen: ImageStatistics, start: KnownNetwork | None, where: str
) -> tuple[float, float, str]:
    """Return mean, standard deviation and the reason.

    Args:
        start: The network that will see the image; None for a new one.
        where: What was measured: "the training box".
    """
    mean, std = round(seen.proposed_mean, 4), round(seen.proposed_std, 4)
    if std <= 0:
        raise InvalidArgumentError(f"{seen.name}: has only one grey level, expected an image")
    left_out = f" (without {seen.left_out})" if seen.left_out else ""
    own = f"Measured in {where}{left_out}."
    if start is None or start.levels is None:
        return mean, std, own
    near = abs(mean - start.levels[0]) <= MEAN_OFF * start.levels[1]
    if near and 1 / STD_OFF <= std / start.levels[1] <= STD_OFF:
        why = f"As {start.name} was trained; {where} has mean {mean:g}, standard deviation {std:g}."
        return *start.levels, why
    before = "mean {:g}, standard deviation {:g}".format(*start.levels)
    why = (
        f"{own} {start.name} was trained on {before}: with the image's own numbers, the network receives the same"
        " range of values."
    )
    return mean, std, why


def training_rate(model: nn.FFN, batch: int) -> float:
    """Return the fields of view per second of forward and backward passes, with all threads.

    Args:
        batch: Fields of view of a pass; each thread computes whole ones.
    """
    shape = (batch, *model.fov)
    image = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    seeds, labels = np.full(shape, -2.9, np.float32), np.full(shape, 0.05, np.float32)
    return batch * _passes_per_s(lambda: model.loss_and_gradients(image, seeds, labels))


def patch_rate(model: nn.UNet, patch: Vec3, loss: str) -> float:
    """Return the patches per second of forward and backward passes of a U-Net, with all threads."""
    image = np.random.default_rng(0).standard_normal((1, *patch), dtype=np.float32)
    truth: Any = np.zeros(image.shape, np.uint8)
    if not model.excluding:
        truth = np.ones((*image.shape, model.core.options.classes), np.float32)
    return _passes_per_s(lambda: model.loss_and_gradients(image, truth, loss=loss))


def _passes_per_s(run: Callable[[], object]) -> float:
    run()  # allocates memory and chooses kernels
    took_s: list[float] = []
    while len(took_s) < _LEAST_PASSES or sum(took_s) < _LEAST_S:
        start_s = time.monotonic()
        run()
        took_s.append(time.monotonic() - start_s)
    # Another program makes some passes slow for a moment; it makes none fast.
    return 1 / max(sorted(took_s)[int(_QUIET * len(took_s))], 1e-9)
