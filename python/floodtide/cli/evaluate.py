# SPDX-License-Identifier: Apache-2.0
"""`floodtide evaluate`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from floodtide.base import limits
from floodtide.base.outputs import PICTURES, files_of, reserved
from floodtide.cli import options as shared
from floodtide.comm import world
from floodtide.errors import StorageError

if TYPE_CHECKING:
    from floodtide.data import Box, Volume
    from floodtide.evaluate import ContingencyTable, Mistake, RunLengths

ROWS = (
    ("adapted Rand error", "adapted_rand_error", "0 is perfect"),
    ("Rand precision", "rand_precision", "mergers lower it"),
    ("Rand recall", "rand_recall", "splits lower it"),
    ("VOI split (bits)", "voi_split", "H(segmentation | truth)"),
    ("VOI merge (bits)", "voi_merge", "H(truth | segmentation)"),
    ("CREMI score", "cremi", "geometric mean of VOI and Rand error"),
    ("voxels", "voxels", "with truth > 0"),
    ("segments", "segments", ""),
    ("objects", "objects", ""),
)


@click.command()
@click.argument("segmentation", metavar="SEGMENTATION")
@click.argument("truth", metavar="TRUTH")
@click.option(
    "--box",
    default="",
    help="Box to compare, z0:z1,y0:y1,x0:x1 in voxels of the whole volume.",
)
@click.option(
    "--picture",
    metavar="FILE.png",
    help="Also draw image, ground truth, segmentation and differences in three planes.",
)
@click.option(
    "--image",
    default="",
    metavar="VOLUME",
    help="Image for --picture and --pictures; default: the image from which SEGMENTATION was made.",
)
@click.option(
    "--worst",
    type=shared.Number(limits.COUNT),
    metavar="N",
    help="Also list the N worst splits and the N worst mergers, with sizes and positions.",
)
@click.option(
    "--pictures",
    metavar="FOLDER",
    help="With --worst: also draw the surroundings of each, a PNG file in FOLDER.",
)
@click.option(
    "--skeletons",
    is_flag=True,
    help="Also skeletonize the true objects (kimimaro), and tell the expected run length.",
)
@click.option(
    "--merge-nodes",
    type=shared.Number(limits.SOME_VOXELS),
    default=1,
    show_default=True,
    help="With --skeletons: a segment merges objects if it has this many nodes of each of two skeletons.",
)
@click.option(
    "--voxel-nm",
    type=shared.Numbers(limits.VOXEL_SIZE, 3),
    metavar="Z,Y,X",
    help="Edges of a voxel for --skeletons; default: the edges that the truth's file states; 1 if it states none.",
)
@click.option(
    "--matching",
    is_flag=True,
    help="Also match ids one to one, to compare with another segmentation: equal voxels, identical objects.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    segmentation: str,
    truth: str,
    box: str,
    picture: str | None,
    image: str,
    worst: int | None,
    pictures: str | None,
    skeletons: bool,
    merge_nodes: int,
    voxel_nm: tuple[float, float, float] | None,
    matching: bool,
    as_json: bool,
) -> None:
    """Compare SEGMENTATION with the ground truth TRUTH: volumes of any format, such as file:dataset.

    Voxels with truth 0 are ignored. Each score is computed twice: for the segmented voxels (id > 0),
    and for all voxels, with all unsegmented voxels as one segment (in JSON with the prefix all_). A
    segmentation of a box is compared with the same box of the truth. In JSON, a score that no voxel
    contributes to is null.

    \b
    Example:
      floodtide evaluate out.h5:segmentation groundtruth.h5:stack --picture out.png
    """
    from floodtide import evaluate
    from floodtide.base.progress import bar
    from floodtide.data import Volume, parse_box

    shared.require_same_arguments()
    with contextlib.ExitStack() as held:
        with world.agreed():
            _require_used(image, picture, worst, pictures, skeletons, voxel_nm)
            segments, objects, part = Volume(segmentation), Volume(truth), parse_box(box)
            if image:
                Volume(image)  # fail now: a picture without the image would not explain why
            if picture is not None and world.rank() == 0:
                inputs = files_of([segmentation, truth, image])
                held.enter_context(reserved("evaluate", picture, PICTURES[".png"], inputs))
        with bar("voxels", "evaluate") as progress:
            table = evaluate.count_on_ranks(segments, objects, part, progress)
        with world.agreed():
            if world.rank() > 0:
                return
            report = _Report(table)
            if skeletons:
                stated = voxel_nm or objects.geometry.voxel_size_nm
                report.runs = _run_lengths(segments, objects, part, stated, merge_nodes)
                report.unit = "voxels" if stated is None else "nm"
            if worst is not None:
                with bar("voxels", "evaluate") as progress:
                    report.mistakes = evaluate.worst_mistakes(
                        segments, objects, part, count=worst, table=table, progress=progress
                    )
            if picture is not None:
                from floodtide.report import planes

                read = planes.read_segmentation(segments, image, truth, None)
                planes.save_planes(read, None, Path(picture))
            if pictures is not None:
                _draw(report.mistakes or [], Path(pictures), segments, image, truth)
            click.echo(report.json(matching) if as_json else report.text(matching))


@dataclasses.dataclass
class _Report:
    """The scores of a segmentation, as text or as JSON."""

    table: ContingencyTable
    runs: RunLengths | None = None
    unit: str = "nm"
    mistakes: list[Mistake] | None = None

    def json(self, matching: bool) -> str:
        plain: dict[str, Any] = {
            name: None if math.isnan(value) else value
            for name, value in self.table.scores().items()
        }
        if self.runs is not None:
            plain["run_lengths"] = dataclasses.asdict(self.runs)
        if matching:
            plain["matching"] = self.table.matching()
        if self.mistakes is not None:
            plain["worst"] = [dataclasses.asdict(mistake) for mistake in self.mistakes]
        return json.dumps(plain)

    def text(self, matching: bool) -> str:
        scores = self.table.scores()
        lines = [f"{'':20}{'segmented':>12}{'all voxels':>12}"]
        for title, name, note in ROWS:
            values = (_text(scores[name]), _text(scores["all_" + name]))
            lines.append(f"{title:20}{values[0]:>12}{values[1]:>12}  {note}".rstrip())
        lines.append(f"{'coverage':20}{_text(scores['coverage']):>12}")
        if self.runs is not None:
            lines.append(_run_line(self.runs, self.unit))
        lines += [_line(mistake) for mistake in self.mistakes or []]
        if matching:
            found = self.table.matching()
            lines.append(
                f"ids matched one to one: {100 * found['same_voxels'] / found['voxels']:.4f} % of {found['voxels']}"
                f" voxels are the same; {found['identical']} of {found['objects']} objects are equal in every voxel"
            )
        return "\n".join(lines)


def _require_used(
    image: str,
    picture: str | None,
    worst: int | None,
    pictures: str | None,
    skeletons: bool,
    voxel_nm: tuple[float, float, float] | None,
) -> None:
    """Refuse options without the one that they belong to."""
    for given, name, used, wanted in (
        (image, "--image", picture or pictures, "--picture"),
        (pictures, "--pictures", worst, "--worst"),
        (voxel_nm, "--voxel-nm", skeletons, "--skeletons"),
    ):
        if given and not used:
            raise click.UsageError(f"{name} has no effect without {wanted}, expected {wanted} too")


def _draw(
    mistakes: Sequence[Mistake], folder: Path, segmentation: Volume, image: str, truth: str
) -> None:
    """Draw the surroundings of the second largest part of each mistake: what should be joined, or cut off."""
    from floodtide.report import planes

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be made: {error.strerror}") from None
    for number, mistake in enumerate(mistakes, start=1):
        read = planes.read_segmentation(segmentation, image, truth, None, mistake.parts[1].zyx)
        planes.save_planes(read, None, folder / f"{number:02}-{mistake.kind}-{mistake.id}.png")


def _run_lengths(
    segments: Volume,
    objects: Volume,
    box: Box | None,
    voxel_nm: tuple[float, float, float] | None,
    merge_nodes: int,
) -> RunLengths:
    from floodtide import evaluate
    from floodtide.shapes import skeletons_of

    size = voxel_nm or (1.0, 1.0, 1.0)
    labels, truth = evaluate.read_both(segments, objects, box)
    found = skeletons_of(truth, voxel_size=size)
    return evaluate.run_lengths(found, labels, voxel_size=size, merge_nodes=merge_nodes)


def _run_line(runs: RunLengths, unit: str) -> str:
    return (
        f"expected run length {runs.expected:.0f} of {runs.best:.0f} {unit} ({100 * runs.normalised:.1f} %) on"
        f" {runs.skeletons} skeletons of {runs.length:.0f} {unit}: {100 * runs.correct:.1f} % of the length correct,"
        f" {100 * runs.split:.1f} % split, {100 * runs.merged:.1f} % in mergers,"
        f" {100 * runs.omitted:.1f} % in no segment"
    )


def _line(mistake: Mistake) -> str:
    whole = "object" if mistake.kind == "split" else "segment"
    parts = ", ".join(
        f"{part.voxels} in {part.segment if mistake.kind == 'split' else part.object} at"
        f" {','.join(map(str, part.zyx))}"
        for part in mistake.parts
    )
    return f"{mistake.kind} of {whole} {mistake.id}: {mistake.voxels} voxels beside the largest part: {parts}"


def _text(value: float) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
