# SPDX-License-Identifier: Apache-2.0
"""The class of each voxel."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import option, shown
from floodtide.base.tasks.task import PatchTask, Record
from floodtide.errors import ConfigurationError

_LARGEST_RANGE = 1 << 16
_SMOOTH = 8  # values, above which labels are no classes as they are


def _key(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


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
        "How often training patches are drawn around a voxel of each class, by name; left out: each labelled voxel is"
        " equally likely",
        range=limits.WEIGHT,
    )

    output: ClassVar[str] = "softmax"
    segments: ClassVar[str] = "classes"
    score_name: ClassVar[str] = "Dice, mean of the classes"

    def __post_init__(self) -> None:
        super().__post_init__()
        table = {str(key): name for key, name in self.classes.items()}
        rows = sorted(self._row(key, name) for key, name in table.items())
        for (_, end, _), (start, _, name) in itertools.pairwise(rows):
            if start <= end:
                raise ConfigurationError(
                    f"{self._prefix}classes has the value {start} of '{name}' twice, expected it once"
                )
        object.__setattr__(self, "classes", {_key(a, b): name for a, b, name in rows})
        count = len(self.channels)
        if rows and count not in limits.MASK_CLASSES:
            raise ConfigurationError(
                f"{self._prefix}classes has {count} classes, expected {limits.MASK_CLASSES}"
            )
        for name in self.class_weights:
            if rows and name not in self.channels:
                raise ConfigurationError(
                    f"{self._prefix}class_weights has '{name}', expected names of classes: {', '.join(self.channels)}"
                )

    @property
    def _rows(self) -> list[tuple[int, int, str]]:
        """First value, last value and name of each row."""
        return [self._row(key, name) for key, name in self.classes.items()]

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
                f"{self._prefix}classes has {key}, expected a range of at most {_LARGEST_RANGE} values"
            )
        return first, last, name

    @property
    def channels(self) -> list[str]:
        """The names of the classes, in the order of their lowest values."""
        return list(dict.fromkeys(self.classes.values()))

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

    def of_values(self, found: Iterable[int], where: str) -> Classes:
        """Return this task with the table that labels need that have none.

        Args:
            found: All values of the labels that are labels.
            where: The labels, for the message.

        Raises:
            ConfigurationError: If the values do not say it themselves; the message has the line to write.
        """
        values = sorted(set(found))
        more = [value for value in values if value != 0]
        if len(values) < 2:
            shown_values = f"one value, {values[0]}" if values else "no value"
            raise ConfigurationError(
                f"{where}: the labels have {shown_values}, expected at least two classes to tell apart"
            )
        if values == [0, *more[:1]]:
            table = {"0": "background", str(more[0]): "foreground"}
            return dataclasses.replace(self, classes=table)
        table = {str(value): f"class {value}" if value else "background" for value in values[:8]}
        advice = "expected their names"
        if values[0] >= 0 and len(values) > _SMOOTH:
            half = values[-1] // 2
            table = {f"0-{half}": "background", f"{half + 1}-{values[-1]}": "foreground"}
            advice = 'expected objects, task.kind = "affinities"; or, for a mask with smooth edges,'
        line = ", ".join(f'{value} = "{name}"' for value, name in table.items())
        raise ConfigurationError(
            f"{where}: the labels have {len(values)} values, {advice} task.classes = {{ {line} }}"
        )

    def of_masks(self, names: Sequence[str]) -> Classes:
        """Return this task with the classes of masks: 0 is the background, and the masks are numbered from 1.

        Raises:
            ConfigurationError: If a mask has the name of the background.
        """
        if "background" in names:
            raise ConfigurationError(
                "data.volumes.masks has the name 'background', which is the class of voxels in no mask; expected this"
                " mask left out, or another name"
            )
        return dataclasses.replace(
            self, classes={str(n): name for n, name in enumerate(["background", *names])}
        )

    def scores(self, scores: Mapping[str, Any], groups: Sequence[str]) -> Record:
        dice, rows = scores["dice"], []
        for number, name in enumerate(self.channels):
            if number == 0:
                continue
            rows.append(
                {
                    "class": number,
                    "name": name,
                    "dice_pooled": dice.pooled(number),
                    "dice_mean": dice.mean_over_groups(number),
                    "dice_groups": [dice.group(group, number) for group in range(len(groups))],
                    "dice_everything": scores["dice_everything"][number],
                }
            )
        return {"classes": rows, "groups": list(groups), "confusion": scores["confusion"]}

    @staticmethod
    def scores_of(record: Mapping[str, Any]) -> list[tuple[float | None, float]]:
        """Return the Dice of each class over all voxels, beside that of predicting the class everywhere."""
        return [(row["dice_pooled"], row["dice_everything"]) for row in record["classes"]]
