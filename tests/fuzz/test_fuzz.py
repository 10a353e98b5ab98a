# SPDX-License-Identifier: Apache-2.0
"""The fuzzer's own verdicts."""

from __future__ import annotations

import sys
from pathlib import Path

RUN = Path(__file__).with_name("run.py")


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
