# SPDX-License-Identifier: Apache-2.0
"""Which function of floodtide segments for `floodtide segment`, by its options and its configuration."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from floodtide import config, segment
from floodtide.base import notes, progress
from floodtide.base.files import path_and_dataset
from floodtide.base.outputs import PICTURES, files_in, files_of, refuse_inputs, reserved
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.data import Volume, parse_box
from floodtide.data.formats.geometry import size_text
from floodtide.data.formats.table import HDF5, format_of, stem
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

    report: Report = {}
    with world.agreed():
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
                if world.rank() == 0:
                    report = _previewed(
                        setting, out or f"{stem(file)}-preview.h5:segmentation", box
                    )
                return report
            require_same_voxels(setting)
            if world.rank() == 0:
                _say(setting)
    assert out is not None
    in_pieces = settings.segment.subvolume is not None
    if not (estimate or in_pieces):
        shared.refuse_given(
            ("subvolumes",), "without segment.subvolume, expected the size of a subvolume"
        )
    numbers = None if subvolumes is None else _range(subvolumes)
    if settings.task.predicts:
        with world.agreed():
            stack = Stack(file, settings, box, voxel_nm)
        stack.choose(new=not estimate)
        if estimate:
            return stack.estimate(out)
        if in_pieces:
            return stack.write_subvolumes(out, numbers)
        return stack.write(out)
    if estimate:
        return segment.estimate(file, settings, out, box)
    if in_pieces:
        return segment.segment_subvolumes(file, settings, out, box, numbers=numbers)
    return segment.segment_volume(file, settings, out, box)


def _previewed(setting: Setting, out: str, box: str | None) -> Report:
    """Segment a box, and write it and its picture. Return the report."""
    from floodtide.plan import segmenting
    from floodtide.report import planes

    if format_of(out) is not HDF5:
        raise InvalidArgumentError(f"--out {out}: expected FILE.h5:DATASET for a preview")
    image, path = setting.image.name, Path(path_and_dataset(out)[0])
    picture = path.with_suffix(".png")
    inputs: list[str | Path] = [*files_of([image]), *files_in(setting.network.path)]
    refuse_inputs("segment", [path], inputs)
    with reserved("segment", picture, PICTURES[".png"], inputs):
        _say(setting)
        for text in setting.notes:
            notes.warn(text)
        end_s = time.monotonic() + segmenting.LIMIT_S
        with progress.bar(
            "voxels",
            "preview",
            line_every_s=10.0,
            at_most_s=lambda: max(0.0, end_s - time.monotonic()),
        ) as shown:
            found = segmenting.preview(setting, out, box=parse_box(box or ""), progress=shown)
        drawn = planes.read_segmentation(Volume(out), image, "", setting.voxel_size_nm)
        planes.save_planes(drawn, picture)
    late = "the time was over before the whole box was settled: expected a smaller --box"
    said = [*setting.notes, late] if found["stopped"] else setting.notes
    return found | {
        "out": out,
        "picture": str(picture),
        "notes": said,
        "mean": setting.options.mean,
        "std": setting.options.std,
        "voxel_size_nm": setting.voxel_size_nm,
        "segmented_at_nm": setting.wanted_nm,
    }


def _say(setting: Setting) -> None:
    """Print how the network sees the image, before the long work."""
    voxels = f"{size_text(setting.voxel_size_nm)} nm"
    if setting.resampled:
        voxels += f", resampled to {size_text(setting.wanted_nm)} nm for {setting.network.name}"
    mean, std = setting.options.mean, setting.options.std
    notes.show(f"{setting.image.name}: {voxels}; mean {mean:g}, std {std:g}. {setting.levels}")


def _range(text: str) -> range:
    first, colon, end = text.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise InvalidArgumentError(f"--subvolumes {text}: expected A:B with A below B")
    return range(int(first), int(end))
