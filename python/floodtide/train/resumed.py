# SPDX-License-Identifier: Apache-2.0
"""How a configuration differs from the one of the checkpoint from which it resumes, in one line."""

from __future__ import annotations

from floodtide import _core
from floodtide import config as configuration
from floodtide.base import reading
from floodtide.base.options import shown
from floodtide.config import Config
from floodtide.errors import Error
from floodtide.train.same_on_ranks import comparable_keys

_FREE = ("initial_weights",)  # keys of [model] that may change when a run resumes
_TRAINED = ("model.", "optimizer.", "schedule.", "training.", "data.", "augmentation.")


def other_model(checkpoint: str, config: Config) -> str:
    """Return one line that names the keys of [model] in which a checkpoint differs from a configuration.

    Returns:
        The line; empty if no key differs, or if the checkpoint's configuration cannot be read.
    """
    stored = _stored(checkpoint)
    if stored is None:
        return ""
    before, now = configuration.to_dict(stored.model), configuration.to_dict(config.model)
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


def without_effect(checkpoint: str, config: Config) -> str:
    """Return ", so that KEY = VALUE has no effect" for the keys in which a configuration differs from a checkpoint's.

    Keys that do not change what is trained are left out. Empty if there is no other.
    """
    stored = _stored(checkpoint)
    if stored is None:
        return ""
    before = dict(comparable_keys(stored))
    changed = [
        f"{key} = {shown(value)}"
        for key, value in comparable_keys(config)
        if key.startswith(_TRAINED) and key != "training.steps" and before.get(key) != value
    ]
    if not changed:
        return ""
    return f", so that {' and '.join(changed)} {'has' if len(changed) == 1 else 'have'} no effect"


def _stored(checkpoint: str) -> Config | None:
    try:
        text = _core.stored_text(checkpoint, "configuration")
        return configuration.from_dict(reading.parse_toml(text, checkpoint), checkpoint)
    except Error:
        return None
