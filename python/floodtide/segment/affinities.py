# SPDX-License-Identifier: Apache-2.0
"""Affinities to segments, in one piece or in subvolumes, by the libraries of the field.

Each subvolume is the work of the process that locks its file.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits, reading
from floodtide.base.files import path_and_dataset
from floodtide.base.libraries import library
from floodtide.base.options import Checked, option
from floodtide.base.outputs import files_of, refuse_inputs
from floodtide.base.progress import bar
from floodtide.base.tasks.affinities import NEAREST
from floodtide.comm import world
from floodtide.config import to_dict
from floodtide.config.segment_options import LINKAGES
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import as_vec3, box_text, difference, intersection, total
from floodtide.data.copies import write_blocks
from floodtide.data.formats.geometry import Geometry, is_triple
from floodtide.data.formats.hdf5 import open_dataset
from floodtide.data.formats.table import HDF5, format_of
from floodtide.data.formats.writers import Plan
from floodtide.data.volumes import whole_geometry
from floodtide.errors import (
    InvalidArgumentError,
    InvalidFileError,
    OutOfRangeError,
    ShapeError,
)
from floodtide.segment.blocks import sampled_digest, store_on_ranks
from floodtide.segment.pieces import Cut, Pieces

Affinities = NDArray[np.floating[Any]]

METHODS = ("mutex", *LINKAGES)
_SCORING = {
    "mean": "MeanAffinity<RegionGraphType, ScoreValue>",
    "median": "HistogramQuantileAffinity<RegionGraphType, 50, ScoreValue, 256, false>",
    "quantile75": "HistogramQuantileAffinity<RegionGraphType, 75, ScoreValue, 256, false>",
}
_BYTES_PER_AFFINITY = 60  # of the mutex watershed: shifted affinities and sorted edges
_BYTES_PER_VOXEL = 40
_BEYOND = 1e-3  # that rounding may add to affinities
_COMMAND = "floodtide agglomerate"
_CHUNK = 64  # voxels along each axis of a box that is read for a digest
OVERLAP = 32
"""Voxels that neighbouring subvolumes share, unless that is more than a quarter of a subvolume."""


@dataclass(frozen=True, kw_only=True)
class AffinityOptions(Checked):
    """How affinities become segments."""

    method: str = option(
        "mean",
        "`mutex`: mutex watershed of all offsets (mwatershed); else watershed of the nearest neighbours and"
        " agglomeration by the mean, median or 75 % quantile of the affinities between two segments (waterz)",
        choices=METHODS,
    )
    threshold: float = option(
        0.5,
        "Segments are merged while the affinity between them is above this. For mutex: an affinity of nearest"
        " neighbours above this attracts, one below it repels",
        range=limits.FRACTION,
    )
    far_bias: float = option(
        0.5, "For mutex: the threshold of all other offsets", range=limits.FRACTION
    )
    stride: int = option(
        2,
        "For mutex: far offsets start at every n-th voxel along each axis only, because all would split objects",
        range=limits.STRIDE,
    )
    background: float = option(
        0.0,
        "Voxels whose mean affinity to their nearest neighbours is below this are in no segment",
        range=limits.FRACTION,
    )
    min_size: int = option(100, "Smaller segments, in voxels, are removed", range=limits.VOXELS)


class AffinityFile:
    """Affinities in an HDF5 file, (offsets, z, y, x) of float32, or of uint8 from 0 to 255.

    Attributes:
        name: "file:dataset".
        box: (start, size) of the box to segment, in voxels of the image.
        offsets: Offsets (z, y, x) of the affinities.
        voxel_size_nm: Voxel size (z, y, x) that the file states; None: none.
        checkpoint: The checkpoint of the network that made them, if the file states one, else "".
        mirrored: They are a mean over mirrored copies.

    Args:
        name: "file:dataset", as `floodtide predict` writes it.
        offsets: The offsets, for a file that does not state them in the attribute `offsets`.
        box: Only this box, in voxels of the image; None: all.

    Raises:
        InvalidFileError: If the file cannot be read, or its offsets do not fit the data.
        InvalidArgumentError: If the name is not file:dataset, or no offsets are known.
        OutOfRangeError: If the box is not inside the affinities.
    """

    def __init__(
        self, name: str, offsets: Sequence[Sequence[int]] | None = None, box: Box | None = None
    ) -> None:
        self.name = name
        self._arguments = (name, offsets, box)  # for pickle and copy
        if format_of(name) is not HDF5:
            raise InvalidArgumentError(f"{name}: expected affinities in FILE.h5:DATASET")
        self._channels = _core.data.Channels(*path_and_dataset(name))
        count, z, y, x = self._channels.shape
        geometry = self._geometry()
        self._start = geometry.offset or (0, 0, 0)
        self.box: Box = box or (self._start, (z, y, x))
        if intersection(self.box, (self._start, (z, y, x))) != self.box:
            raise OutOfRangeError(
                f"{name}: box {box_text(self.box)} is not inside the affinities, {box_text((self._start, (z, y, x)))}"
            )
        self.image: str = self._channels.text("image")
        self.checkpoint: str = self._channels.text("checkpoint")
        self.mirrored = self._channels.text("mirror") not in ("", "[]")
        self.voxel_size_nm = whole_geometry(geometry, self.image).voxel_size_nm
        text = self._channels.text("offsets")
        if text:
            with reading.reading(name, "the offsets of affinities, a list of [z, y, x]"):
                offsets = [[int(step) for step in row] for row in json.loads(text)]
        if offsets is None:
            raise InvalidArgumentError(
                f"{name}: has no attribute `offsets`, and none are given; expected the offsets [z, y, x] of its {count}"
                " channels"
            )
        self.offsets: tuple[Vec3, ...] = tuple(as_vec3(row) for row in offsets)
        if len(self.offsets) != count or (0, 0, 0) in self.offsets:
            raise InvalidFileError(
                f"{name}: {count} channels and offsets {list(self.offsets)}, expected one for each channel, not 0"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to open the file again."""
        return AffinityFile, self._arguments

    @property
    def origin(self) -> dict[str, str]:
        """Return the names of the image, if the file states one, and of the affinities, as texts of a result."""
        image = {"image": self.image} if self.image else {}
        return image | {"affinities": self.name}

    def _geometry(self) -> Geometry:
        size = self._channels.numbers("resolution")
        if size is not None and not (is_triple(size) and min(size) > 0):
            raise InvalidFileError(
                f"{self.name}: attribute resolution is {size}, expected three positive numbers (z, y, x) in nm"
            )
        found = open_dataset(*path_and_dataset(self.name), 0)
        if not found.plain:
            raise InvalidFileError(
                f"{self.name}: names its axes in another order, expected offsets, z, y, x: transpose it first"
            )
        return found.geometry

    def read(self, box: Box) -> NDArray[np.float32]:
        """Return the affinities (offsets, z, y, x) of a box, in voxels of the image."""
        values: NDArray[np.float32] = self._channels.read(difference(box[0], self._start), box[1])
        _require_range(self.name, values)
        return values


def segments_of(
    affinities: Affinities, offsets: Sequence[Vec3], options: AffinityOptions | None = None
) -> NDArray[np.uint64]:
    """Return the segments of affinities, uint64 (z, y, x) from 1, in the order of their first voxels; 0 is background.

    Args:
        affinities: (offsets, z, y, x), from 0 (different objects) to 1 (same object). The affinity of a voxel for an
            offset is that of the voxel and the one at the offset.
        options: The method and its parameters; None: the defaults.

    Raises:
        ShapeError: If there is not one offset for each channel.
        InvalidArgumentError: If an affinity is not from 0 to 1, or the method lacks an offset.
        UnsupportedError: If the library of the method is not installed.
    """
    options = options or AffinityOptions()
    if affinities.ndim != 4 or len(affinities) != len(offsets):
        raise ShapeError(
            f"agglomerate: affinities of shape {affinities.shape} and {len(offsets)} offsets, expected"
            " (offsets, z, y, x)"
        )
    _require_range("agglomerate", affinities)
    _require_memory(affinities.shape)
    if options.method == "mutex":
        labels = _mutex(affinities, offsets, options)
    else:
        ((_, labels),) = linked(affinities, offsets, options.method, [options.threshold])
    if options.background > 0:
        nearest = affinities[_nearest(offsets, "background")]
        labels[nearest.mean(axis=0) < options.background] = 0
    return _numbered(labels, options.min_size)


def objects_of(
    task: Any,
    predicted: NDArray[Any],
    *,
    sections: bool = False,
    options: AffinityOptions | None = None,
) -> NDArray[Any]:
    """Return the objects (z, y, x) of what `Predictor.predicted` returns for a task; 0 is none.

    `options` say how affinities become segments. If `sections`, as for a network that sees one section at a time, each
    section has separate objects, with different numbers.
    """
    if sections:
        apart, count = np.zeros(predicted.shape[-3:], np.int64), 0
        for z, out in enumerate(apart):
            found = objects_of(task, predicted[..., z : z + 1, :, :], options=options)[0]
            out[found > 0] = found[found > 0] + count
            count += int(found.max(initial=0))
        return apart
    objects: NDArray[Any] = task.objects(predicted, functools.partial(segments_of, options=options))
    return objects


def write_segments(
    labels: NDArray[Any],
    out: str,
    geometry: Geometry,
    *,
    command: str,
    notes: Mapping[str, str],
    inputs: str,
) -> tuple[int, float]:
    """Write segments (z, y, x) as uint32 to a volume of any format. Not collective.
    Return their number, and the share of the voxels that are in one.

    Args:
        labels: The segments, from 1; 0 is background.
        notes: Texts that become attributes of the volume.
        inputs: The volume from which the segments were made.

    Raises:
        Error: As `floodtide.data.convert` raises.
    """
    plan = Plan(
        shape=as_vec3(labels.shape),
        dtype=np.dtype(np.uint32),
        geometry=geometry,
        command=command,
        notes=notes,
    )
    read = Volume(labels.astype(np.uint32, copy=False)).read
    write_blocks(out, plan, read, inputs=files_of([inputs]))
    return int(labels.max(initial=0)), float(np.count_nonzero(labels) / max(1, labels.size))


def agglomerate(
    affinities: AffinityFile,
    out: str,
    options: AffinityOptions,
    *,
    subvolume: Vec3 | None = None,
    overlap: Vec3 | None = None,
) -> dict[str, Any]:
    """Make segments of affinities, as `floodtide agglomerate` does. Collective.

    In subvolumes, the same call continues after a crash.

    Args:
        affinities: The affinities.
        out: The volume to write; with `subvolume` a folder, for `floodtide.segment.reconcile`: a new one, or one that
            was made with the same arguments.
        options: How they become segments.
        subvolume: Size (z, y, x) in voxels of the subvolumes that ranks share; None: one piece, made by rank 0.
        overlap: Smallest overlap (z, y, x) of subvolumes; None: 32 voxels, at most a quarter of a subvolume.

    Returns:
        `out`, and `subvolumes`; or in one piece `segments` and `coverage`, on rank 0 alone.

    Raises:
        InvalidArgumentError: If a size is out of range, the folder is for something else, or as `segments_of`.
        LockedError: If another job uses the folder.
        StorageError: If the output cannot be written.
    """
    cut: Cut | None = None
    with world.agreed():
        refuse_inputs("agglomerate", [out], files_of([affinities.name]))
        if subvolume is None:
            format_of(out)
        elif ":" in out:
            raise InvalidArgumentError(
                f"{out}: names a dataset, expected a folder with --subvolume"
            )
        else:
            z, y, x = (min(OVERLAP, size // 4) for size in subvolume)
            cut = Cut(affinities.box, subvolume, overlap or (z, y, x)).joinable()
    if cut is not None:
        _agglomerate_on_ranks(out, affinities, options, cut)
        return {"subvolumes": len(cut), "out": out}
    report: dict[str, Any] = {"out": out}
    with world.agreed():
        if world.rank() == 0:
            labels = segments_of(affinities.read(affinities.box), affinities.offsets, options)
            notes = affinities.origin | {"options": json.dumps(to_dict(options))}
            geometry = Geometry(voxel_size_nm=affinities.voxel_size_nm, offset=affinities.box[0])
            report["segments"], report["coverage"] = write_segments(
                labels, out, geometry, command=_COMMAND, notes=notes, inputs=affinities.name
            )
    return report


def _agglomerate_on_ranks(
    directory: str, affinities: AffinityFile, options: AffinityOptions, cut: Cut
) -> None:
    """Make the segments in overlapping subvolumes on all ranks. Collective."""
    settings: dict[str, Any] = affinities.origin | {
        "voxels": sampled_digest(affinities.read, affinities.box, (_CHUNK,) * 3),
        "options": to_dict(options),
        "geometry": {
            "voxel_size_nm": affinities.voxel_size_nm,
            "offset": whole_geometry(Geometry(), affinities.image).offset,
        },
    }

    def segments(box: Box) -> NDArray[np.uint64]:
        return segments_of(affinities.read(box), affinities.offsets, options)

    with world.agreed():
        pieces = Pieces.create(directory, cut, total(*affinities.box), settings)
    with bar("subvolumes", "agglomerate", line_every_s=10.0) as progress:
        store_on_ranks("agglomerate", pieces, segments, progress=progress)


def _require_range(name: str, affinities: Affinities) -> None:
    """Refuse values that are no affinities from 0 to 1: numbers of 8 bits as floats, or logits."""
    if affinities.size == 0:
        return
    lowest, highest = float(affinities.min()), float(affinities.max())
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        raise InvalidArgumentError(f"{name}: an affinity is not a finite number")
    if lowest >= -_BEYOND and highest <= 1 + _BEYOND:
        return
    hint = "divide them by 255" if lowest >= 0 and highest <= 255 else "apply the sigmoid to logits"
    raise InvalidArgumentError(
        f"{name}: affinities reach from {lowest:.4g} to {highest:.4g}, expected 0 to 1: {hint}"
    )


def _mutex(
    affinities: Affinities, offsets: Sequence[Vec3], options: AffinityOptions
) -> NDArray[np.uint64]:
    mwatershed = library("mwatershed", "agglomerate", "affinities")
    is_near = [sum(map(abs, offset)) == 1 for offset in offsets]
    biases = np.array([options.threshold if near else options.far_bias for near in is_near])
    shifted = affinities.astype(np.float64) - biases[:, None, None, None]
    strides = [[1 if near else options.stride] * 3 for near in is_near]
    labels: NDArray[np.uint64] = mwatershed.agglom(
        shifted, [list(o) for o in offsets], strides=strides
    )
    return labels


def linked(
    affinities: Affinities, offsets: Sequence[Vec3], method: str, thresholds: Sequence[float]
) -> Iterator[tuple[float, NDArray[np.uint64]]]:
    """Yield the segments of each threshold, the highest first, of one agglomeration. Arguments as `segments_of`."""
    waterz = library("waterz", "agglomerate", "affinities")
    values = np.zeros((len(NEAREST), *affinities.shape[1:]), np.float32)
    nearest = _nearest(offsets, f"the method {method}")
    values[-len(nearest) :] = affinities[nearest]
    # waterz merges while 1 - affinity is below its threshold, and tells standard output about it.
    falling = sorted(thresholds, reverse=True)
    with _silent():
        found = waterz.agglomerate(
            values, [1.0 - one for one in falling], scoring_function=f"OneMinus<{_SCORING[method]}>"
        )
    for threshold in falling:
        with _silent():
            labels = next(found).copy()
        yield threshold, labels


def _nearest(offsets: Sequence[Vec3], what: str) -> list[int]:
    """Return the channels of the nearest neighbours; without one along z, sections are apart."""
    wanted = NEAREST if NEAREST[0] in offsets else NEAREST[1:]
    missing = [offset for offset in wanted if offset not in offsets]
    if missing:
        raise InvalidArgumentError(
            f"agglomerate: {what} needs the offsets {list(wanted)}, of which {missing} are not there"
        )
    return [list(offsets).index(offset) for offset in wanted]


def _numbered(labels: NDArray[np.uint64], min_size: int) -> NDArray[np.uint64]:
    """Return the labels without small segments, numbered from 1 in the order of their first voxels."""
    ids, first, place, sizes = np.unique(
        labels, return_index=True, return_inverse=True, return_counts=True
    )
    kept = (ids > 0) & (sizes >= min_size)
    numbers = np.zeros(len(ids), np.uint64)
    order = np.flatnonzero(kept)[np.argsort(first[kept])]
    numbers[order] = np.arange(1, len(order) + 1)
    return numbers[place].reshape(labels.shape)


def decoding_bytes(offsets: int) -> int:
    """Return the bytes of memory per voxel that agglomeration needs."""
    return _BYTES_PER_AFFINITY * offsets + _BYTES_PER_VOXEL


def _require_memory(shape: Sequence[int]) -> None:
    voxels = math.prod(shape[1:])
    limits.require_memory(
        f"agglomerate: {' x '.join(map(str, shape[1:]))} voxels with {shape[0]} offsets need",
        decoding_bytes(shape[0]) * voxels,
        "subvolumes (--subvolume, or segment.subvolume)",
    )


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep what a library writes to standard output, from Python or native code, from being seen."""
    sys.stdout.flush()
    flush = ctypes.CDLL(None).fflush  # of C, which native code's output goes through
    flush(None)
    saved = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        flush(None)
        os.dup2(saved, 1)
        os.close(nowhere)
        os.close(saved)
