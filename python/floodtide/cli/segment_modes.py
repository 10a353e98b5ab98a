# SPDX-License-Identifier: Apache-2.0
"""Which function of floodtide segments for `floodtide segment`, by its options and its configuration."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from floodtide import config, segment
from floodtide.base import notes, outputs, progress
from floodtide.base.files import path_and_dataset
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.data import Volume, parse_box
from floodtide.data.formats.table import HDF5, container, format_of, stem
from floodtide.data.volumes import volume_exists
from floodtide.errors import InvalidArgumentError

if TYPE_CHECKING:
    from floodtide.plan.segmenting import Setting

Report = dict[str, Any]


def run(
    file: str,
    *,
    model: str | None,
    voxel_nm: Sequence[float] | None,
    out: str | None,
    box: str | None,
    subvolumes: str | None,
    estimate: bool,
    preview: bool,
    overrides: Sequence[str],
) -> Report:
    """Segment, estimate or preview. Collective."""
    if model is None:
        shared.refuse_given(("preview",), "is for an image, expected --model too")
    if preview:
        shared.refuse_given(("subvolumes", "estimate"), "with --preview, expected one of them")
    elif out is None:
        raise click.UsageError("--out is missing, expected FILE.h5:DATASET, or a folder")
    from floodtide.agglomerate.predicted import Stack, settings_with

    with world.agreed():
        setting: Setting | None = None
        if model is not None and any(one.partition("=")[0] == "segment.image" for one in overrides):
            raise click.UsageError(f"--set segment.image is given, expected only the image {file}")
        if model is None and volume_exists(file):
            raise click.UsageError(f"--model is missing: {file} is a volume")
        if model is None:
            settings = config.load(file, overrides)
            if not settings.task.predicts:
                shared.refuse_given(("voxel_nm",), "is for an image, expected --model too")
        elif (of_unet := settings_with(file, model, overrides)) is not None:
            shared.refuse_given(("preview",), "is for flood-filling networks, expected --box")
            settings = of_unet
        else:
            from floodtide.plan.segmenting import require_same_voxels, settings_for

            settings, setting = settings_for(file, model, voxel_nm, overrides)
            if preview:
                named = out or f"{stem(file)}-preview.h5:segmentation"
                return _previewed(setting, named, box) if world.rank() == 0 else {}
            require_same_voxels(setting)
            notes.show(setting.words)
    assert out is not None
    in_pieces = settings.segment.subvolume is not None
    if not (estimate or in_pieces):
        shared.refuse_given(
            ("subvolumes",), "without segment.subvolume, expected the size of a subvolume"
        )
    numbers = None if subvolumes is None else _range(subvolumes)
    with world.agreed():
        if box is not None:
            replaced = dataclasses.replace(settings.segment, box=box)
            settings = dataclasses.replace(settings, segment=replaced)
        work = (
            Stack(file, settings, voxel_nm)
            if settings.task.predicts
            else segment.Flooding.load(file, settings)
        )
        if isinstance(work, Stack) and not (estimate or in_pieces):
            outputs.require_folder(container(out))  # before a choice of thresholds
    if isinstance(work, Stack):
        work.choose(new=not estimate)
    if estimate:
        return work.estimate(out)
    return work.write_subvolumes(out, numbers) if in_pieces else work.write(out)


def _previewed(setting: Setting, out: str, box: str | None) -> Report:
    """Segment a box, and write it and its picture. Return the report."""
    from floodtide.plan import segmenting
    from floodtide.report import planes

    if format_of(out) is not HDF5:
        raise InvalidArgumentError(f"--out {out}: expected FILE.h5:DATASET for a preview")
    image, path = setting.image.name, Path(path_and_dataset(out)[0])
    picture = path.with_suffix(".png")
    inputs: list[str | Path] = [*outputs.files_of([image]), *outputs.files_in(setting.network.path)]
    outputs.refuse_inputs("segment", [path], inputs)
    said = list(setting.notes)
    with outputs.reserved("segment", picture, outputs.PICTURES[".png"], inputs):
        notes.show(setting.words)
        for text in said:
            notes.warn(text)
        end_s = time.monotonic() + segmenting.LIMIT_S
        with progress.bar(
            "voxels", "preview", line_every_s=10.0, at_most_s=lambda: end_s - time.monotonic()
        ) as shown:
            found = segmenting.preview(setting, out, box=parse_box(box or ""), progress=shown)
        drawn = planes.read_segmentation(Volume(out), image, "", setting.voxel_size_nm)
        planes.save_planes(drawn, picture)
    if found["stopped"]:
        said.append("the time was over before the whole box was settled: expected a smaller --box")
    found |= {"out": out, "picture": str(picture), "notes": said}
    found |= {"mean": setting.options.mean, "std": setting.options.std}
    return found | {"voxel_size_nm": setting.voxel_size_nm, "segmented_at_nm": setting.wanted_nm}


def _range(text: str) -> range:
    match = re.fullmatch(r"(\d{1,18}):(\d{1,18})", text)
    numbers = range(*map(int, match.groups())) if match else range(0)
    if not numbers:
        raise InvalidArgumentError(f"--subvolumes {text}: expected A:B with A below B")
    return numbers
