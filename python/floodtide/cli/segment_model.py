# SPDX-License-Identifier: Apache-2.0
"""`floodtide segment IMAGE --model NETWORK`: without a configuration, and as a preview."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from floodtide import config
from floodtide.base.counts import count_of
from floodtide.base.files import path_and_dataset
from floodtide.base.outputs import PICTURES, files_in, files_of, refuse_inputs, reserved
from floodtide.cli import evaluate_text
from floodtide.config.sections import VolumeConfig
from floodtide.data.formats import HDF5, format_of, stem
from floodtide.data.look import problems
from floodtide.errors import InvalidArgumentError
from floodtide.segment import SegmentOptions

if TYPE_CHECKING:
    from floodtide.plan import Preview, Setting


def settings_for(
    image: str,
    model: str,
    voxel_nm: Sequence[float] | None,
    labels: str | None,
    overrides: Sequence[str],
) -> tuple[config.Config, Setting]:
    """Return a configuration that segments an image with a network, and how the network sees the image.

    Raises:
        floodtide.errors.Error: If image, labels or network cannot be read, or the voxel size is unknown.
    """
    from floodtide.data import Volume
    from floodtide.data.volumes import labels_of
    from floodtide.plan import known_network, setting_for
    from floodtide.train.threads import set_threads

    network = known_network(model)
    base: dict[str, Any] = {"image": image, "checkpoint": network.path, "reflect": True}
    base |= {"pad_value": network.seed_pad}
    settings = config.from_dict({"segment": base}, "segment --model", overrides)
    set_threads(settings.run.threads)
    given = settings.segment
    if given.fov is not None or given.deltas is not None:
        raise InvalidArgumentError(
            "--set segment.fov or segment.deltas with --model, expected a configuration for another field of view"
        )
    truth = None if labels is None else labels_of(labels)
    setting = setting_for(Volume(image), network, voxel_nm, given, truth)
    volume = VolumeConfig(
        name="image",
        image=image,
        mean=setting.options.mean or 0.0,
        std=setting.options.std or 1.0,
        voxel_size_nm=setting.voxel_size_nm,
    )
    named = dataclasses.replace(setting.options, image=volume.name)
    data = dataclasses.replace(settings.data, volumes=(volume,))
    return dataclasses.replace(settings, data=data, segment=named), setting


def require_same_voxels(image: str, setting: Setting) -> None:
    """Refuse to segment a whole image that must be resampled first.

    Raises:
        InvalidArgumentError: The message has the command that resamples.
    """
    if setting.resampled:
        own, wanted = setting.voxel_size_nm, setting.wanted_nm
        raise InvalidArgumentError(
            f"{image}: has voxels of {problems.sizes(own)} nm, {setting.network.name} needs"
            f" {problems.sizes(wanted)} nm: resample it first with {problems.resampling(image, own, wanted)};"
            " --preview resamples by itself"
        )


def run_preview(
    image: str,
    setting: Setting,
    out: str | None,
    box: str | None,
    labels: str | None,
    as_json: bool,
) -> None:
    """Segment a box, write it and its picture, and print what was found."""
    from floodtide.base import notes
    from floodtide.base.progress import bar
    from floodtide.data import Volume, parse_box
    from floodtide.data.volumes import labels_of
    from floodtide.plan import preview, previewing
    from floodtide.report import planes

    name = out or f"{stem(image)}-preview.h5:segmentation"
    if format_of(name) is not HDF5:
        raise InvalidArgumentError(f"--out {name}: expected FILE.h5:DATASET for a preview")
    picture = Path(path_and_dataset(name)[0]).with_suffix(".png")
    inputs: list[str | Path] = [*files_of([image, labels or ""]), *files_in(setting.network.path)]
    refuse_inputs("segment", [path_and_dataset(name)[0]], inputs)
    with reserved("segment", picture, PICTURES[".png"], inputs):
        say(image, setting)
        for text in setting.notes:
            notes.warn(text)
        end_s = time.monotonic() + previewing.LIMIT_S
        with bar(
            "voxels",
            "preview",
            line_every_s=10.0,
            at_most_s=lambda: max(0.0, end_s - time.monotonic()),
        ) as progress:
            found = preview(
                Volume(image),
                setting,
                name,
                labels=None if labels is None else labels_of(labels),
                box=parse_box(box or ""),
                progress=progress,
            )
        drawn = planes.read_segmentation(Volume(name), image, labels or "", setting.voxel_size_nm)
        planes.save_planes(drawn, setting.voxel_size_nm, picture)
    if as_json:
        click.echo(json.dumps(_facts(found, setting, name, picture)))
        return
    for line in lines(found, setting, name, picture):
        click.echo(line)


def say(image: str, setting: Setting) -> None:
    """Print how the network sees the image, before the long work."""
    from floodtide.base import notes
    from floodtide.plan.judging import size_text

    options: SegmentOptions = setting.options
    voxels = f"{size_text(setting.voxel_size_nm)} nm"
    if setting.resampled:
        voxels += f", resampled to {size_text(setting.wanted_nm)} nm for {setting.network.name}"
    notes.show(f"{image}: {voxels}; mean {options.mean:g}, std {options.std:g}. {setting.levels}")


def _facts(found: Preview, setting: Setting, out: str, picture: Path) -> dict[str, Any]:
    from floodtide.data import box_text

    facts = dataclasses.asdict(found) | {"box": box_text(found.box)}
    facts |= {"out": out, "picture": str(picture), "notes": setting.notes}
    facts |= {"mean": setting.options.mean, "std": setting.options.std}
    facts |= {"voxel_size_nm": setting.voxel_size_nm, "segmented_at_nm": setting.wanted_nm}
    facts["scores"] = {
        name: {key: None if value != value else value for key, value in row.items()}
        for name, row in found.scores.items()
    }
    return facts


def lines(found: Preview, setting: Setting, out: str, picture: Path) -> list[str]:
    """Return the result as text."""
    from floodtide.data import box_text

    text = [
        f"{count_of(found.segments, 'segment')}, {100 * found.coverage:.1f} % of the voxels of the box"
        f" {box_text(found.box)}, in {count_of(found.network_calls, 'network call')} and {found.seconds:.0f} s",
        f"the whole image would take about {_duration(found.whole_hours)} on this machine",
    ]
    if found.stopped:
        text.append(
            "the time was over before the whole box was settled: empty parts may not have been reached; expected a"
            " smaller --box"
        )
    if found.scores:
        text += evaluate_text.table(found.scores)
        text.append("the grey level was chosen on this box, with its labels in view")
    text += [f"segmentation: {out}", f"picture: {picture}"]
    return text


def _duration(hours: float) -> str:
    minutes = max(round(60 * hours), 1)
    return count_of(minutes, "minute") if hours < 2 else f"{hours:.1f} hours"
