# SPDX-License-Identifier: Apache-2.0
"""Partitions: for each voxel of a label volume, the share of a box around the voxel that its object fills.

Source: google/ffn, compute_partitions.py (docs/algorithms.md, "Partitions").
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base import limits
from floodtide.base.outputs import files_of, reserved, result_dataset, unchecked
from floodtide.comm import world
from floodtide.data.boxes import Box, Progress, Vec3
from floodtide.data.formats.writers import CHUNK, GZIP, hdf5_file, write_attributes
from floodtide.data.look.labels import integers_of
from floodtide.data.volumes import Volume, VolumeLike, labels_of, name_of
from floodtide.errors import InvalidFileError

THRESHOLDS = (0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Limits between the partitions, as google/ffn recommends them."""
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
    voxels = np.zeros(256, np.int64)  # of each class
    with contextlib.ExitStack() as held:
        file: _core.data.Hdf5Writer | None = None
        with world.agreed():
            limits.FRACTION.check(thresholds, "partition: thresholds")
            limits.RADIUS.check(lom_radius, "partition: lom_radius")
            limits.VOXELS.check(min_size, "partition: min_size")
            if box is not None:
                limits.EXTENT.check(box, "partition: box")
            path, dataset = result_dataset("partition", out)
            if comm.rank == 0:
                inputs = files_of([name_of(labels)])
                held.enter_context(reserved("partition", path, unchecked, inputs))
            volume = labels_of(labels)
            integers_of(volume)
            job = _core.data.PartitionJob(volume.core, list(thresholds), lom_radius, min_size, box)
            if comm.rank == 0:
                file = held.enter_context(hdf5_file(path, "floodtide partition", [dataset]))
                # Voxels of no block get 255. The edges of blocks are multiples of 64: every chunk is written once.
                chunks = [min(n, CHUNK) for n in volume.shape]
                file.create(dataset, "uint8", volume.shape, chunks, GZIP, 255)
        for last, blocks in _blocks(job):
            with world.agreed():
                if file is not None:
                    for start, block in blocks:
                        file.write(dataset, start, block)
                        voxels += np.bincount(block.ravel(), minlength=256)
            if progress is not None:
                progress(last, job.blocks)
        counts = {int(value): int(voxels[value]) for value in np.flatnonzero(voxels)}
        with world.agreed():
            if file is not None:
                boxes = _boxes(volume, lom_radius, box)
                # The first two as google/ffn.
                attributes = {
                    "bounding_boxes": np.array(boxes, np.int64).reshape(-1, 2, 3),
                    "partition_counts": np.array([[*counts], [*counts.values()]], np.int64),
                    "thresholds": np.array(thresholds, np.float64),
                    "lom_radius_zyx": np.array(lom_radius, np.int64),
                    "min_size": np.array(min_size, np.int64),
                }
                write_attributes(file, dataset, volume.whole, attributes)
                held.close()  # gives the file its name
    found: dict[int, int] = world.broadcast_object(counts)
    return found


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


def _blocks(job: Any) -> Iterator[tuple[int, list[tuple[Sequence[int], NDArray[np.uint8]]]]]:
    """Compute all blocks on all ranks in rounds. Collective.

    Yields:
        (blocks computed, blocks of this round with their first voxels, in order); only rank 0 gets those of all ranks.
    """
    comm = world.current()
    with world.agreed():
        sizes = job.count(*_share(job.counting_blocks, comm.rank, comm.size), None)
    tables = comm.allgather(sizes.tobytes())
    job.keep_large([np.frombuffer(table, dtype=np.int64).reshape(2, -1) for table in tables])
    # A rank takes several blocks at once for its threads. Rank 0 holds the blocks of a round in memory, so their
    # number is bounded; one writer cannot serve more ranks anyway. Ranks may have different numbers of threads.
    wanted = 4 * _core.num_threads() * comm.size
    per_round = world.broadcast_object(min(wanted, _BLOCKS_IN_FLIGHT))
    for first in range(0, job.blocks, per_round):
        last = min(first + per_round, job.blocks)
        with world.agreed():
            begin, end = _share(last - first, comm.rank, comm.size)
            blocks = job.compute(first + begin, first + end)
        boxes = [job.block(number) for number in range(first, last)]
        joined = world.gather_bytes(blocks)
        if comm.rank == 0:  # one after another
            pieces = np.split(joined, np.cumsum([math.prod(size) for _, size in boxes])[:-1])
            blocks = [piece.reshape(size) for piece, (_, size) in zip(pieces, boxes, strict=True)]
        yield last, list(zip((start for start, _ in boxes), blocks, strict=False))


def _share(total: int, rank: int, size: int) -> tuple[int, int]:
    """Return the range [begin, end) of `total` items that a rank works on."""
    return total * rank // size, total * (rank + 1) // size
