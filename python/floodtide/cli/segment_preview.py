# SPDX-License-Identifier: Apache-2.0
"""`floodtide segment IMAGE --model NETWORK --preview`, and what is printed before a long work."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

from floodtide.base import notes, progress
from floodtide.base.files import path_and_dataset
from floodtide.base.outputs import PICTURES, files_in, files_of, refuse_inputs, reserved
from floodtide.data import Volume, parse_box
from floodtide.data.boxes import box_text
from floodtide.data.formats.geometry import size_text
from floodtide.data.formats.table import HDF5, format_of, stem
from floodtide.errors import InvalidArgumentError
from floodtide.plan import preview, previewing
from floodtide.plan.previewing import Setting
from floodtide.report import planes
from floodtide.segment import SegmentOptions


def run(
    image: str,
    setting: Setting,
    out: str | None,
    box: str | None,
) -> dict[str, Any]:
    """Segment a box, and write it and its picture. Return the report."""
    name = out or f"{stem(image)}-preview.h5:segmentation"
    if format_of(name) is not HDF5:
        raise InvalidArgumentError(f"--out {name}: expected FILE.h5:DATASET for a preview")
    picture = Path(path_and_dataset(name)[0]).with_suffix(".png")
    inputs: list[str | Path] = [*files_of([image]), *files_in(setting.network.path)]
    refuse_inputs("segment", [path_and_dataset(name)[0]], inputs)
    with reserved("segment", picture, PICTURES[".png"], inputs):
        say(image, setting)
        for text in setting.notes:
            notes.warn(text)
        end_s = time.monotonic() + previewing.LIMIT_S
        with progress.bar(
            "voxels",
            "preview",
            line_every_s=10.0,
            at_most_s=lambda: max(0.0, end_s - time.monotonic()),
        ) as shown:
            found = preview(
                Volume(image),
                setting,
                name,
                box=parse_box(box or ""),
                progress=shown,
            )
        drawn = planes.read_segmentation(Volume(name), image, "", setting.voxel_size_nm)
        planes.save_planes(drawn, setting.voxel_size_nm, picture)
    late = "the time was over before the whole box was settled: expected a smaller --box"
    return {
        **dataclasses.asdict(found),
        "box": box_text(found.box),
        "out": name,
        "picture": str(picture),
        "notes": [*setting.notes, late] if found.stopped else setting.notes,
        "mean": setting.options.mean,
        "std": setting.options.std,
        "voxel_size_nm": setting.voxel_size_nm,
        "segmented_at_nm": setting.wanted_nm,
    }


def say(image: str, setting: Setting) -> None:
    """Print how the network sees the image, before the long work."""
    options: SegmentOptions = setting.options
    voxels = f"{size_text(setting.voxel_size_nm)} nm"
    if setting.resampled:
        voxels += f", resampled to {size_text(setting.wanted_nm)} nm for {setting.network.name}"
    notes.show(f"{image}: {voxels}; mean {options.mean:g}, std {options.std:g}. {setting.levels}")
