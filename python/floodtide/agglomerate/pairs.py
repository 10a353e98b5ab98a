# SPDX-License-Identifier: Apache-2.0
"""A directory with pairs of segments that are flooded again, and their scores (docs/formats.md).

Pairs are flooded in batches. The scores of a batch are a file that appears when it is complete. So any number of
processes can work on one directory, and after a crash only the batches under way are lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from floodtide.agglomerate.points import DecisionPoint
from floodtide.base import reading
from floodtide.base.files import make_folder, replace_bytes
from floodtide.errors import InvalidArgumentError, InvalidFileError
from floodtide.segment.identity import first_difference

PLAN = "pairs.json"
_FORMAT = "floodtide pairs 1"
_EXPECTED = "the plan of a resegmentation"
_BATCH = 16  # pairs


class Pairs:
    """Pairs of segments and their scores, in a directory.

    Attributes:
        directory: The directory.
        points: The pairs, with their decision points.
        settings: What all scores have in common: image, segmentation, network and options, as JSON values.
    """

    def __init__(
        self, directory: Path, points: Sequence[DecisionPoint], settings: Mapping[str, Any]
    ) -> None:
        self.directory = directory
        self.points = list(points)
        self.settings = dict(settings)

    def __len__(self) -> int:
        """Return the number of batches."""
        return -(-len(self.points) // _BATCH)

    @classmethod
    def open(cls, directory: str | os.PathLike[str]) -> Pairs:
        """Open a directory that `create` has made.

        Raises:
            InvalidFileError: If there is no plan in it, or the plan is damaged.
        """
        path = Path(directory) / PLAN
        plan = reading.read_json(path, _EXPECTED)
        with reading.reading(path, _EXPECTED):
            if plan["format"] != _FORMAT:
                raise InvalidFileError(f"{path}: format {plan['format']!r}, expected {_FORMAT!r}")
            points = [
                DecisionPoint(int(a), int(b), (int(z), int(y), int(x)), float(distance))
                for a, b, z, y, x, distance in plan["points"]
            ]
            for point in points:
                if not 0 < point.a < point.b < 2**63:
                    raise InvalidFileError(
                        f"{path}: pair ({point.a}, {point.b}), expected two ids, the smaller one first"
                    )
            return cls(path.parent, points, dict(plan["settings"]))

    @classmethod
    def prepare(
        cls, directory: str | os.PathLike[str], settings: Mapping[str, Any]
    ) -> Pairs | None:
        """Return the pairs that a directory has for these settings. Make a new directory, and return None then.

        Raises:
            InvalidArgumentError: If the directory has pairs for other settings, or other files.
            StorageError: If it cannot be made.
        """
        folder = Path(directory)
        make_folder(folder)
        with reading.reading(folder, "a folder of a resegmentation"):
            others = [name for name in os.listdir(folder) if not name.startswith(".")]
        if not reading.exists(folder / PLAN):
            if others:
                raise InvalidArgumentError(
                    f"{directory}: has files but no {PLAN}, expected a new directory or one of a resegmentation"
                )
            return None
        pairs = cls.open(folder)
        wanted = json.loads(json.dumps(settings))
        if pairs.settings != wanted:
            here, there = first_difference("settings", wanted, pairs.settings)
            raise InvalidArgumentError(
                f"{directory}: its pairs were flooded with {there}, now it is {here}; expected the same, or another"
                " directory"
            )
        return pairs

    def save(self) -> None:
        """Write the plan.

        Raises:
            StorageError: If it cannot be written.
        """
        rows = [[p.a, p.b, *p.point_zyx, p.distance] for p in self.points]
        plan = {"format": _FORMAT, "settings": self.settings, "points": rows}
        replace_bytes(self.directory / PLAN, json.dumps(plan).encode())

    def path(self, batch: int) -> Path:
        """Return the file of the scores of a batch."""
        return self.directory / f"scores_{batch:06d}.json"

    def done(self, batch: int) -> bool:
        """Return True if the scores of a batch are there."""
        return self.path(batch).exists()

    def missing(self) -> list[int]:
        """Return the numbers of the batches without scores."""
        return [batch for batch in range(len(self)) if not self.done(batch)]

    def of_batch(self, batch: int) -> list[DecisionPoint]:
        """Return the pairs of a batch. Pairs of one segment are in different batches, which take similar times."""
        return self.points[batch :: len(self)]

    def write_scores(self, batch: int, scores: Iterable[Mapping[str, Any] | None]) -> None:
        """Write the scores of the pairs of a batch; None for a pair that has none.

        Raises:
            StorageError: If they cannot be written.
        """
        rows = [
            {"a": point.a, "b": point.b, "scores": None if row is None else dict(row)}
            for point, row in zip(self.of_batch(batch), scores, strict=True)
        ]
        replace_bytes(self.path(batch), json.dumps(rows, indent=1).encode())

    def read_scores(self) -> list[dict[str, Any] | None]:
        """Return the scores of all pairs, in the order of `points`.

        Raises:
            InvalidArgumentError: If a batch is missing.
            InvalidFileError: If a file is damaged, or for other pairs.
        """
        missing = self.missing()
        if missing:
            raise InvalidArgumentError(
                f"{self.directory}: {len(missing)} of {len(self)} batches of pairs are not flooded yet, the first is"
                f" {self.path(missing[0]).name}; expected all"
            )
        found: list[dict[str, Any] | None] = [None] * len(self.points)
        for batch in range(len(self)):
            path = self.path(batch)
            rows = reading.read_json(path, "scores of pairs")
            with reading.reading(path, "scores of pairs"):
                pairs = [(row["a"], row["b"]) for row in rows]
                if pairs != [(point.a, point.b) for point in self.of_batch(batch)]:
                    raise InvalidFileError(f"{path}: has the scores of other pairs than {PLAN}")
                found[batch :: len(self)] = [row["scores"] for row in rows]
        return found
