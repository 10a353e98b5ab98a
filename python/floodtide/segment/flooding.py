# SPDX-License-Identifier: Apache-2.0
"""Segmentation of image volumes by flood filling from seeds, one object after another."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base.files import path_and_dataset
from floodtide.base.outputs import PathLike, reserved
from floodtide.base.pickling import NotPickled
from floodtide.config.segment_options import SegmentOptions
from floodtide.data import Box, Vec3, Volume
from floodtide.data.boxes import Progress, difference, part_of, slices, total
from floodtide.data.volumes import as_volume
from floodtide.errors import UnsupportedError
from floodtide.nn.load import load_ffn
from floodtide.nn.network import SameParameters
from floodtide.segment import checkpoints as states
from floodtide.segment.canvas import Canvas, place_seeds, read_canvas, seeds_of

Image = NDArray[Any] | Volume


class Origin(NamedTuple):
    """Seed, size and cost of a segment."""

    id: int
    start_zyx: Vec3  # the seed, in voxels of the whole volume
    iterations: int  # number of evaluations of the network
    voxels: int
    walltime_s: float


class Move(NamedTuple):
    """One evaluation of the network while an object grows."""

    step: int  # number of evaluations before this one
    position_zyx: Vec3  # centre of the field of view, in voxels of the whole volume
    logits: NDArray[np.float32]  # (z, y, x), the field of view as written to the canvas
    deleted: int  # voxels whose probability fell from at least 0.8 to less than 0.5


class Object(NamedTuple):
    """One object that was grown from a seed."""

    logits: NDArray[np.float32]  # of the box (z, y, x); NaN in voxels that no field of view reached
    moves: list[Vec3]  # centres of all fields of view, in voxels of the whole volume
    counters: dict[str, int]  # with the names that google/ffn uses


class Segmentation(NotPickled):
    """A segmented box.

    Attributes:
        segmentation: Segment ids (z, y, x), from 1; 0 means no segment. Its type is the smallest unsigned integer
            type that holds all ids.
        start_zyx: First voxel of the box, in voxels of the whole volume.
        probability: Object probabilities (z, y, x) of the voxels of segments, as bytes; None without
            `options.probability`. 0 means no segment, and q from 1 the probability (q - 0.5) / 255.
        origins: Seed, size and cost of each segment that was flooded, in order of ids.
        overlaps: (id, earlier id, voxels): how many voxels a segment claimed although an earlier one has them.
        counters: Event counts, and times in milliseconds, with the names that google/ffn uses.
        complete: False if the time was over before all seeds were tried.
    """

    not_pickled = "the core holds it; expected its arrays, or the file that `save` writes"

    def __init__(self, result: Any, *, complete: bool = True) -> None:
        self._result = result
        self.complete = complete
        self.segmentation: NDArray[np.unsignedinteger[Any]] = result.labels()
        self.start_zyx: Vec3 = tuple(result.start)
        quantised = result.probability()
        self.probability: NDArray[np.uint8] | None = quantised if quantised.size else None
        self.origins = [Origin(*row) for row in result.origins()]
        self.overlaps: list[tuple[int, int, int]] = result.overlaps()
        self.counters: dict[str, int] = result.counters

    @property
    def segments(self) -> int:
        """Return the number of segments that were found."""
        return len(self.origins)

    @property
    def network_calls(self) -> int:
        """Return the number of evaluations of the network."""
        return self.counters.get("inference-calls", 0)

    @property
    def coverage(self) -> float:
        """Return the share of the voxels that belong to a segment."""
        return float(np.count_nonzero(self.segmentation) / self.segmentation.size)

    def save(self, reference: str, notes: Mapping[str, str] | None = None) -> None:
        """Write the segmentation and its attributes to an HDF5 file; docs/formats.md describes the format.

        Args:
            reference: "file:dataset". An older segmentation of that name is replaced when the new one is complete.
                Other datasets of the file are kept.
            notes: Texts that become attributes of the dataset.

        Raises:
            StorageError: If the file cannot be written.
            InvalidArgumentError: If the dataset exists and is not an older segmentation.
        """
        path, dataset = path_and_dataset(reference)
        with output(reference):
            self._result.write(path, dataset, dict(notes or {}))


class _TimeIsOver(Exception):
    """Ends the core's loop over seeds from its progress callback."""


class Segmenter:
    """Segmentation of volumes with a flood-filling network.

    Several threads may segment with one network at the same time, each with its own Segmenter.

    Args:
        model: `ft.nn.FFN`, or any object with `fov`, `deltas` and `forward(image, logits)`. The Segmenter computes the
            forward passes of a FFN as `options.forward` says.
        options: Thresholds and image normalisation. `mean` and `std` must be given. The keys `checkpoint`, `image`,
            `box`, `fov` and `deltas` are ignored.

    Attributes:
        forward: How the network's convolutions are computed: "fft" or "layers".
        network_calls: Evaluations of the network by all calls of `segment` so far, also while one is running, and by
            resegmentations.

    Raises:
        InvalidArgumentError: If `options` has no mean or no std.
        UnsupportedError: If `options.forward` is "fft", and the network or the processor does not allow it.
    """

    def __init__(self, model: Any, options: SegmentOptions) -> None:
        self.model = model
        self.options = options
        self.network_calls = 0
        _ = options.normalisation  # refuses options without it
        self.forward = options.forward if hasattr(model, "core") else "layers"
        if self.forward == "fastest":
            self.forward = model.fastest_forward()[0]
        elif self.forward == "fft" and (why := self._fft_unsupported()):
            raise UnsupportedError(f"segment: no forward passes by Fourier transforms: {why}")

    def follow(self, forward: str) -> None:
        """Compute forward passes as earlier work did, so that its bits come out again, where the processor can.

        Args:
            forward: "fft" or "layers". With `options.forward` other than "fastest", nothing changes.
        """
        if self.options.forward == "fastest" and not self._fft_unsupported():
            self.forward = forward

    def evaluate(
        self, image: NDArray[np.float32], logits: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the updated logits (z, y, x) of one field of view, from its normalised image and its logits."""
        how = (self.forward,) if hasattr(self.model, "core") else ()
        answer: NDArray[np.float32] = self.model.forward(image, logits, *how)
        return answer

    def _fft_unsupported(self) -> str:
        """Return why forward passes cannot use Fourier transforms; empty if they can."""
        if not hasattr(self.model, "core"):
            return "not a network of floodtide"
        return str(self.model.core.fft_unsupported(list(self.model.fov)))

    @classmethod
    def load(cls, options: SegmentOptions, *, compute: str = "fp32") -> Segmenter:
        """Return a segmenter with the network that `options.checkpoint` names.

        Args:
            options: As for the class; `fov` and `deltas` replace what the checkpoint states.
            compute: How convolutions are computed, as `run.compute`.

        Raises:
            InvalidFileError: If the checkpoint is missing or damaged, or holds another kind of network.
        """
        model = load_ffn(
            options.checkpoint, fov=options.fov, deltas=options.deltas, compute=compute
        )
        return cls(model, options)

    def segment(
        self,
        volume: Image,
        box: Box | None = None,
        progress: Progress | None = None,
        initial: Image | None = None,
        seeds: NDArray[np.integer[Any]] | Sequence[Sequence[int]] | None = None,
        limit_s: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Segmentation:
        """Segment a volume, or a box (start, size) of it.

        With `options.consensus = "reverse"`, the box is segmented twice, the second time from the seeds of the first
        segments in reverse order. The result is the split consensus of both: voxels have the same id only if both give
        them the same id. Of the parts into which the second pass splits a segment of the first one, the largest keeps
        its id, and parts of fewer than `options.consensus_min_size` voxels become 0. Source: google/ffn, consensus.py.

        Args:
            volume: Raw image, a Volume or what is one: an array (z, y, x) of numbers. Only the box is read.
            box: (start, size) in voxels of the volume; None: the whole volume.
            progress: Called as progress(voxels settled, voxels) after every evaluation of the network. The first number
                is an estimate: voxels of segments, and a share of the others, that of the seeds that failed.
            initial: Segments (ids from 1) that keep their voxels and ids, in voxels of the volume; None: the volume
                that `options.initial` names, if any.
            seeds: Seeds (n, 3) of z, y, x in voxels of the volume, in the order in which they are tried; None: as
                `options.seeds` says, else `options.seed_policy`. Seeds where no field of view fits are left out.
            limit_s: Seconds of flooding, after which the objects that are whole by then are returned; None: no limit.
            checkpoint: File for checkpoints each `options.checkpoint_interval` seconds. If it exists, the segmentation
                continues there. Remove it with `remove_checkpoints` when the result is stored. Not used if the interval
                is 0.

        Raises:
            ShapeError: If the field of view is larger than the box.
            OutOfRangeError: If the box is not inside the volume.
            InvalidArgumentError: If an option is out of range, a voxel is not finite, or the checkpoint is that of
                another segmentation.
            InvalidFileError: If a file is damaged, or an array is no volume.
            InUseError: If another thread changes the parameters of the network meanwhile.
        """
        end_s = None if limit_s is None else time.monotonic() + limit_s
        volume = as_volume(volume)
        same = SameParameters(self.model, "segment")
        canvas = read_canvas(volume, box, self.options, self.model.fov, initial)
        positions = seeds_of(canvas, self.options, self.model.fov, seeds)
        passes = 1 if self.options.consensus == "none" else 2
        saved = self._checkpoints(checkpoint, canvas, positions)

        def flood(number: int, places: NDArray[np.int64]) -> tuple[Any, bool]:
            shown = None if progress is None else part_of(progress, number, passes)
            keep = number + 1 < passes
            flooder, complete = self._flood(canvas, places, shown, end_s, saved[number], keep)
            return flooder.take_result(canvas.start, list(volume.shape)), complete

        found, complete = flood(0, positions)
        if passes == 2:
            back = [origin[1] for origin in reversed(found.origins())]
            reverse, both = flood(1, place_seeds(back, canvas, self.model.fov))
            complete = complete and both
            found = _core.segment.consensus(found, reverse, self.options.consensus_min_size)
        same.require()
        found.grow(self.options.grow)
        return Segmentation(found, complete=complete)

    def _flood(
        self,
        canvas: Canvas,
        seeds: NDArray[np.int64],
        progress: Progress | None,
        end_s: float | None,
        checkpoint: states.Checkpoint | None,
        keep: bool,
    ) -> tuple[Any, bool]:
        """Return the core's flooder, and whether all seeds were tried before the time `end_s`.

        `keep`: write a last checkpoint, because more work follows.
        """
        stored = checkpoint and checkpoint.read(canvas.voxels.shape)
        if checkpoint and stored:
            self.follow(checkpoint.forward)
        flooder = self.flooder(canvas)
        if checkpoint and stored:
            checkpoint.restore(flooder, stored)
        del stored  # it is as large as the image
        before = self.network_calls - flooder.evaluations

        def counted(done: int, total: int) -> None:
            self.network_calls = before + flooder.evaluations
            if progress is not None:
                progress(done, total)
            if end_s is not None and time.monotonic() > end_s:
                raise _TimeIsOver

        due = checkpoint and partial(checkpoint.due, flooder)
        try:
            flooder.segment_all(seeds, counted, due)
        except _TimeIsOver:
            return flooder, False
        if keep and checkpoint:
            checkpoint.write(flooder)
        return flooder, True

    def _checkpoints(
        self, path: PathLike | None, image: Canvas, seeds: NDArray[np.int64]
    ) -> tuple[states.Checkpoint | None, states.Checkpoint | None]:
        interval_s = self.options.checkpoint_interval
        if path is None or interval_s <= 0:
            return None, None
        settings = {
            "image": image.volume.name,
            "voxels": states.digest_of_arrays([image.voxels]),
            "start": list(image.start),
            "network": states.digest(self.model),
            "options": states.options_of(self.options, self.model),
            "seeds": states.digest_of_arrays([seeds]),
        }
        first, second = (
            states.Checkpoint(file, interval_s, settings, self.forward)
            for file in states.passes_of(Path(path))
        )
        return first, second

    def segment_at(
        self,
        volume: Image,
        zyx: Sequence[int],
        on_move: Callable[[Move], object] | None = None,
        box: Box | None = None,
        initial: Image | None = None,
    ) -> Object:
        """Grow one object from a seed.

        Args:
            volume: As for `segment`.
            zyx: The seed, in voxels of the volume.
            on_move: Called after each evaluation of the network, for example to show the growing object.
            box: (start, size) of the part that the object may fill, in voxels of the volume; None: the whole volume.
            initial: Segments at which the object ends, as for `segment`.

        Raises:
            OutOfRangeError: If no field of view fits at the seed.
        """
        whole = as_volume(volume)
        canvas = read_canvas(whole, box, self.options, self.model.fov, initial)
        flooder = self.flooder(canvas)
        # The first voxel of the canvas, in voxels of the volume.
        first = difference(canvas.start, canvas.halo_low)
        moves: list[Vec3] = []

        def moved(step: int, local: Vec3, logits: NDArray[np.float32], deleted: int) -> None:
            moves.append(total(local, first))
            if on_move is not None:
                on_move(Move(step, moves[-1], logits, deleted))

        flooder.segment_at(difference(zyx, first), moved)
        inner = slices((canvas.halo_low, canvas.inner))
        return Object(np.ascontiguousarray(flooder.logits()[inner]), moves, flooder.counters())

    def flooder(self, canvas: Canvas) -> Any:
        """Return the core's flooder of a canvas, with the network and its thresholds."""
        options = self.options
        predictor = self.model.forward
        if hasattr(self.model, "core"):
            predictor = self.model.core
            predictor.parameters_changed()  # the caller may have changed the parameters
        flooder = _core.segment.Flooder(
            canvas.voxels,
            *options.normalisation,
            predictor,
            self.forward,
            fov=list(self.model.fov),
            deltas=list(self.model.deltas),
            init_activation=options.init_activation,
            pad_value=options.pad_value,
            move_threshold=options.move_threshold,
            segment_threshold=options.segment_threshold,
            disco_seed_threshold=options.disco_seed_threshold,
            min_segment_size=options.min_segment_size,
            min_boundary_dist=list(options.min_boundary_dist),
            halo_low=list(canvas.halo_low),
            halo_high=list(canvas.halo_high),
            probability=options.probability,
        )
        if canvas.labels is not None:
            flooder.set_initial(canvas.labels)
        if canvas.closed is not None:
            flooder.set_mask(canvas.closed)
        return flooder


def output(reference: str, inputs: Iterable[PathLike] = ()) -> AbstractContextManager[None]:
    """Return a context manager that reserves "file:dataset" for a segmentation (see `floodtide.base.outputs.reserved`).

    Enter it before a long computation: problems with the output then appear at the start.
    """
    path, dataset = path_and_dataset(reference)
    return reserved("segment", path, lambda name: _core.segment.check_output(name, dataset), inputs)
