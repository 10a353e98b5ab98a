# SPDX-License-Identifier: Apache-2.0
"""The file of a sweep, and the trainings that it stands for."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide import config as configuration
from floodtide.base import limits, reading
from floodtide.base.network_files import checkpoints
from floodtide.config import Config
from floodtide.errors import ConfigurationError, InvalidArgumentError
from floodtide.train import Run, rates_of, read_run

_KEYS = ("config", "directory", "ranks", "grid", "set")
_DIVERGED = re.compile(r"train: the (loss is -?(nan|inf)|averaged gradient of .* is not finite)")
_LONGEST_NAME = 200  # bytes, so that files in the run directory have valid names
_MOST_CELLS = 100_000
Value = str | int | float | bool | Sequence[Any]


@dataclass(frozen=True)
class Cell:
    """One training of a sweep.

    Attributes:
        name: Name of the run directory inside the directory of the sweep: "lr=0.001,walkers=4".
        overrides: Arguments of `--set` that make this training from the configuration file.
        config: The complete configuration.
        ranks: Number of ranks.
    """

    name: str
    overrides: tuple[str, ...]
    config: Config
    ranks: int

    @property
    def directory(self) -> Path:
        """The run directory."""
        return Path(self.config.run.dir)

    @property
    def examples(self) -> int:
        """Number of fields of view or samples of the training, which measures its work."""
        training = self.config.training
        walkers = training.walkers_of(self.ranks)
        return training.total * walkers * training.batch * training.accumulate

    def steps_done(self) -> int:
        """Return the training step of the newest checkpoint; 0 without one."""
        found = checkpoints(self.directory) if self.directory.is_dir() else []
        return int(found[-1].stem.removeprefix("step-")) if found else 0

    def finished(self) -> bool:
        """Return True if the run directory holds the complete training, with its last validation if there is one."""
        steps = self.config.training.total
        if self.steps_done() < steps:
            return False
        section = self.config.validation
        if not section.holds_out:
            return True
        run = self._run()
        return run is not None and any(record["step"] >= steps for record in run.validation)

    def given_up(self) -> bool:
        """Return True if the training was stopped early for good (`validation.give_up_after`)."""
        run, done = self._run(), self.steps_done()
        if run is None or done == 0:
            return False
        return any(record.get("given_up") and record["step"] == done for record in run.validation)

    def divergence(self) -> str:
        """Return how the training diverged, or an empty text. Repeated, it would diverge in the same training step."""
        run = self._run()
        return run.failure if run is not None and _DIVERGED.match(run.failure) else ""

    def state(self) -> str:
        """Return how far the training is, in words."""
        if self.divergence():
            return "diverged"
        if self.given_up():
            return "given up"
        steps = self.config.training.total
        return "finished" if self.finished() else f"{self.steps_done()} of {steps} steps"

    def _run(self) -> Run | None:
        """Return what the training has recorded; None before its first record."""
        return read_run(self.directory) if (self.directory / "log.jsonl").exists() else None


@dataclass(frozen=True)
class Sweep:
    """A sweep: a configuration file and its variants.

    Attributes:
        file: The configuration file that all trainings start from.
        directory: Folder of the run directories.
        ranks: Ranks of each training.
        cells: The trainings, in the order of the file; the last key of the grid varies fastest.
    """

    file: Path
    directory: Path
    ranks: int
    cells: tuple[Cell, ...]


def load(path: str | os.PathLike[str]) -> Sweep:
    """Read the TOML file of a sweep, and check every training that it describes.

    `config` and `directory` are relative to the working directory, as all paths in configurations.

    Raises:
        InvalidFileError: If the file, or the configuration file, is missing or not TOML.
        ConfigurationError: If a key is unknown, if the grid is empty, if two trainings have the same directory, or if
            one of the configurations cannot work.
    """
    where = os.fspath(path)
    document = reading.read_toml(path)
    unknown = [key for key in document if key not in _KEYS]
    if unknown:
        raise ConfigurationError(
            f"{where}: there is no key '{unknown[0]}'; expected {', '.join(_KEYS)}"
        )
    for key in ("config", "directory"):
        if not isinstance(document.get(key), str) or not document[key]:
            raise ConfigurationError(f"{where}: {key} is missing, expected a path")
    ranks = document.get("ranks", 1)
    limits.RANKS.check(ranks, f"{where}: ranks", ConfigurationError)
    shared = _table(document.get("set", {}), "set", where)
    grids = _grids(document, shared, where)
    count = sum(math.prod(len(values) for values in grid.values()) for grid in grids)
    if count > _MOST_CELLS:
        raise ConfigurationError(f"{where}: {count} trainings, expected at most {_MOST_CELLS}")
    file, directory = Path(document["config"]), Path(document["directory"])
    cells = _cells(file, directory, grids, shared, ranks, where)
    return Sweep(file=file, directory=directory, ranks=ranks, cells=cells)


def _grids(
    document: Mapping[str, Any], shared: Mapping[str, Value], where: str
) -> list[dict[str, Sequence[Value]]]:
    """Return the tables [grid], or each of [[grid]], with their keys written out and checked."""
    given = document.get("grid", {})
    grids = [_table(one, "grid", where) for one in (given if isinstance(given, list) else [given])]
    for grid in grids or [{}]:
        for key in ("run.dir", *grid):
            if key in shared or (key == "run.dir" and key in grid):
                why = "directory decides" if key == "run.dir" else "[grid] gives too"
                raise ConfigurationError(f"{where}: {key} is given, which {why}; leave it out")
        for key, values in grid.items():
            if not isinstance(values, list) or not values:
                raise ConfigurationError(
                    f"{where}: grid.'{key}' is {values!r}, expected a list of one value or more"
                )
        if not grid:
            raise ConfigurationError(
                f"{where}: [grid] is empty, expected keys of the configuration with lists of values"
            )
    return grids


def _table(table: Any, name: str, where: str) -> dict[str, Any]:
    """Return a table of the file with its keys written out: "optimizer.lr"."""
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where}: {name} is {table!r}, expected a table")
    return flat_keys(table)


def flat_keys(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of a table and of the tables in it by their whole keys: "optimizer.lr"."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        nested = isinstance(value, dict)
        found |= flat_keys(value, f"{prefix}{key}.") if nested else {prefix + key: value}
    return found


def _cells(
    file: Path,
    directory: Path,
    grids: Sequence[Mapping[str, Sequence[Value]]],
    shared: Mapping[str, Value],
    ranks: int,
    where: str,
) -> tuple[Cell, ...]:
    keys = list(dict.fromkeys(key for grid in grids for key in grid))
    short = _short_names(keys)
    cells: dict[str, Cell] = {}
    for chosen in _combinations(grids):
        name = ",".join(f"{short[key]}={_text(value)}" for key, value in chosen.items())
        name = re.sub(r"[^\w.,=+-]", "_", name)
        if name in cells or len(name.encode()) > _LONGEST_NAME:
            expected = "different values" if name in cells else "fewer keys"
            raise ConfigurationError(
                f"{where}: the name of a training, {name}, is used twice or too long, expected {expected}"
            )
        settings = {**shared, **chosen, "run.dir": str(directory / name)}
        overrides = tuple(f"{key}={json.dumps(value)}" for key, value in settings.items())
        config = configuration.load(file, overrides)
        try:
            rates_of(config, ranks)
        except InvalidArgumentError as error:
            raise ConfigurationError(f"{where}: {name}: {error}") from None
        if config.fits_time:
            raise ConfigurationError(
                f"{where}: {name}: training.fit_time lets the clock decide the number of steps, expected false"
            )
        cells[name] = Cell(name, overrides, config, ranks)
    return tuple(cells.values())


def _combinations(grids: Sequence[Mapping[str, Sequence[Value]]]) -> Iterator[dict[str, Value]]:
    for grid in grids:
        for values in itertools.product(*grid.values()):
            yield dict(zip(grid, values, strict=True))


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """Return the last word of each key, or the whole key where last words are equal."""
    last = [key.rpartition(".")[2] for key in keys]
    return {
        key: word if last.count(word) == 1 else key for key, word in zip(keys, last, strict=True)
    }


def _text(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
