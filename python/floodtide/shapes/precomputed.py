# SPDX-License-Identifier: Apache-2.0
"""Meshes and skeletons of a Neuroglancer precomputed segmentation.

Source: the format descriptions of Neuroglancer, src/datasource/precomputed (meshes: legacy single-resolution format).
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide.base import reading
from floodtide.base.files import make_folder, replace_bytes, replace_text
from floodtide.base.outputs import PRECOMPUTED, reserved, unchecked
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import Progress, total
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.formats.writers import blocks
from floodtide.data.skeletons import Skeleton
from floodtide.errors import InvalidArgumentError
from floodtide.shapes.arrays import Mesh, meshes_of, skeletons_of

_BLOCK = 256  # voxels along each axis that are meshed at a time
_MESHES, _SKELETONS = "neuroglancer_legacy_mesh", "neuroglancer_skeletons"


def add_meshes(name: str, *, progress: Progress | None = None) -> int:
    """Add surface meshes of all segments to a precomputed segmentation, and return their number. Collective.

    The volume is meshed in blocks, which ranks share; a mesh is the sum of its blocks. The folder `mesh` gets the
    meshes, and `info` names it when all are there.

    Args:
        name: "precomputed://FOLDER", a segmentation.
        progress: Called as progress(blocks done, blocks of this rank).

    Raises:
        InvalidArgumentError: If the volume is not a precomputed segmentation.
        StorageError: If the folder cannot be written.
        UnsupportedError: If zmesh is not installed.
    """
    with world.agreed():
        target, volume, size = _opened(name, "mesh", _MESHES)
        boxes = list(blocks(volume.shape, (_BLOCK, _BLOCK, _BLOCK), _BLOCK**3))
    fragments = defaultdict[int, list[str]](list)
    with world.agreed():
        numbers = range(world.rank(), len(boxes), world.size())
        for done, number in enumerate(numbers):
            for mesh in _of_block(volume, boxes[number], size):
                file = f"{mesh.id}:0:{number}"
                replace_bytes(target / file, _mesh_bytes(mesh))
                fragments[mesh.id].append(file)
            if progress is not None:
                progress(done + 1, len(numbers))
    every = defaultdict[int, list[str]](list)
    for found in allgather_object(fragments):
        for label, files in found.items():
            every[label] += files
    with world.agreed():
        if world.rank() == 0:
            for label, files in every.items():
                replace_text(target / f"{label}:0", json.dumps({"fragments": sorted(files)}))
            _describe(target, {"@type": _MESHES})
    return len(every)


def add_skeletons(name: str) -> int:
    """Add skeletons to a precomputed segmentation, as of `skeletons_of`, and return their number. Not collective.

    The segmentation is read whole.

    Args:
        name: As for `add_meshes`.

    Raises:
        Error: As `add_meshes` and `skeletons_of` raise.
    """
    target, volume, size = _opened(name, "skeletons", _SKELETONS)
    found = skeletons_of(volume.read(), voxel_size=size)
    offset = volume.geometry.offset or (0, 0, 0)
    for skeleton in found:
        replace_bytes(target / str(skeleton.id), _skeleton_bytes(skeleton, size, offset))
    info = {
        "@type": _SKELETONS,
        "transform": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0],
        "vertex_attributes": [],
    }
    _describe(target, info)
    return len(found)


def _opened(name: str, what: str, kind: str) -> tuple[Path, Volume, SizeNm]:
    """Return the folder of meshes or skeletons of a segmentation, the segmentation, and its voxel size in nm.

    The folder is made. Refuse one that another program has written, or that `info` names.
    """
    if not name.startswith(PRECOMPUTED):
        raise InvalidArgumentError(f"{name}: expected {PRECOMPUTED}FOLDER, a segmentation")
    folder = Path(name.removeprefix(PRECOMPUTED))
    info = reading.read_json(folder / "info", "the info of a precomputed volume")
    if info.get("type") != "segmentation":
        raise InvalidArgumentError(
            f"{name}: is a precomputed {info.get('type')}, expected a segmentation: `floodtide convert --labels` writes"
            " one"
        )
    volume = Volume(name)
    target, found = folder / what, kind
    if (target / "info").is_file():
        found = reading.read_json(target / "info", f"the info of {what}").get("@type")
    if found != kind or info.get(what, what) != what:
        raise InvalidArgumentError(
            f"{folder}: has {what} of another program already, expected none: move their folder away, and remove"
            f" '{what}' from {folder / 'info'}"
        )
    make_folder(target)
    return target, volume, volume.geometry.voxel_size_nm or (1.0, 1.0, 1.0)


def _of_block(volume: Volume, box: Box, size: SizeNm) -> list[Mesh]:
    """Return the meshes of a block, in nm of the whole volume. They are closed at the faces of the volume only."""
    start, extent = box
    ends = total(start, extent)
    # One more voxel on the high side, so that the surfaces between two blocks belong to one of them.
    more = [int(b < n) for b, n in zip(ends, volume.shape, strict=True)]
    z, y, x = total(extent, more)
    outside = [(int(a == 0), 1 - m) for a, m in zip(start, more, strict=True)]
    labels = np.pad(volume.read((start, (z, y, x))), outside)
    offset = volume.geometry.offset or (0, 0, 0)
    low = [a + o - pad for a, o, (pad, _) in zip(start, offset, outside, strict=True)]
    first = np.array(low, np.float64) * size
    return [
        mesh._replace(vertices=(mesh.vertices + first).astype(np.float32))
        for mesh in meshes_of(labels, voxel_size=size)
        if len(mesh.triangles)
    ]


def _mesh_bytes(mesh: Mesh) -> bytes:
    vertices = np.ascontiguousarray(mesh.vertices[:, ::-1], dtype="<f4")  # x, y, z
    # Reversing the axes reverses the sense of rotation.
    triangles = np.ascontiguousarray(mesh.triangles[:, ::-1], dtype="<u4")
    count = np.array([len(vertices)], "<u4")
    return count.tobytes() + vertices.tobytes() + triangles.tobytes()


def _skeleton_bytes(skeleton: Skeleton, size: SizeNm, offset: Vec3) -> bytes:
    nodes: NDArray[np.float64] = (skeleton.nodes + 0.5 + offset) * size  # middles of voxels
    vertices = np.ascontiguousarray(nodes[:, ::-1], dtype="<f4")
    counts = np.array([len(vertices), len(skeleton.edges)], "<u4")
    return counts.tobytes() + vertices.tobytes() + skeleton.edges.astype("<u4").tobytes()


def _describe(target: Path, info: dict[str, Any]) -> None:
    """Write the info of a folder of meshes or skeletons, and name the folder in the info of the segmentation."""
    replace_text(target / "info", json.dumps(info))
    path = target.with_name("info")
    with reserved("mesh", path, unchecked):
        whole: dict[str, Any] = reading.read_json(path, "the info of a precomputed volume")
        replace_text(path, json.dumps({**whole, target.name: target.name}))
