# SPDX-License-Identifier: Apache-2.0
"""Write volumes block by block, with one class for each kind of format. `floodtide.data.copies` uses them.

A folder is written under a temporary name in the same folder, and renamed when it is complete.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import notes
from floodtide.base.files import path_and_dataset, temporaries, temporary
from floodtide.base.libraries import library, tensorstore_library
from floodtide.base.outputs import PRECOMPUTED, STORES
from floodtide.base.reading import blaming
from floodtide.data.boxes import Box, Vec3, as_vec3, slices, tiles
from floodtide.data.formats.geometry import NO_PLACE, NO_SIZE, WRITTEN_BY, Geometry
from floodtide.data.formats.readers import in_folder
from floodtide.data.formats.tiff import file_and_series, metadata_for
from floodtide.errors import InvalidArgumentError, StorageError

CHUNK = 64  # voxels along each axis of the chunks that are written
GZIP = 4  # level of the compression of HDF5 files
_LARGEST_TIFF = 4_000_000_000  # bytes of voxels; positions in larger files need 64 bits

_REMOVALS = 40  # of a temporary folder, 0.05 s apart


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The volume to write.

    Attributes:
        shape: Size (z, y, x) in voxels.
        command: The command that writes it, "floodtide convert". It may replace its own older datasets of HDF5 files.
        notes: Texts that become attributes of HDF5, Zarr and N5 volumes.
        labels: True if the voxels are ids. Precomputed volumes state it; integers of 32 or 64 bits always are.
    """

    shape: Vec3
    dtype: np.dtype[Any]
    geometry: Geometry
    command: str
    notes: Mapping[str, str] = field(default_factory=dict)
    labels: bool = False

    @property
    def chunks(self) -> Vec3:
        return as_vec3([min(n, CHUNK) for n in self.shape])

    @property
    def size(self) -> tuple[float, float, float]:
        """Edges of a voxel in `unit`: nm, or voxels if the voxel size is unknown."""
        return self.geometry.voxel_size_nm or (1.0, 1.0, 1.0)

    @property
    def unit(self) -> str:
        return "voxel" if self.geometry.voxel_size_nm is None else "nm"

    @property
    def offset(self) -> list[float] | None:
        """The first voxel in `unit`; None: unknown."""
        if self.geometry.offset is None:
            return None
        return [n * size for n, size in zip(self.geometry.offset, self.size, strict=True)]


@dataclass(frozen=True)
class Writer:
    """Writes blocks in the order z, y, x. A block consists of whole chunks, except at the end of the volume.

    Attributes:
        chunks: Voxels (z, y, x) of a chunk.
        write: Writes the block of a box.
        shared: What `shared_writer` needs in another process of this job; "": only this one can write.
    """

    chunks: Vec3
    write: Callable[[Box, NDArray[Any]], None]
    shared: str = ""


@contextmanager
def hdf5_file(path: str, command: str, datasets: list[str]) -> Iterator[_core.data.Hdf5Writer]:
    """Yield an HDF5 file to write, which takes its name at the end of the block. If the block fails, it is removed.

    Args:
        command: The command that writes it. It may replace its own older datasets of an existing file.
        datasets: The names of the datasets.
    """
    file = _core.data.Hdf5Writer(path, command, datasets)
    try:
        yield file
        file.finish()
    finally:
        file.discard()


def write_attributes(
    file: _core.data.Hdf5Writer, dataset: str, geometry: Geometry, others: Mapping[str, Any]
) -> None:
    """Write voxel size and first voxel of an HDF5 dataset, as far as they are known, and other attributes."""
    if geometry.voxel_size_nm is not None:
        file.attribute(dataset, "resolution", np.array(geometry.voxel_size_nm, np.float64))
    if geometry.offset is not None:
        file.attribute(dataset, "box_start", np.array(geometry.offset, np.int64))
    for name, value in others.items():
        file.attribute(dataset, name, value)


@contextmanager
def hdf5(reference: str, plan: Plan) -> Iterator[Writer]:
    """Write a dataset of an HDF5 file."""
    path, dataset = path_and_dataset(reference)
    with hdf5_file(path, plan.command, [dataset]) as file:

        def write(box: Box, block: NDArray[Any]) -> None:
            file.write(dataset, list(box[0]), np.ascontiguousarray(block))

        file.create(dataset, plan.dtype.name, list(plan.shape), list(plan.chunks), GZIP)
        write_attributes(file, dataset, plan.geometry, plan.notes)
        yield Writer(plan.chunks, write)


@contextmanager
def zarr(reference: str, plan: Plan) -> Iterator[Writer]:
    """Write an array of Zarr 3, with voxel size and offset as funlib.persistence names them."""
    attributes: dict[str, Any] = {WRITTEN_BY: plan.command}
    if plan.geometry != Geometry():
        attributes |= {"axis_names": ["z", "y", "x"], "units": [plan.unit] * 3}
        attributes["voxel_size"] = list(plan.size)
    if plan.offset is not None:
        attributes["offset"] = plan.offset
    metadata = {
        "shape": list(plan.shape),
        "data_type": plan.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(plan.chunks)}},
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "zstd", "configuration": {"level": 3}},
        ],
        "dimension_names": ["z", "y", "x"],
        "attributes": {**attributes, **plan.notes},
    }
    group = {"zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": {}}}
    with _new_folder(reference, group) as folder:
        store = _created(reference, folder, {"driver": "zarr3", "metadata": metadata})
        yield _store_writer(store, plan.chunks)


@contextmanager
def n5(reference: str, plan: Plan) -> Iterator[Writer]:
    """Write a dataset of N5: axes x, y, z."""
    metadata = {
        "dimensions": list(plan.shape[::-1]),
        "blockSize": list(plan.chunks[::-1]),
        "dataType": plan.dtype.name,
        "compression": {"type": "gzip"},
        "axes": ["x", "y", "z"],
        WRITTEN_BY: plan.command,
        **plan.notes,
    }
    if plan.geometry != Geometry():
        metadata |= {"units": [plan.unit] * 3, "resolution": list(plan.size[::-1])}
    if plan.offset is not None:
        metadata["offset"] = plan.offset[::-1]
    with _new_folder(reference, {"attributes.json": {"n5": "2.0.0"}}) as folder:
        store = _created(reference, folder, {"driver": "n5", "metadata": metadata})
        yield _store_writer(store.T, plan.chunks)


@contextmanager
def precomputed(reference: str, plan: Plan) -> Iterator[Writer]:
    """Write a Neuroglancer volume of one scale and one channel: axes x, y, z, channel."""
    kinds = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "float32")
    if plan.dtype.name not in kinds:
        raise InvalidArgumentError(
            f"{reference}: precomputed volumes cannot hold {plan.dtype}, expected one of {', '.join(kinds)}"
        )
    labels = plan.labels or plan.dtype.name in ("uint32", "uint64")
    spec = {
        "driver": "neuroglancer_precomputed",
        "multiscale_metadata": {
            "type": "segmentation" if labels else "image",
            "data_type": plan.dtype.name,
            "num_channels": 1,
        },
        "scale_metadata": {
            "size": list(plan.shape[::-1]),
            "encoding": "raw",
            "chunk_size": list(plan.chunks[::-1]),
            "resolution": list(plan.size[::-1]),
            "voxel_offset": list((plan.geometry.offset or (0, 0, 0))[::-1]),
        },
    }
    with _new_folder(reference.removeprefix(PRECOMPUTED), {}) as folder:
        store = _created(reference, folder, spec)
        marks: dict[str, Any] = {WRITTEN_BY: plan.command}
        if plan.geometry.voxel_size_nm is None:
            notes.show(
                f"{reference}: the voxel size is unknown, and the format needs one: 1 nm is written, and marked as"
                " unknown (--voxel-nm states it)"
            )
            marks[NO_SIZE] = True
        if plan.geometry.offset is None:
            marks[NO_PLACE] = True
        info = folder / "info"
        info.write_text(json.dumps({**json.loads(info.read_text()), **marks}))
        tensorstore = tensorstore_library(reference)
        yield _store_writer(store[..., 0].T[tensorstore.d[:].translate_to[0]], plan.chunks)


def _store_writer(store: Any, chunks: Vec3) -> Writer:
    """Return a writer of a Zarr, N5 or precomputed volume. Each chunk is a file, so processes can share the blocks."""

    def write(box: Box, block: NDArray[Any]) -> None:
        with blaming(StorageError, "a block cannot be written"):
            store[slices(box)].write(block).result()

    return Writer(chunks, write, shared=json.dumps(store.spec(retain_context=False).to_json()))


def shared_writer(reference: str, shared: str, plan: Plan) -> Writer:
    """Return a writer of the volume that another process has created, whose writer has this `shared`."""
    tensorstore = tensorstore_library(reference)
    with _storing(reference):
        store = tensorstore.open(json.loads(shared), open=True, write=True).result()
    return _store_writer(store, plan.chunks)


@contextmanager
def tiff_stack(reference: str, plan: Plan) -> Iterator[Writer]:
    """Write an uncompressed TIFF file, one picture for each z, with metadata of ImageJ or OME if they have the type."""
    path = Path(reference)
    if file_and_series(reference)[1] is not None:
        raise InvalidArgumentError(f"{reference}: names a series, expected a new file")
    tifffile = library("tifffile", reference, "formats")
    large = math.prod(plan.shape) * plan.dtype.itemsize > _LARGEST_TIFF
    kind, metadata = metadata_for(plan.shape, plan.dtype, plan.geometry, large)
    _, y, x = plan.size
    part = temporary(path)
    try:
        with _storing(reference):
            with tifffile.TiffWriter(part, bigtiff=large, byteorder="<", **kind) as file:
                first, _ = file.write(
                    shape=plan.shape,
                    dtype=plan.dtype,
                    photometric="minisblack",
                    resolution=(1 / x, 1 / y),
                    resolutionunit="none",
                    metadata=metadata,
                    returnoffset=True,
                )
            with part.open("r+b") as stack:
                stack.seek(first)

                def write(box: Box, block: NDArray[Any]) -> None:
                    stack.write(np.ascontiguousarray(block, plan.dtype.newbyteorder("<")).data)

                yield Writer((1, *plan.shape[1:]), write)
                stack.flush()
                os.fsync(stack.fileno())
            os.rename(part, path)
    finally:
        part.unlink(missing_ok=True)


def not_written(reference: str, plan: Plan | None = None) -> AbstractContextManager[Writer]:
    """Refuse a format that floodtide only reads."""
    raise InvalidArgumentError(
        f"{reference}: floodtide reads this format, and does not write it; expected another one"
    )


def _storing(reference: str) -> AbstractContextManager[None]:
    return blaming(StorageError, f"{reference}: cannot be written")


@contextmanager
def _new_folder(name: str, group: Mapping[str, Any]) -> Iterator[Path]:
    """Yield a temporary folder that gets its name at the end of the block. Missing folders above are made, too.

    Args:
        name: The folder, which must not exist.
        group: Files of the new folders above it, as JSON.
    """
    import shutil  # not at the top: a training that writes no volume needs neither this module nor its five others

    place = Path(name)
    top = new_top(name)
    part = temporary(top)
    for stale in temporaries(top):  # of processes that were killed
        shutil.rmtree(stale, ignore_errors=True)
    inner = part / place.relative_to(top) if place != top else part
    try:
        with _storing(name):
            inner.mkdir(parents=True)
            above = inner
            while above != part:
                above = above.parent
                for file, content in group.items():
                    (above / file).write_text(json.dumps(content))
        yield inner
        with _storing(name):
            os.rename(part, top)
    finally:
        for _ in range(_REMOVALS):  # tensorstore may still write what it has begun
            shutil.rmtree(part, ignore_errors=True)
            if not part.exists():
                break
            time.sleep(0.05)


def new_top(name: str) -> Path:
    """Return the topmost missing folder on the path to a new one, at most the container (.zarr, .n5) of the volume."""
    place = top = Path(name)
    stores = [one for one in (place, *place.parents) if one.suffix.lower() in STORES]
    container = stores[0] if stores else place
    while top != container and not top.parent.exists():
        top = top.parent
    return top


def _created(reference: str, folder: Path, spec: Mapping[str, Any]) -> Any:
    tensorstore = tensorstore_library(reference)
    # Chunks of zeros are stored too: a chunk without a file is then a lost one.
    kept = {**in_folder(folder), "store_data_equal_to_fill_value": True}
    with _storing(reference):
        return tensorstore.open({**spec, **kept}, create=True, write=True).result()


def blocks(shape: Vec3, chunks: Vec3, most: int) -> Iterator[Box]:
    """Return boxes of whole chunks that cover a volume. A box has at most `most` voxels, or is one chunk."""
    size = list(chunks)
    for axis in (2, 1, 0):
        plane = math.prod(size) // size[axis]
        count = max(1, most // (plane * chunks[axis]))
        size[axis] = min(chunks[axis] * count, -(-shape[axis] // chunks[axis]) * chunks[axis])
        if size[axis] < shape[axis]:
            break
    return tiles(((0, 0, 0), shape), size)
