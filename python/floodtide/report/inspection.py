# SPDX-License-Identifier: Apache-2.0
"""Page about an image and its labels before any training: `inspect.html`, which `floodtide inspect` writes."""

from __future__ import annotations

import dataclasses
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide import _core
from floodtide._core import __version__
from floodtide.base.files import replace_bytes
from floodtide.base.outputs import files_of
from floodtide.base.progress import bar
from floodtide.data import Volume
from floodtide.data.formats.geometry import SizeNm
from floodtide.data.look import alignment, image_statistics, label_statistics, problems
from floodtide.data.look.alignment import Alignment, orders_for
from floodtide.data.look.image import ImageStatistics
from floodtide.data.look.labels import LIMITS, LabelStatistics, require_labels
from floodtide.data.look.problems import Problem, sizes
from floodtide.data.look.sections import MISSING
from floodtide.data.volumes import labels_of, name_of, require_same_grid
from floodtide.errors import InvalidArgumentError
from floodtide.report import inspection_figures, pages
from floodtide.report.tables import Table
from floodtide.segment.canvas import BYTES_PER_VOXEL

_CLIPPED = 0.02  # share of voxels at the end of the range, above which the page remarks it
# Change of the sections' mean, in standard deviations, above which the page remarks it.
_DRIFT = 1.0
_ORIENTATIONS = 8  # rows of the table


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What was found about an image and its labels.

    Attributes:
        image: Statistics of the image.
        labels: Statistics of the labels; None without labels.
        alignment: How well the labels lie on the image; None without labels.
        problems: What is probably wrong.
    """

    image: ImageStatistics
    labels: LabelStatistics | None
    alignment: Alignment | None
    problems: tuple[Problem, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as values that JSON can hold."""
        result: dict[str, Any] = {"image": dataclasses.asdict(self.image)}
        if self.image.sections is not None:
            sections = result["image"]["sections"]
            sections["correlations"] = [
                None if math.isnan(value) else value for value in sections["correlations"]
            ]
        result["labels"] = None if self.labels is None else dataclasses.asdict(self.labels)
        found = self.alignment
        result["alignment"] = None if found is None else {
            "verdict": found.verdict,
            "possible": found.possible,
            "std": found.std,
            "candidates": [
                {
                    "orientation": one.orientation.words,
                    "expression": one.orientation.expression,
                    "boundary": one.boundary,
                    "inside": one.inside,
                    "difference": one.difference,
                }
                for one in found.candidates
            ],
        }  # fmt: skip
        result["problems"] = [dataclasses.asdict(problem) for problem in self.problems]
        return result


def inspect(image: Volume, labels: Volume | None, voxel_size_nm: SizeNm | None) -> Inspection:
    """Return what an image and its labels look like. Large volumes are sampled.

    Args:
        image: The image.
        labels: Integer labels of the image, or None.
        voxel_size_nm: Voxel size (z, y, x); None: what the format states, if it states one.

    Raises:
        InvalidArgumentError: If the image is given as its own labels.
        InvalidFileError: If a volume cannot be read, or is of a wrong type.
        ShapeError: If no order of the labels' axes has the shape of the image.
    """
    if labels is not None:
        if labels.name == image.name:
            raise InvalidArgumentError(
                f"{image.name} is given as image and as labels; expected labels, one id for each object"
            )
        require_labels(labels)
        orders_for(image, labels)
        if labels.shape == image.shape:  # else axes are in another order, which `alignment` finds
            require_same_grid("inspect", labels, image)
        labels = labels_of(labels)
    with bar("voxels of the image", "inspect") as progress:
        statistics = image_statistics(image, voxel_size_nm=voxel_size_nm, progress=progress)
    found = [
        *problems.of_sections(statistics, "image"),
        *problems.of_axes(statistics, "image", statistics.voxel_size_nm),
        *_of_values(statistics),
    ]
    of_labels, aligned = None, None
    if labels is not None:
        with bar("voxels of the labels", "inspect") as progress:
            of_labels = label_statistics(labels, progress=progress)
        aligned = alignment(image, labels)
        found += problems.of_labels(of_labels, "labels")
        found += problems.of_alignment(aligned, "labels", labels.name)
    return Inspection(
        image=statistics,
        labels=of_labels,
        alignment=aligned,
        problems=tuple(sorted(found, key=lambda one: not one.error)),
    )


def write(
    image: Volume, labels: Volume | None, voxel_size_nm: SizeNm | None, out: Path
) -> Inspection:
    """Inspect volumes and write the page. Arguments and errors as for `inspect`.

    Raises:
        StorageError: If the page cannot be written.
        InvalidArgumentError: If `out` exists and is no page of floodtide, or is an input.
    """
    inputs = files_of([name_of(volume) for volume in (image, labels) if volume is not None])
    with pages.reserve(out, [Path(path) for path in inputs]):
        found = inspect(image, labels, voxel_size_nm)
        replace_bytes(out, render(found, image, labels).encode())
    return found


def render(found: Inspection, image: Volume, labels: Volume | None) -> str:
    """Return the HTML page with all figures embedded."""
    size = found.image.voxel_size_nm
    fits = labels is not None and labels.shape == image.shape
    return pages.render(
        "inspect.html",
        version=__version__,
        title=os.path.basename(found.image.name),
        found=found,
        verdict=verdict(found),
        facts=_facts(found),
        planes=inspection_figures.planes(image, labels if fits else None, size),
        histogram=inspection_figures.histogram(found.image),
        sections=inspection_figures.sections(found.image),
        sharpness=inspection_figures.sharpness(found.image),
        bad=_bad_sections(found),
        labels=_labels(found),
        orientations=_orientations(found),
    )


def verdict(found: Inspection) -> str:
    """Return one sentence about the volumes."""
    errors = sum(problem.error for problem in found.problems)
    doubts = len(found.problems) - errors
    if not found.problems:
        return "Nothing looks wrong." if found.labels else "Nothing looks wrong with the image."
    parts = [
        f"{count} {word}{'s' * (count > 1)}"
        for count, word in ((errors, "mistake"), (doubts, "doubt"))
        if count
    ]
    return f"{' and '.join(parts)}: see below what to change."


def _of_values(image: ImageStatistics) -> list[Problem]:
    """Return remarks on grey levels and brightness that only the page and its lines make."""
    found = []
    missing = 0.0
    if image.sections is not None:
        kinds = [one.kind for one in image.sections.findings]
        missing = kinds.count(MISSING) / len(image.sections.means)
    for share, end, value in (
        (image.lowest_share, "lowest", image.minimum),
        (image.highest_share, "highest", image.maximum),
    ):
        if share - missing > _CLIPPED and f"value {value:g} " not in image.left_out:
            found.append(
                Problem(
                    False,
                    f"image: {100 * share:.1f} % of the voxels have the {end} possible value, {value:g}: the image is"
                    " clipped, or padded",
                )
            )
    if image.sections is not None and image.sections.drift > _DRIFT:
        found.append(
            Problem(
                False,
                f"image: the mean of the sections changes by {image.sections.drift:.1f} standard deviations along z:"
                " equalise the sections' brightness before training, for example by CLAHE",
            )
        )
    return found


def _facts(found: Inspection) -> list[tuple[str, str]]:
    image = found.image
    size = image.voxel_size_nm
    levels = (
        f"{image.minimum:g} to {image.maximum:g}, mean {image.mean:.2f},"
        f" standard deviation {image.std:.2f}"
    )
    proposal = f"mean = {image.proposed_mean:.2f}, std = {image.proposed_std:.2f}"
    without = f" (without {image.left_out})" if image.left_out else ""
    facts = [
        ("Image", f"{image.name}: {_times(image.shape)} voxels (z, y, x) of {image.dtype}"),
        ("Voxel size", f"{sizes(size)} nm" if size else "unknown: give --voxel-nm z,y,x"),
        ("Grey levels", levels),
        ("For the configuration", proposal + without),
    ]
    if found.labels is not None:
        labels = found.labels
        text = (
            f"{labels.name}: {labels.objects:,} objects, {100 * labels.unlabelled:.2f} % unlabelled"
        )
        facts.append(("Labels", text))
    read = [
        f"{100 * one.sampled / math.prod(one.shape):.1f} % of the {what}"
        for what, one in (("image", image), ("labels", found.labels))
        if one is not None and not one.whole
    ]
    if read:
        facts.append(("Sample", f"{' and '.join(read)}, in columns along z"))
    return [*facts, ("Memory", _segmenting(image))]


def _bad_sections(found: Inspection) -> Table | None:
    sections = found.image.sections
    if sections is None or not sections.findings:
        return None
    return Table(
        ("Section (z)", "Kind", "What is wrong"),
        tuple((str(one.section), one.kind, one.words) for one in sections.findings[:50]),
    )


def _labels(found: Inspection) -> Table | None:
    labels = found.labels
    if labels is None:
        return None
    largest = "-"
    if labels.largest:
        largest = f"id {labels.largest[0][0]}: {100 * labels.largest_share:.1f} % of the voxels"
    boundary, zero = 100 * labels.boundary, 100 * labels.boundary_zero
    changes = ", ".join(f"{100 * share:.1f} %" for share in labels.changes)
    rows = [
        ("Type", labels.dtype),
        ("Ids", f"{labels.lowest:,} to {labels.highest:,}"),
        ("Objects", f"{labels.objects:,}"),
        *(
            (f"Objects of at least {limit:,} voxels", f"{count:,}")
            for limit, count in zip(LIMITS[2:], labels.at_least[2:], strict=True)
        ),
        ("Median size (voxels)", f"{labels.median_size:,.0f}"),
        ("Largest object", largest),
        ("Unlabelled voxels (0)", f"{100 * labels.unlabelled:.3g} %"),
        ("Voxels at a change of label", f"{boundary:.1f} %, {zero:.0f} % of them labelled 0"),
        ("Neighbours that differ, along z, y, x", changes),
    ]
    return Table(("Labels", "Value"), tuple(rows))


def _orientations(found: Inspection) -> Table | None:
    aligned = found.alignment
    if aligned is None or not aligned.candidates:
        return None
    shown = list(aligned.candidates[:_ORIENTATIONS])
    if aligned.stored is not None and aligned.stored not in shown:
        shown[-1] = aligned.stored
    return Table(
        ("Labels", "At boundaries", "Inside objects", "Difference (grey levels)"),
        tuple(
            (
                one.orientation.words,
                f"{one.boundary:.1f}",
                f"{one.inside:.1f}",
                f"{one.difference:+.1f}",
            )
            for one in shown
        ),
    )


def _segmenting(image: ImageStatistics) -> str:
    """Return one sentence about the memory that a segmentation of the image needs."""
    needed = BYTES_PER_VOXEL * math.prod(image.shape)
    available = _core.available_bytes()
    text = (
        f"A segmentation of the whole image in one piece needs about {_core.describe_bytes(needed)}"
    )
    if available is None or needed <= available:
        return f"{text}, which fits."
    edge = int((available / BYTES_PER_VOXEL) ** (1 / 3)) // 32 * 32
    return f"{text}, which does not fit: cut it with segment.subvolume = [{edge}, {edge}, {edge}] or less."


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
