# SPDX-License-Identifier: Apache-2.0
"""Pictures of U-Net predictions and the ground truth, computed for the report from the newest checkpoint of a run.

The report predicts a few slices or one section itself; the training does not store predictions. This takes seconds,
needs no further files in the run directory, and works for old runs. If the checkpoint or the data are missing, the
report says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from floodtide import _core
from floodtide.base import style
from floodtide.config.networks import UNet3DConfig
from floodtide.data import Affinities, Box, Slices, Volume
from floodtide.data.affinities import NEAREST
from floodtide.data.boxes import box_text
from floodtide.data.slices import UNLABELLED
from floodtide.data.volumes import name_of
from floodtide.errors import InvalidArgumentError
from floodtide.report import drawing, segmented
from floodtide.segment import predict, trained
from floodtide.train.learners import learner_of
from floodtide.train.recorded_run import SLICES, Record, Run

_SIDE = 512  # maximum size in voxels of each side of the drawn section


def pictures(run: Run) -> tuple[dict[str, Any] | None, list[str]]:
    """Draw predictions of the newest checkpoint for held-out data of the run.

    Returns:
        What run.html shows, by name, or None if it cannot be made; and texts that name what is missing.

    Raises:
        NumericalError: If an output of the network is not finite.
    """
    try:
        return (_slices(run) if run.unit == SLICES else _section(run)), []
    except segmented.CANNOT as error:
        return None, [f"pictures of what was held out: {error}"]


def _slices(run: Run) -> dict[str, Any]:
    settings, checkpoint = segmented.newest(run)
    samples = learner_of(settings).held_out_of(settings)
    if not isinstance(samples, Slices) or not run.validation:
        raise InvalidArgumentError("the run validated nothing")
    last = run.validation[-1]
    if samples.patients != last["patients"]:
        raise InvalidArgumentError("the patients are not those of the log any more")
    picked = pick_patients(last)
    if not picked:
        raise InvalidArgumentError("no patient has a Dice")
    shown = []
    for name, number, dice in picked:
        title = f"{name}: patient {last['patients'][number]}, Dice {dice:.3f}"
        shown.append((title, *largest_slice(samples, number)))
    image = _draw_slices(shown, trained.load(checkpoint), samples.classes)
    return {"slices": image, "checkpoint": checkpoint.name, "step": last["step"]}


def _draw_slices(
    slices: Sequence[tuple[str, npt.NDArray[Any], npt.NDArray[np.uint8]]], model: Any, classes: int
) -> str:
    """Draw a column for each slice (title, image, truth): the image, and the image with outlines of classes."""
    width = 3.2
    heights = [style.bounded_ratio(image.shape[0] / image.shape[1]) for _, image, _ in slices]
    with style.figure(width * len(slices) + 0.1, 2 * width * max(heights) + 0.9) as drawn:
        drawn.set_layout_engine("compressed")  # for axes of a fixed aspect
        axes = drawn.subplots(2, len(slices), squeeze=False)
        for (above, below), (title, image, truth) in zip(axes.T, slices, strict=True):
            predicted = _core.evaluate.most_likely_classes(model.forward(image[None]))
            counts = _core.evaluate.DiceCounts(1, classes)
            counts.add(0, predicted, truth[None])
            here = [counts.group(0, k) for k in range(1, classes)]
            dice = [value for value in here if value is not None]
            known = np.where(truth == UNLABELLED, 0, truth)
            drawing.outlined((above, below), drawing.grey(image), known, predicted[0])
            above.set_title(style.plain(title), fontsize=9)
            below.set_xlabel(
                f"this slice {np.mean(dice):.3f}" if dice else "no object in this slice"
            )
        drawing.outline_legend(drawn)
        return style.data_uri(drawn, "png", dpi=130)


def pick_patients(record: Record) -> list[tuple[str, int, float]]:
    """Return the best, median and worst patient of a validation, as (name, index, Dice, averaged over its classes).

    With fewer than three patients, all are returned.
    """
    rows = [row["dice_patients"] for row in record.get("classes", [])]
    means = []
    for number in range(len(rows[0]) if rows else 0):
        values = [row[number] for row in rows if row[number] is not None]
        if values:
            means.append((float(np.mean(values)), number))
    means.sort(reverse=True)
    places = {"best": 0, "median": len(means) // 2, "worst": len(means) - 1}
    if len(means) < 3:
        places = {name: places[name] for name in ("best", "worst")[: len(means)]}
    return [(name, means[place][1], means[place][0]) for name, place in places.items()]


def largest_slice(
    samples: Slices, patient: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """Return the slice of a patient with the most object pixels: normalised image and truth, each (y, x)."""

    def size(number: int) -> int:
        group, _, classes = samples.core.fixed(number)
        return (
            int(np.count_nonzero((classes > 0) & (classes < UNLABELLED)))
            if group == patient
            else -1
        )

    _, image, truth = samples.fixed(max(range(samples.fixed_size), key=size))
    return image, truth


def _section(run: Run) -> dict[str, Any]:
    """Draw the middle section of the held-out box, predicted with its full context."""
    settings, checkpoint = segmented.newest(run)
    volume, box = segmented.held_out_box(settings)
    assert isinstance(settings.model, UNet3DConfig)
    channels = [settings.model.offsets.index(o) for o in NEAREST if o in settings.model.offsets]
    if len(channels) < len(NEAREST):
        raise InvalidArgumentError("the network has no affinities along z, y and x")
    # Two sections, because affinities along z compare the second section with the first.
    start, size = _middle(box)
    pair = dataclasses.replace(
        settings,
        data=dataclasses.replace(
            settings.data, patch=size, permutable_axes=(), reflectable_axes=()
        ),
        model=dataclasses.replace(settings.model, offsets=NEAREST),
        validation=dataclasses.replace(settings.validation, box=box_text((start, size))),
    )
    samples = learner_of(pair).held_out_of(pair)
    assert isinstance(samples, Affinities)
    image, truth, weights = samples.fixed(0)
    predictor = predict.Predictor(trained.load(checkpoint), mean=volume.mean, std=volume.std)
    section = ((start[0] + 1, start[1], start[2]), (1, size[1], size[2]))
    predicted = predictor.probabilities(Volume(name_of(volume.image)), section)[channels, 0]
    pictures = {
        f"Image, z = {section[0][0]}": drawing.grey(image[1]),
        "Boundary map": np.repeat(1.0 - predicted[1:].mean(axis=0)[..., None], 3, axis=-1),
        "True affinities": np.where(weights[1] > 0, truth[1], 0.0),
        "Predicted affinities": np.moveaxis(predicted, 0, -1),
    }
    drawn = section_figure(pictures, volume.voxel_size_nm)
    return {"section": drawn, "checkpoint": checkpoint.name}


def section_figure(
    pictures: dict[str, npt.NDArray[Any]], voxel_nm: tuple[float, float, float] | None
) -> str:
    """Return a figure of four pictures of a section by title, each (y, x, 3) in [0, 1]. PNG as data URI."""
    rows, columns, _ = next(iter(pictures.values())).shape
    aspect = 1.0 if voxel_nm is None else voxel_nm[1] / voxel_nm[2]
    width = 4.2
    height = width * style.bounded_ratio(aspect * rows / columns)
    with style.figure(2 * width + 0.3, 2 * height + 0.6) as drawn:
        drawn.set_layout_engine("compressed")
        axes = drawn.subplots(2, 2).ravel()
        for axis, (title, picture) in zip(axes, pictures.items(), strict=True):
            drawing.show(axis, np.clip(picture, 0.0, 1.0), aspect)
            axis.set_title(title)
        style.scale_bar(axes[0], columns, rows, None if voxel_nm is None else voxel_nm[2])
        return style.data_uri(drawn, "png", dpi=130)


def _middle(box: Box) -> Box:
    """Return two sections in the middle of a box, with at most _SIDE x _SIDE voxels each."""
    start, size = box
    if size[0] < 2:
        raise InvalidArgumentError(f"validation.box has {size[0]} section, a picture needs 2")
    extents = (2, min(size[1], _SIDE), min(size[2], _SIDE))
    z, y, x = (a + (n - e) // 2 for a, n, e in zip(start, size, extents, strict=True))
    return (z, y, x), extents
