# SPDX-License-Identifier: Apache-2.0
"""What the report relies on in a run's records and configuration, checked once when they are read.

A key may be absent (older logs), and there may be others (newer ones); a key that is there has the type named here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from floodtide.errors import InvalidFileError

Check = Callable[[Any], bool]

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


def optional(check: Check) -> Check:
    """Null, or what `check` takes."""
    return lambda value: value is None or check(value)


def one_of(*names: str) -> Check:
    """One of some texts."""
    return lambda value: isinstance(value, str) and value in names


def list_of(check: Check) -> Check:
    """A list of what `check` takes."""
    return lambda value: isinstance(value, list) and all(map(check, value))


def table(required: Mapping[str, Check], others: Mapping[str, Check] | None = None) -> Check:
    """An object with the `required` keys; those of `others` that are there fit, too."""

    def check(value: Any) -> bool:
        return (
            isinstance(value, dict)
            and all(key in value and fits(value[key]) for key, fits in required.items())
            and all(key not in value or fits(value[key]) for key, fits in (others or {}).items())
        )

    return check


def table_of(check: Check) -> Check:
    """An object all whose values `check` takes."""
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def some_of(check: Check) -> Check:
    """An object with at least one value, all of which `check` takes."""
    return lambda value: value != {} and table_of(check)(value)


_FIGURES = table_of(number)
_START: dict[str, Check] = {
    "unit": one_of("fovs", "slices", "patches"),
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
_VALIDATION: dict[str, Check] = {
    "cross_entropy": number,
    "first_pass": _FIGURES,
    "moves": _FIGURES,
    "trivial": table_of(_FIGURES),
    "trivial_moves": table_of(_FIGURES),
    "patients": list_of(text),
    "classes": list_of(
        table(
            {
                "class": count,
                "dice_pooled": optional(finite),
                "dice_mean": optional(finite),
                "dice_everything": finite,
                "dice_patients": list_of(optional(finite)),
            }
        )
    ),
    "affinities": some_of(
        table(
            dict.fromkeys(
                (
                    "average_precision",
                    "boundary_average_precision",
                    "share_of_ones",
                    "f1",
                    "mcc",
                ),
                number,
            )
        ),
    ),
}
_NEEDED = {"slices": ("classes", "patients"), "patches": ("affinities",)}
_SIZE = list_of(lambda value: finite(value) and value > 0)
_CONFIGURATION: dict[str, Check] = {
    "data": table(
        {},
        {
            "volumes": list_of(
                table(
                    {},
                    {
                        "name": text,
                        "image": text,
                        "labels": text,
                        "voxel_size_nm": lambda value: _SIZE(value) and len(value) == 3,
                    },
                )
            ),
            "slices": list_of(table({}, {"images": text})),
        },
    ),
    "run": table({}, {"seed": count}),
    "model": table({}),
    "training": table(
        {},
        {"steps": count, "loss": text, "walkers": count, "batch": positive, "accumulate": positive},
    ),
    "optimizer": table({}, {"name": text, "lr": lambda value: finite(value) and value >= 0}),
    "schedule": table({}),
    "validation": table({}),
    "segment": table({}, {"image": text}),
    "comm": table({}, {"mode": text, "contributors": count}),
}
SCORES = list_of(table({"name": text}))
FAILURE = table({"reason": text})


def check_record(record: Mapping[str, Any], where: str) -> None:
    """Refuse a record of a log that the report could not use.

    Raises:
        InvalidFileError: It names the key.
    """
    common: dict[str, Check] = {"step": count, "time_s": seconds}
    others = {"start": _START, "validation": _VALIDATION}.get(str(record.get("kind")), {})
    for key, fits in {**common, **others}.items():
        if key in record and not fits(record[key]):
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
    for key, fits in _CONFIGURATION.items():
        if key in config and not fits(config[key]):
            raise _unexpected(where, key, config[key])


def _unexpected(where: str, key: str, value: Any) -> InvalidFileError:
    shown = repr(value) if not isinstance(value, int) or abs(value) <= _MOST else "a huge number"
    shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
    return InvalidFileError(f"{where}: {key} is {shown}, expected what floodtide train writes")
