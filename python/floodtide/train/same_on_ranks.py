# SPDX-License-Identifier: Apache-2.0
"""Checks at the start of a command that all ranks have the same task and the same version of floodtide.

Ranks that train with different rates, or with another version's arithmetic, drift apart without an error. Each check
costs one small message if all is well.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from floodtide import _core
from floodtide.base.data_options import volume_name
from floodtide.base.options import ANY, FOLDER, shown
from floodtide.comm import world
from floodtide.errors import ConfigurationError, on_all_ranks

_MOST_KEYS = 3  # that a message lists


def require_same(command: str, values: Mapping[str, Any], what: str) -> None:
    """Raise on all ranks unless all have the same floodtide and these values. Collective.

    Args:
        command: Begins the message.
        values: Numbers, texts, truth values, lists of them or None, by name.
        what: Names them in the message, such as "configuration".

    Raises:
        ConfigurationError: Names the first keys that differ, and two values with a rank for each.
    """
    if world.current().size == 1:
        return
    own = json.dumps({"the version": version(), **values}, sort_keys=True, default=str).encode()
    if len(set(world.current().allgather(hashlib.sha256(own).digest()))) == 1:
        return
    found = differences([json.loads(one) for one in world.current().allgather(own)])
    message = f"{command}: {found}; expected the same {what} on every rank"
    raise on_all_ranks(ConfigurationError(message))


@functools.cache
def version() -> str:
    """Return the version of floodtide with a fingerprint of the core, which differs between builds of one version."""
    checksum = zlib.crc32(Path(_core.__file__).read_bytes())
    return f"floodtide {_core.__version__} (build {checksum:08x})"


def comparable_keys(section: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of a configuration, as users name them, with the values that all ranks must share.

    Options may differ as their field's `differs` says: `run.threads`, and the folders of files that are read.
    """
    for field in dataclasses.fields(section):
        key, value = prefix + field.name, getattr(section, field.name)
        differs = field.metadata.get("differs")
        if differs == ANY:
            continue
        if dataclasses.is_dataclass(value):
            yield from comparable_keys(value, f"{key}.")
        elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            for index, table in enumerate(value):
                yield from comparable_keys(table, f"{key}.{index}.")
        elif isinstance(value, Mapping):
            table = prefix if "rows" in field.metadata else f"{key}."
            for name, one in value.items():
                yield f"{table}{name}", _comparable(one, differs)
        else:
            yield key, _comparable(value, differs)


def _comparable(value: Any, differs: str | None) -> Any:
    return os.path.basename(volume_name(value)) if differs == FOLDER else value


def differences(tables: Sequence[Mapping[str, Any]]) -> str:
    """Return "optimizer.lr is 0.001 on rank 0 and 0.1 on rank 1", for the first keys that differ."""
    found = []
    for key in dict.fromkeys(key for table in tables for key in table):
        texts = [shown(table[key]) if key in table else "missing" for table in tables]
        other = next((rank for rank, text in enumerate(texts) if text != texts[0]), None)
        if other is not None:
            found.append(f"{key} is {texts[0]} on rank 0 and {texts[other]} on rank {other}")
    return ", ".join(found[:_MOST_KEYS])
