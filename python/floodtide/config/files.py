# SPDX-License-Identifier: Apache-2.0
"""Configuration files: read TOML, apply overrides, check every key, and write the result."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from floodtide.base import reading
from floodtide.config import reader
from floodtide.config.sections import Config
from floodtide.errors import ConfigurationError, InvalidFileError


def load(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file and apply `a.b=value` overrides.

    Raises:
        InvalidFileError: If the file is missing or not TOML.
        ConfigurationError: If a key is unknown, or a value has the wrong type or is out of range.
    """
    return from_dict(reading.read_toml(path), str(path), overrides)


def from_dict(
    document: Mapping[str, Any], where: str = "configuration", overrides: Sequence[str] = ()
) -> Config:
    """Return the configuration that nested dictionaries hold, as parsed from TOML, with `a.b=value` overrides.

    Raises:
        ConfigurationError: If a key is unknown, or a value has the wrong type or is out of range.
    """
    changed = copy.deepcopy(dict(document))
    for override in overrides:
        _override(changed, override)
    return reader.read(Config, changed, where)


def _override(document: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigurationError(f"--set {override}: expected section.key=value")
    try:
        values = reading.parse_toml(f"value = {text}", f"--set {key}")
    except InvalidFileError:
        values = {}
    value = values["value"] if list(values) == ["value"] else text  # a bare word is a string
    *parents, last = key.strip().split(".")
    node: Any = document
    for part in parents:
        if isinstance(node, list):
            if part not in map(str, range(len(node))):
                raise ConfigurationError(
                    f"--set {override}: '{part}' is not the index of one of the {len(node)} tables, counted from 0"
                )
            node = node[int(part)]
        else:
            node = node.setdefault(part, {})
        if not isinstance(node, (dict, list)):
            raise ConfigurationError(f"--set {override}: '{part}' is a value, not a section")
    if isinstance(node, list):
        raise ConfigurationError(f"--set {override}: expected the index of a table before the key")
    node[last] = value
