# SPDX-License-Identifier: Apache-2.0
"""Segments of what a U-Net predicts: from the configuration of its training to a volume."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from floodtide import _core, config
from floodtide.base.data_options import TrainingVolume
from floodtide.base.files import path_and_dataset
from floodtide.base.libraries import library
from floodtide.base.outputs import files_of
from floodtide.base.progress import bar
from floodtide.config.stored import require_same_task
from floodtide.data import Box, Vec3, Volume, parse_box
from floodtide.data.boxes import as_vec3, difference, parse_boxes, total
from floodtide.data.copies import write_blocks
from floodtide.data.formats.geometry import Geometry, SizeNm
from floodtide.data.formats.table import HDF5, format_of
from floodtide.data.formats.writers import Plan
from floodtide.data.image_check import image_problems
from floodtide.data.look.problems import Reading, settle
from floodtide.data.resampling import Resampled, labels_at, original_of
from floodtide.data.volumes import settled_size
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.segment import predict, trained
from floodtide.segment.affinities import AffinityOptions, objects_of, write_segments
from floodtide.segment.commands import use_threads

_COMMAND = "floodtide segment"


def segment_predicted(
    file: str, settings: config.Config, out: str, box: str | None = None
) -> dict[str, Any]:
    """Segment a box of the training's volume with the newest checkpoint of a U-Net. Not collective.

    Affinities are agglomerated; distances become affinities first; objects of a class are its connected components.
    If the training's volume is a resampled copy, its segments go to another file, and `out` has the voxels of the
    original.

    Args:
        file: The configuration, for messages.
        settings: Its content, of model.kind "unet".
        out: "file:dataset" of an HDF5 file. The prediction is kept beside it.
        box: z0:z1,y0:y1,x0:x1 in voxels of the original; None: the held-out box of the validation, else the whole
            volume.

    Returns:
        The report: segments, coverage, prediction, checkpoint, seconds.

    Raises:
        floodtide.errors.Error: If an input cannot be read or does not fit, or a library is missing.
    """
    task: Any = settings.task
    if task.agglomerated:
        library("waterz", "segment", "affinities")  # missing? say so before a long prediction
    predicted = _predicted(out)
    source = _volume(file, settings)
    checkpoint = trained.newest_checkpoint(settings.run.dir)
    require_same_task(checkpoint, settings, file)
    volume = Volume(source.image)
    size = settled_size(volume, source.voxel_size_nm, "the configuration")
    original = _original_of(volume, size)
    wanted = parse_box(box or "")
    held_out = parse_boxes(settings.validation.box)
    part = held_out[0] if box is None and held_out else wanted
    if original is not None and wanted is not None:
        part = original.grid.box_of(wanted)
    use_threads(settings)
    predictor = predict.predictor_of(source, checkpoint, trained.task_of(checkpoint))
    keys = "voxel_size_nm of the [[data.volumes]] table"
    reading = Reading(
        "segment", source.mean, source.std, "data.volumes.mean and std", size, size_key=keys
    )
    settle(image_problems(volume, checkpoint, reading, box=part, slices=predictor.model.flat))
    volumes = predictor.channels([volume, *(Volume(one.image) for one in source.channels)])
    predictor.settle_channels("segment", volumes, part)
    notes = {
        "image": volume.name if original is None else original.volume.name,
        "checkpoint": str(checkpoint),
    }
    start_s = time.monotonic()
    with bar("voxels", "predict", line_every_s=10.0) as progress:
        predictor.write(
            volumes,
            predicted,
            box=part,
            voxel_size_nm=size,
            notes=notes,
            progress=progress,
        )
    made = out if original is None else _beside(out, "coarse", "segments")
    segments, coverage = _write_segments(predictor, predicted, made, size, notes)
    if original is not None:
        original.write(Volume(made), out, wanted, notes)
    return {
        "segments": segments,
        "coverage": coverage,
        "prediction": predicted,
        "checkpoint": str(checkpoint),
        "voxel_size_nm": size if original is None else original.size_nm,
        "seconds": time.monotonic() - start_s,
        "out": out,
    }


def _write_segments(
    predictor: predict.Predictor,
    predicted: str,
    out: str,
    size_nm: SizeNm | None,
    notes: dict[str, str],
) -> tuple[int, float]:
    """Write the segments of a prediction; return their number, and the share of the voxels that are in one."""
    task: Any = predictor.task
    decoded = (
        {"options": json.dumps(config.to_dict(AffinityOptions()))} if task.affinity_offsets else {}
    )
    place = path_and_dataset(predicted)
    volume = Volume(*place, channel=None if predictor.excluding else 0)
    values = (
        volume.read()
        if predictor.excluding
        else _core.data.Channels(*place).read((0, 0, 0), volume.shape)
    )
    return write_segments(
        objects_of(task, values, sections=predictor.model.flat),
        out,
        dataclasses.replace(volume.geometry, voxel_size_nm=size_nm),
        command=_COMMAND,
        notes=notes | {"prediction": predicted} | decoded,
        inputs=predicted,
    )


def _original_of(volume: Volume, size: SizeNm | None) -> _Original | None:
    """Return the volume of which a volume is a resampled copy; None if it is none."""
    known = original_of(volume)
    if known is None:
        return None
    if size is None:
        raise InvalidFileError(
            f"{volume.name}: states no voxel size, expected that of the resampled image"
        )
    return _Original(Volume(known[0]), known[1], size)


class _Original:
    """The volume from which that of a training was resampled."""

    def __init__(self, volume: Volume, size_nm: SizeNm, trained_nm: SizeNm) -> None:
        self.volume = volume
        self.size_nm = size_nm
        self.grid = Resampled(volume, size_nm, trained_nm)

    def write(self, made: Volume, out: str, box: Box | None, notes: dict[str, str]) -> None:
        """Write segments of coarser voxels at the voxels of this volume; of `box`, or of all that they cover."""
        first = made.geometry.offset or (0, 0, 0)
        labels = made.read()
        start, size = box or self._covered(first, made.shape)

        def read(part: Box) -> Any:
            return labels_at(labels, first, self.grid.ratio, (total(start, part[0]), part[1]))

        plan = Plan(
            shape=size,
            dtype=labels.dtype,
            geometry=Geometry(voxel_size_nm=self.size_nm, offset=start),
            command=_COMMAND,
            notes=notes,
        )
        write_blocks(out, plan, read, inputs=files_of([self.volume.name]))

    def _covered(self, first: Vec3, shape: Vec3) -> Box:
        ratios = self.grid.ratio
        start = as_vec3([round(a * r) for a, r in zip(first, ratios, strict=True)])
        ends = [
            min(round((a + n) * r), whole)
            for a, n, r, whole in zip(first, shape, ratios, self.volume.shape, strict=True)
        ]
        return start, difference(ends, start)


def _predicted(out: str) -> str:
    if format_of(out) is not HDF5:
        raise InvalidArgumentError(
            f"--out {out}: expected FILE.h5:DATASET with a U-Net; `floodtide convert` copies it"
        )
    return _beside(out, "predicted", "predicted")


def _beside(out: str, suffix: str, dataset: str) -> str:
    return f"{Path(path_and_dataset(out)[0]).with_suffix(f'.{suffix}.h5')}:{dataset}"


def _volume(file: str, settings: config.Config) -> TrainingVolume:
    """Return the volume of the validation, or the only one."""
    volumes = {volume.name: volume for volume in settings.data.volumes}
    name = settings.validation.volume or next(iter(volumes), "")
    if name not in volumes:
        raise InvalidArgumentError(
            f"{file}: has no [[data.volumes]] table, expected the volume to segment"
        )
    return volumes[name]
