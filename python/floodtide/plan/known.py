# SPDX-License-Identifier: Apache-2.0
"""Networks to start from: published ones by name, floodtide's checkpoints, run directories, TensorFlow checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from floodtide import nn
from floodtide.data import look
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.look.trained_on import TrainedOn
from floodtide.errors import InvalidFileError
from floodtide.nn.load import load_ffn
from floodtide.segment import trained
from floodtide.segment.published import PUBLISHED, published


@dataclass(frozen=True, kw_only=True)
class KnownNetwork:
    """A trained flood-filling network, and the images that it was trained on.

    Attributes:
        name: What messages call it.
        path: Its checkpoint.
        mean, std: The network received (image - mean) / std; None if the checkpoint stores no such numbers.
        voxel_size_nm: Voxel size (z, y, x) of the images; None if unknown.
        seed_pad: Probability of voxels that were not visited yet.
        images: Statistics of the images of its training; empty if unknown.
    """

    name: str
    path: str
    model: nn.FFN
    mean: float | None
    std: float | None
    voxel_size_nm: SizeNm | None
    seed_pad: float = 0.05
    images: tuple[TrainedOn, ...] = ()


def known_network(text: str) -> KnownNetwork:
    """Return the network that a name of the published ones, a checkpoint or a run directory means."""
    if text in PUBLISHED:
        seen, path = published(text)
        return KnownNetwork(
            name=text,
            path=path,
            model=load_ffn(path),
            mean=seen.mean,
            std=seen.std,
            voxel_size_nm=seen.voxel_size_nm,
            images=look.training_images(path),
        )
    try:
        path = str(trained.newest_checkpoint(text))
    except InvalidFileError as error:
        names = " or ".join(PUBLISHED)
        raise InvalidFileError(f"{error}, nor the name of a published network ({names})") from None
    model = load_ffn(path)
    images = look.training_images(path)
    settings = trained.stored_configuration(path)
    known = trained.normalisations(path, "")
    mean, std = known[0] if known else (None, None)
    return KnownNetwork(
        name=text,
        path=path,
        model=model,
        mean=mean,
        std=std,
        voxel_size_nm=trained.voxel_size_of(path),
        seed_pad=0.05 if settings is None else settings.training.seed_pad,
        images=images,
    )
