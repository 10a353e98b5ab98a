# SPDX-License-Identifier: Apache-2.0
"""Measure training steps under a setting: `floodtide lab bench train` in new processes.

OpenMP reads its waiting policy when a process starts.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from floodtide.comm import notebook
from floodtide.config import FfnConfig
from floodtide.errors import UnsupportedError
from floodtide.lab.tune.settings import WAITING, Setting

_LEAST_STEPS = 5
_MOST_STEPS = 2000


@dataclass
class Measurement:
    """Throughput of a setting in one or several rounds."""

    setting: Setting
    fovs_per_s: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Fastest round, in fields of view per second of the host. Other programs can only slow a round down."""
        return max(self.fovs_per_s)

    def row(self, best: float) -> dict[str, Any]:
        """Return a row of results. `best`: throughput of the fastest setting."""
        one = self.setting
        return {
            "ranks": one.ranks,
            "threads": one.threads,
            "walkers": one.walkers,
            "wait": one.wait,
            "fovs_per_s": self.best,
            "spread": self.spread,
            "rounds": len(self.fovs_per_s),
            "share_of_best": self.best / best,
        }

    @property
    def spread(self) -> float:
        """Largest minus smallest round, as a share of the largest."""
        return 1.0 - min(self.fovs_per_s) / self.best


def measure(setting: Setting, network: FfnConfig, *, seconds: float, fovs_per_s: float) -> float:
    """Return the fields of view per second of this host under a setting.

    Args:
        setting: The setting.
        network: The flood-filling network that is trained.
        seconds: Duration of the measured steps.
        fovs_per_s: Expected throughput, for the number of steps.

    Raises:
        UnsupportedError: If the ranks cannot be started, or do not train.
    """
    steps = math.ceil(seconds * fovs_per_s / setting.batch)
    steps = min(max(steps, _LEAST_STEPS), _MOST_STEPS)
    fov = ",".join(map(str, network.fov))
    command = [sys.executable, "-m", "floodtide", "lab", "bench", "train", "--json"]
    command += ["--ranks", str(setting.ranks), "--threads", str(setting.threads)]
    command += ["--depth", str(network.depth), "--features", str(network.features), "--fov", fov]
    command += ["--steps", str(steps), "--set", f"training.walkers={setting.batch}"]
    command += ["--set", f"run.parallel={setting.parallel}"]
    environment = notebook.environment(setting.ranks) | dict(WAITING[setting.wait])
    environment["OMP_NUM_THREADS"] = str(setting.threads)
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=Path.cwd()
    )
    rows = [line for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0 or not rows:
        said = result.stderr.strip().splitlines()
        reason = said[-1] if said else f"exit status {result.returncode}"
        raise UnsupportedError(f"tune: {setting}: {reason}")
    return float(json.loads(rows[0])["fovs_per_s"])
