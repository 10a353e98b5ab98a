# SPDX-License-Identifier: Apache-2.0
"""A training over ranks that is killed at random moments and started again, until it ends.

    python tests/python/faults/random_kills.py --kills 100       minutes

A checkpoint is written after every step, so that most kills come while one is written. After each kill the job must be
gone, status not 0, and every checkpoint readable. Each run that reaches its end must have the bits of the run that was
never killed; then the next one begins.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "mpi")]

import tomli_w  # noqa: E402
from launch import ENVIRONMENT, MPIEXEC  # noqa: E402
from processes import kill, kill_job, wait_until_gone  # noqa: E402
from storage_faults import checkpoints  # noqa: E402
from training_volume import document, write_volume  # noqa: E402

STEPS = 60
END_S = 60
EVERY_STEP = {"run": {"checkpoint_every_s": 0.0}}

# A rank tells its process id, then trains as the command line does.
TRAIN = """
import os, sys, floodtide
from floodtide.cli import main
floodtide.init()
name = f"{sys.argv[2]}.{floodtide.rank()}"
open(name + ".part", "w").write(str(os.getpid()))
os.replace(name + ".part", name)
main(["train", sys.argv[1]])
"""


class Job:
    """A training over ranks, which can be killed."""

    def __init__(
        self,
        folder: Path,
        name: str,
        ranks: int,
        *,
        program: str = TRAIN,
        arguments: Sequence[str] = (),
        **sections: dict[str, Any],
    ) -> None:
        self.run = folder / name
        self._pid_files = [folder / f"{name}.{rank}" for rank in range(ranks)]
        for path in self._pid_files:
            path.unlink(missing_ok=True)
        sections = {
            "training": {"steps": STEPS, "walkers": 4},
            **sections,
            "run": {"dir": str(self.run), **sections.get("run", {})},
        }
        configuration = self.run.with_suffix(".toml")
        configuration.write_text(tomli_w.dumps(document(folder, **sections)))
        self._started_s = time.time()
        command = [str(MPIEXEC), "-n", str(ranks), sys.executable, "-c", program]
        self._process = subprocess.Popen(
            [*command, configuration, self.run, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **ENVIRONMENT},
            start_new_session=True,
        )

    def pids(self) -> list[int]:
        """The ranks' processes, once all have begun."""
        self._wait_until(lambda: all(path.exists() for path in self._pid_files))
        return [int(path.read_text()) for path in self._pid_files]

    def wait_for_training(self) -> None:
        """Until the first line of this job is in the log: the next is the first step."""
        log = self.run / "log.jsonl"
        self._wait_until(
            lambda: (
                log.exists() and log.stat().st_mtime > self._started_s and log.stat().st_size > 0
            )
        )

    def _wait_until(self, come: Callable[[], bool]) -> None:
        deadline = time.monotonic() + END_S
        while not come():
            if self._process.poll() is not None or time.monotonic() > deadline:
                kill_job(self._process)
                raise AssertionError(f"the ranks do not begin: {self._process.communicate()[1]}")
            time.sleep(0.005)

    def over_within(self, seconds: float) -> bool:
        """Whether the job ends within that time."""
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def finish(self, timeout_s: float = END_S) -> tuple[int, str]:
        """Wait for the job's end; its exit status and what it said."""
        try:
            _, said = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            kill_job(self._process)
            raise AssertionError(f"no end after {timeout_s} s") from None
        return self._process.returncode, said


def campaign(kills: int, ranks: int, seed: int) -> None:
    """Kill so many times; AssertionError says what is wrong."""
    generator = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="random-kills-") as name:
        folder = Path(name).resolve()
        write_volume(folder)
        whole = Job(folder, "whole", ranks, **EVERY_STEP)
        whole.pids()
        begun_s = time.monotonic()
        whole.wait_for_training()
        training_s = time.monotonic()
        status, said = whole.finish()
        assert status == 0, said
        end_s = time.monotonic()
        bits = checkpoints(whole.run)[f"step-{STEPS}.h5"]
        print(
            f"not killed: {training_s - begun_s:.2f} s to the first step, {end_s - training_s:.2f} s to the end; "
            f"bits {bits[:16]}",
            flush=True,
        )

        done = ended = 0
        resumed_at: list[int] = []
        run = folder / "killed"
        while done < kills or run.exists():
            job = Job(folder, "killed", ranks, **EVERY_STEP)
            pids = job.pids()
            lasts_s = end_s - begun_s
            if generator.random() < 0.8:  # the others may come before the first step
                job.wait_for_training()
                lasts_s = end_s - training_s
            if done < kills and not job.over_within(generator.uniform(0, lasts_s)):
                # One rank, or all at once as when a node is lost.
                kill(pids if generator.random() < 0.25 else [generator.choice(pids)])
                status, said = job.finish()
                left = wait_until_gone(pids, 10)
                assert not left, f"ranks {left} outlive the job"
                done += 1
                if status != 0:
                    found = checkpoints(run)  # raises if one cannot be read
                    resumed_at.append(max((int(name[5:-3]) for name in found), default=0))
                    continue
            else:
                status, said = job.finish()
            assert status == 0, said
            assert checkpoints(run)[f"step-{STEPS}.h5"] == bits, f"other bits after {done} kills"
            ended += 1
            shutil.rmtree(run)
        print(f"{done} kills, newest checkpoint after each: {resumed_at}", flush=True)
        print(f"{ended} runs ended, all with the bits of the run that was not killed")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    campaign(options.kills, options.ranks, options.seed)


if __name__ == "__main__":
    main()
