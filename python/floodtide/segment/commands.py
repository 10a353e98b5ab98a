# SPDX-License-Identifier: Apache-2.0
"""What `floodtide segment` and `floodtide reconcile` do with a configuration, as functions for scripts."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import timeit
from pathlib import Path
from typing import Any

import numpy as np

from floodtide import _core, config
from floodtide.base import notes
from floodtide.base.data_options import TrainingVolume
from floodtide.base.outputs import files_of, result_dataset
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.comm.exchanges import allgather_object
from floodtide.config import Config, SegmentOptions
from floodtide.data import Volume, parse_box
from floodtide.data.boxes import Progress, as_vec3, difference, is_inside
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.formats.table import format_of
from floodtide.data.look.problems import Reading, checked_image
from floodtide.data.places import places_beside, write_places
from floodtide.data.volumes import as_volume, note_place, require_same_size
from floodtide.errors import ConfigurationError, ShapeError
from floodtide.segment.blocks import Segmenting, voxels_of
from floodtide.segment.canvas import BYTES_PER_VOXEL, placed
from floodtide.segment.checkpoints import digest, options_of, remove_checkpoints
from floodtide.segment.flooding import Image, Segmenter, output
from floodtide.segment.pieces import Cut, Pieces
from floodtide.segment.reconciling import places_of, reconcile, write_reconciled
from floodtide.segment.trained import newest_checkpoint, normalisations

_TIMED_CALLS = 5


class Flooding(Segmenting):
    """A box of an image to segment with a flood-filling network, in one piece or in subvolumes.

    Args:
        segmenter: The network and its options, of which `box`, `subvolume` and `overlap` count, too. The default of
            `overlap` is the field of view, but at most half a subvolume.
        image: The image.
        size_nm: Voxel size (z, y, x) that a result in one piece states; None: none.
    """

    _unit = "voxels"

    def __init__(self, segmenter: Segmenter, image: Image, size_nm: SizeNm | None = None) -> None:
        super().__init__()
        self.segmenter, self._forward, self.size_nm = segmenter, segmenter.forward, size_nm
        self.image, self.options = as_volume(image), segmenter.options
        self.box = parse_box(self.options.box) or ((0, 0, 0), self.image.shape)
        self.inputs = files_of([*self.options.volumes, self.options.checkpoint])

    @classmethod
    def load(cls, file: str, settings: Config) -> Flooding:
        """Open the image and the network of a configuration. Rank 0 also checks the image.

        Args:
            file: Name of the configuration, for messages.
            settings: Its content.

        Raises:
            floodtide.errors.Error: If the configuration or a file is wrong.
        """
        options, size_nm = resolved(file, settings), None
        use_threads(settings)
        if world.rank() > 0:
            image = Volume(options.image)
        else:
            reading, part = reading_of(settings, options), parse_box(options.box)
            image, size_nm = checked_image(
                options.image, options.checkpoint, reading, "the configuration", box=part
            )
            require_same_sizes(options, image)
        found = cls(Segmenter.load(options, compute=settings.run.compute), image, size_nm)
        found.inputs.append(file)
        return found

    def write(self, out: str) -> dict[str, Any]:
        """Segment the box in one piece, on rank 0. Collective.

        Args:
            out: "file:dataset" of an HDF5 file; its other datasets are kept.

        Returns:
            The report: segments, coverage, network calls, seconds, and what was used.

        Raises:
            floodtide.errors.Error: If the box cannot be segmented, or the result cannot be written.
        """
        return world.from_rank_0(lambda: self._written(out))

    def _written(self, out: str) -> dict[str, Any]:
        path, dataset = result_dataset("segment", out)
        checkpoint = Path(f"{path}.{dataset.strip('/').replace('/', '.')}.checkpoint")
        options, segmenter = self.options, self.segmenter
        stated = {
            "image": options.image,
            "checkpoint": options.checkpoint,
            "options": json.dumps(config.to_dict(options)),
            "floodtide_version": _core.__version__,
        }
        if self.size_nm is not None:
            stated["voxel_size_nm"] = json.dumps(self.size_nm)
        with output(out, self.inputs):
            with bar("voxels", "segment", line_every_s=10.0) as progress:
                result = segmenter.segment(self.image, self.box, progress, checkpoint=checkpoint)
            result.save(out, stated)
            if options.checkpoint_interval > 0:
                remove_checkpoints(checkpoint)
        if not result.segments:
            notes.warn(
                f"{out}: no segment was found; expected a lower segment.move_threshold (now {options.move_threshold:g},"
                " a trained network hardly answers more than 1 - training.softness), or a smaller"
                f" segment.min_segment_size (now {options.min_segment_size})"
            )
        return {
            "segments": result.segments,
            "coverage": result.coverage,
            "network_calls": result.network_calls,
            # Calls of a job that was killed, which this one continues.
            "network_calls_before": result.network_calls - segmenter.network_calls,
            "forward": segmenter.forward,
            **super()._report(out),
            "checkpoint": options.checkpoint,
            "mean": options.mean,
            "std": options.std,
        }

    @property
    def cut(self) -> Cut:
        """How the box is cut."""
        options, fov = self.options, self.segmenter.model.fov
        size = options.subvolume or self.box[1]
        half = as_vec3([min(n, m // 2) for n, m in zip(fov, size, strict=True)])
        cut = Cut(self.box, size, half if options.overlap is None else options.overlap)
        if not options.reflect and min(difference(cut.size, fov)) < 0:
            raise ShapeError(
                f"segment: subvolumes of {cut.size} voxels, expected at least the field of view, {tuple(fov)}"
            )
        return cut

    def pieces(self, folder: str | os.PathLike[str]) -> Pieces:
        """As for `Segmenting.pieces`. Forward passes are then computed as for earlier subvolumes."""
        found = super().pieces(folder)
        self.segmenter.follow(found.forward)
        return found

    def _settings(self) -> dict[str, Any]:
        return {
            "image": self.image.name,
            "voxels": voxels_of(self.image, self.options, self.box),
            "network": digest(self.segmenter.model),
            "options": options_of(self.options, self.segmenter.model),
            "geometry": dataclasses.asdict(self.image.geometry),
        }

    def _write(self, pieces: Pieces, number: int, progress: Progress | None) -> None:
        self.segmenter.follow(pieces.forward)
        box, checkpoint = pieces.cut.subvolume(number), pieces.checkpoint(number)
        result = self.segmenter.segment(self.image, box, progress, checkpoint=checkpoint)
        result.save(pieces.reference(number), {"settings": json.dumps(pieces.settings)})

    def _cost(self, missing: int) -> tuple[int, float, dict[str, Any]]:
        model, size = self.segmenter.model, self.cut.size
        # A grid of the field of view whose spacing is the distance that it moves.
        grid = zip(size, model.fov, model.deltas, strict=True)
        calls = math.prod(1 + max(0, n - fov) // max(1, step) for n, fov, step in grid)
        view = np.zeros(model.fov, np.float32)
        self.segmenter.evaluate(view, view)
        evaluate = functools.partial(self.segmenter.evaluate, view, view)
        rate = _TIMED_CALLS / timeit.timeit(evaluate, number=_TIMED_CALLS)
        more = {"network_calls": missing * calls, "network_calls_per_s": rate}
        return BYTES_PER_VOXEL * math.prod(size), calls / rate, more

    def _report(self, out: str) -> dict[str, Any]:
        calls = sum(allgather_object(self.segmenter.network_calls))
        return {"network_calls": calls, **super()._report(out)}


def reconcile_subvolumes(folder: str, out: str) -> dict[str, Any]:
    """Make one segmentation with global ids from the subvolumes in a folder. Collective.

    Args:
        folder: That of `Segmenting.write_subvolumes`, or of `floodtide.agglomerate.agglomerate`.

    Returns:
        The report: subvolumes, objects, the segments that end at a border without agreement, and on rank 0 the table
        of places, if the subvolumes have such tables.
    """
    with world.agreed():
        places = places_beside(out)
        pieces = Pieces.open(folder)
    with bar("overlaps", "reconcile") as progress:
        found = reconcile(pieces, progress)
    # A damaged table is an error before the volume is written.
    doubtful = world.from_rank_0(lambda: places_of(pieces, found))
    with bar("voxels", "reconcile") as progress:
        write_reconciled(pieces, found, out, progress)
    report: dict[str, Any] = {"subvolumes": len(pieces.cut), "objects": found.objects}
    report |= {"splits": found.splits, "out": out}
    with world.agreed():
        start = pieces.cut.box[0]
        if world.rank() == 0 and write_places(places, doubtful, start, pieces.threshold):
            report["places"] = str(places)
    return report


def resolved(file: str, settings: Config) -> SegmentOptions:
    """Return the [segment] options, with missing keys filled in from the named volume and from the checkpoint.

    Args:
        file, settings: As for `Flooding.load`.
    """
    options, volume = settings.segment, _volume(settings)
    changes: dict[str, Any] = {}
    levels: tuple[float, ...] = ()
    if options.checkpoint:
        changes["checkpoint"] = str(newest_checkpoint(options.checkpoint, file, settings.run.dir))
    if volume is not None:
        changes["image"] = volume.image
        levels = volume.mean, volume.std
    elif options.checkpoint and None in (options.mean, options.std):
        found = normalisations(changes["checkpoint"], options.image)
        levels = found[0] if found else ()
    known = zip(("mean", "std"), levels, strict=False)
    changes |= {name: value for name, value in known if getattr(options, name) is None}
    options = dataclasses.replace(options, **changes)
    _require_all(file, options)
    return options


def require_same_sizes(options: SegmentOptions, image: Volume) -> None:
    """Raise a ShapeError if another volume of the options states voxels of another size than the image.

    If only one of both states a place, a note says how they are laid on each other.
    """
    for name in options.volumes[1:]:
        if name == options.shift_mask:  # its voxels are larger
            continue
        other = Volume(name, channel=0)
        require_same_size("segment", other, image)
        start = placed(other, image)
        if is_inside(((0, 0, 0), image.shape), other.shape):  # else it is refused
            note_place("segment", other, image, start)


def use_threads(settings: Config) -> None:
    """Use the threads of run.threads; 0: as many as before."""
    if settings.run.threads > 0:
        _core.set_num_threads(settings.run.threads)


def reading_of(settings: Config, options: SegmentOptions) -> Reading:
    """Return how resolved options say that the image is read, for checks."""
    volume = _volume(settings)
    return Reading(
        "segment",
        *options.normalisation,
        "segment.mean and segment.std",
        voxel_size_nm=None if volume is None else volume.voxel_size_nm,
        size_key="voxel_size_nm of the [[data.volumes]] table that segment.image names",
    )


def _volume(settings: Config) -> TrainingVolume | None:
    """Return the [[data.volumes]] table to segment, or None if segment.image does not name a table."""
    volumes, image = settings.data.volumes, settings.segment.image
    if not image:
        return volumes[0] if len(volumes) == 1 else None
    return {volume.name: volume for volume in volumes}.get(image)


def _require_all(file: str, options: SegmentOptions) -> None:
    """Raise an error if a key is missing that neither a table nor the checkpoint says."""
    for name, expected in (
        ("checkpoint", "a checkpoint or a run directory"),
        ("image", "file:dataset or the name of one of the [[data.volumes]]"),
    ):
        if not getattr(options, name):
            raise ConfigurationError(f"{file}: segment.{name} is missing, expected {expected}")
    missing = [f"segment.{name}" for name in ("mean", "std") if getattr(options, name) is None]
    if missing:
        format_of(options.image)  # a misspelt name of a volume is the reason
        raise ConfigurationError(
            f"{file}: {' and '.join(missing)} {'are' if missing[1:] else 'is'} missing, expected the mean and standard"
            f" deviation of the training images; {options.checkpoint} does not store how {options.image} is normalised"
        )
