# SPDX-License-Identifier: Apache-2.0
"""Jobs in which a rank stops, leaves, or does something else than the others: seconds until the job is over, and why.

    python tests/python/faults/hangs.py                a table of all cases (minutes)
    python tests/python/faults/hangs.py --cases exit   those whose name begins so

Within T + 5 s (T: comm.timeout_s) of the fault, mpiexec must have ended with a status other than 0, no rank may be
left, and what was said must name the rank. SIGSTOP comes at a random moment while the job trains, validates after
every step, or writes a checkpoint after every step; the other faults come at a step.

A rank that vanishes (_exit(0), past Python's and MPI's end) is the launcher's to report: MPICH's mpiexec ends the other
ranks at once, says nothing and returns 0, so that this case is judged with Open MPI alone.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "mpi")]

from launch import MPIEXEC  # noqa: E402
from processes import wait_until_gone  # noqa: E402
from random_kills import Job  # noqa: E402
from training_volume import write_volume  # noqa: E402

TIMEOUT_S = 3.0
MARGIN_S = 5.0
AT_STEP = 20

# A rank tells its process id, trains, and at a step does to itself what the case says.
TRAIN = """
import os, sys, time, floodtide as ft
from floodtide import config
from floodtide.train import Trainer
configuration, name, fault, victim, at = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
ft.init()
open(f"{name}.{ft.rank()}.part", "w").write(str(os.getpid()))
os.replace(f"{name}.{ft.rank()}.part", f"{name}.{ft.rank()}")
trainer = Trainer.from_config(config.load(configuration))
while True:
    if ft.rank() == victim and trainer.steps_done == at:
        open(f"{name}.fault", "w").write(str(time.time()))
        if fault == "another-collective":
            ft.allreduce([1.0])
        elif fault == "sleep":
            time.sleep(1000)
        elif fault == "exit":
            sys.exit(0)
        elif fault == "vanish":
            os._exit(0)
        elif fault == "exception":
            raise RuntimeError("on one rank")
    trainer.step()
"""

SECTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "training": {},
    "validation": {"validation": {"every": 1, "centres": 100}},
    "checkpoint": {"run": {"checkpoint_every_s": 0.0}},
}


class Case(NamedTuple):
    """A fault on a rank: "stop" while the job does `during`, or another one at a step."""

    fault: str
    during: str
    victim: int


def open_mpi() -> bool:
    """Whether the launcher is Open MPI's."""
    version = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, check=True)
    return "open mpi" in version.stdout.lower() or "openrte" in version.stdout.lower()


def all_cases(ranks: int) -> list[Case]:
    """SIGSTOP of the first, second and last rank in each activity; the other faults on the first and the last."""
    cases = [
        Case("stop", during, victim)
        for during in SECTIONS
        for victim in sorted({0, min(1, ranks - 1), ranks - 1})
    ]
    faults = ["another-collective", "sleep", "exit", "exception"]
    if open_mpi():
        faults.append("vanish")
    for fault in faults:
        cases += [Case(fault, "training", victim) for victim in (0, ranks - 1)]
    return cases


def trial(folder: Path, case: Case, ranks: int, generator: random.Random) -> tuple[float, str]:
    """Seconds from the fault to the job's end, and the line that names the rank; AssertionError says what is wrong."""
    name = "-".join(map(str, case))
    sections = {**SECTIONS[case.during], "comm": {"timeout_s": TIMEOUT_S}}
    # The first line of the log loads TensorBoard's library, which takes longer than T where ranks share cores.
    sections["run"] = {"log_every_s": 1000.0, **sections.get("run", {})}
    sections["training"] = {"steps": 10**6, "walkers": ranks}
    if "validation" not in sections:
        sections["validation"] = {"box": ""}
    job = Job(
        folder,
        name,
        ranks,
        program=TRAIN,
        arguments=[case.fault, str(case.victim), str(AT_STEP)],
        **sections,
    )
    pids = job.pids()
    if case.fault == "stop":
        job.wait_for_training()
        assert not job.over_within(generator.uniform(0.2, 1.2)), job.finish()
        os.kill(pids[case.victim], signal.SIGSTOP)
        struck_s = time.time()
    status, said = job.finish(timeout_s=60)
    left = wait_until_gone(pids, 1)
    ended_s = time.time()
    if case.fault != "stop":
        struck = folder / f"{name}.fault"
        assert struck.exists(), f"the job ended before the fault: {said}"
        struck_s = float(struck.read_text())
    assert not left, f"ranks {left} outlive the job: {said}"
    assert status != 0, f"status 0: {said}"
    naming = [line for line in said.splitlines() if re.search(rf"\brank {case.victim}\b", line)]
    assert naming, f"nobody names rank {case.victim}: {said}"
    return ended_s - struck_s, naming[0]


def main() -> None:
    """Parse the command line; print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", default="", help="the beginning of their names")
    options = parser.parse_args()
    generator = random.Random(options.seed)
    wrong = 0
    limit_s = TIMEOUT_S + MARGIN_S
    with tempfile.TemporaryDirectory(prefix="hangs-") as name:
        folder = Path(name).resolve()
        write_volume(folder)
        for case in all_cases(options.ranks):
            if not case.fault.startswith(options.cases):
                continue
            try:
                seconds, line = trial(folder, case, options.ranks, generator)
            except AssertionError as error:
                seconds, line = float("nan"), f"WRONG: {error}"
            wrong += not seconds <= limit_s
            label = f"{case.fault} of rank {case.victim} ({case.during})"
            print(f"{label:42} {seconds:5.1f} s  {line}", flush=True)
    print(f"{wrong} cases wrong; limit {limit_s:g} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
