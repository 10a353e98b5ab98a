# SPDX-License-Identifier: Apache-2.0
"""Partitions: for each voxel of a label volume, the share of a box around the voxel that its object fills.

Source: google/ffn, compute_partitions.py (docs/algorithms.md, "Partitions").
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.base.outputs import files_of, reserved, result_dataset, unchecked
from floodtide.comm import world
from floodtide.data.boxes import Box, Progress, Vec3
from floodtide.data.formats.writers import CHUNK, GZIP, hdf5_file, write_attributes
from floodtide.data.look.labels import require_labels
from floodtide.data.volumes import Volume, VolumeLike, labels_of, name_of
from floodtide.errors import InvalidFileError

THRESHOLDS = (0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Limits between the partitions, as google/ffn recommends them."""
_PARTITION = Arguments(
    thresholds=limits.FRACTION, lom_radius=limits.RADIUS, min_size=limits.VOXELS, box=limits.EXTENT
)
_BLOCKS_IN_FLIGHT = 64  # 2 MiB each: what rank 0 takes from all ranks before it writes


def partition(
    labels: VolumeLike,
    out: str,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    lom_radius: Vec3 = (24, 24, 24),
    min_size: int = 10000,
    box: Box | None = None,
    progress: Progress | None = None,
) -> dict[int, int]:
    """Sort the voxels of a label volume into classes, by the share of a box around the voxel that its object fills.

    Collective: ranks compute blocks, rank 0 writes them; the file does not depend on their number.

    Args:
        labels: Integer labels: the name of a volume, or a Volume; 0 is background.
        out: Result, "file:dataset": uint8, 0 background, 1 + the number of thresholds that the
            object's fraction reaches, 255 where the box leaves the volume. Other datasets of that file stay.
        thresholds: Ascending fractions.
        lom_radius: Half the size (z, y, x) of the box around a voxel.
        min_size: Objects of fewer voxels count as background.
        box: Part of the volume to take as if it were all; the rest gets 255.
        progress: Called as progress(blocks done, blocks).

    Returns:
        Voxels of each partition.
    """
    comm = world.current()
    with contextlib.ExitStack() as held:
        result = None
        with world.agreed():
            given = {"thresholds": thresholds, "lom_radius": lom_radius, "min_size": min_size}
            _PARTITION.check("partition", **given, box=box)
            path, dataset = result_dataset("partition", out)
            if comm.rank == 0:
                inputs = files_of([name_of(labels)])
                held.enter_context(reserved("partition", path, unchecked, inputs))
            volume = labels_of(labels)
            require_labels(volume)
            job = _core.data.PartitionJob(volume.core, list(thresholds), lom_radius, min_size, box)
            if comm.rank == 0:
                file = held.enter_context(hdf5_file(path, "floodtide partition", [dataset]))
                result = _Result(file, dataset, volume.shape)
        _compute(job, result, progress)
        with world.agreed():
            if result is not None:
                boxes = _boxes(volume, lom_radius, box)
                found = result.counts()
                # The first two as google/ffn.
                attributes = {
                    "bounding_boxes": np.array(boxes, np.int64).reshape(-1, 2, 3),
                    "partition_counts": np.array([[*found], [*found.values()]], np.int64),
                    "thresholds": np.array(thresholds, np.float64),
                    "lom_radius_zyx": np.array(lom_radius, np.int64),
                    "min_size": np.array(min_size, np.int64),
                }
                write_attributes(file, dataset, volume.whole, attributes)
                held.close()  # gives the file its name
    counts: dict[int, int] = world.broadcast_object(result and result.counts())
    return counts


class _Result:
    """The dataset that rank 0 writes; voxels of no block get 255."""

    def __init__(self, file: _core.data.Hdf5Writer, dataset: str, shape: Vec3) -> None:
        self._file, self._dataset = file, dataset
        self._voxels = np.zeros(256, np.int64)
        # The edges of blocks are multiples of 64, so that every chunk is written once.
        file.create(dataset, "uint8", shape, [min(n, CHUNK) for n in shape], GZIP, 255)

    def write(self, start: Sequence[int], block: NDArray[np.uint8]) -> None:
        self._file.write(self._dataset, start, block)
        self._voxels += np.bincount(block.ravel(), minlength=256)

    def counts(self) -> dict[int, int]:
        """Return the voxels of each class that were written."""
        return {int(value): int(self._voxels[value]) for value in np.flatnonzero(self._voxels)}


def _boxes(labels: Volume, lom_radius: Vec3, box: Box | None) -> list[Any]:
    """Return start and size (x, y, z) of each box in which voxels have a class."""
    whole = [*(box or ((0, 0, 0), labels.shape))]
    stored = None if box else labels.core.integers("bounding_boxes")  # x, y, z
    if stored is not None and len(stored) % 6:
        raise InvalidFileError(
            f"{labels.name}: attribute bounding_boxes has {len(stored)} values, expected (n, 2, 3)"
        )
    outer = np.reshape(stored, (-1, 2, 3)) if stored is not None else np.array([whole])[..., ::-1]
    radius = np.array(lom_radius)[::-1]
    inner = [(start + radius, size - 2 * radius) for start, size in outer]
    return [(start, size) for start, size in inner if (size > 0).all()]


def _compute(job: Any, result: _Result | None, progress: Progress | None) -> None:
    """Compute all blocks on all ranks and write them on rank 0. Collective."""
    comm = world.current()
    with world.agreed():
        sizes = job.count(*share(job.counting_blocks, comm.rank, comm.size), None)
    tables = world.allgather_bytes(sizes.tobytes())
    job.keep_large([np.frombuffer(table, dtype=np.int64).reshape(2, -1) for table in tables])
    # A rank takes several blocks at once for its threads. Rank 0 holds the blocks of a round in
    # memory, so their number is bounded; one writer cannot serve more ranks anyway.
    per_rank = max(1, min(4 * _core.num_threads(), _BLOCKS_IN_FLIGHT // comm.size))
    per_round = min(comm.size * per_rank, _BLOCKS_IN_FLIGHT)
    for first in range(0, job.blocks, per_round):
        last = min(first + per_round, job.blocks)
        _partition_round(job, result, first, last)
        if progress is not None:
            progress(last, job.blocks)


def _partition_round(job: Any, result: _Result | None, first: int, last: int) -> None:
    """Compute the blocks [first, last) on all ranks, write them in order on rank 0. Collective."""
    comm = world.current()
    with world.agreed():
        begin, end = share(last - first, comm.rank, comm.size)
        blocks = job.compute(first + begin, first + end)
    boxes = [job.block(number) for number in range(first, last)]
    if comm.size > 1:
        blocks = world.gather_bytes(blocks)
    with world.agreed():
        if result is not None and comm.size > 1:  # the blocks lie one after another
            pieces = np.split(blocks, np.cumsum([np.prod(size) for _, size in boxes])[:-1])
            blocks = [piece.reshape(size) for piece, (_, size) in zip(pieces, boxes, strict=True)]
        if result is not None:
            for (start, _), block in zip(boxes, blocks, strict=True):
                result.write(start, block)


def share(total: int, rank: int, size: int) -> tuple[int, int]:
    """Return the range [begin, end) of `total` items that a rank works on."""
    return total * rank // size, total * (rank + 1) // size
