# SPDX-License-Identifier: Apache-2.0
"""Why a checkpoint does not fit the configuration that resumes from it, in the words of the configuration."""

from __future__ import annotations

from floodtide import _core
from floodtide import config as configuration
from floodtide.base import reading
from floodtide.config import Config
from floodtide.errors import Error

_FREE = ("initial_weights",)  # keys of [model] that may change when a run resumes


def other_model(checkpoint: str, config: Config) -> str:
    """Return one line that names the keys of [model] in which a checkpoint differs from a configuration.

    Returns:
        The line; empty if no key differs, or if the checkpoint's configuration cannot be read.
    """
    try:
        text = _core.stored_configuration(checkpoint)
        stored = configuration.from_dict(reading.parse_toml(text, checkpoint), checkpoint).model
    except Error:
        return ""
    before, now = configuration.to_dict(stored), configuration.to_dict(config.model)
    keys = [key for key in now if key not in _FREE and before.get(key) != now[key]]
    if not keys:
        return ""
    differences = " and ".join(
        f"model.{key} = {before.get(key, 'missing')} (now {now[key]})" for key in keys
    )
    return (
        f"{checkpoint} was trained with {differences}: set {' and '.join(f'model.{key}' for key in keys)} back to"
        " resume, or give the new training another run.dir"
    )
