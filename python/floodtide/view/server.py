# SPDX-License-Identifier: Apache-2.0
"""Neuroglancer's Python server with some layers."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from floodtide.base.libraries import library
from floodtide.data import Volume
from floodtide.data.no_label import cleared
from floodtide.errors import StorageError
from floodtide.view.layers import Layer


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
    bind: str = "127.0.0.1",
    port: int = 0,
) -> Served:
    """Serve volumes to a browser until this process ends. Blocks are read when they are looked at.

    Args:
        layers: What to show.
        voxel_size: Edges of a voxel (z, y, x) in nm; None: unknown.
        bind: Address to listen on. The default serves this machine only: whoever has the address sees the data.
        port: Port to listen on; 0: a free one.

    Raises:
        StorageError: If the port cannot be used.
        UnsupportedError: If neuroglancer is not installed.
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
            kind = neuroglancer.SegmentationLayer if layer.labels else neuroglancer.ImageLayer
            state.layers.append(name=layer.name, layer=kind(source=source), visible=layer.visible)
        first = layers[0]
        middle = [a + n / 2 for a, n in zip(first.start, first.volume.shape, strict=True)]
        state.position = middle[::-1]
        state.layout = "4panel"
    url = str(viewer)
    served = urlsplit(url).port
    host = f"{getpass.getuser()}@{socket.gethostname()}"
    return Served(url, f"ssh -N -L {served}:localhost:{served} {host}", viewer)


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
