# SPDX-License-Identifier: Apache-2.0
"""How networks learn: one class for flood filling, and one for patches with any task."""

from __future__ import annotations

from floodtide.base.networks import section_of
from floodtide.base.options import FLOOD, PATCHES
from floodtide.config import Config
from floodtide.train.learners.flood import FloodLearner
from floodtide.train.learners.learner import Learner, Model
from floodtide.train.learners.patches import PatchLearner

LEARNERS: dict[str, type[Learner]] = {FLOOD: FloodLearner, PATCHES: PatchLearner}
"""By the kind of examples."""


def learner_of(config: Config) -> type[Learner]:
    """Return how the network of a configuration learns its task."""
    return LEARNERS[config.task.examples]


def learner_of_model(model: Model) -> type[Learner]:
    """Return how a network learns."""
    return LEARNERS[section_of(model.core).examples]
