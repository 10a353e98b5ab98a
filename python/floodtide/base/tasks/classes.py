# SPDX-License-Identifier: Apache-2.0
"""The class of each voxel."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import option, shown
from floodtide.base.tasks.task import Agglomerate, Array, PatchTask, Record
from floodtide.errors import ConfigurationError

_LARGEST_RANGE = 1 << 16
_SMOOTH = 8  # values, above which labels are no classes as they are


@dataclass(frozen=True, kw_only=True)
class Classes(PatchTask):
    """Classes: each voxel has one of them. The class of the lowest value is the background."""

    kind: str = option("classes", "The class of each voxel", choices=("classes",))
    classes: Mapping[str, str] = option(
        {},
        'Names of the values in the labels: `{ 0 = "background", 255 = "mitochondria" }`, or of ranges of them:'
        ' `{ 0-127 = "background", 128-255 = "mitochondria" }`; values of one name are one class. Left out: labels with'
        " one value beside 0, and masks, say it themselves",
    )
    class_weights: Mapping[str, float] = option(
        {},
        "How often patches are drawn around a voxel of each class, by name; left out: all are equally likely",
        range=limits.WEIGHT,
    )

    reason: ClassVar[str] = "Each voxel has a class."
    output: ClassVar[str] = "softmax"
    score_name: ClassVar[str] = "Dice, mean of the classes"
    patch_score: ClassVar[str] = "Dice"
    legend: ClassVar[str] = "Darker: not counted."
    of_objects: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        table = {f"{a}" if a == b else f"{a}-{b}": name for a, b, name in self._rows}
        object.__setattr__(self, "classes", table)
        count = len(self.channels)
        if count > 0 and count not in limits.MASK_CLASSES:
            raise ConfigurationError(
                f"{self._prefix}classes has {count} classes, expected {limits.MASK_CLASSES}"
            )
        for name in self.class_weights:
            if count > 0 and name not in self.channels:
                raise ConfigurationError(
                    f"{self._prefix}class_weights has '{name}', expected names of classes: {', '.join(self.channels)}"
                )

    @functools.cached_property
    def _rows(self) -> list[tuple[int, int, str]]:
        """First value, last value and name of each row, in ascending order."""
        rows = sorted(self._row(str(key), name) for key, name in self.classes.items())
        for (_, end, _), (start, _, name) in itertools.pairwise(rows):
            if start <= end:
                raise ConfigurationError(
                    f"{self._prefix}classes has the value {start} of '{name}' twice, expected it once"
                )
        return rows

    def _row(self, key: str, name: str) -> tuple[int, int, str]:
        match = re.fullmatch(r"\s*(-?\d{1,19})\s*(?:-\s*(-?\d{1,19})\s*)?", key)
        if match is None or not name:
            raise ConfigurationError(
                f"{self._prefix}classes has {shown(key)} = {shown(name)}, expected a value, or a range as 128-255, and"
                " a name"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 <= last - first < _LARGEST_RANGE or last not in limits.STORED_VALUE:
            raise ConfigurationError(
                f"{self._prefix}classes has {key}, expected a range FIRST-LAST of at most {_LARGEST_RANGE}"
            )
        return first, last, name

    @property
    def needs_labels(self) -> bool:
        return not self.classes

    @property
    def channels(self) -> list[str]:
        """The names of the classes, in the order of their lowest values."""
        return list(dict.fromkeys(self.classes.values()))

    @property
    def output_count(self) -> int:
        return len(self.channels) or 2  # without labels that say their classes, as in benchmarks

    @property
    def truth_values(self) -> int:
        return 1  # the number of the class

    @property
    def draw_weights(self) -> list[float]:
        weights = self.class_weights
        return [weights.get(name, 0.0) for name in self.channels] if weights else []

    @property
    def written(self) -> list[int]:
        """The value of each class in predictions: that of its first row; of a range 0, or its last value."""
        first: dict[str, int] = {}
        for low, high, name in self._rows:
            first.setdefault(name, 0 if low <= 0 <= high else high)
        return list(first.values())

    @property
    def notes(self) -> dict[str, str]:
        """The table of the classes, as JSON."""
        return {"classes": json.dumps(self.classes)}

    def written_for(self, value: int) -> int | None:
        """Return the value in predictions of the class that a value of the labels has; None if it has none."""
        name = next((name for low, high, name in self._rows if low <= value <= high), None)
        return None if name is None else self.written[self.channels.index(name)]

    def targets(self, voxel_size: Sequence[float], *, flat: bool) -> _core.data.Targets:
        return _core.data.class_targets(len(self.channels))

    def values(self) -> tuple[list[tuple[int, int]], bool]:
        names = self.channels
        return [
            (value, names.index(name))
            for low, high, name in self._rows
            for value in range(low, high + 1)
        ], True

    def of_labels(self, masks: Sequence[str], values: Callable[[], set[int]]) -> Classes:
        if not masks:
            return self._of_values(sorted(values())) if self.needs_labels else self
        if "background" in masks:
            raise ConfigurationError(
                "data.volumes.masks has the name 'background', which is the class of voxels in no mask; expected this"
                " mask left out, or another name"
            )
        table = {str(number): name for number, name in enumerate(["background", *masks])}
        if self.classes and self.classes != table:
            raise ConfigurationError(
                f"task.classes is {self.classes}, expected it left out: the masks say {table}"
            )
        return dataclasses.replace(self, classes=table)

    def _of_values(self, values: Sequence[int]) -> Classes:
        """Return this task with the table that labels of these values need; else the message has the line to write."""
        where = "data.volumes.labels: the labels have"
        if len(values) < 2:
            few = f"one value, {values[0]} (-1 is no label)" if values else "no value"
            raise ConfigurationError(f"{where} {few}, expected at least two classes to tell apart")
        if len(values) == 2 and values[0] == 0:
            table = {"0": "background", str(values[1]): "foreground"}
            return dataclasses.replace(self, classes=table)
        table = {str(value): f"class {value}" if value else "background" for value in values[:8]}
        advice = "expected their names"
        if values[0] >= 0 and len(values) > _SMOOTH:
            half = values[-1] // 2
            table = {f"0-{half}": "background", f"{half + 1}-{values[-1]}": "foreground"}
            advice = 'expected objects, task.kind = "affinities"; or, for a mask with smooth edges,'
        line = ", ".join(f'{value} = "{name}"' for value, name in table.items())
        raise ConfigurationError(
            f"{where} {len(values)} values, {advice} task.classes = {{ {line} }}"
        )

    def objects(self, predicted: Array, agglomerate: Agglomerate) -> Array:
        """Return the face-connected components of each class but the background."""
        labels: Array = np.zeros(predicted.shape, np.int64)
        for value in self.written[1:]:
            found = _core.segment.connected_components((predicted == value).astype(np.uint8), 1)
            labels += np.where(found > 0, found + labels.max(), 0)
        return labels

    def score_of_patch(self, output: Array, truth: Array, weights: Array) -> float | None:
        """Return the Dice, mean of the classes that are true or predicted there."""
        counts = _core.evaluate.DiceCounts(1, len(self.channels))
        counts.add(0, _core.evaluate.most_likely_classes(output), truth)
        found = [counts.group(0, number) for number in range(1, len(self.channels))]
        known = [value for value in found if value is not None]
        return float(np.mean(known)) if known else None

    def scores(self, scores: Mapping[str, Any], groups: Sequence[str]) -> Record:
        dice = scores["dice"]
        rows = [
            {
                "class": number,
                "name": name,
                "dice_pooled": dice.pooled(number),
                "dice_mean": dice.mean_over_groups(number),
                "dice_groups": [dice.group(group, number) for group in range(len(groups))],
                "dice_everything": scores["dice_everything"][number],
            }
            for number, name in enumerate(self.channels[1:], start=1)
        ]
        return {"classes": rows, "groups": list(groups), "confusion": scores["confusion"]}

    @staticmethod
    def scores_of(record: Mapping[str, Any]) -> list[tuple[float | None, float]]:
        """Return the Dice of each class over all voxels, beside that of predicting the class everywhere."""
        return [(row["dice_pooled"], row["dice_everything"]) for row in record["classes"]]
