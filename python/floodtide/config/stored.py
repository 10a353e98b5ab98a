# SPDX-License-Identifier: Apache-2.0
"""The configurations that checkpoints store."""

from __future__ import annotations

from pathlib import Path

from floodtide.base import network_files, reading
from floodtide.config.reader import from_dict
from floodtide.config.sections import Config
from floodtide.errors import ConfigurationError


def stored(checkpoint: str | Path) -> Config | None:
    """Return the configuration that the file of a network stores; None if it stores none."""
    text = network_files.stored_text(checkpoint, "configuration")
    where = f"{checkpoint}: configuration"
    return from_dict(reading.parse_toml(text, where), where) if text else None


def require_same_task(checkpoint: str | Path, config: Config, what: str) -> Config | None:
    """Return the configuration that a checkpoint stores; refuse one of another task, or with other outputs.

    Args:
        checkpoint: A floodtide checkpoint. One that stores no configuration is accepted.
        config: The configuration. Classes without a table may be any classes.
        what: Start of the message, such as the key that names the checkpoint.
    """
    settings, task = stored(checkpoint), config.task
    if settings is not None and not task.is_learnt_with(settings.task):
        raise ConfigurationError(
            f"{what}: {checkpoint} has learnt the task {settings.task.outputs}, expected {task.outputs}, as [task] says"
        )
    return settings
