# SPDX-License-Identifier: Apache-2.0
"""How networks learn: one class for flood filling, and one for patches with any task."""

from __future__ import annotations

from floodtide.base.networks import NetworkConfig
from floodtide.train.learners.flood import FloodLearner
from floodtide.train.learners.learner import Learner
from floodtide.train.learners.patches import PatchLearner

LEARNERS: dict[str, type[Learner]] = {
    learner.data_class.examples: learner for learner in (FloodLearner, PatchLearner)
}


def learner_of(network: NetworkConfig) -> type[Learner]:
    """Return how a network learns, by the examples that it learns from."""
    return LEARNERS[network.examples]
