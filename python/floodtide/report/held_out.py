# SPDX-License-Identifier: Apache-2.0
"""Pictures of what a U-Net predicts and the truth, computed for the report from the newest checkpoint of a run.

The report predicts some held-out patches itself; the training does not store predictions. This takes seconds, needs no
further files in the run directory, and works for a run that still trains. If the checkpoint or the data are missing,
the report says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from floodtide import _core
from floodtide.base import style
from floodtide.base.progress import bar
from floodtide.base.tasks import PatchTask
from floodtide.data import Patches
from floodtide.data.patches import UNLABELLED
from floodtide.errors import InvalidArgumentError, NumericalError
from floodtide.report import drawing, segmented
from floodtide.segment import trained
from floodtide.train.learners import learner_of
from floodtide.train.recorded_run import Record, Run

_VOXELS = 1 << 22  # of the patches that are predicted to find the best and the worst one
_FEW = 0.01  # share of boundaries below which the average precision of a patch is chance
_WIDTH = 3.2  # of a picture in inches
_NO_LABEL = (0.85, 0.8, 0.7)  # of no target: targets are grey, or of strong colours

Array = npt.NDArray[Any]


class Patch(NamedTuple):
    """A held-out patch, or one section of it.

    Attributes:
        image: Intensities of the first channel (z, y, x).
        output: Outputs of the network (z, y, x, outputs).
        truth: Class numbers (z, y, x), or targets (z, y, x, outputs).
        weights: 0 in voxels that do not count, (z, y, x) or (z, y, x, outputs).
    """

    image: Array
    output: Array
    truth: Array
    weights: Array

    @property
    def holds_classes(self) -> bool:
        """True if the truth are class numbers."""
        return self.truth.ndim == 3


Picture = tuple[Array, Array | None, Array | None]
"""A picture (y, x, 3) in [0, 1], and true and predicted classes to outline; None: none."""


def pictures(run: Run) -> tuple[dict[str, Any] | None, list[str]]:
    """Draw predictions of the newest checkpoint for held-out patches of the run.

    Returns:
        What run.html shows, by name, or None if it cannot be made; and texts that name what is missing.
    """
    if not run.task.predicts:
        return None, []
    try:
        return _pictures(run), []
    except segmented.CANNOT as error:
        return None, [f"pictures of what was held out: {error}"]


def _pictures(run: Run) -> dict[str, Any]:
    settings, checkpoint = segmented.newest(run)
    samples = learner_of(settings.model).held_out_of(settings)
    if samples is None:
        raise InvalidArgumentError("the run holds nothing out")
    model, task = trained.load(checkpoint), samples.task
    groups = task.scores_groups and len(samples.groups) > 1
    chosen = _of_groups(run, samples) if groups else _of_patches(run.name, samples, model)
    sections = [_section(predicted(samples, model, number), task) for _, number in chosen]
    shown = []
    for (title, _), section in zip(chosen, sections, strict=True):
        if groups:
            here = score_of(section, task)
            title += ", this section " + ("without a class" if here is None else f"{here:.3f}")
        shown.append((title, panels(section, task)))
    return {
        "image": patches_figure(shown, samples.options.volumes[0].voxel_size_nm),
        "legend": task.legend,
        "section": "the section with the most voxels of objects"
        if sections[0].holds_classes
        else "the section with the most varied targets",
        "groups": groups,
        "checkpoint": checkpoint.name,
        "step": run.validation[-1]["step"] if run.validation else None,
    }


def predicted(samples: Patches, model: Any, number: int) -> Patch:
    """Return a held-out patch with the outputs of a network."""
    image, truth, *more = samples.fixed(number)
    output = model.forward(image[None])[0]
    if not np.isfinite(output).all():
        raise NumericalError("report: the network's output is not a number")
    weights: Any = more[0] if more else truth != UNLABELLED
    return Patch(image[..., 0], output, truth, weights)


def pick(scores: Mapping[int, float]) -> list[tuple[str, int]]:
    """Return the best, median and worst of some things {number: score}, as (name, number); of fewer than three all."""
    order = sorted(scores, key=lambda number: (-scores[number], number))
    places = {"best": 0, "median": len(order) // 2, "worst": len(order) - 1}
    if len(order) < 3:
        places = {name: places[name] for name in ("best", "worst")[: len(order)]}
    return [(name, order[place]) for name, place in places.items()]


def dice_of_groups(record: Record) -> dict[int, float]:
    """Return the Dice of the groups of a validation that have one, each the mean of its classes."""
    rows = [row["dice_groups"] for row in record["classes"]]
    known = {
        group: [row[group] for row in rows if row[group] is not None]
        for group in range(len(record["groups"]))
    }
    return {group: float(np.mean(values)) for group, values in known.items() if values}


def _of_groups(run: Run, samples: Patches) -> list[tuple[str, int]]:
    """Return a title and a patch for the best, median and worst group: the one with most voxels of objects."""
    if not run.validation:
        raise InvalidArgumentError("the run validated nothing")
    last = run.validation[-1]
    if samples.groups != last["groups"]:
        raise InvalidArgumentError("the groups are not those of the log any more")
    dice = dice_of_groups(last)
    largest = dict.fromkeys((group for _, group in pick(dice)), (-1, -1))
    if not largest:
        raise InvalidArgumentError("no group has a Dice")
    for number in range(samples.fixed_size):
        group, truth = samples.core.fixed(number)[::2]
        if group in largest:
            largest[group] = max(largest[group], (int(_sizes(truth).max()), number))
    return [
        (f"{name}: group {last['groups'][group]}\nDice {dice[group]:.3f}", largest[group][1])
        for name, group in pick(dice)
    ]


def _of_patches(name: str, samples: Patches, model: Any) -> list[tuple[str, int]]:
    """Return a title and the number of the best, median and worst patch, of some that are spread over all."""
    count = max(3, _VOXELS // int(np.prod(samples.patch_size)))
    last = samples.fixed_size - 1
    scores, counted = {}, {}
    with bar("patches", f"{name}: predict held-out patches for the report") as progress:
        numbers = sorted({round(n) for n in np.linspace(0, last, min(count, last + 1)).tolist()})
        for done, number in enumerate(numbers, start=1):
            patch = predicted(samples, model, number)
            found = score_of(patch, samples.task)
            if found is not None:
                scores[number], counted[number] = found, _counted(patch, samples.task)
            progress(done, len(numbers))
    if not scores:
        raise InvalidArgumentError(f"none of {len(numbers)} patches has a score")
    what, most = samples.task.patch_score, max(counted.values())
    telling = {n: scores[n] for n in scores if 0 < most <= 2 * counted[n]}
    chosen = pick(telling if len(telling) >= 3 else scores)
    few = {n: "" if voxels else " (few boundaries)" for n, voxels in counted.items()}
    return [(f"{name} patch\n{what} {abs(scores[n]):.3f}{few[n]}", n) for name, n in chosen]


def _counted(patch: Patch, task: PatchTask) -> int:
    """Return how many voxels of a patch count; 0 if fewer than 1 % of its affinities along z, y, x are boundaries."""
    counts = patch.weights > 0
    if task.affinity_offsets:
        counts = counts[..., _nearest(task)]
        boundaries = np.count_nonzero(patch.truth[..., _nearest(task)][counts] < 0.5)
        if boundaries < _FEW * np.count_nonzero(counts):
            return 0
    return int(np.count_nonzero(counts))


def _nearest(task: PatchTask) -> list[int]:
    """Return the outputs that are affinities along z, y and x; without them the first output."""
    names = task.channels[: task.predicted]
    return [names.index(axis) for axis in "zyx" if axis in names] or [0]


def _sizes(classes: Array) -> Array:
    """Return the number of voxels of objects in each section."""
    objects = (classes > 0) & (classes != UNLABELLED)
    return np.asarray(objects.sum(axis=(1, 2)))


def _section(patch: Patch, task: PatchTask) -> Patch:
    """Return a section that counts: of classes that with most voxels of objects, else that with most varied targets."""
    if patch.holds_classes:
        known = np.flatnonzero(np.any(patch.weights.reshape(len(patch.image), -1), axis=1))
        z = int(known[_sizes(patch.truth)[known].argmax()])
    else:  # of affinities that with most boundary, where at least half as much counts as in another one
        shown = _nearest(task)
        counts = patch.weights[..., shown] > 0
        voxels = np.count_nonzero(counts, axis=(1, 2, 3))
        varied = [
            np.std(truth[..., shown][counted]) if n > 0 and voxels.max() <= 2 * n else -1.0
            for truth, counted, n in zip(patch.truth, counts, voxels, strict=True)
        ]
        z = int(np.argmax(varied))
    return Patch(*(np.ascontiguousarray(part[z : z + 1]) for part in patch))


def score_of(patch: Patch, task: PatchTask) -> float | None:
    """Return the score of a patch, negative if less is better; None if nothing is scored."""
    return task.score_of_patch(patch.output, patch.truth, patch.weights)


def panels(patch: Patch, task: PatchTask) -> dict[str, Picture]:
    """Return the pictures of a section by name: image, truth and prediction; of affinities also a boundary map."""
    image = drawing.grey(patch.image[0])
    if patch.holds_classes:
        truth = np.where(patch.weights[0], patch.truth[0].astype(np.int64), -1)
        likely = np.where(truth < 0, 0, _core.evaluate.most_likely_classes(patch.output)[0])
        return {"Image": (image, None, None), "Truth and prediction": (image, truth, likely)}
    channels = _nearest(task)
    target, output, counts = (
        part[0][..., channels] for part in (patch.truth, patch.output, patch.weights > 0)
    )
    known = np.any(counts, axis=-1, keepdims=True)
    shown = {"Image": image}
    if len(channels) > 1:
        shown["Boundary map"] = drawing.colours(1.0 - output[..., -2:].mean(-1, keepdims=True))
    truth = drawing.colours(np.where(counts, target, 1.0))
    shown[f"True {task.pictured}"] = np.where(known, truth, _NO_LABEL)
    shown[f"Predicted {task.pictured}"] = drawing.colours(output)
    return {title: (picture, None, None) for title, picture in shown.items()}


def patches_figure(
    shown: Sequence[tuple[str, Mapping[str, Picture]]], voxel_nm: tuple[float, float, float] | None
) -> str:
    """Return a figure with a column for each patch (title, pictures by name), one picture below the other.

    PNG as data URI.
    """
    aspect = 1.0 if voxel_nm is None else voxel_nm[1] / voxel_nm[2]
    names = list(shown[0][1])
    rows, columns, _ = shown[0][1][names[0]][0].shape
    height = _WIDTH * style.bounded_ratio(aspect * rows / columns)
    with style.figure(_WIDTH * len(shown) + 0.3, len(names) * height + 1.0) as drawn:
        drawn.set_layout_engine("compressed")  # for axes of a fixed aspect
        axes = drawn.subplots(len(names), len(shown), squeeze=False)
        for column, (title, panels) in zip(axes.T, shown, strict=True):
            for axis, name in zip(column, names, strict=True):
                picture, truth, likely = panels[name]
                if truth is None or likely is None:
                    drawing.show(axis, np.clip(picture, 0.0, 1.0), aspect)
                else:
                    drawing.outlined([axis], picture, truth, likely, aspect)
            column[0].set_title("\n".join(map(style.plain, title.split("\n"))), fontsize=9)
            style.scale_bar(column[0], columns, rows, None if voxel_nm is None else voxel_nm[2])
        for axis, name in zip(axes[:, 0], names, strict=True):
            axis.set_ylabel(name)
        if shown[0][1][names[-1]][1] is not None:
            drawing.outline_legend(drawn)
        return style.data_uri(drawn, "png", dpi=130)
