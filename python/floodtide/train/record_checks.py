# SPDX-License-Identifier: Apache-2.0
"""What the report relies on in a run's records and configuration, checked once when they are read.

A key may be absent (older logs), and there may be others (newer ones); a key that is there has the type named here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from floodtide.errors import InvalidFileError

Fits = Callable[[Any], bool]

_LARGEST = 1e30  # of any figure: beyond, drawings overflow
_LONGEST_S = 1e12
_MOST = 1 << 53  # whole numbers that a float holds


def number(value: Any) -> bool:
    """A figure; a loss may be infinite or not a number."""
    if type(value) is int:
        return -_LARGEST <= value <= _LARGEST
    return type(value) is float and not (math.isfinite(value) and abs(value) > _LARGEST)


def finite(value: Any) -> bool:
    """A figure that is a number."""
    return number(value) and math.isfinite(value)


def count(value: Any) -> bool:
    """A whole number from 0 on."""
    return type(value) is int and 0 <= value <= _MOST


def positive(value: Any) -> bool:
    """A whole number from 1 on."""
    return count(value) and value > 0


def seconds(value: Any) -> bool:
    """A time."""
    return finite(value) and 0 <= value <= _LONGEST_S


def text(value: Any) -> bool:
    """A text without halves of surrogate pairs, which cannot be written."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def optional(fits: Fits) -> Fits:
    """Null, or what `fits` takes."""
    return lambda value: value is None or fits(value)


def table_of(fits: Fits) -> Fits:
    """An object all whose values `fits` takes."""
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def complete(form: Mapping[str, Any]) -> Fits:
    """An object of this form with all of its keys."""
    return lambda value: follows(value, form) and form.keys() <= value.keys()


def follows(value: Any, form: Any) -> bool:
    """Return True if a value has a form: one of some texts (tuple), a list, an object (dict), or what a function takes.

    Keys of an object may be absent, and there may be others.
    """
    if isinstance(form, tuple):
        return isinstance(value, str) and value in form
    if isinstance(form, list):
        return isinstance(value, list) and all(follows(item, form[0]) for item in value)
    if isinstance(form, dict):
        return isinstance(value, dict) and all(
            follows(value[key], inner) for key, inner in form.items() if key in value
        )
    return bool(form(value))


_FIGURES = table_of(number)
_START: dict[str, Any] = {
    "unit": ("fovs", "slices", "patches"),
    "ranks": positive,
    "walkers": positive,
    "threads": positive,
    "parameters": count,
    "examples_per_epoch": number,
    "shard_imbalance": optional(number),
    "kernels": text,
    "transport": text,
    "rate": text,
    "resumed_from": text,
    "date": text,
    "version": text,
    "processor": text,
    "cores": positive,
    "hosts": positive,
}
_CLASS = {
    "class": count,
    "dice_pooled": optional(finite),
    "dice_mean": optional(finite),
    "dice_everything": finite,
    "dice_patients": lambda value: follows(value, [optional(finite)]),
}
_AFFINITY = dict.fromkeys(
    ("average_precision", "boundary_average_precision", "share_of_ones", "f1", "mcc"), number
)
_VALIDATION: dict[str, Any] = {
    "cross_entropy": number,
    "first_pass": _FIGURES,
    "moves": _FIGURES,
    "trivial": table_of(_FIGURES),
    "trivial_moves": table_of(_FIGURES),
    "patients": [text],
    "classes": [complete(_CLASS)],
    "affinities": lambda value: value != {} and table_of(complete(_AFFINITY))(value),
}
_NEEDED = {"slices": ("classes", "patients"), "patches": ("affinities",)}
_VOLUME = {
    "name": text,
    "image": text,
    "labels": text,
    "voxel_size_nm": lambda value: follows(value, [_size]) and len(value) == 3,
}
_CONFIGURATION: dict[str, Any] = {
    "data": {"volumes": [_VOLUME], "slices": [{"images": text}]},
    "run": {"seed": count},
    "model": {},
    "training": {
        "steps": count,
        "loss": text,
        "walkers": count,
        "batch": positive,
        "accumulate": positive,
    },
    "optimizer": {"name": text, "lr": lambda value: finite(value) and value >= 0},
    "schedule": {},
    "validation": {},
    "segment": {"image": text},
    "comm": {"mode": text, "contributors": count},
}
SCORES = [complete({"name": text})]
FAILURE = complete({"reason": text})


def _size(value: Any) -> bool:
    return finite(value) and value > 0


def check_record(record: Mapping[str, Any], where: str) -> None:
    """Refuse a record of a log that the report could not use.

    Raises:
        InvalidFileError: It names the key.
    """
    common = {"step": count, "time_s": seconds}
    others = {"start": _START, "validation": _VALIDATION}.get(str(record.get("kind")), {})
    for key, form in {**common, **others}.items():
        if key in record and not follows(record[key], form):
            raise _unexpected(where, key, record[key])
    if record.get("kind") == "train":
        for key in ("noise_scale", "noise_scale_low", "noise_scale_high"):
            if not optional(finite)(record.get(key)):
                raise _unexpected(where, key, record[key])
        for key, value in record.items():
            if isinstance(value, int | float) and not number(value):
                raise _unexpected(where, key, value)


def check_validation(record: Mapping[str, Any], unit: str, where: str) -> None:
    """Refuse a validation record that has not the scores of its kind of run.

    Raises:
        InvalidFileError: It names the key.
    """
    for key in _NEEDED.get(unit, ()):
        if key not in record:
            raise InvalidFileError(
                f"{where}: the validation of step {record['step']} has no {key}, expected those of a run of {unit}"
            )
    patients = record.get("patients", [])
    for row in record.get("classes", []):
        if len(row["dice_patients"]) != len(patients):
            raise InvalidFileError(
                f"{where}: the validation of step {record['step']} has {len(row['dice_patients'])} Dice of "
                f"{len(patients)} patients, expected one of each"
            )


def check_configuration(config: Mapping[str, Any], where: str) -> None:
    """Refuse a configuration whose parts the report could not use.

    Raises:
        InvalidFileError: It names the section.
    """
    for key, form in _CONFIGURATION.items():
        if key in config and not follows(config[key], form):
            raise _unexpected(where, key, config[key])


def _unexpected(where: str, key: str, value: Any) -> InvalidFileError:
    shown = repr(value) if not isinstance(value, int) or abs(value) <= _MOST else "a huge number"
    shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
    return InvalidFileError(f"{where}: {key} is {shown}, expected what floodtide train writes")
