# SPDX-License-Identifier: Apache-2.0
"""Volumes in HDF5, synthetic volumes, partitions, training coordinates and samples.

Volumes are named `file:dataset`; axes are z, y, x; sizes are voxels. A box is a pair (start, size).
Functions that say Collective must be called by every rank of the job.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _comm, _core, errors, limits, options
from floodtide._files import path_and_dataset
from floodtide._outputs import WAIT_S, files_of, reserved, unchecked
from floodtide._samples import Affinities as Affinities
from floodtide._samples import Slices as Slices
from floodtide.options import Arguments

Vec3 = tuple[int, int, int]
Box = tuple[Vec3, Vec3]
Progress = Callable[[int, int], None]

THRESHOLDS = (0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""google/ffn's recommended limits between partitions."""

SOFTNESS = 0.05
"""How far the probabilities of examples' labels stay from 0 and 1, as google/ffn's do."""

_WRITE = Arguments(gzip=limits.GZIP)
_SYNTH = Arguments(shape=limits.SYNTH_EXTENT, seed=limits.SEED)
_PARTITION = Arguments(
    thresholds=limits.FRACTION,
    lom_radius=limits.RADIUS,
    min_size=limits.VOXELS,
    box=limits.EXTENT,
)
_COORDINATES = Arguments(margin=limits.EXTENT, seed=limits.SEED)
_SHARDS = Arguments(
    patch_size=limits.PATCH,
    walkers=limits.WALKERS,
    seed=limits.SEED,
    box=limits.EXTENT,
    mean=limits.INTENSITY,
    std=limits.DEVIATION,
    permutable_axes=limits.AXIS,
    reflectable_axes=limits.AXIS,
)

_CHUNK = 64  # voxels along each axis of the chunks of volumes written here
_GZIP = 4
_BLOCKS_IN_FLIGHT = 64  # 2 MiB each: what rank 0 takes from all ranks before it writes
_ROWS_IN_FLIGHT = 1 << 24  # 16 bytes each


def parse_box(text: str) -> Box | None:
    """The box that "z0:z1,y0:y1,x0:x1" means (z1 excluded); None for an empty text.

    Raises:
        InvalidArgumentError: If the text is anything else.
    """
    if not text.strip():
        return None
    number = r"(\d{1,13})"  # no axis is longer than limits.EXTENT, which has 13 digits
    match = re.fullmatch(r"\s*" + r"\s*,\s*".join([rf"{number}\s*:\s*{number}"] * 3) + r"\s*", text)
    numbers = [int(number) for number in match.groups()] if match else []
    if (
        not all(number in limits.EXTENT for number in numbers)
        or not numbers
        or any(a >= b for a, b in zip(numbers[::2], numbers[1::2], strict=True))
    ):
        raise errors.InvalidArgumentError(
            f"box {options.shown(text)}: expected z0:z1,y0:y1,x0:x1 with z0 < z1, y0 < y1, x0 < x1,"
            " for example 0:64,0:128,0:128"
        )
    z0, z1, y0, y1, x0, x1 = numbers
    return (z0, y0, x0), (z1 - z0, y1 - y0, x1 - x0)


def parse_vec3(text: str, what: str) -> Vec3:
    """The three whole numbers that "z,y,x" means; `what` names them in the error.

    Raises:
        InvalidArgumentError: If the text is anything else.
    """
    match = re.fullmatch(r"\s*" + r"\s*,\s*".join([r"(\d{1,13})"] * 3) + r"\s*", text)
    numbers = [int(number) for number in match.groups()] if match else []
    if not numbers or not all(number in limits.EXTENT for number in numbers):
        raise errors.InvalidArgumentError(
            f"{what} {options.shown(text)}: expected z,y,x in voxels, for example 24,24,24"
        )
    z, y, x = numbers
    return z, y, x


class Volume:
    """A three-dimensional dataset of integers or floating-point numbers, read in boxes.

    Args:
        file: An HDF5 file, or "file:dataset".
        dataset: The dataset in `file`, if `file` names none.

    Raises:
        InvalidFileError: If the file or dataset is missing or unreadable, or has not three axes.
    """

    def __init__(self, file: str | os.PathLike[str], dataset: str | None = None) -> None:
        path = os.fspath(file)
        if dataset is None:
            path, dataset = path_and_dataset(path)
        self._volume = _core.data.Volume(path, dataset)

    @property
    def name(self) -> str:
        """ "file:dataset"."""
        return str(self._volume.name)

    @property
    def shape(self) -> Vec3:
        """Voxels along z, y, x."""
        z, y, x = self._volume.shape
        return z, y, x

    @property
    def chunks(self) -> Vec3:
        """Voxels of a storage chunk; the shape if the volume is stored in one piece."""
        z, y, x = self._volume.chunks
        return z, y, x

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the voxels."""
        dtype: np.dtype[Any] = np.dtype(self._volume.dtype)
        return dtype

    def read(self, box: Box | str | None = None) -> NDArray[Any]:
        """The voxels of a box (or of "z0:z1,y0:y1,x0:x1"; None: all) in the volume's own type.

        Raises:
            OutOfRangeError: If the box is not inside the volume.
        """
        if isinstance(box, str):
            box = parse_box(box)
        start, size = ((0, 0, 0), self.shape) if box is None else box
        voxels: NDArray[Any] = self._volume.read(start, size)
        return voxels

    def read_intensities(self, box: Box) -> NDArray[np.float32]:
        """The voxels of a box as float32.

        Raises:
            OutOfRangeError: If the box is not inside the volume.
            InvalidFileError: If a voxel is not finite, or they are integers of more than 16 bits.
        """
        voxels: NDArray[np.float32] = self._volume.read_intensities(*box)
        return voxels

    def text(self, attribute: str) -> str:
        """A text that the dataset carries as an attribute; empty if it has none.

        Raises:
            InvalidFileError: If the attribute is no text, or damaged.
        """
        return str(self._volume.text(attribute))

    def __repr__(self) -> str:
        return f"Volume({self.name!r}, shape={self.shape}, dtype={self.dtype})"


def write_volume(
    path: str | os.PathLike[str],
    arrays: Mapping[str, NDArray[Any]],
    *,
    gzip: int = _GZIP,
    command: str = "floodtide write_volume",
) -> None:
    """Write arrays as the datasets of an HDF5 file, in chunks of at most 64 voxels an axis.

    The file takes its name only when it is complete. If there is one already, its other datasets stay, and a dataset of
    a name in `arrays` is replaced only if the same `command` wrote it.

    Raises:
        StorageError: If it cannot be written.
        InvalidArgumentError: If an array is not C-contiguous or of an unusual type, or something else would be lost.
    """
    _WRITE.check("write_volume", gzip=gzip)
    with reserved("write_volume", path, unchecked, wait_s=WAIT_S):
        _core.data.write_datasets(os.fspath(path), dict(arrays), _CHUNK, gzip, command)


def synth(
    shape: Vec3, *, seed: int = 0, progress: Progress | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Make a synthetic electron-microscopy volume: (image, labels), both of `shape` (z, y, x).

    Curved, branching processes of 8 to 30 voxels across are packed densely; membranes are dark, of
    uneven width and contrast; there are mitochondria, vesicles, noise and sections of uneven
    brightness. Ids count from 1; membranes are 0. Same arguments, same volume.

    Raises:
        InvalidArgumentError: If an extent is below 8 or above 4096.
    """
    _SYNTH.check("synth", shape=shape, seed=seed)
    image, labels = _core.data.synth(shape, seed, progress)
    return image, labels


def partition(
    labels: str,
    out: str,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    lom_radius: Vec3 = (24, 24, 24),
    min_size: int = 10000,
    box: Box | None = None,
    progress: Progress | None = None,
) -> dict[int, int]:
    """Sort the voxels of a label volume by how much of the box around them their object fills.

    Collective: ranks compute blocks, rank 0 writes them; the file does not depend on their number.

    Args:
        labels: Integer labels, "file:dataset"; 0 is background.
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
    comm = _comm.current()
    with contextlib.ExitStack() as held:
        writer = None
        with _comm.agreed():
            _PARTITION.check(
                "partition",
                thresholds=thresholds,
                lom_radius=lom_radius,
                min_size=min_size,
                box=box,
            )
            path, dataset = path_and_dataset(out)
            if comm.rank == 0:
                held.enter_context(reserved("partition", path, unchecked, files_of([labels])))
            job = _core.data.PartitionJob(labels, list(thresholds), lom_radius, min_size, box)
            if comm.rank == 0:
                writer = _core.data.PartitionWriter(job, path, dataset)
        _write_partitions(job, writer, progress)
    counts: dict[int, int] = _comm.broadcast_object(dict(job.written_counts))
    return counts


def _write_partitions(job: Any, writer: Any, progress: Progress | None) -> None:
    """Compute all blocks on all ranks and finish the file on rank 0. Collective."""
    comm = _comm.current()
    try:
        with _comm.agreed():
            sizes = job.count(*_share(job.counting_blocks, comm.rank, comm.size), None)
        tables = [
            np.frombuffer(part, dtype=np.int64).reshape(2, -1)
            for part in _comm.allgather_bytes(sizes.tobytes())
        ]
        job.keep_large(tables)
        # A rank takes several blocks at once for its threads. All results pass through every rank
        # (allgather), so their number is bounded; one writer cannot serve more ranks anyway.
        per_rank = max(1, min(4 * _core.num_threads(), _BLOCKS_IN_FLIGHT // comm.size))
        per_round = min(comm.size * per_rank, _BLOCKS_IN_FLIGHT)
        for first in range(0, job.blocks, per_round):
            last = min(first + per_round, job.blocks)
            _partition_round(job, writer, first, last)
            if progress is not None:
                progress(last, job.blocks)
        with _comm.agreed():
            if writer is not None:
                writer.finish()
    finally:
        if writer is not None:
            writer.discard()


def _partition_round(job: Any, writer: Any, first: int, last: int) -> None:
    """Compute the blocks [first, last) on all ranks, write them in order on rank 0. Collective."""
    comm = _comm.current()
    with _comm.agreed():
        begin, end = _share(last - first, comm.rank, comm.size)
        blocks = job.compute(first + begin, first + end)
    if comm.size > 1:
        packed = b"".join(block.tobytes() for block in blocks)
        gathered = np.frombuffer(b"".join(_comm.allgather_bytes(packed)), dtype=np.uint8)
        ends = np.cumsum([np.prod(job.block(number)[1]) for number in range(first, last)])
        blocks = [
            piece.reshape(job.block(first + i)[1])
            for i, piece in enumerate(np.split(gathered, ends[:-1]))
        ]
    with _comm.agreed():
        if writer is not None:
            for i, block in enumerate(blocks):
                writer.write(first + i, block)


def coordinates(
    partitions: Sequence[str] | Mapping[str, str],
    out: str | os.PathLike[str],
    *,
    margin: Vec3 = (0, 0, 0),
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[int, int]:
    """Write training centres in which every partition comes equally often, in a shuffled order.

    Every partition but 255 is repeated cyclically to the size of the largest one, pooled over all
    volumes. Collective: ranks make the rows, rank 0 writes them; the file does not depend on them.

    Args:
        partitions: Volumes made by `partition`: {name: "file:dataset"}, or texts "file:dataset" or
            "name=file:dataset". Names are those of the training volumes; the default is the
            file's name without extension.
        out: HDF5 file; docs/formats describes it.
        margin: Voxels (z, y, x) at the faces of every volume that are no centres.
        seed: Chooses the order.
        progress: Called as progress(rows done, rows).

    Returns:
        Voxels of each partition.
    """
    comm = _comm.current()
    with contextlib.ExitStack() as held:
        writer = None
        with _comm.agreed():
            _COORDINATES.check("coordinates", margin=margin, seed=seed)
            named = _named(partitions)
            if comm.rank == 0:
                inputs = files_of(volume for _, volume in named)
                held.enter_context(reserved("coordinates", out, unchecked, inputs))
            job = _core.data.CoordinatesJob(named, margin, seed, None)
            if comm.rank == 0:
                writer = _core.data.CoordinatesWriter(job, os.fspath(out))
        _write_rows(job, writer, progress)
    return dict(zip(job.classes, job.class_counts, strict=True))


def _write_rows(job: Any, writer: Any, progress: Progress | None) -> None:
    """Make all rows on all ranks and finish the file on rank 0. Collective."""
    comm = _comm.current()
    try:
        for first in range(0, job.size, _ROWS_IN_FLIGHT):
            last = min(first + _ROWS_IN_FLIGHT, job.size)
            with _comm.agreed():
                begin, end = _share(last - first, comm.rank, comm.size)
                rows = job.rows(first + begin, first + end, None)
            if comm.size > 1:
                gathered = b"".join(_comm.allgather_bytes(rows.tobytes()))
                rows = np.frombuffer(gathered, dtype=np.int32).reshape(-1, 4)
            with _comm.agreed():
                if writer is not None:
                    writer.write(first, rows)
            if progress is not None:
                progress(last, job.size)
        with _comm.agreed():
            if writer is not None:
                writer.finish()
    finally:
        if writer is not None:
            writer.discard()


class Shards:
    """The training examples of every walker: balanced over partitions, in a seeded order an epoch.

    In every epoch all walkers together see every element once. Every class is shuffled and dealt out among them, so
    that they have equally many examples of each, give or take one, and other ones in the next epoch. Examples are
    pure functions of the arguments.

    Args:
        image: Image volume, "file:dataset".
        labels: Its integer labels.
        partitions: Its partitions, made by `partition`.
        patch_size: Odd sizes (z, y, x) of a patch.
        walkers: Streams of examples.
        seed: Chooses order and augmentation.
        box: Patches lie wholly inside; None for the whole volume.
        mean: Intensities become (image - mean) / std.
        std: See mean.
        permutable_axes: Axes (0 is z) that augmentation permutes; equal patch sizes.
        reflectable_axes: Axes that augmentation reverses or not.

    Raises:
        InvalidFileError: If a volume cannot be read or is of a wrong type.
        ShapeError: If the volumes differ in shape.
        InvalidArgumentError: If no patch fits, or there are more walkers than examples.
    """

    def __init__(
        self,
        image: str,
        labels: str,
        partitions: str,
        *,
        patch_size: Vec3,
        walkers: int = 1,
        seed: int = 0,
        box: Box | None = None,
        mean: float = 128.0,
        std: float = 33.0,
        permutable_axes: Sequence[int] = (1, 2),
        reflectable_axes: Sequence[int] = (0, 1, 2),
    ) -> None:
        _SHARDS.check(
            "Shards",
            patch_size=patch_size,
            walkers=walkers,
            seed=seed,
            box=box,
            mean=mean,
            std=std,
            permutable_axes=permutable_axes,
            reflectable_axes=reflectable_axes,
        )
        volume = ("volume", image, labels, partitions, box, mean, std)
        axes = (list(permutable_axes), list(reflectable_axes))
        self._source = _core.data.ExampleSource(
            [volume], patch_size, seed, walkers, *axes, SOFTNESS, None, None
        )
        self.walkers = walkers

    def __len__(self) -> int:
        """Elements of an epoch over all walkers."""
        return int(self._source.examples)

    def per_walker(self, walker: int) -> int:
        """Examples of one walker in every epoch."""
        return int(self._source.per_walker(walker))

    def imbalance(self, moves: int = 27) -> float:
        """How many more fields of view than the mean the walker with most has in an epoch, as a share of the mean.

        Expected ones: an example takes 1 in the lowest class, `moves` in the highest, evenly between.
        """
        return float(self._source.imbalance(moves))

    def centre(self, walker: int, index: int, *, epoch: int = 0) -> Vec3:
        """Where an example is cut out: its middle voxel (z, y, x)."""
        z, y, x = self._source.centre(walker, epoch, index)[1]
        return z, y, x

    def load(
        self, walker: int, index: int, *, epoch: int = 0
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """An example, augmented: normalised image, soft labels (0.95 inside the object, 0.05)."""
        image, labels = self._source.load(walker, epoch, index)
        return image, labels


def _named(partitions: Sequence[str] | Mapping[str, str]) -> list[tuple[str, str]]:
    if isinstance(partitions, Mapping):
        return list(partitions.items())
    named = []
    for text in partitions:
        name, equals, volume = text.partition("=")
        if not equals:
            file, _ = path_and_dataset(text)
            name, volume = os.path.splitext(os.path.basename(file))[0], text
        named.append((name, volume))
    return named


def _share(total: int, rank: int, size: int) -> tuple[int, int]:
    """The part [begin, end) of `total` things that belongs to a rank."""
    return total * rank // size, total * (rank + 1) // size
