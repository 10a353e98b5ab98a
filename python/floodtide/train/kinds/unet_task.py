# SPDX-License-Identifier: Apache-2.0
"""Training task for U-Nets: 2-D slices with class masks, or 3-D patches with affinities, and their validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from floodtide import _core, nn
from floodtide.comm import world
from floodtide.config import TrainingConfig
from floodtide.data import Affinities, Slices
from floodtide.data.affinities import affinity_names
from floodtide.errors import InvalidArgumentError
from floodtide.train.task import Record, Task


class UNetTask(Task):
    """Walkers and validation of a U-Net on this rank. Not collective.

    Args:
        model, data, validation, training: As for `Task`.
        loss: What training minimises.

    Raises:
        InvalidFileError: If a mask of this rank's share has a class that the network does not have.
        InvalidArgumentError: If network and samples do not fit each other, or a patient is trained on and held out.
    """

    def __init__(
        self,
        model: nn.UNet,
        data: Slices | Affinities,
        validation: Slices | Affinities | None,
        loss: nn.SegmentationLoss,
        training: TrainingConfig,
    ) -> None:
        super().__init__(model, data, validation, training)
        self.unit = "slices" if isinstance(data, Slices) else "patches"
        self._loss = loss
        _require_fitting(model, data)
        size = data.shape if isinstance(data, Slices) else data.patch_size
        model.forward(np.zeros((1, *size), np.float32))  # chooses the kernels for this size
        if isinstance(data, Slices):
            _check_masks(data)
            if isinstance(validation, Slices):
                _check_masks(validation)
                _core.data.require_different_patients(data.core, validation.core)

    def new_walkers(self, comm: world.Communicator) -> _core.Walkers:
        """Return the walkers of this rank of a communicator, at the start of the first epoch."""
        return _core.sample_walkers(
            self._model.core, self._data.core, self._walkers_options(comm), self._loss.core()
        )

    def validate(self, model: Any) -> Record:
        """Return the validation scores of a network. Collective."""
        assert self._validation is not None  # the trainer asks only if the task validates
        return segmentation_scores(model, self._validation)

    def beats_trivial(self, scores: Record) -> bool:
        """Return True if some class has a higher Dice than if every pixel had the class.

        For affinities: if the average precision for some offset is above the share of ones.
        """
        if "classes" in scores:
            rows = scores["classes"]
            return any((row["dice_pooled"] or 0.0) > row["dice_everything"] for row in rows)
        rows = scores["affinities"].values()
        return any(row["average_precision"] > row["share_of_ones"] for row in rows)


def segmentation_scores(
    model: nn.UNet,
    samples: Slices | Affinities,
    progress: Callable[[int, int], None] | None = None,
) -> Record:
    """Return the scores of a U-Net on fixed samples, as a record of the log. Collective.

    For slices: the Dice of each class, pooled over all pixels and of each patient. For patches: the average precision
    of each affinity. Both stand next to the scores of trivial predictors, and are the same on every rank and for every
    number of ranks.
    """
    scores = _core.score_segmentation(model.core, samples.core, world.current(), progress)
    result: dict[str, Any] = {key: scores[key] for key in ("cross_entropy", "samples")}
    if isinstance(samples, Slices):
        groups, classes = samples.core.groups, range(1, samples.core.outputs)
        result["classes"] = [_of_class(scores, len(groups), number) for number in classes]
        result["patients"] = groups
    else:
        rows = zip(affinity_names(samples.offsets), scores["affinities"], strict=True)
        result["affinities"] = {name: dict(row) for name, row in rows}
    return result


def _of_class(scores: Mapping[str, Any], patients: int, number: int) -> dict[str, Any]:
    dice = scores["dice"]
    return {
        "class": number,
        "dice_pooled": dice.pooled(number),
        "dice_mean": dice.mean_over_groups(number),
        "dice_patients": [dice.group(patient, number) for patient in range(patients)],
        "dice_everything": scores["dice_everything"][number],
    }


def _require_fitting(model: nn.UNet, data: Slices | Affinities) -> None:
    """Check that a network has the outputs that the samples have targets for."""
    options = model.core.options
    slices = isinstance(data, Slices)
    if isinstance(data, Slices):
        output, classes = "softmax", data.classes
    else:
        output, classes = "sigmoid", len(data.offsets)
    if (options.output, options.classes, options.in_channels) != (output, classes, 1):
        raise InvalidArgumentError(
            f"Trainer: the network has {options.classes} outputs ({options.output}) for {options.in_channels} channels,"
            f" expected {classes} ({output}) for 1, as the {'slices' if slices else 'affinities'} have"
        )


def _check_masks(slices: Slices) -> None:
    """Check this rank's share of the masks now, instead of stopping when training comes to a wrong one."""
    rank, ranks, total = world.rank(), world.size(), slices.fixed_size
    slices.core.check_masks(total * rank // ranks, total * (rank + 1) // ranks, None)
