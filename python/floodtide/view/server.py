# SPDX-License-Identifier: Apache-2.0
"""Neuroglancer's Python server with some layers."""

from __future__ import annotations

import getpass
import math
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from floodtide.base import notes
from floodtide.base.libraries import library
from floodtide.data import Volume
from floodtide.data.no_label import cleared
from floodtide.data.places import Place
from floodtide.errors import StorageError
from floodtide.view.layers import SEGMENTS, Layer

# Neuroglancer computes surfaces from the whole volume: volumes of more voxels have none.
_MESHED = 1 << 26
_PANEL = 350.0  # pixels of a picture in a window of usual size
_NEAR = 0.3  # voxels of a pixel at a place


@dataclass(frozen=True)
class Served:
    """A running viewer.

    Attributes:
        url: Its address, for a browser on this machine.
        ssh: The command that makes this address work on another machine.
        viewer: Neuroglancer's viewer, to change what it shows.
    """

    url: str
    ssh: str
    viewer: Any


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
                source.get_object_mesh = _no_mesh(neuroglancer)
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
            state.layers.append(name="places", layer=_annotations(neuroglancer, space, places))
    if places:
        _Steps(viewer, places)
    url = str(viewer)
    served = urlsplit(url).port
    host = f"{getpass.getuser()}@{socket.gethostname()}"
    return Served(url, f"ssh -N -L {served}:localhost:{served} {host}", viewer)


def _annotations(neuroglancer: Any, space: Any, places: Sequence[Place]) -> Any:
    """Return a layer with a point for each place."""
    points = [
        neuroglancer.PointAnnotation(
            id=str(number), point=_centre(place), description=_described(number, place)
        )
        for number, place in enumerate(places, start=1)
    ]
    return neuroglancer.LocalAnnotationLayer(space, annotations=points, annotation_color="#ffd400")


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


def _no_mesh(neuroglancer: Any) -> Any:
    def refuse(_: int) -> bytes:
        raise neuroglancer.local_volume.MeshesNotSupportedForVolume

    return refuse
