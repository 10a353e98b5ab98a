# SPDX-License-Identifier: Apache-2.0
"""Some trials of the fuzzer, and its own verdicts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.extra

RUN = Path(__file__).with_name("run.py")
TRIALS, SEED, PARTS = 250, 500, 2


def test_trials_of_a_fixed_seed_pass(tmp_path: Path) -> None:
    """Limits are times of the processor: a busy machine changes no verdict."""
    words = [sys.executable, str(RUN), "--trials", str(TRIALS), "--seed", str(SEED)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "OMP_NUM_THREADS": "1",
    }
    parts = [
        subprocess.Popen(
            [*words, "--part", f"{number}/{PARTS}", "--temporary", str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for number in range(PARTS)
    ]
    printed = [part.communicate()[0] for part in parts]
    assert [part.returncode for part in parts] == [0] * PARTS, "\n".join(printed)
    trials = [int(text.splitlines()[-1].split()[0]) for text in printed]
    assert sum(trials) == TRIALS


def test_a_failure_fails_the_run(tmp_path: Path) -> None:
    """A verdict of the fuzzer itself: a command that breaks every rule is found."""
    sys.path.insert(0, str(RUN.parent.parent))
    from fuzz import trial

    def judge(status: int, stderr: str, after: dict[str, str], **rules: tuple[str, ...]) -> str:
        ending = trial.Ending(status, "", stderr, 0.1, 1 << 20, False)
        known = {"outputs": (), "changes": (), "whole": (), **rules}
        return trial.verdict(ending, {"input": "a"}, after, **known)[0]

    same = {"input": "a"}
    assert judge(2, "floodtide train: wrong\n", same) == "refused"
    assert judge(2, "", same) == "untidy"
    assert judge(1, "floodtide train: wrong\nand more\n", same) == "untidy"
    assert judge(1, "Traceback (most recent call last):\n  x\nKeyError: 1\n", same) == "traceback"
    assert judge(-11, "", same) == "crash"
    assert judge(-9, "", same) == "hang"
    assert judge(0, "", {"input": "b"}) == "modified"
    assert judge(2, "floodtide train: wrong\n", {**same, "out.h5.partial": "c"}) == "leftover"
    assert (
        judge(2, "floodtide x: no\n", {**same, "out": "c"}, outputs=("out",), whole=("out",))
        == "leftover"
    )
    assert judge(0, "", same, whole=("out",)) == "silent"
    assert judge(0, "", same) == "accepted"
    assert judge(0, "mean nan\n", same) == "silent"
    assert (
        judge(0, "floodtide: note: a.h5: is [nan], expected three numbers: not used\n", same)
        == "accepted"
    )
