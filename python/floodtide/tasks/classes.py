# SPDX-License-Identifier: Apache-2.0
"""The class of each voxel."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from floodtide import _core
from floodtide.base import limits
from floodtide.base.options import option
from floodtide.errors import ConfigurationError
from floodtide.tasks.task import PatchTask, Record


@dataclass(frozen=True, kw_only=True)
class Classes(PatchTask):
    """Classes: each voxel has one of them. The class of the lowest value is the background."""

    kind: str = option("classes", "The class of each voxel", choices=("classes",))
    classes: Mapping[int, str] = option(
        {},
        'Names of the values in the labels: `{ 0 = "background", 255 = "mitochondria" }`; values of one name are one'
        " class. Left out: labels with one value beside 0, and masks, say it themselves",
    )
    class_weights: Mapping[str, float] = option(
        {},
        "How often training patches are drawn around a voxel of each class, by name; left out: each labelled voxel is"
        " equally likely",
        range=limits.WEIGHT,
    )

    output: ClassVar[str] = "softmax"
    segments: ClassVar[str] = "classes"
    score_name: ClassVar[str] = "Dice, mean of the groups"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "classes", dict(sorted(self.classes.items())))
        for value in self.classes:
            limits.STORED_VALUE.check(value, f"{self._prefix}classes: a value", ConfigurationError)
        count = len(self.channels)
        if self.classes and count not in limits.MASK_CLASSES:
            raise ConfigurationError(
                f"{self._prefix}classes has {count} classes, expected {limits.MASK_CLASSES}"
            )
        for name in self.class_weights:
            if self.classes and name not in self.channels:
                raise ConfigurationError(
                    f"{self._prefix}class_weights has '{name}', expected names of classes: {', '.join(self.channels)}"
                )

    @property
    def channels(self) -> list[str]:
        """The names of the classes, in the order of their lowest values."""
        return list(dict.fromkeys(self.classes.values()))

    @property
    def written(self) -> list[int]:
        """The value of each class in predictions: its lowest one."""
        first: dict[str, int] = {}
        for value, name in self.classes.items():
            first.setdefault(name, value)
        return list(first.values())

    @property
    def notes(self) -> dict[str, str]:
        """The table of the classes, as JSON, with the values that predictions hold."""
        return {"classes": json.dumps(dict(zip(self.written, self.channels, strict=True)))}

    def targets(self, voxel_size: Sequence[float]) -> _core.data.Targets:
        return _core.data.class_targets(len(self.channels))

    def values(self) -> tuple[list[tuple[int, int]], bool]:
        names = self.channels
        return [(value, names.index(name)) for value, name in self.classes.items()], True

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
        if len(more) != 1:
            names = {value: "background" if value == 0 else f"class {value}" for value in values}
            shown = ", ".join(f'{value} = "{name}"' for value, name in list(names.items())[:8])
            many = ", ..." if len(values) > 8 else ""
            raise ConfigurationError(
                f"{where}: the labels have {len(values)} values, expected their names:"
                f" task.classes = {{ {shown}{many} }}"
                + ('; or objects: task.kind = "affinities"' if len(values) > 8 else "")
            )
        return dataclasses.replace(self, classes={0: "background", more[0]: "foreground"})

    def of_masks(self, names: Sequence[str]) -> Classes:
        """Return this task with the classes of masks: 0 is the background, and the masks are numbered from 1."""
        return dataclasses.replace(self, classes=dict(enumerate(["background", *names])))

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
