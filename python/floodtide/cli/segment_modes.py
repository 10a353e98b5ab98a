# SPDX-License-Identifier: Apache-2.0
"""Which function of floodtide segments for `floodtide segment`, by its options and its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from floodtide import config, segment
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.errors import InvalidArgumentError

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
        shared.refuse_given(("voxel_nm", "preview"), "is for an image, expected --model too")
    if preview:
        shared.refuse_given(("subvolumes", "estimate"), "with --preview, expected one of them")
    elif out is None:
        raise click.UsageError("--out is missing, expected FILE.h5:DATASET, or a folder")
    if model is not None and preview:
        return _previewed(file, model, voxel_nm, out, box, overrides)
    assert out is not None
    with world.agreed():
        settings = _settings(file, model, voxel_nm, overrides)
    if settings.task.predicts:
        return _predicted(file, settings, out, box)
    if estimate:
        return segment.estimate(file, settings, out, box)
    if settings.segment.subvolume is not None:
        numbers = None if subvolumes is None else _range(subvolumes)
        return segment.segment_subvolumes(file, settings, out, box, numbers=numbers)
    shared.refuse_given(
        ("subvolumes",), "without segment.subvolume, expected the size of a subvolume"
    )
    return segment.segment_volume(file, settings, out, box)


def _previewed(
    image: str,
    model: str,
    voxel_nm: Sequence[float] | None,
    out: str | None,
    box: str | None,
    overrides: Sequence[str],
) -> Report:
    from floodtide.cli import segment_preview
    from floodtide.plan.segmenting import settings_for

    report: dict[str, Any] = {}
    with world.agreed():
        _, setting = settings_for(image, model, voxel_nm, overrides)
        if world.rank() == 0:
            report = segment_preview.run(image, setting, out, box)
    return report


def _settings(
    file: str, model: str | None, voxel_nm: Sequence[float] | None, overrides: Sequence[str]
) -> config.Config:
    if model is None:
        return config.load(file, overrides)
    from floodtide.cli import segment_preview
    from floodtide.plan import segmenting

    settings, setting = segmenting.settings_for(file, model, voxel_nm, overrides)
    segmenting.require_same_voxels(file, setting)
    if world.rank() == 0:
        segment_preview.say(file, setting)
    return settings


def _predicted(file: str, settings: config.Config, out: str, box: str | None) -> Report:
    from floodtide.agglomerate import segment_predicted

    shared.refuse_given(
        ("subvolumes", "estimate"),
        "with a U-Net, expected a flood-filling network; for large volumes there are `floodtide predict` and, for"
        " affinities, `floodtide agglomerate --subvolume`",
    )
    report: dict[str, Any] = {}
    with world.agreed():
        if world.rank() == 0:
            report = segment_predicted(file, settings, out, box)
    return report


def _range(text: str) -> range:
    first, colon, end = text.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise InvalidArgumentError(f"--subvolumes {text}: expected A:B with A below B")
    return range(int(first), int(end))
