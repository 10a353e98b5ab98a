# SPDX-License-Identifier: Apache-2.0
"""What networks learn: a task is one file here, with its row in TASKS. `task.kind` of a configuration names it."""

from floodtide.base.tasks.affinities import Affinities, ShapeDescriptors
from floodtide.base.tasks.classes import Classes
from floodtide.base.tasks.distance import Distance
from floodtide.base.tasks.task import FloodTask, PatchTask, Task

TASKS: tuple[type[Task], ...] = (FloodTask, Classes, Affinities, ShapeDescriptors, Distance)
"""The sections [task] of a configuration."""

BY_KIND: dict[str, type[Task]] = {task.kind: task for task in TASKS}
"""The tasks by their names, `task.kind`."""

__all__ = [
    "Affinities", "Classes", "Distance", "FloodTask", "PatchTask", "ShapeDescriptors", "Task",
]  # fmt: skip
