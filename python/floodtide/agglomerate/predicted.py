# SPDX-License-Identifier: Apache-2.0
"""Segments of what a U-Net predicts: of any image, in one piece or in subvolumes that ranks share.

All boxes are in voxels of the user's image. If the network was trained on other voxels, each box is read at those, and
its segments come back at the voxels of the image. The grid of the network's voxels begins at the first voxel of the
image, so neighbouring subvolumes see the same voxels, wherever a border between them lies.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core, config
from floodtide.base import notes
from floodtide.base.files import path_and_dataset
from floodtide.base.libraries import library
from floodtide.base.outputs import files_of, hdf5_result, refuse_inputs
from floodtide.base.pickling import NotPickled
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.config.reader import require_same_task
from floodtide.data import Box, Vec3, Volume, parse_box
from floodtide.data.boxes import Progress, as_vec3, box_text, is_inside, middle, parse_boxes
from floodtide.data.copies import require_new
from floodtide.data.formats.geometry import Geometry, SizeNm, size_text
from floodtide.data.formats.table import HDF5, container, format_of
from floodtide.data.look import problems
from floodtide.data.look.problems import Reading, image_problems, settle
from floodtide.data.places import Place, places_beside, write_places
from floodtide.data.resampling import Resampled, labels_at, original_of
from floodtide.data.volumes import settled_size
from floodtide.errors import InvalidArgumentError, InvalidFileError, OutOfRangeError
from floodtide.segment import predict, trained
from floodtide.segment.affinities import OVERLAP, write_segments
from floodtide.segment.blocks import Segmenting, voxels_of
from floodtide.segment.checkpoints import digest
from floodtide.segment.commands import use_threads
from floodtide.segment.decoding import Decoding, decoding_of, kept_decoding
from floodtide.segment.doubts import segments_with_places
from floodtide.segment.linking import channels_used, decoding_bytes, objects_of
from floodtide.segment.pieces import Cut, Pieces

_COMMAND = "floodtide segment"
_SAMPLE = 64  # voxels of the network along each axis that are timed for an estimate


def settings_with(image: str, model: str, overrides: Sequence[str]) -> config.Config | None:
    """Return the configuration of a U-Net's training, with another image to segment; None for other networks.

    Args:
        model: A checkpoint or a run directory, or the name of a published network.
    """
    try:
        checkpoint = trained.newest_checkpoint(model)
    except InvalidFileError:
        return None
    settings = trained.stored_configuration(checkpoint)
    if settings is None or not settings.task.predicts:
        return None
    table = config.to_dict(settings) | {"segment": {"image": image, "checkpoint": str(checkpoint)}}
    return config.from_dict(table, "segment --model", overrides)


class Stack(NotPickled, Segmenting):
    """A box of an image as a trained U-Net sees it, and how its predictions become segments.

    Affinities are agglomerated, with the defaults until `choose`; distances become affinities first; objects of a class
    are its connected components.

    Args:
        file: The configuration, for messages.
        settings: Its content, of model.kind "unet". Without segment.box, the box is the whole image, or in one piece
            the held-out box of the training's own image: validation.test_box, else validation.box.
        voxel_nm: Voxel size (z, y, x) of the image; None: what the configuration or the image states.

    Raises:
        floodtide.errors.Error: If an input cannot be read or does not fit, or a library is missing.
    """

    not_pickled = "it holds a network and open volumes; expected a new one, from its configuration"

    def __init__(
        self, file: str, settings: config.Config, voxel_nm: Sequence[float] | None = None
    ) -> None:
        super().__init__()
        task: Any = settings.task
        if task.of_objects:
            library("waterz", "segment", "affinities")  # missing? say so before a long prediction
        use_threads(settings)
        options = settings.segment
        run = settings.run.dir
        checkpoint = trained.newest_checkpoint(options.checkpoint or run, file, run)
        require_same_task(checkpoint, settings, file)
        images, levels, known_nm = _images(file, settings, checkpoint)
        mean, std = map(list, zip(*levels, strict=True))
        task = trained.task_of(checkpoint)
        model = trained.load(checkpoint)
        self._predictor = functools.partial(predict.Predictor, model, mean=mean, std=std, task=task)
        self.predictor = self._predictor()
        self.channels = self.images = self.predictor.channels(images)
        self.image, self.checkpoint, self.options = images[0], checkpoint, options
        self.inputs = [*files_of([one.name for one in images]), str(checkpoint)]
        self.decoding = Decoding()
        self.size_nm = settled_size(self.image, voxel_nm or known_nm, "the configuration")
        self.grid = self._grid()
        self.network_nm = self.grid.voxel_size_nm if self.grid else self.size_nm
        self._ratio = self.grid.ratio if self.grid else (1.0, 1.0, 1.0)
        self.box = self._box(settings)
        if world.rank() == 0:
            # Refuse an image that is none for this network, and warn if it looks different.
            read = Reading("segment", *levels[0], "segment.mean and segment.std", self.network_nm)
            part, flat = self.coarse(self.box), self.predictor.model.flat
            settle(image_problems(self.images[0], checkpoint, read, box=part, slices=flat))
            self.predictor.settle_channels("segment", self.images, part)

    def _grid(self) -> Resampled | None:
        """Return the image at the voxels of the network, with all channels in `images`; None: they are the same."""
        wanted, own = trained.voxel_size_of(self.checkpoint), self.size_nm
        if wanted is None:
            return None
        if own is None:
            raise InvalidArgumentError(
                f"segment: {self.image.name} states no voxel size, and the network was trained on voxels of"
                f" {size_text(wanted)} nm; expected --voxel-nm z,y,x"
            )
        if self.predictor.model.flat:  # it sees one section at a time
            wanted = (own[0], *wanted[1:])
        if problems.fits(own, wanted):
            return None
        grids = [Resampled(one, own, wanted) for one in self.images]
        named = zip(grids, self.images, strict=True)
        self.images = [Volume(grid, name=one.name) for grid, one in named]
        if world.rank() == 0:
            notes.show(
                f"{self.image.name}: {size_text(own)} nm, resampled to {size_text(wanted)} nm for the network"
            )
        return grids[0]

    def _box(self, settings: config.Config) -> Box:
        options, shape = settings.segment, self.image.shape
        part = parse_box(options.box)
        held_out = parse_boxes(settings.validation.test_box or settings.validation.box)
        if part is None and held_out and options.subvolume is None and not options.image:
            return held_out[0] if self.grid is None else self.grid.old_box_of(held_out[0])
        part = part or ((0, 0, 0), shape)
        if not is_inside(part, shape):
            raise OutOfRangeError(
                f"segment: box {box_text(part)} is not inside {self.image.name} of {size_text(shape)} voxels"
            )
        return part

    def choose(self, *, new: bool = True) -> None:
        """Decode as the run directory of the network says; the first call chooses that and keeps it. Collective.

        Args:
            new: False: choose nothing; without a kept choice, the defaults, and a note that says so.
        """
        task: Any = self.predictor.task
        if not task.affinity_offsets:
            return
        choose = decoding_of if new else kept_decoding
        self.decoding = choose(self.checkpoint, self.options)
        if not new and world.rank() == 0:
            notes.show(f"{self.image.name}: estimated with {self.decoding.source}")
        if self.decoding.mirror:
            self.predictor = self._predictor(mirror=self.decoding.mirror)

    @property
    def decoded_with(self) -> dict[str, Any]:
        """Options of the agglomeration, as JSON values; empty for classes, which need none."""
        task: Any = self.predictor.task
        mirror = {"mirror": list(self.predictor.mirror)} if self.predictor.mirror else {}
        return config.to_dict(self.decoding.options) | mirror if task.of_objects else {}

    def coarse(self, box: Box) -> Box:
        """Return the box of the network's voxels that covers a box."""
        return box if self.grid is None else self.grid.box_of(box)

    def segments(self, box: Box) -> tuple[NDArray[Any], list[Place] | None]:
        """Predict a box, with its surroundings as context. Return what `decoded` returns."""
        return self.decoded(self.predictor.predicted(self.images, self.coarse(box)), box)

    def decoded(self, predicted: NDArray[Any], box: Box) -> tuple[NDArray[Any], list[Place] | None]:
        """Return the segments of a box of which `Predictor.predicted` has returned the prediction.

        Also return the places to look at; None: the decoding has no merge scores.
        """
        found: list[Place] | None = None

        def linked(affinities: NDArray[Any], offsets: Sequence[Vec3]) -> NDArray[np.uint64]:
            nonlocal found
            labels, found = segments_with_places(affinities, offsets, self.decoding.options)
            return labels

        task: Any = self.predictor.task
        if self.predictor.model.flat:  # no segment reaches over several sections
            labels = objects_of(task, predicted, sections=True, options=self.decoding.options)
        else:
            labels = task.objects(predicted, linked)
        if self.grid is not None:
            labels = labels_at(labels, self.coarse(box)[0], self.grid.ratio, box)
        return labels, found and [self._at_place(place, box) for place in found]

    def _at_place(self, place: Place, box: Box) -> Place:
        """Return a place of the network's voxels of a box in voxels of the image."""
        start, ratio = self.coarse(box)[0], self._ratio

        def to(voxel: Vec3) -> Vec3:
            axes = zip(voxel, start, ratio, *box, strict=True)
            return as_vec3(
                [min(max(int((n + a + 0.5) * r), b), b + m - 1) for n, a, r, b, m in axes]
            )

        a, b = (round(n * math.prod(ratio)) for n in place.voxels)
        return dataclasses.replace(place.moved(to), voxels=(a, b))

    @property
    def cut(self) -> Cut:
        """How the box is cut."""
        size, overlap = self.options.subvolume or self.box[1], self.options.overlap
        if overlap is None:
            pairs = zip(size, self._ratio, strict=True)
            overlap = as_vec3([min(math.ceil(OVERLAP * r), n // 4) for n, r in pairs])
        return Cut(self.box, size, overlap)

    def _settings(self) -> dict[str, Any]:
        voxels: dict[str, str] = {}
        for one in self.channels:
            voxels |= voxels_of(one, box=self.box)
        return {
            "image": self.image.name,
            "voxels": voxels,
            "network": digest(self.predictor.model),
            "options": {
                "mean": self.predictor.mean.tolist(),
                "std": self.predictor.std.tolist(),
                "resampled_nm": self.grid.voxel_size_nm if self.grid else None,
                **self.decoded_with,
            },
            "geometry": {"voxel_size_nm": self.size_nm, "offset": self.image.geometry.offset},
        }

    def write(self, out: str) -> dict[str, Any]:
        """Segment the box in one piece, write it to a volume of any format, and return the report. Collective.

        Ranks share the prediction, which is kept beside it, at the voxels of the network. Rank 0 does the rest; the
        report of other ranks is empty.
        """
        is_hdf5 = format_of(out) is HDF5
        with world.agreed():
            file, dataset = path_and_dataset(out) if is_hdf5 else (require_new(out), "")
            path, places = Path(file), places_beside(out)
            refuse_inputs("segment", [path, places], self.inputs)
            if is_hdf5:  # before a long prediction
                hdf5_result(_COMMAND, [dataset])(str(path))
        predicted = f"{container(out).with_suffix('.predicted.h5')}:predicted"
        texts = {"image": self.image.name, "checkpoint": str(self.checkpoint)}
        with bar("voxels", "predict", line_every_s=10.0) as progress:
            self.predictor.write(
                self.images,
                predicted,
                box=self.coarse(self.box),
                voxel_size_nm=self.network_nm,
                notes=texts,
                progress=progress,
            )
        with world.agreed():
            self.predictor.model.core.free_workspace()  # decoding needs the memory
            if world.rank() > 0:
                return {}
            place = path_and_dataset(predicted)
            if self.predictor.model.excluding:
                stored: NDArray[Any] = Volume(*place).read()  # classes (z, y, x)
            else:
                channels = _core.data.Channels(*place)
                offsets = self.predictor.task.affinity_offsets if self.predictor.task else ()
                stored = channels.read((0, 0, 0), channels.shape[1:], channels_used(offsets))
            labels, doubtful = self.decoded(stored, self.box)
            decoding = {"options": json.dumps(self.decoded_with)} if self.decoded_with else {}
            found = write_segments(
                labels,
                out,
                Geometry(voxel_size_nm=self.size_nm, offset=self.box[0]),
                command=_COMMAND,
                notes={**texts, "prediction": predicted, **decoding},
                inputs=predicted,
            )
            found["prediction"] = predicted
            if write_places(places, doubtful, self.box[0], self.decoding.options.threshold):
                found["places"] = str(places)
            return found | self._report(out)

    def _write(self, pieces: Pieces, number: int, progress: Progress | None) -> None:
        pieces.write(number, *self.segments(pieces.cut.subvolume(number)), _COMMAND)
        if progress is not None:
            progress(1, 1)

    def _cost(self, missing: int) -> tuple[int, float, dict[str, Any]]:
        start, size = self.cut.subvolume(len(self.cut) // 2)
        edges = [math.ceil(_SAMPLE * ratio) for ratio in self._ratio]
        inner = middle((start, size), [*map(min, size, edges)])
        sample, whole = self.coarse(inner), self.coarse((start, size))
        shape, cost = self.images[0].shape, self.predictor.cost
        begun_s = time.monotonic()
        predicted = self.predictor.predicted(self.images, sample)
        predicted_s = time.monotonic()
        self.decoded(predicted, inner)
        decoded_s = time.monotonic() - predicted_s
        computed, blocks, block_bytes = cost(shape, whole)
        voxels, outputs = math.prod(whole[1]), self.predictor.outputs
        seconds = (predicted_s - begun_s) * computed / cost(shape, sample)[0]
        if self.options.subvolume is None:  # ranks share the blocks of the prediction
            seconds *= math.ceil(blocks / world.size()) / blocks
        seconds += decoded_s * voxels / math.prod(sample[1])
        decoding = decoding_bytes(outputs) if self.decoded_with else 4 * 8
        needed = max(block_bytes, decoding * voxels) + 4 * outputs * voxels + 12 * math.prod(size)
        return round(needed), seconds, {"seconds_per_subvolume": seconds}

    def _report(self, out: str) -> dict[str, Any]:
        return {
            "checkpoint": str(self.checkpoint),
            "decoding": self.decoding.source or None,  # None: a task without a choice
            "voxel_size_nm": self.size_nm,
            **super()._report(out),
        }


def _images(
    file: str, settings: config.Config, checkpoint: Path
) -> tuple[list[Volume], list[tuple[float, float]], SizeNm | None]:
    """Return the channels of the image to segment, (mean, std) of each, and the voxel size that is known.

    Of a table whose image is a resampled copy, they are those of the original.
    """
    options, tables = settings.segment, {volume.name: volume for volume in settings.data.volumes}
    name, size = options.image or settings.validation.volume or next(iter(tables), ""), None
    if not name:
        raise InvalidArgumentError(f"{file}: has no [[data.volumes]] table, expected segment.image")
    found: list[tuple[float, float]] | None
    if name in tables:
        table = tables[name]
        images, size = [Volume(one.image) for one in table.inputs], table.voxel_size_nm
        found = [(one.mean, one.std) for one in table.inputs]
        known = [original_of(one) for one in images]
        if known[0] is not None:
            pairs = zip(known, images, strict=True)
            images, size = [Volume(one[0]) if one else image for one, image in pairs], known[0][1]
    else:
        images, found = [Volume(name)], trained.normalisations(checkpoint, name)
    unknown = f"{checkpoint} does not store how {name} is normalised, expected segment.mean and segment.std"
    return images, trained.levels_of(found, options.mean, options.std, unknown), size
