# SPDX-License-Identifier: Apache-2.0
"""What a segmentation depends on, for work that continues later: the network's parameters and the options."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from floodtide.config import to_dict
from floodtide.config.segment_options import SegmentOptions
from floodtide.errors import InvalidArgumentError

_LEFT_OUT = ("checkpoint", "image", "box", "subvolume", "overlap", "checkpoint_interval", "forward")
LETTERS = 16  # of a digest


def digest(model: Any) -> str:
    """Return a text that differs for networks with other parameters; empty for an object that does not show them."""
    if not hasattr(model, "parameters"):
        return ""
    found = hashlib.sha256()
    for name, values in sorted(model.parameters().items()):
        found.update(name.encode())
        found.update(np.ascontiguousarray(values).tobytes())
    return found.hexdigest()[:LETTERS]


def options_of(options: SegmentOptions, model: Any) -> dict[str, Any]:
    """Return the options on which a segmentation depends, as JSON values.

    Options that place it, or only decide how fast it is, are left out.
    """
    kept = {name: value for name, value in to_dict(options).items() if name not in _LEFT_OUT}
    return kept | {"fov": list(model.fov), "deltas": list(model.deltas)}


def other_work(begun: str, name: str, here: Any, there: Any, how: str) -> InvalidArgumentError:
    """Return the error of work that cannot continue, because it was begun with another value.

    Args:
        begun: What was begun, for the message: "out: its subvolumes were made".
        name, here, there: Name of the value, the value now and the one then. Of dictionaries, the first difference
            counts.
        how: How the work can go on, for the message: "expected the same, or another directory".
    """
    while isinstance(here, dict) and isinstance(there, dict):
        changed = [key for key in here if here[key] != there.get(key)]
        if not changed:
            break
        name, here, there = changed[0], here[changed[0]], there.get(changed[0])
    return InvalidArgumentError(f"{begun} with {name} = {there}, now it is {here}; {how}")
