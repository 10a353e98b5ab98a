# SPDX-License-Identifier: Apache-2.0
"""Trainings that lose a rank at a random moment and go on with the others (comm.on_lost_rank = "shrink"; Open MPI).

    python tests/python/faults/lost_ranks.py --trials 20      minutes; with the Python of an Open MPI environment

A trial: 3 ranks with 4 walkers, exactness "workers", a checkpoint after every step; one rank gets SIGKILL. The job must
end with status 0 and the bits of a run that lost nobody.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "mpi")]

from processes import kill  # noqa: E402
from random_kills import STEPS, Job  # noqa: E402
from storage_faults import checkpoints  # noqa: E402
from training_volume import write_volume  # noqa: E402

from floodtide.train.run_directory import read_log  # noqa: E402

RANKS = 3
END_S = 180
SECTIONS: dict[str, dict[str, Any]] = {
    "run": {"checkpoint_every_s": 0.0},
    "training": {"steps": STEPS, "walkers": 4},
    "comm": {"on_lost_rank": "shrink", "exactness": "workers"},
}


def start(folder: Path, name: str) -> Job:
    """A job whose launcher lets the others live."""
    return Job(folder, name, RANKS, launch=["--with-ft", "ulfm"], **SECTIONS)


def whole(folder: Path) -> str:
    """Bits of a run that loses nobody."""
    job = start(folder, "whole")
    status, said = job.finish(END_S)
    assert status == 0, said
    return checkpoints(job.run)[f"step-{STEPS}.h5"]


def trial(folder: Path, bits: str, victim: int, step: int, after_s: float) -> str:
    """Lose a rank so long after a step; how the job went on. AssertionError says what is wrong."""
    job = start(folder, "lost")
    pids = job.pids()
    job.wait_for_training()
    while step > 0 and not (job.run / "checkpoints" / f"step-{step}.h5").exists():
        assert not job.over_within(0.002), job.finish()
    time.sleep(after_s)
    kill([pids[victim]])
    status, said = job.finish(END_S)
    assert status == 0, f"status {status}: {said}"
    assert checkpoints(job.run)[f"step-{STEPS}.h5"] == bits, f"other bits: {said}"
    starts = [r for r in read_log(job.run / "log.jsonl") if r["kind"] == "start"]
    assert starts[-1]["ranks"] == RANKS - 1, f"nobody was lost: {starts}"
    shutil.rmtree(job.run)
    return f"went on from step {starts[-1]['step']}"


def main() -> None:
    """Parse the command line; print a line for each trial."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    generator = random.Random(options.seed)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="lost-ranks-") as name:
        folder = Path(name).resolve()
        write_volume(folder)
        bits = whole(folder)
        for number in range(options.trials):
            victim = number % RANKS
            step, after_s = generator.randrange(STEPS * 2 // 3), generator.uniform(0, 0.05)
            try:
                line = trial(folder, bits, victim, step, after_s)
            except AssertionError as error:
                line = f"WRONG: {error}"
                wrong += 1
            print(
                f"rank {victim} lost {after_s * 1e3:.0f} ms after step {step}: {line}", flush=True
            )
    print(f"{options.trials} trials, {wrong} of them wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
