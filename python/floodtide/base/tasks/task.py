# SPDX-License-Identifier: Apache-2.0
"""What every task has in common: the section [task] of a configuration, targets, scores, and trivial scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from floodtide import _core
from floodtide.base.options import FLOOD, PATCHES, Checked, option

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Task(Checked):
    """What a network learns of labels.

    Attributes:
        kind: Name of the task, `task.kind`.
        examples: What the task is learnt from: PATCHES, or FLOOD for flood filling.
        score_name: The main score, for figures and tables.
        least_gain: What a score must have above that of a trivial prediction, so that training goes on.
    """

    kind: str = option("", "Name of the task")
    examples: ClassVar[str] = PATCHES
    score_name: ClassVar[str] = ""
    least_gain: ClassVar[float] = 0.0

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

    @staticmethod
    def scores_of(record: Mapping[str, Any]) -> list[tuple[float | None, float]]:
        """Return the average precision of the voxels of the first pass, beside the share of object voxels.

        The average precision of a random order is that share. The cross-entropy is no measure of hope: early in
        training it often is worse than that of the best constant, although the order is good.
        """
        return [
            (
                record["first_pass"]["average_precision"],
                record["trivial"]["all_object"]["accuracy_50"],
            )
        ]


class PatchTask(Task):
    """A task of patches: each voxel has targets.

    Attributes:
        output: Output of the network: "softmax" for classes, of which a voxel has one, else "sigmoid".
        segments: What a prediction holds, and segments are made of: "affinities", "classes" or "distance".
    """

    output: ClassVar[str] = "sigmoid"
    segments: ClassVar[str]

    @property
    @abstractmethod
    def channels(self) -> list[str]:
        """The names of the outputs of a voxel."""

    @property
    def outputs(self) -> str:
        return f"'{self.kind}' ({'; '.join(self.channels)})"

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

    @property
    def predicted(self) -> int:
        """Number of the outputs that a prediction keeps, the first ones. The others only help to learn."""
        return len(self.channels)

    @property
    def notes(self) -> dict[str, str]:
        """What a file of predictions states of the task: texts by the name of an attribute."""
        return {}

    def scores(self, scores: Mapping[str, Any], groups: Sequence[str]) -> Record:
        """Return the part of a validation record that this task has, of what the core has computed."""
        return {"channels": dict(zip(self.channels, map(dict, scores["channels"]), strict=True))}
