# SPDX-License-Identifier: Apache-2.0
"""Registry of the kinds of networks that floodtide trains: one class for each value of `model.kind`."""

from __future__ import annotations

from floodtide.config import Config
from floodtide.train.kinds.ffn import FloodTask
from floodtide.train.kinds.task import Model, Task
from floodtide.train.kinds.unets import PatchesTask, SlicesTask

KINDS: tuple[type[Task], ...] = (FloodTask, SlicesTask, PatchesTask)


def kind_of(config: Config) -> type[Task]:
    """Return the kind of network that a configuration describes."""
    return next(kind for kind in KINDS if type(config.model) is kind.section)


def kind_of_model(model: Model) -> type[Task]:
    """Return the kind of a network."""
    return next(kind for kind in KINDS if isinstance(model, kind.model_class))
