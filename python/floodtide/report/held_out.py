# SPDX-License-Identifier: Apache-2.0
"""Pictures of U-Net predictions and the ground truth, computed for the report from the newest checkpoint of a run.

The report predicts a few slices or one section itself; the training does not store predictions. This takes seconds,
needs no further files in the run directory, and works for old runs. If the checkpoint or the data are missing, the
report says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from floodtide.data.boxes import box_text
from floodtide.errors import InvalidArgumentError
from floodtide.report import held_out_figures, segmented
from floodtide.report.held_out_figures import Section, Slice
from floodtide.report.pages import Figure
from floodtide.train.recorded_run import SLICES, Record, Run

if TYPE_CHECKING:
    from floodtide.data import Slices

_SIDE = 512  # maximum size in voxels of each side of the drawn section


def pictures(run: Run) -> tuple[Figure | None, list[str]]:
    """Draw predictions of the newest checkpoint for held-out data of the run.

    Returns:
        The figure, or None if it cannot be made; and texts that name what is missing.

    Raises:
        NumericalError: If an output of the network is not finite.
    """
    try:
        return (_slices(run) if run.unit == SLICES else _section(run)), []
    except segmented.CANNOT as error:
        return None, [f"pictures of what was held out: {error}"]


def _slices(run: Run) -> Figure:
    from floodtide import _core
    from floodtide.data.slices import UNLABELLED, Slices
    from floodtide.segment import trained
    from floodtide.train.kinds import kind_of

    settings, checkpoint = segmented.newest(run)
    samples = kind_of(settings).held_out_of(settings)
    if not isinstance(samples, Slices) or not run.validation:
        raise InvalidArgumentError("the run validated nothing")
    last = run.validation[-1]
    if samples.patients != last["patients"]:
        raise InvalidArgumentError("the patients are not those of the log any more")
    picked = pick_patients(last)
    if not picked:
        raise InvalidArgumentError("no patient has a Dice")
    model = trained.load(checkpoint)
    largest = _largest_slices(samples, [number for _, number, _ in picked])
    shown = []
    for name, number, dice in picked:
        _, image, truth = samples.fixed(largest[number])
        predicted = _core.evaluate.most_likely_classes(model.forward(image[None]))
        counts = _core.evaluate.DiceCounts(1, samples.classes)
        counts.add(0, predicted, truth[None])
        here = [counts.group(0, k) for k in range(1, samples.classes)]
        known = [value for value in here if value is not None]
        shown.append(
            Slice(
                title=f"{name}: patient {last['patients'][number]}, Dice {dice:.3f}",
                below=f"this slice {np.mean(known):.3f}" if known else "no object in this slice",
                image=image.astype(np.float64),
                truth=np.where(truth == UNLABELLED, 0, truth),
                predicted=predicted[0],
            )
        )
    return Figure(
        image=held_out_figures.slices_figure(shown),
        alt="Held-out slices with outlines",
        note=f"Network of {checkpoint.name}; Dice of the patients as validated at step {last['step']:,}. Of each"
        " patient the slice with the most object pixels.",
    )


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


def _largest_slices(samples: Slices, groups: Sequence[int]) -> dict[int, int]:
    """Return, for each patient, the number of the slice with the most object pixels."""
    from floodtide.data.slices import UNLABELLED

    best: dict[int, tuple[int, int]] = {}
    for number in range(samples.fixed_size):
        group, _, classes = samples.core.fixed(number)
        if group in groups:
            size = int(np.count_nonzero((classes > 0) & (classes < UNLABELLED)))
            best[group] = max(best.get(group, (-1, number)), (size, number))
    return {group: number for group, (_, number) in best.items()}


def _section(run: Run) -> Figure:
    """Draw the middle section of the held-out box, predicted with its full context."""
    from floodtide.config.networks import UNet3DConfig
    from floodtide.data import Affinities, Volume
    from floodtide.data.affinities import NEAREST
    from floodtide.segment import predict, trained
    from floodtide.train.kinds import kind_of

    held = segmented.held_out(run)
    settings, volume = held.settings, held.source
    assert isinstance(settings.model, UNet3DConfig)
    channels = [settings.model.offsets.index(o) for o in NEAREST if o in settings.model.offsets]
    if len(channels) < len(NEAREST):
        raise InvalidArgumentError("the network has no affinities along z, y and x")
    # Two sections, because affinities along z compare the second section with the first.
    start, size = _middle(*held.box)
    pair = dataclasses.replace(
        settings,
        data=dataclasses.replace(
            settings.data, patch=size, permutable_axes=(), reflectable_axes=()
        ),
        model=dataclasses.replace(settings.model, offsets=NEAREST),
        validation=dataclasses.replace(settings.validation, box=box_text((start, size))),
    )
    samples = kind_of(pair).held_out_of(pair)
    assert isinstance(samples, Affinities)
    image, truth, weights = samples.fixed(0)
    predictor = predict.Predictor(trained.load(held.checkpoint), mean=volume.mean, std=volume.std)
    section = ((start[0] + 1, start[1], start[2]), (1, size[1], size[2]))
    predicted = predictor.probabilities(Volume(volume.image), section)
    shown = Section(
        title=f"z = {section[0][0]}",
        image=image[1].astype(np.float64),
        truth=truth[1],
        counted=weights[1] > 0,
        predicted=np.moveaxis(predicted[channels, 0], 0, -1),
        voxel_nm=volume.voxel_size_nm and volume.voxel_size_nm[1:],
    )
    return Figure(
        image=held_out_figures.section_figure(shown),
        alt="Held-out section with affinities",
        note=f"Network of {held.checkpoint.name}, the middle section of the held-out box. Red, green, blue: affinity"
        " along z, y, x; white: the same object all around; black: not counted, or an affinity of 0 along all axes."
        " Boundary map: 1 - mean of the affinities along y and x.",
    )


def _middle(
    start: Sequence[int], size: Sequence[int]
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return (start, size) of two sections in the middle of a box, with at most _SIDE x _SIDE voxels each."""
    if size[0] < 2:
        raise InvalidArgumentError(f"validation.box has {size[0]} section, a picture needs 2")
    extents = (2, min(size[1], _SIDE), min(size[2], _SIDE))
    z, y, x = (a + (n - e) // 2 for a, n, e in zip(start, size, extents, strict=True))
    return (z, y, x), extents
