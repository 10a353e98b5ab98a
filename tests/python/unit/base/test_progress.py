# SPDX-License-Identifier: Apache-2.0
"""The progress display's estimate of the time left."""

import pytest

from floodtide.base import progress


def test_work_of_an_earlier_call_does_not_shorten_the_estimate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    display = progress.Progress("examples", "sweep")
    display(900, 1000)  # 900 were there before
    now_s = 140.0
    display(920, 1000)
    assert capsys.readouterr().err == "sweep: 920 of 1000 examples, about 160 s left\n"


def test_there_is_no_estimate_before_the_first_work_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    display = progress.Progress("examples", "sweep")
    display(900, 1000)
    now_s = 140.0
    display(900, 1000)
    assert capsys.readouterr().err == "sweep: 900 of 1000 examples\n"


def test_a_note_stands_beside_the_work_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s)
    with progress.bar("voxels", "segment", line_every_s=10.0, note=lambda: "7 calls/s") as display:
        display(0, 50)
        now_s = 9.0
        display(3, 50)
        now_s = 10.0
        display(5, 50)
    assert capsys.readouterr().err == "segment: 5 of 50 voxels, 7 calls/s, about 90 s left\n"
