# SPDX-License-Identifier: Apache-2.0
"""`floodtide evaluate`."""

from __future__ import annotations

from typing import Any

import click

from floodtide.base import limits
from floodtide.cli import evaluate_modes
from floodtide.cli import options as shared


@click.command()
@click.argument("segmentation", metavar="SEGMENTATION")
@click.argument("truth", metavar="TRUTH")
@shared.box
@shared.text(
    "--picture",
    "FILE.png",
    "Draw image, truth, segmentation and mistakes in three planes; with --worst each mistake, too. Of classes: the"
    " section with the most wrong voxels.",
)
@shared.text(
    "--image",
    "VOLUME",
    "Image for the grey level and the picture (default: that from which SEGMENTATION was made).",
    default="",
)
@shared.number("--worst", limits.COUNT, "List the N worst splits, and mergers.")
@click.option(
    "--skeletons",
    type=shared.number_type(limits.NODES),
    is_flag=False,
    flag_value="1",
    metavar="[NODES]",
    help="Tell the normalised expected run length (kimimaro). A segment merges objects if it has NODES nodes (default:"
    " 1) of each of two skeletons.",
)
@shared.number(
    "--border-nm",
    limits.NANOMETRES,
    "Voxels of objects at most so far from a border in their section do not count for Rand error and VOI (CREMI: 25).",
    metavar="NM",
)
@shared.switch(
    "--classes", "The values are classes, not objects (default: if SEGMENTATION notes classes)."
)
@shared.number(
    "--unlabelled", limits.LABEL, "Value of classes in TRUTH that does not count.", metavar="VALUE"
)
@shared.switch(
    "--objects",
    "Score the connected components of each class, too, as objects: of each section, if the network saw single"
    " sections.",
)
@shared.voxel_nm
@shared.as_json
def command(segmentation: str, truth: str, **asked: Any) -> None:
    """Compare SEGMENTATION with the ground truth TRUTH: volumes of any format, such as file:dataset.

    Voxels with truth 0 (or -1, as other programs write) are ignored. Each score is computed twice: for all voxels, with
    all unsegmented voxels as one segment (prefix "all"), and for the segmented voxels (id > 0). The first table also
    shows two trivial answers. A segmentation that is no better has no value. docs/segmentation.md explains the scores.

    If SEGMENTATION holds classes, the tables show the scores of each class and the confusion of classes. Then 0 is the
    background, a class as others.

    \b
    Examples:
      floodtide evaluate out.h5:segmentation groundtruth.h5:stack --picture out.png
      floodtide evaluate out.h5:classes "masks/*.png" --objects
    """
    shared.require_same_arguments()
    evaluate_modes.run(segmentation, truth, **asked)
