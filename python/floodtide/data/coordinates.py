# SPDX-License-Identifier: Apache-2.0
"""Lists of training centres that hold each partition class equally often."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import Arguments
from floodtide.base.outputs import files_of, reserved, unchecked
from floodtide.comm import world
from floodtide.data.boxes import Progress, Vec3
from floodtide.data.formats.table import stem
from floodtide.data.partitions import share
from floodtide.data.volumes import VolumeLike, name_of, opened

_COORDINATES = Arguments(margin=limits.EXTENT, seed=limits.SEED)
_ROWS_IN_FLIGHT = 1 << 24  # 16 bytes each


def coordinates(
    partitions: Sequence[str] | Mapping[str, VolumeLike],
    out: str | os.PathLike[str],
    *,
    margin: Vec3 = (0, 0, 0),
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[int, int]:
    """Write a shuffled list of training centres that holds each partition class equally often.

    Every partition but 255 is repeated cyclically to the size of the largest one, pooled over all
    volumes. Collective: ranks make the rows, rank 0 writes them; the file does not depend on them.

    Args:
        partitions: Volumes made by `partition`: {name: volume}, or names of volumes or
            "name=file:dataset". Names are those of the training volumes; the default is the
            file's name without extension.
        out: HDF5 file; docs/formats describes it.
        margin: Voxels (z, y, x) at the faces of every volume that are no centres.
        seed: Chooses the order.
        progress: Called as progress(rows done, rows).

    Returns:
        Voxels of each partition.
    """
    comm = world.current()
    with contextlib.ExitStack() as held:
        writer = None
        with world.agreed():
            _COORDINATES.check("coordinates", margin=margin, seed=seed)
            named = _named(partitions)
            if comm.rank == 0:
                inputs = files_of(name_of(volume) for _, volume in named)
                held.enter_context(reserved("coordinates", out, unchecked, inputs))
            job = _core.data.CoordinatesJob(
                [(name, opened(volume)) for name, volume in named], margin, seed, None
            )
            if comm.rank == 0:
                writer = _core.data.CoordinatesWriter(job, os.fspath(out))
        _write_rows(job, writer, progress)
    return dict(zip(job.classes, job.class_counts, strict=True))


def _write_rows(job: Any, writer: Any, progress: Progress | None) -> None:
    """Compute the rows on all ranks and write the file on rank 0. Collective."""
    comm = world.current()
    try:
        for first in range(0, job.size, _ROWS_IN_FLIGHT):
            last = min(first + _ROWS_IN_FLIGHT, job.size)
            with world.agreed():
                begin, end = share(last - first, comm.rank, comm.size)
                rows = job.rows(first + begin, first + end, None)
            if comm.size > 1:
                gathered = world.gather_bytes([rows])
                rows = gathered.view(np.int32).reshape(-1, 4)
            with world.agreed():
                if writer is not None:
                    writer.write(first, rows)
            if progress is not None:
                progress(last, job.size)
        with world.agreed():
            if writer is not None:
                writer.finish()
    finally:
        if writer is not None:
            writer.discard()


def _named(
    partitions: Sequence[str] | Mapping[str, VolumeLike],
) -> list[tuple[str, VolumeLike]]:
    if isinstance(partitions, Mapping):
        return list(partitions.items())
    named: list[tuple[str, VolumeLike]] = []
    for text in partitions:
        name, equals, volume = text.partition("=")
        if not equals:
            name, volume = stem(text), text
        named.append((name, volume))
    return named
