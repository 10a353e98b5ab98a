# SPDX-License-Identifier: Apache-2.0
"""Sweeps: many trainings of one configuration, with every combination of some values."""

from floodtide.lab.sweep.grid import Cell, Sweep, load
from floodtide.lab.sweep.running import Outcome, run

__all__ = ["Cell", "Outcome", "Sweep", "load", "run"]
