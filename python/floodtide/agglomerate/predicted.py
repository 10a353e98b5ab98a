# SPDX-License-Identifier: Apache-2.0
"""Segments of what a U-Net predicts: of any image, in one piece or in subvolumes that ranks share.

All boxes are in voxels of the user's image. If the network was trained on other voxels, each box is read at those, and
its segments come back at the voxels of the image. The grid of the network's voxels begins at the first voxel of the
image, so neighbouring subvolumes see the same voxels, wherever a border between them lies.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floodtide import _core, config
from floodtide.base import notes, reading
from floodtide.base.files import path_and_dataset
from floodtide.base.libraries import library
from floodtide.base.outputs import files_of, hdf5_result, refuse_inputs
from floodtide.base.pickling import NotPickled
from floodtide.base.progress import bar
from floodtide.comm import world
from floodtide.config.stored import require_same_task
from floodtide.data import Box, Vec3, Volume, parse_box
from floodtide.data.boxes import as_vec3, box_text, is_inside, middle, parse_boxes
from floodtide.data.copies import require_new
from floodtide.data.formats.geometry import Geometry, SizeNm, size_text
from floodtide.data.formats.table import HDF5, container, format_of
from floodtide.data.image_check import image_problems
from floodtide.data.look import problems
from floodtide.data.look.problems import Reading, settle
from floodtide.data.places import Place, places_beside, write_places
from floodtide.data.resampling import Resampled, labels_at, original_of
from floodtide.data.volumes import settled_size
from floodtide.errors import InvalidArgumentError, InvalidFileError, OutOfRangeError
from floodtide.segment import predict, trained
from floodtide.segment.affinities import OVERLAP, write_segments
from floodtide.segment.blocks import store_on_ranks, voxels_of
from floodtide.segment.commands import NETWORK_BYTES, use_threads
from floodtide.segment.decoding import Decoding, decoding_of, kept_decoding
from floodtide.segment.doubts import segments_with_places
from floodtide.segment.identity import digest
from floodtide.segment.linking import decoding_bytes, objects_of
from floodtide.segment.pieces import PLAN, Cut, Pieces

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


class Stack(NotPickled):
    """A box of an image as a trained U-Net sees it, and how its predictions become segments.

    Affinities are agglomerated, with the defaults until `choose`; distances become affinities first; objects of a class
    are its connected components.

    Args:
        file: The configuration, for messages.
        settings: Its content, of model.kind "unet".
        box: z0:z1,y0:y1,x0:x1 in voxels of the image; None: segment.box, else the whole image, or in one piece the
            held-out box of the training's own image: validation.test_box, else validation.box.
        voxel_nm: Voxel size (z, y, x) of the image; None: what the configuration or the image states.

    Raises:
        floodtide.errors.Error: If an input cannot be read or does not fit, or a library is missing.
    """

    not_pickled = "it holds a network and open volumes; expected a new one, from its configuration"

    def __init__(
        self,
        file: str,
        settings: config.Config,
        box: str | None = None,
        voxel_nm: Sequence[float] | None = None,
    ) -> None:
        task: Any = settings.task
        if task.agglomerated:
            library("waterz", "segment", "affinities")  # missing? say so before a long prediction
        use_threads(settings)
        options = settings.segment
        run = settings.run.dir
        checkpoint = trained.newest_checkpoint(options.checkpoint or run, file, run)
        require_same_task(checkpoint, settings, file)
        images, levels, known_nm = _images(file, settings, checkpoint)
        mean, std = map(list, zip(*levels, strict=True))
        task = trained.task_of(checkpoint)
        self.predictor = predict.Predictor(trained.load(checkpoint), mean=mean, std=std, task=task)
        self.channels = self.images = self.predictor.channels(images)
        self.image, self.checkpoint, self.options = images[0], checkpoint, options
        self.inputs = [*files_of([one.name for one in images]), str(checkpoint)]
        self.decoding = Decoding()
        self._chosen_s = 0.0  # seconds that `choose` took
        self.size_nm = settled_size(self.image, voxel_nm or known_nm, "the configuration")
        self.grid = self._grid()
        self.box = self._box(settings, box)
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
        self.images = [
            Volume(grid, name=one.name) for grid, one in zip(grids, self.images, strict=True)
        ]
        if world.rank() == 0:
            notes.show(
                f"{self.image.name}: {size_text(own)} nm, resampled to {size_text(wanted)} nm for the network"
            )
        return grids[0]

    def _box(self, settings: config.Config, box: str | None) -> Box:
        options, shape = settings.segment, self.image.shape
        part = parse_box(box or options.box)
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
        old = self.predictor
        if old.task is None or not old.task.affinity_offsets:
            return
        start_s = time.monotonic()
        if new:
            found = decoding_of(self.checkpoint, self.options)
        else:
            found = kept_decoding(self.checkpoint, self.options)
            if world.rank() == 0:
                notes.show(f"{self.image.name}: estimated with {found.source}")
        self.decoding = found
        self._chosen_s = time.monotonic() - start_s
        if found.mirror:
            self.predictor = predict.Predictor(
                old.model,
                mean=old.mean.tolist(),
                std=old.std.tolist(),
                mirror=found.mirror,
                task=old.task,
            )

    @property
    def network_nm(self) -> SizeNm | None:
        """Voxel size (z, y, x) that the network reads the image at."""
        return self.size_nm if self.grid is None else self.grid.voxel_size_nm

    @property
    def _ratio(self) -> Sequence[float]:
        """Voxel size of the network divided by that of the image."""
        return (1.0, 1.0, 1.0) if self.grid is None else self.grid.ratio

    @property
    def decoded_with(self) -> dict[str, Any]:
        """Options of the agglomeration, as JSON values; empty for classes, which need none."""
        task: Any = self.predictor.task
        mirror = {"mirror": list(self.predictor.mirror)} if self.predictor.mirror else {}
        return config.to_dict(self.decoding.options) | mirror if task.agglomerated else {}

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

    def _cut(self) -> Cut:
        """Return how segment.subvolume cuts the box; without it, in one piece."""
        size, overlap = self.options.subvolume or self.box[1], self.options.overlap
        if overlap is None:
            pairs = zip(size, self._ratio, strict=True)
            overlap = as_vec3([min(math.ceil(OVERLAP * r), n // 4) for n, r in pairs])
        return Cut(self.box, size, overlap).joinable()

    def _pieces(self, folder: str) -> Pieces:
        if ":" in folder:
            raise InvalidArgumentError(
                f"--out {folder}: names a dataset, expected a folder, because segment.subvolume cuts the box"
            )
        refuse_inputs("segment", [folder], self.inputs)
        voxels: dict[str, str] = {}
        for one in self.channels:
            voxels |= voxels_of(one, box=self.box)
        settings = {
            "image": self.image.name,
            "voxels": voxels,
            "network": digest(self.predictor.model),
            "options": {
                "mean": self.predictor.mean.tolist(),
                "std": self.predictor.std.tolist(),
                "resampled_nm": None if self.grid is None else self.grid.voxel_size_nm,
                **self.decoded_with,
            },
            "geometry": {"voxel_size_nm": self.size_nm, "offset": self.image.geometry.offset},
        }
        return Pieces.create(folder, self._cut(), self.image.shape, settings)

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
        start_s = time.monotonic()
        with bar("voxels", "predict", line_every_s=10.0) as progress:
            self.predictor.write(
                self.images,
                predicted,
                box=self.coarse(self.box),
                voxel_size_nm=self.network_nm,
                notes=texts,
                progress=progress,
            )
        found: dict[str, Any] = {}
        with world.agreed():
            if world.rank() == 0:
                found = self._write_decoded(out, places, predicted, texts)
                found |= self._report(out, time.monotonic() - start_s)
        return found

    def _write_decoded(
        self, out: str, places: Path, predicted: str, texts: Mapping[str, str]
    ) -> dict[str, Any]:
        """Write the segments of a stored prediction, and the places to look at. Return what the report says of them."""
        decoding = {"options": json.dumps(self.decoded_with)} if self.decoded_with else {}
        stored = _read(predicted, self.predictor.excluding)
        labels, doubtful = self.decoded(stored, self.box)
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
        return found

    def write_subvolumes(self, folder: str, numbers: range | None = None) -> dict[str, Any]:
        """Segment the box in subvolumes of segment.subvolume, which ranks share. Collective.

        The same call continues after a crash. `floodtide.segment.reconcile` makes one segmentation.

        Args:
            folder: For the subvolumes: a new one, or one that was made with the same arguments.
            numbers: Only these subvolumes.

        Returns:
            The report: subvolumes, how many were segmented now and how many are missing, checkpoint, seconds.
        """
        with world.agreed():
            pieces = self._pieces(folder)
        start_s = time.monotonic()
        with bar("subvolumes", "segment", line_every_s=10.0) as progress:
            segmented = store_on_ranks(
                "segment", pieces, self.segments, numbers=numbers, progress=progress
            )
        missing = sum(1 for _ in pieces.missing())
        found = {"subvolumes": len(pieces.cut), "segmented": segmented, "missing": missing}
        return found | self._report(folder, time.monotonic() - start_s)

    def estimate(self, out: str) -> dict[str, Any]:
        """Estimate what segmenting takes: predict and decode a small part of the image here. Collective.

        Args:
            out: What will be written: a volume, or with segment.subvolume a folder.

        Returns:
            The report, with sizes in voxels (z, y, x): subvolumes, memory in bytes, hours.
        """
        with world.agreed():
            cut, in_pieces = self._cut(), self.options.subvolume is not None
            missing = len(cut)
            if in_pieces and reading.exists(Path(out) / PLAN):
                missing = sum(1 for _ in self._pieces(out).missing())
            seconds, bytes_of_one = self._measured(cut)
        return {
            "subvolumes": len(cut),
            "segmented": len(cut) - missing,
            "counts": cut.counts,
            "size": cut.size,
            "memory_bytes_per_rank": round(bytes_of_one) + NETWORK_BYTES,
            "seconds_per_subvolume": seconds,
            "ranks": world.size(),
            "hours": math.ceil(missing / (world.size() if in_pieces else 1)) * seconds / 3600,
        }

    def _measured(self, cut: Cut) -> tuple[float, float]:
        """Return the seconds and the bytes of memory of a subvolume, with the rates of this machine."""
        start, size = cut.subvolume(len(cut) // 2)
        part = as_vec3(
            [min(n, math.ceil(_SAMPLE * r)) for n, r in zip(size, self._ratio, strict=True)]
        )
        inner = middle((start, size), part)
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
        kept = 4 * outputs * voxels + 12 * math.prod(size)
        return seconds, max(block_bytes, decoding * voxels) + kept

    def _report(self, out: str, seconds: float) -> dict[str, Any]:
        source = self.decoding.source
        if not self.options.image:  # the box may be that of the choice
            source = self.decoding.source_for(self.coarse(self.box))
        return {
            "checkpoint": str(self.checkpoint),
            "decoding": source or None,  # None: a task without a choice
            "voxel_size_nm": self.size_nm,
            "seconds": self._chosen_s + seconds,
            "out": out,
        }


def _images(
    file: str, settings: config.Config, checkpoint: Path
) -> tuple[list[Volume], list[tuple[float, float]], SizeNm | None]:
    """Return the channels of the image to segment, (mean, std) of each, and the voxel size that is known.

    Of a table whose image is a resampled copy, they are those of the original.
    """
    options, tables = settings.segment, {volume.name: volume for volume in settings.data.volumes}
    name = options.image or settings.validation.volume or next(iter(tables), "")
    if not name:
        raise InvalidArgumentError(f"{file}: has no [[data.volumes]] table, expected segment.image")
    size: SizeNm | None = None
    if name in tables:
        table = tables[name]
        images, size = [Volume(one.image) for one in table.inputs], table.voxel_size_nm
        found: list[tuple[float, float]] | None = [(one.mean, one.std) for one in table.inputs]
        known = [original_of(one) for one in images]
        if known[0] is not None:
            images = [
                Volume(one[0]) if one else image for one, image in zip(known, images, strict=True)
            ]
            size = known[0][1]
    else:
        images, found = [Volume(name)], trained.normalisations(checkpoint, name)
    unknown = f"{checkpoint} does not store how {name} is normalised, expected segment.mean and segment.std"
    return images, trained.levels_of(found, options.mean, options.std, unknown), size


def _read(predicted: str, classes: bool) -> NDArray[Any]:
    """Return a stored prediction: classes (z, y, x), or outputs (outputs, z, y, x)."""
    place = path_and_dataset(predicted)
    if classes:
        return Volume(*place).read()
    values: NDArray[np.float32] = _core.data.Channels(*place).read(
        (0, 0, 0), Volume(*place, channel=0).shape
    )
    return values
