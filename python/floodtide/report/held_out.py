# SPDX-License-Identifier: Apache-2.0
"""Pictures of what a U-Net predicts and the truth, computed for the report from the newest checkpoint of a run.

The report predicts some held-out patches itself; the training does not store predictions. This takes seconds, needs no
further files in the run directory, and works for a run that still trains. If the checkpoint or the data are missing,
the report says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from floodtide import _core, config
from floodtide.base import style
from floodtide.base.progress import bar
from floodtide.base.tasks import PatchTask
from floodtide.data import Patches
from floodtide.data.patches import UNLABELLED
from floodtide.errors import Error, InvalidArgumentError, NumericalError
from floodtide.report import drawing
from floodtide.segment import trained
from floodtide.train.learners import learner_of
from floodtide.train.recorded_run import Run

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


def pictures(run: Run) -> tuple[dict[str, Any] | None, list[str]]:
    """Draw predictions of the newest checkpoint for held-out patches of the run.

    Returns:
        What run.html shows, by name, or None if it cannot be made; and texts that name what is missing.
    """
    if not run.task.predicts:
        return None, []
    try:
        return _pictures(run), []
    except Error as error:
        return None, [f"pictures of what was held out: {error}"]


def _pictures(run: Run) -> dict[str, Any]:
    settings = config.load(run.folder / "config.toml")
    checkpoint = trained.newest_checkpoint(run.folder)
    samples = learner_of(settings.model).held_out_of(settings)
    if samples is None:
        raise InvalidArgumentError("the run holds nothing out")
    chosen = _chosen(run.name, samples, trained.load(checkpoint))
    task, size = samples.task, samples.options.volumes[0].voxel_size_nm
    shown = [(title, panels(_section(patch, task), task)) for title, patch in chosen]
    _, y, x = size or (1.0, 1.0, 1.0)
    with drawing.columns(shown, _WIDTH, (y, x), in_nm=size is not None) as drawn:
        image = style.data_uri(drawn, "png", dpi=130)
    return {"image": image, "legend": task.legend, "checkpoint": checkpoint.name}


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


def _chosen(name: str, samples: Patches, model: Any) -> list[tuple[str, Patch]]:
    """Return a title and the best, median and worst patch, of some that are spread over all."""
    count = max(3, _VOXELS // int(np.prod(samples.patch_size)))
    last = samples.fixed_size - 1
    numbers = sorted({round(n) for n in np.linspace(0, last, min(count, last + 1)).tolist()})
    scores, counted = {}, {}
    with bar("patches", f"{name}: predict held-out patches for the report") as progress:
        for done, number in enumerate(numbers, start=1):
            patch = predicted(samples, model, number)
            found = samples.task.score_of_patch(patch.output, patch.truth, patch.weights)
            if found is not None:
                scores[number], counted[number] = found, _counted(patch, samples.task)
            progress(done, len(numbers))
    if not scores:
        raise InvalidArgumentError(f"none of {len(numbers)} patches has a score")
    what, most = samples.task.patch_score, max(counted.values())
    telling = {n: scores[n] for n in scores if 0 < most <= 2 * counted[n]}
    few = {n: "" if voxels else " (few boundaries)" for n, voxels in counted.items()}
    return [
        (f"{which} patch\n{what} {abs(scores[n]):.3f}{few[n]}", predicted(samples, model, n))
        for which, n in pick(telling if len(telling) >= 3 else scores)
    ]


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


def _section(patch: Patch, task: PatchTask) -> Patch:
    """Return the section with the most varied targets, of those where at least half as much counts as in another one.

    Of affinities it is that with most boundaries.
    """
    truth, counts = patch.truth, patch.weights > 0
    if patch.truth.ndim == 3:  # classes
        truth, counts = (truth > 0)[..., None], counts[..., None]
    else:
        truth, counts = truth[..., _nearest(task)], counts[..., _nearest(task)]
    voxels = np.count_nonzero(counts, axis=(1, 2, 3))
    varied = [
        np.std(section[counted]) if n > 0 and voxels.max() <= 2 * n else -1.0
        for section, counted, n in zip(truth, counts, voxels, strict=True)
    ]
    z = int(np.argmax(varied))
    return Patch(*(np.ascontiguousarray(part[z : z + 1]) for part in patch))


def panels(patch: Patch, task: PatchTask) -> dict[str, drawing.Picture]:
    """Return the pictures of a section by name: image, truth and prediction; of affinities also a boundary map."""
    image = drawing.grey(patch.image[0])
    if patch.truth.ndim == 3:  # classes
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
