# SPDX-License-Identifier: Apache-2.0
"""What every task has in common: the section [task] of a configuration, targets, scores, and trivial scores."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from floodtide import _core
from floodtide.base.networks.network import Vec3
from floodtide.base.options import FLOOD, PATCHES, Checked, option
from floodtide.errors import ConfigurationError

Record = dict[str, Any]
Array = NDArray[Any]
Agglomerate = Callable[[Array, Sequence[Vec3]], Array]
"""Makes segments (z, y, x) of affinities (offsets, z, y, x) and their offsets."""


@dataclass(frozen=True, kw_only=True)
class Task(Checked):
    """What a network learns of labels.

    Attributes:
        kind: Name of the task, `task.kind`.
        examples: What the task is learnt from: PATCHES, or FLOOD for flood filling.
        score_name: The main score, for figures and tables.
        least_gain: What a score must have above that of a trivial prediction, so that training goes on.
        unit: What a log counts.
        loss_name: Name of the loss; empty: `training.loss` names it.
        batch_name: Title of the scores on the examples of the training.
        of_objects: Labels are ids of objects. Else they are classes, and validation records have a score for each group
            (patient, volume).
        predicts: The network predicts all voxels of an image at once, and segments are made of its outputs. Else it
            floods, and its examples are chosen by partitions of the labels, which a training makes.
        needs_labels: The labels have to say which classes there are: `PatchTask.of_labels`.
    """

    kind: str = option("", "Name of the task")
    examples: ClassVar[str] = PATCHES
    score_name: ClassVar[str] = ""
    least_gain: ClassVar[float] = 0.0
    unit: ClassVar[str] = "patches"
    loss_name: ClassVar[str] = ""
    batch_name: ClassVar[str] = "Score of the training batches"
    of_objects: ClassVar[bool] = True
    predicts: ClassVar[bool] = True

    @classmethod
    def has(cls, field: dataclasses.Field[Any]) -> bool:
        """Return True if an option of a configuration has a meaning for this task."""
        kinds = field.metadata.get("kinds", ())
        return not kinds or not {cls.kind, cls.examples}.isdisjoint(kinds)

    @property
    def needs_labels(self) -> bool:
        return False

    @property
    def affinity_offsets(self) -> tuple[Vec3, ...]:
        """Offsets (z, y, x) of the outputs that are affinities, the first ones."""
        return ()

    def is_learnt_with(self, other: Task) -> bool:
        """Return True if a network that has learnt another task has learnt this one; any classes if it says none."""
        unsaid = self.needs_labels and other.kind == self.kind
        return unsaid or other.outputs == self.outputs

    @property
    def outputs(self) -> str:
        """What the outputs of a network mean that has learnt this task, in words."""
        return f"'{self.kind}'"

    @staticmethod
    @abstractmethod
    def scores_of(record: Mapping[str, Any]) -> list[tuple[float | None, float]]:
        """Return main scores of a validation record, each with that of a trivial prediction. Higher is better."""

    def beats_trivial(self, record: Mapping[str, Any]) -> bool:
        """Return True if some main score of a validation record is above that of a trivial prediction."""
        scores = self.scores_of(record)
        return any((own or 0.0) > trivial + self.least_gain for own, trivial in scores)


@dataclass(frozen=True, kw_only=True)
class FloodTask(Task):
    """Flood filling: whether a voxel belongs to the object in the middle of the field of view."""

    kind: str = option(FLOOD, "Flood filling", choices=(FLOOD,))
    examples: ClassVar[str] = FLOOD
    score_name: ClassVar[str] = "average precision of the first pass"
    least_gain: ClassVar[float] = 0.01  # a network that has died still knows the voxel at the seed
    unit: ClassVar[str] = "fovs"
    loss_name: ClassVar[str] = "mean cross-entropy of a voxel"
    batch_name: ClassVar[str] = "Score on the network's own moves"
    predicts: ClassVar[bool] = False

    @staticmethod
    def scores_of(record: Mapping[str, Any]) -> list[tuple[float | None, float]]:
        """Return the average precision of the voxels of the first pass, beside the share of object voxels.

        The average precision of a random order is that share. The cross-entropy is no measure of hope: early in
        training it often is worse than that of the best constant, although the order is good.
        """
        share = record["trivial"]["all_object"]["accuracy_50"]
        return [(record["first_pass"]["average_precision"], share)]


class PatchTask(Task):
    """A task of patches: each voxel has targets.

    Attributes:
        reason: Why a user chooses this task, for the plans of `floodtide init`.
        output: Output of the network: "softmax" for classes, of which a voxel has one, else "sigmoid".
        pictured: What outputs are, for the titles of pictures.
        legend: What the colours of these pictures mean.
        patch_score: Name of the score of a single patch.
        measures: Targets depend on the size of voxels.
    """

    reason: ClassVar[str] = ""
    output: ClassVar[str] = "sigmoid"
    pictured: ClassVar[str] = "targets"
    legend: ClassVar[str] = "Beige: not counted."
    patch_score: ClassVar[str] = "mean squared error"
    measures: ClassVar[bool] = False

    @property
    @abstractmethod
    def channels(self) -> list[str]:
        """The names of the outputs of a voxel."""

    @property
    def outputs(self) -> str:
        return f"'{self.kind}' ({'; '.join(self.channels)})"

    @property
    def output_count(self) -> int:
        """Number of outputs of a network that learns this task."""
        return len(self.channels)

    @property
    def truth_values(self) -> int:
        """Number of values that a voxel has in the truth of a sample: targets and weights."""
        return 2 * self.output_count

    @abstractmethod
    def targets(self, voxel_size: Sequence[float], *, flat: bool) -> _core.data.Targets:
        """Return the targets of the core.

        Args:
            voxel_size: Size (z, y, x) of a voxel in any unit.
            flat: Patches have one section, and their targets do not depend on others.
        """

    def values(self) -> tuple[list[tuple[int, int]], bool]:
        """Return pairs of a stored value and its label, -1 for none; and True if other values are refused."""
        return [], False

    def of_labels(self, masks: Sequence[str], values: Callable[[], set[int]]) -> PatchTask:
        """Return the task with the classes that the labels have, for tasks of classes.

        Args:
            masks: Names of the masks that take the place of labels.
            values: Returns all values of the labels that are labels. This reads them all.

        Raises:
            ConfigurationError: If masks mean nothing to the task, or the labels do not say their classes.
        """
        if masks:
            raise ConfigurationError(
                f"data.volumes.masks has no meaning for task.kind '{self.kind}', expected it only for 'classes'"
            )
        return self

    @property
    def draw_weights(self) -> list[float]:
        """How often patches are drawn around a voxel of each class; empty: each labelled voxel is equally likely."""
        return []

    @property
    def predicted(self) -> int:
        """Number of the outputs that a prediction keeps, the first ones. The others only help to learn."""
        return len(self.affinity_offsets) or len(self.channels)

    @property
    def written(self) -> list[int]:
        """The value of each class in predictions."""
        return list(range(self.predicted))

    @property
    def notes(self) -> dict[str, str]:
        """What a file of predictions states of the task: texts by the name of an attribute."""
        return {}

    @abstractmethod
    def objects(self, predicted: Array, agglomerate: Agglomerate) -> Array:
        """Return the objects (z, y, x) of a prediction; 0 is none.

        Args:
            predicted: What a file of predictions holds: values of classes (z, y, x), or outputs (outputs, z, y, x).
            agglomerate: Makes segments of affinities.
        """

    def scores(self, scores: Mapping[str, Any], groups: Sequence[str]) -> Record:
        """Return what a validation record holds for this task, from the scores that the core has computed."""
        return {"channels": dict(zip(self.channels, map(dict, scores["channels"]), strict=True))}

    def score_of_patch(self, output: Array, truth: Array, weights: Array) -> float | None:
        """Return the score of a patch, negative if less is better; None if nothing is scored.

        This one is minus the mean squared error of the first output.

        Args:
            output: Outputs of the network (z, y, x, outputs).
            truth: Class numbers (z, y, x), or targets (z, y, x, outputs).
            weights: 0 in voxels that do not count, (z, y, x) or (z, y, x, outputs).
        """
        counts = weights[..., 0] > 0
        squares = (truth[..., 0][counts] - output[..., 0][counts]) ** 2
        return -float(squares.mean(dtype=np.float64)) if squares.size else None
