# SPDX-License-Identifier: Apache-2.0
"""Which volumes a run or a result shows, and where they lie."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from floodtide.base.notes import show
from floodtide.data import Vec3, Volume
from floodtide.data.look.labels import like_image
from floodtide.data.places import Place, belong, read_places, table_of
from floodtide.data.volumes import require_same_size, volume_exists
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.train.recorded_run import SEGMENTATION, read_run

SEGMENTS = "segmentation"
"""Name of the layer of a segmentation."""


@dataclass(frozen=True)
class Layer:
    """A volume in the viewer.

    Attributes:
        name: What the viewer calls it.
        volume: Its voxels.
        start: Its first voxel (z, y, x), in voxels of the whole volume.
        labels: Whether its numbers are ids of segments.
        visible: Whether it is shown at first.
    """

    name: str
    volume: Volume
    start: Vec3
    labels: bool
    visible: bool = True


def layers_of(
    shown: str, image: str = "", truth: str = ""
) -> tuple[list[Layer], tuple[float, float, float] | None]:
    """Return the layers of a run directory or of a volume, the image first, and the edges of voxels in nm if known.

    Args:
        shown: A run directory with segmentation.h5, or the name of a volume: an image, or a segmentation.
        image: The image; "": that from which the segmentation was made, if it is still there.
        truth: The true objects; "": for a run, those of its volume; else none.
    """
    size: tuple[float, float, float] | None = None
    name = shown
    if os.path.isfile(Path(shown) / "log.jsonl"):
        run = read_run(Path(shown), Path(shown).name)
        name = f"{Path(shown) / SEGMENTATION}:segmentation"
        if not os.path.lexists(Path(shown) / SEGMENTATION):
            raise InvalidArgumentError(
                f"{shown}: has no {SEGMENTATION}; expected it (`floodtide segment` with --out {shlex.quote(name)} makes"
                " it), or the name of a segmentation, FILE:DATASET"
            )
        size = run.voxel_size_nm
        known_image, known_truth = map(os.path.expandvars, run.sources)
        image, truth = image or _existing(known_image), truth or _existing(known_truth)
    volume = Volume(name)
    wide = volume.dtype.kind in "iu" and volume.dtype.itemsize > 1
    # A segmentation of few segments is stored in 8 bits.
    small = volume.dtype.name == "uint8" and bool(volume.text("image") or volume.text("affinities"))
    # An image of 16 bits could be a segmentation by its type.
    labels = small or (wide and not (volume.dtype.itemsize == 2 and like_image(volume)))
    if labels:
        image = image or _existing(volume.text("image"))
    found = []
    if image:
        found.append(_layer("image", image, False))
    found.append(_layer(SEGMENTS if labels else "image", name, labels))
    if truth:
        found.append(dataclasses.replace(_layer("truth", truth, True), visible=False))
    for layer in found[1:]:
        require_same_size("view", layer.volume, found[0].volume)
        if layer.volume.whole.offset is None and any(found[0].start):
            first = f"{found[0].volume.name} begins at voxel {found[0].start}"
            show(f"view: {first}, {layer.volume.name} states no place: it is shown from (0, 0, 0)")
    stated = [layer.volume.geometry.voxel_size_nm for layer in found]
    return found, size or next((s for s in stated if s is not None), None)


def places_of(layers: Sequence[Layer]) -> list[Place]:
    """Return the places of the segmentation, in voxels of the whole volume; empty without a table beside it.

    If the table belongs to another segmentation, a note says so, and there are no places.
    """
    for layer in layers:
        if layer.name == SEGMENTS:
            name = layer.volume.name
            places = read_places(name, layer.start) or []
            if belong(places, layer.volume, layer.start):
                return places
            show(f"{table_of(name)} lists places of another segmentation, and is not shown")
    return []


def _layer(name: str, reference: str, labels: bool) -> Layer:
    volume = Volume(reference)
    if labels and volume.dtype.kind not in "iu":
        raise InvalidFileError(f"{reference}: holds {volume.dtype}, expected ids of segments")
    z, y, x = volume.whole.offset or (0, 0, 0)
    return Layer(name, volume, (z, y, x), labels)


def _existing(name: str) -> str:
    """Return the name of a volume if it is still there, else ""."""
    return name if name and volume_exists(name) else ""
