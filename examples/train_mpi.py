# SPDX-License-Identifier: Apache-2.0
"""Train a network under MPI from a script of your own, with a callback that sees the log.

    mpiexec -n 2 python examples/train_mpi.py CONFIG.toml [section.key=value ...]

The same as `floodtide train`, to be changed: stop early, adapt something, send figures elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import floodtide as ft


class StopWhenGood:
    """Ends the run once the loss stays below a limit for some records."""

    def __init__(self, limit: float, records: int) -> None:
        self.limit = limit
        self.records = records
        self.good = 0

    def __call__(self, trainer: ft.train.Trainer, record: Mapping[str, Any]) -> None:
        """Called on rank 0 with every record of the log."""
        if record["kind"] == "train":
            self.good = self.good + 1 if record["loss"] < self.limit else 0
            print(f"step {record['step']}: loss {record['loss']:.4f}", flush=True)
            if self.good >= self.records:
                trainer.stop()  # all ranks end with the next step, and save a checkpoint


def main() -> None:
    """Train as the configuration says."""
    ft.init()
    config = ft.config.load(sys.argv[1], sys.argv[2:])
    with ft.train.Trainer(config, callbacks=[StopWhenGood(limit=0.1, records=3)]) as trainer:
        for step in trainer:
            if step.number == 0:
                print(f"loss of this rank's first fields of view: {step.loss:.4f}", flush=True)
    ft.shutdown()


if __name__ == "__main__":
    main()
