# SPDX-License-Identifier: Apache-2.0
"""Convert configurations to nested dictionaries of plain values, as TOML stores them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from floodtide.config import reader
from floodtide.config.networks import FLOOD


def to_dict(config: Any) -> dict[str, Any]:
    """Return a configuration as nested dictionaries of plain values. This is the inverse of `from_dict`."""
    return _table(config, config.model.kind if hasattr(config, "model") else FLOOD)


def _table(section: Any, kind: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for field in dataclasses.fields(section):
        if not reader.applies(field, kind):
            continue
        value = getattr(section, field.name)
        if isinstance(value, Mapping):
            result.update(value)
        elif value is not None:
            result[field.name] = _plain(value, kind)
    return result


def _plain(value: Any, kind: str) -> Any:
    if dataclasses.is_dataclass(value):
        return _table(value, kind)
    if isinstance(value, (tuple, list)):
        return [_plain(item, kind) for item in value]
    return value
