# SPDX-License-Identifier: Apache-2.0
"""Page about an image and its labels before any training: `inspect.html`, which `floodtide inspect` writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from floodtide._core import __version__
from floodtide.base import style
from floodtide.base.files import replace_bytes
from floodtide.base.notes import count_of
from floodtide.base.outputs import reserved
from floodtide.base.progress import bar
from floodtide.data import Volume
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.look import alignment, image_statistics, label_statistics, problems
from floodtide.data.look.alignment import Alignment
from floodtide.data.look.image import ImageStatistics, bin_edges
from floodtide.data.look.labels import LIMITS, LabelStatistics, integers_of
from floodtide.data.look.problems import Problem
from floodtide.data.look.sections import MISSING
from floodtide.data.volumes import labels_of, orders_for, require_same_grid, settled_size, stated_by
from floodtide.errors import InvalidArgumentError
from floodtide.report import page, planes

_CLIPPED = 0.02  # share of voxels at the end of the range, above which the page remarks it
# Change of the sections' mean, in standard deviations, above which the page remarks it.
_DRIFT = 1.0


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What was found about an image and its labels.

    Attributes:
        labels, alignment: None without labels.
        stated: Axes, voxel size and position of both, and what states each.
    """

    image: ImageStatistics
    labels: LabelStatistics | None
    alignment: Alignment | None
    problems: tuple[Problem, ...]
    stated: Mapping[str, str]


def write(
    image: Volume, labels: Volume | None, voxel_size_nm: SizeNm | None, out: Path
) -> Inspection:
    """Look at an image and its labels, and write the page. Large volumes are sampled.

    Args:
        voxel_size_nm: Voxel size (z, y, x); None: what the format states, if it states one.
    """
    with reserved("report", out, page.REPORT):
        labels = None if labels is None else integers_of(labels)
        found = _look_at(image, labels, voxel_size_nm)
        replace_bytes(out, _render(found, image, labels).encode())
    return found


def _look_at(image: Volume, labels: Volume | None, voxel_size_nm: SizeNm | None) -> Inspection:
    if labels is not None:
        if labels.name == image.name:
            raise InvalidArgumentError(
                f"{image.name} is given as image and as labels; expected labels, one id for each object"
            )
        orders_for(image, labels)
        if labels.shape == image.shape:  # else axes are in another order, which `alignment` finds
            require_same_grid("inspect", labels, image)
        settled_size(labels, voxel_size_nm, "--voxel-nm")
        labels = labels_of(labels)
    with bar("voxels of the image", "inspect") as progress:
        statistics = image_statistics(image, voxel_size_nm=voxel_size_nm, progress=progress)
    found = [
        *problems.of_sections(statistics, "image"),
        *problems.of_axes(statistics, "image", statistics.voxel_size_nm),
        *problems.of_padding(statistics, "image"),
        *_of_values(statistics),
    ]
    of_labels, aligned = None, None
    stated = {"image": stated_by(image, voxel_size_nm, "--voxel-nm").text}
    if labels is not None:
        stated["labels"] = stated_by(labels, voxel_size_nm, "--voxel-nm").text
        with bar("voxels of the labels", "inspect") as progress:
            of_labels = label_statistics(labels, progress=progress)
        aligned = alignment(image, labels)
        found += problems.of_labels(of_labels, "labels")
        if of_labels.kind == "unsure" and of_labels.objects > 0 and not of_labels.like_image:
            found += problems.finding(
                f"labels: whether values of {labels.name} are objects or classes cannot be told"
                f" ({of_labels.kind_reason})"
            )
        found += problems.of_alignment(aligned, "labels", labels.name)
        if of_labels.kind != "classes" and statistics.voxel_size_nm is None:
            found += problems.finding(
                f"image: {image.name} states no voxel size, which `floodtide init` needs for objects: give it"
                " --voxel-nm Z,Y,X"
            )
    return Inspection(
        image=statistics,
        labels=of_labels,
        alignment=aligned,
        problems=tuple(sorted(found, key=lambda one: not one.error)),
        stated=stated,
    )


def _render(found: Inspection, image: Volume, labels: Volume | None) -> str:
    layers: dict[str, planes.Layer | None] = {"image": (image, (0, 0, 0))}
    if labels is not None and labels.shape == image.shape:
        layers["truth"] = labels, (0, 0, 0)
    return page.render(
        "inspect.html",
        version=__version__,
        title=os.path.basename(found.image.name),
        found=found,
        image=found.image,
        labels=found.labels,
        limits=list(zip(LIMITS, found.labels.at_least, strict=True))[2:] if found.labels else [],
        verdict=verdict(found),
        planes=planes.planes_figure(planes.cut(layers, found.image.voxel_size_nm)),
        histogram=_histogram(found.image),
        sections=_sections(found.image),
    )


def verdict(found: Inspection) -> str:
    """Return one sentence about the volumes."""
    errors = sum(problem.error for problem in found.problems)
    doubts = len(found.problems) - errors
    if not found.problems:
        return "Nothing looks wrong." if found.labels else "Nothing looks wrong with the image."
    parts = [count_of(n, what) for n, what in ((errors, "mistake"), (doubts, "doubt")) if n]
    return f"{' and '.join(parts)}: see below what to change."


def _of_values(image: ImageStatistics) -> list[Problem]:
    """Return remarks on grey levels and brightness that only the page and its lines make."""
    found: list[Problem] = []
    sections, missing = image.sections, 0.0
    if sections is not None:
        missing = [one.kind for one in sections.findings].count(MISSING) / len(sections.means)
        if sections.drift > _DRIFT:
            found += problems.finding(
                f"image: the mean of the sections changes by {sections.drift:.1f} standard deviations along z:"
                " equalise the sections' brightness before training, for example by CLAHE"
            )
    for share, end, value in (
        (image.lowest_share, "lowest", image.minimum),
        (image.highest_share, "highest", image.maximum),
    ):
        if share - missing > _CLIPPED and f"value {value:g} " not in image.left_out:
            found += problems.finding(
                f"image: {100 * share:.1f} % of the voxels have the {end} possible value, {value:g}: the image is"
                " clipped, or padded"
            )
    return found


def _histogram(image: ImageStatistics) -> str:
    """Return the histogram with the proposed mean and standard deviation. SVG as data URI."""
    whole = np.dtype(image.dtype).kind in "iu"
    edges = bin_edges(image.minimum, image.maximum, whole=whole)
    share = 100.0 * np.asarray(image.histogram) / sum(image.histogram)
    with style.figure(7.2, 2.9) as drawn:
        axes = drawn.subplots()
        axes.stairs(share, edges, fill=True, color=style.SERIES[5], alpha=0.8)
        mean, std = image.proposed_mean, image.proposed_std
        axes.axvspan(mean - std, mean + std, color=style.SERIES[1], alpha=0.15, lw=0)
        axes.axvline(mean, color=style.SERIES[1], label=f"proposed mean {mean:.1f} ± std {std:.1f}")
        axes.set_xlabel("grey level")
        axes.set_ylabel("voxels (%)")
        axes.margins(x=0)
        axes.legend(loc="upper right")
        return style.data_uri(drawn, "svg")


def _sections(image: ImageStatistics) -> str | None:
    """Return brightness and likeness of the sections along z. SVG as data URI; None for a single section."""
    found = image.sections
    if found is None or len(found.means) < 2:
        return None
    z = found.first + np.arange(len(found.means))
    means, stds = np.asarray(found.means), np.asarray(found.stds)
    with style.figure(7.2, 4.2) as drawn:
        upper, lower = drawn.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        blue, label = style.SERIES[0], "± standard deviation"
        upper.fill_between(z, means - stds, means + stds, color=blue, alpha=0.18, lw=0, label=label)
        upper.plot(z, means, color=blue, lw=1.2, label="mean")
        upper.set_ylabel("grey level")
        lower.plot(z[:-1] + 0.5, found.correlations, color=style.SERIES[2], lw=1.2)
        lower.set_ylabel("correlation with\nthe next section")
        lower.set_xlabel("section (z)")
        lower.set_ylim(min(0.0, np.nanmin([0.0, *found.correlations])), 1.02)
        if bad := [one.section for one in found.findings]:
            at = np.asarray(bad) - found.first
            upper.plot(bad, means[at], "x", color=style.SERIES[1], ms=7, mew=2, label="bad section")
            for section in bad[:50]:
                lower.axvline(section, color=style.SERIES[1], lw=0.8, ls=":")
        upper.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2, ncols=3)
        return style.data_uri(drawn, "svg")
