# SPDX-License-Identifier: Apache-2.0
"""The file of `floodtide tune`: a TOML table [tuned] that `floodtide train` and `floodtide job` take up."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floodtide import _core
from floodtide.base import limits, reading
from floodtide.base.files import replace_text
from floodtide.base.openmp import WAITING
from floodtide.base.outputs import reserved, starts_like
from floodtide.errors import InvalidFileError
from floodtide.tune.search import Choice
from floodtide.tune.settings import BINDINGS, POLICIES, Setting

_MARK = "# Written by floodtide tune."
_CHECK = starts_like("a file of floodtide tune", _MARK.encode())
_COUNTS = ("ranks", "threads", "walkers")
_NUMBERS: dict[str, Callable[[Any], bool]] = {
    "ranks": lambda value: type(value) is int and value in limits.RANKS,
    "threads": lambda value: type(value) is int and value in limits.SOME_THREADS,
    "walkers": lambda value: type(value) is int and value in limits.RANKS,
    "bind": lambda value: value in BINDINGS,
    "wait": lambda value: value in POLICIES,
    "processor": lambda value: isinstance(value, str),
    "cores": lambda value: type(value) is int and value in limits.RANKS,
    "reason": lambda value: isinstance(value, str),
}


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """A setting and the machine that it was measured on.

    Attributes:
        setting: The setting of each host.
        processor: Name of the processor.
        cores: Cores that the measurement could use.
        reason: Why this setting.
    """

    setting: Setting
    processor: str
    cores: int
    reason: str

    @property
    def overrides(self) -> tuple[str, ...]:
        """Keys of the configuration, as "section.key=value"."""
        one = self.setting
        return (
            f"run.threads={one.threads}",
            f"run.parallel={one.parallel}",
            f"run.bind={one.bind}",
        )

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that a process needs from its start."""
        return dict(WAITING[self.setting.wait])

    def difference(self) -> str:
        """Return how this machine differs from the measured one; an empty text if it does not."""
        here = (_core.processor_name(), _core.available_cores())
        if here == (self.processor, self.cores):
            return ""
        return f"measured on {self.processor} with {self.cores} cores; this is {here[0]} with {here[1]}"


def write_tuned(path: str | os.PathLike[str], choice: Choice) -> None:
    """Write the choice, under a temporary name first.

    Raises:
        InvalidArgumentError: If an existing file is not one of `floodtide tune`.
        StorageError: If the file cannot be written.
    """
    import tomli_w

    one = choice.setting
    table = {
        "ranks": one.ranks,
        "threads": one.threads,
        "walkers": one.walkers,
        "bind": one.bind,
        "wait": one.wait,
        "processor": _core.processor_name(),
        "cores": _core.available_cores(),
        "fovs_per_s": round(choice.fovs_per_s, 3),
        "default_fovs_per_s": round(choice.default.best, 3),
        "reason": choice.reason,
    }
    text = (
        f"{_MARK} Use it with: floodtide train CONFIG.toml --tuned FILE, and floodtide job.\n"
        "# ranks: of a host; threads and walkers: of a rank.\n" + tomli_w.dumps({"tuned": table})
    )
    with reserved("tune", path, _CHECK):
        replace_text(Path(path), text)


def read_tuned(path: str | os.PathLike[str]) -> Tuned:
    """Read the file of `floodtide tune`.

    Raises:
        InvalidFileError: If it is missing, or a value is missing or out of range.
    """
    where = os.fspath(path)
    table = reading.read_toml(path).get("tuned")
    if not isinstance(table, dict):
        raise InvalidFileError(f"{where}: has no table [tuned]; expected a file of floodtide tune")
    for key, fits in _NUMBERS.items():
        if key not in table or not fits(table[key]):
            given = repr(table[key]) if key in table else "missing"
            raise InvalidFileError(
                f"{where}: tuned.{key} is {given}; expected a file of floodtide tune"
            )
    return Tuned(
        setting=Setting(
            **{key: table[key] for key in _COUNTS}, bind=table["bind"], wait=table["wait"]
        ),
        processor=table["processor"],
        cores=table["cores"],
        reason=table["reason"],
    )
