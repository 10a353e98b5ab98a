# SPDX-License-Identifier: Apache-2.0
"""What `floodtide evaluate` adds to the scores: pictures and run lengths on skeletons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from floodtide import evaluate
from floodtide.data import Box, Volume
from floodtide.data.boxes import as_vec3
from floodtide.data.volumes import volume_exists
from floodtide.errors import ShapeError
from floodtide.evaluate.classes import ClassReport, read_worst
from floodtide.evaluate.reporting import Report
from floodtide.evaluate.voxels import first_voxels
from floodtide.report import planes
from floodtide.shapes.skeletons import skeletons_of

VoxelSize = tuple[float, float, float] | None


def stated_size(volumes: Sequence[Volume], image: str) -> VoxelSize:
    """Return the voxel size (z, y, x) in nm of the first volume whose file states one; the image comes last."""
    sizes = (volume.geometry.voxel_size_nm for volume in volumes)
    stated = next((size for size in sizes if size is not None), None)
    name = image or volumes[-1].text("image")
    if stated is None and name and (image or volume_exists(name)):
        return Volume(name).geometry.voxel_size_nm
    return stated


def add_run_lengths(
    report: Report,
    volumes: tuple[Volume, Volume],
    box: Box | None,
    voxel_nm: VoxelSize,
    merge_nodes: int,
) -> None:
    """Skeletonize the true objects, and add the run lengths of (segmentation, truth) to a report."""
    size = voxel_nm or (1.0, 1.0, 1.0)
    labels, truth = evaluate.read_both(*volumes, box)
    found = skeletons_of(truth, voxel_size=size)
    report.runs = evaluate.run_lengths(found, labels, voxel_size=size, merge_nodes=merge_nodes)
    report.unit = "voxels" if voxel_nm is None else "nm"


def draw(
    report: Report,
    names: tuple[str, str],
    path: Path,
    *,
    image: str,
    before: Volume | None,
    voxel_nm: VoxelSize,
) -> None:
    """Draw (segmentation, truth), and beside it the surroundings of each mistake that the report lists.

    They are those of the second largest part: what should be joined, or cut off.
    """
    segments, truth = Volume(names[0]), names[1]
    pairs = report.table.rows().astype(np.int64)  # segment, object, voxels
    read = planes.read_segmentation(segments, image, truth, voxel_nm, before=before, pairs=pairs)
    planes.save_planes(read, voxel_nm, path)
    for number, mistake in enumerate(report.mistakes or [], start=1):
        place = mistake.parts[1].zyx
        read = planes.read_segmentation(segments, image, truth, voxel_nm, place, pairs=pairs)
        name = f"{path.stem}-{number:02}-{mistake.kind}-{mistake.id}.png"
        planes.save_planes(read, voxel_nm, path.with_name(name))


def draw_classes(
    report: ClassReport,
    segments: Volume,
    objects: Volume,
    path: Path,
    image: str,
    voxel_nm: VoxelSize,
) -> None:
    """Draw the section with the most wrong voxels: the image, and the image with outlines of both volumes."""
    predicted, true = read_worst(report, segments, objects)
    name = image or segments.text("image")
    found = planes.covering(planes.opened(name), segments, None)
    if found is None:
        if image:
            raise ShapeError(f"--image {image} does not cover {segments.name}, expected its image")
        report.notes.append("picture: the image is unknown (--image VOLUME)")
    grey = None
    if found is not None:
        start, first = report.worst[0], first_voxels(segments, objects)[0]
        corner = as_vec3([a - b + c for a, b, c in zip(start, first, found[1], strict=True)])
        grey = found[0].read((corner, report.worst[1]))[0]
    title = f"z = {report.worst[0][0]}: {report.worst_voxels} wrong voxels"
    planes.save_classes(title, grey, true, predicted, voxel_nm, path)
