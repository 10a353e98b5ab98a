# SPDX-License-Identifier: Apache-2.0
"""Which volumes a run or a result shows, and Neuroglancer's Python server with them."""

from __future__ import annotations

import functools
import getpass
import math
import os
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from floodtide.base import notes
from floodtide.base.libraries import library
from floodtide.data import Vec3, Volume
from floodtide.data.look import QUICK, label_statistics
from floodtide.data.no_label import cleared
from floodtide.data.places import Place, places_in
from floodtide.data.volumes import require_same_size, volume_exists
from floodtide.errors import InvalidArgumentError, InvalidFileError, StorageError
from floodtide.train.recorded_run import SEGMENTATION, read_run

SEGMENTS = "segmentation"
"""Name of the layer of a segmentation."""

# Neuroglancer computes surfaces from the whole volume: volumes of more voxels have none.
_MESHED = 1 << 26
_PANEL = 350.0  # pixels of a picture in a window of usual size
_NEAR = 0.3  # voxels of a pixel at a place


class Layer(NamedTuple):
    """A volume in the viewer."""

    name: str  # what the viewer calls it
    volume: Volume
    start: Vec3  # its first voxel (z, y, x), in voxels of the whole volume
    labels: bool  # its numbers are ids of segments
    visible: bool = True  # at first


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
        names = (run.source.get(key, "") for key in ("image", "labels"))
        known_image, known_truth = map(os.path.expandvars, names)
        image, truth = image or _existing(known_image), truth or _existing(known_truth)
    volume = Volume(name)
    labels = volume.dtype.kind in "iu"
    if volume.dtype.name == "uint8":  # as a segmentation of few segments
        labels = bool(volume.text("image") or volume.text("affinities"))
    elif labels and volume.dtype.itemsize <= 2:  # as many images
        labels = not label_statistics(volume, budget=QUICK).like_image
    if labels:
        image = image or _existing(volume.text("image"))
    found = []
    if image:
        found.append(_layer("image", image, False))
    found.append(_layer(SEGMENTS if labels else "image", name, labels))
    if truth:
        found.append(_layer("truth", truth, True)._replace(visible=False))
    for layer in found[1:]:
        require_same_size("view", layer.volume, found[0].volume)
        if layer.volume.whole.offset is None and any(found[0].start):
            first = f"{found[0].volume.name} begins at voxel {found[0].start}"
            notes.show(
                f"view: {first}, {layer.volume.name} states no place: it is shown from (0, 0, 0)"
            )
    stated = [layer.volume.geometry.voxel_size_nm for layer in found]
    return found, size or next((s for s in stated if s is not None), None)


def places_of(layers: Sequence[Layer]) -> list[Place]:
    """Return the places of the segmentation, in voxels of the whole volume; empty without a table beside it."""
    shown = next((layer for layer in layers if layer.name == SEGMENTS), None)
    return (places_in(shown.volume, shown.start) or []) if shown else []


def _layer(name: str, reference: str, labels: bool) -> Layer:
    volume = Volume(reference)
    if labels and volume.dtype.kind not in "iu":
        raise InvalidFileError(f"{reference}: holds {volume.dtype}, expected ids of segments")
    return Layer(name, volume, volume.whole.offset or (0, 0, 0), labels)


def _existing(name: str) -> str:
    """Return the name of a volume if it is still there, else ""."""
    return name if name and volume_exists(name) else ""


class Served(NamedTuple):
    """A running viewer."""

    url: str  # for a browser on this machine
    ssh: str  # the command that makes this address work on another machine
    viewer: Any  # of Neuroglancer


def serve(
    layers: Sequence[Layer],
    voxel_size: tuple[float, float, float] | None = None,
    *,
    places: Sequence[Place] = (),
    bind: str = "127.0.0.1",
    port: int = 0,
) -> Served:
    """Serve volumes to a browser until this process ends. Blocks are read when they are looked at.

    Args:
        layers: What to show.
        voxel_size: Edges of a voxel (z, y, x) in nm; None: unknown.
        places: Places to step through, in voxels of the whole volume.
        bind: Address to listen on. The default serves this machine only: whoever has the address sees the data.
        port: Port to listen on; 0: a free one.
    """
    neuroglancer = library("neuroglancer", "view", "view")
    _require_free(bind, port)
    neuroglancer.set_server_bind_address(bind, port)
    viewer = neuroglancer.Viewer()
    size = voxel_size or (1.0, 1.0, 1.0)
    space = neuroglancer.CoordinateSpace(
        names=["x", "y", "z"], units="nm" if voxel_size else "", scales=list(size[::-1])
    )
    with viewer.txn() as state:
        state.dimensions = space
        for layer in layers:
            source = neuroglancer.LocalVolume(
                data=_Array(layer.volume, layer.labels),
                dimensions=space,
                volume_type="segmentation" if layer.labels else "image",
                voxel_offset=list(layer.start[::-1]),
            )
            if layer.labels and math.prod(layer.volume.shape) > _MESHED:
                source.get_object_mesh = functools.partial(_refuse_mesh, neuroglancer)
                notes.show(
                    f"view: {layer.name} has more than {_MESHED:,} voxels: shown without surfaces"
                )
            kind = neuroglancer.SegmentationLayer if layer.labels else neuroglancer.ImageLayer
            state.layers.append(name=layer.name, layer=kind(source=source), visible=layer.visible)
        shown = next((layer for layer in layers if layer.labels), layers[0])
        middle = [a + n / 2 for a, n in zip(shown.start, shown.volume.shape, strict=True)]
        state.position = middle[::-1]
        state.cross_section_scale = max(shown.volume.shape) / _PANEL
        state.projection_scale = 1.5 * max(shown.volume.shape)
        state.layout = "4panel"
        if places:
            points = [
                neuroglancer.PointAnnotation(
                    id=str(number), point=_centre(place), description=_described(number, place)
                )
                for number, place in enumerate(places, start=1)
            ]
            layer = neuroglancer.LocalAnnotationLayer(
                space, annotations=points, annotation_color="#ffd400"
            )
            state.layers.append(name="places", layer=layer)
    if places:
        _Steps(viewer, places)
    url = str(viewer)
    served = urlsplit(url).port
    host = f"{getpass.getuser()}@{socket.gethostname()}"
    return Served(url, f"ssh -N -L {served}:localhost:{served} {host}", viewer)


def _centre(place: Place) -> list[float]:
    return [n + 0.5 for n in place.zyx[::-1]]


def _described(number: int, place: Place) -> str:
    segments = " and ".join(f"segment {one}" for one in sorted({*place.segments} - {0}))
    return f"{number}: {place.kind}, affinity {place.score:.2f}, {segments}"


class _Steps:
    """The keys ] and [ go to the next and the previous place, and select its segments."""

    def __init__(self, viewer: Any, places: Sequence[Place]) -> None:
        self._viewer, self._places, self._at = viewer, places, -1
        viewer.actions.add("next-place", lambda _: self._go(self._at + 1))
        viewer.actions.add("previous-place", lambda _: self._go(max(self._at, 0) - 1))
        with viewer.config_state.txn() as config:
            bindings = config.input_event_bindings
            # Over a picture, Neuroglancer gives these keys another meaning.
            for keys in (bindings.viewer, bindings.data_view):
                keys["bracketright"] = "next-place"
                keys["bracketleft"] = "previous-place"

    def _go(self, number: int) -> None:
        first, self._at = self._at < 0, number % len(self._places)
        place = self._places[self._at]
        with self._viewer.txn() as state:
            state.position = _centre(place)
            if first:
                state.cross_section_scale = _NEAR
            state.layers[SEGMENTS].segments = {*place.segments} - {0}
        with self._viewer.config_state.txn() as config:
            text = f"place {_described(self._at + 1, place)} ({len(self._places)} places; x: all segments)"
            config.status_messages["place"] = text


def _require_free(bind: str, port: int) -> None:
    """Check that a server can listen there: Neuroglancer's would fail in its own thread, and be waited for forever."""
    try:
        with socket.create_server((bind, port)):
            pass
    except OSError as error:
        raise StorageError(f"view: {bind}:{port}: {error.strerror or error}") from None


class _Array:
    """A volume as Neuroglancer reads it: axes x, y, z. Voxels without a label are 0, whatever value the file has."""

    def __init__(self, volume: Volume, labels: bool) -> None:
        self._volume, self._labels = volume, labels
        self.shape = volume.shape[::-1]
        # Neuroglancer shows no signed ids of 64 bits and no doubles.
        shown = {"int64": "uint64", "float64": "float32"}
        self.dtype = np.dtype(shown.get(volume.dtype.name, volume.dtype.name))

    def __getitem__(self, at: tuple[slice, slice, slice]) -> NDArray[Any]:
        bounds = [part.indices(n)[:2] for part, n in zip(at, self.shape, strict=True)]
        (x, y, z), (nx, ny, nz) = (a for a, _ in bounds), (b - a for a, b in bounds)
        block = self._volume.read(((z, y, x), (nz, ny, nx)))
        if self._labels:
            block = cleared(block, self._volume.name)
        return block.astype(self.dtype).T

    def transpose(self) -> NDArray[Any]:
        """Return all voxels (z, y, x), of which Neuroglancer computes surfaces."""
        return self[slice(None), slice(None), slice(None)].T


def _refuse_mesh(neuroglancer: Any, segment: int) -> bytes:
    raise neuroglancer.local_volume.MeshesNotSupportedForVolume
