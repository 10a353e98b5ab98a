# SPDX-License-Identifier: Apache-2.0
"""The benchmark of U-Nets: what its rows hold, not how fast anything is."""

from __future__ import annotations

import importlib.util
import json
import math
import time

import pytest
from click.testing import CliRunner

from floodtide import config, errors
from floodtide.bench import passes, rows, shapes
from floodtide.cli.bench import command

pytestmark = pytest.mark.extra

SMALL = config.from_dict(
    shapes.NETWORKS["unet"],
    overrides=["model.depth=2", "data.patch=[1,8,12]", "training.batch=2"],
)
BOTH = ("step", "forward")
ONCE = shapes.Timing(threads=(1,), seconds=0.0)


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here depends on the pauses between measurements."""
    monkeypatch.setattr("floodtide.bench.rows._PAUSE_S", 0.0)


def test_rows_of_a_small_network() -> None:
    step, forward = passes.measure(SMALL, BOTH, ONCE)
    assert (step["name"], forward["name"]) == ("unet step", "unet forward")
    assert step["samples"] >= 20
    assert sum(int(part.split()[0]) for part in step["kernel"].split(", ")) == 6
    assert step["peak_memory_mib"] > 0
    assert step["images_per_s"] == pytest.approx(2 / step["median_s"])
    # Three passes of all convolutions less the first backward-data, in direct products.
    y, x = 8, 12
    below = (y // 2) * (x // 2)
    top = y * x * (9 * (16 + 16 * 16 + 32 * 16 + 16 * 16) + 16 * 2)
    bottom = below * (9 * (16 * 32 + 32 * 32) + 4 * 32 * 16)
    flops = 2 * 2 * (3 * (top + bottom) - y * x * 9 * 16)
    assert step["gflops"] * step["median_s"] * 1e9 == pytest.approx(flops)
    assert forward["gflops"] * forward["median_s"] * 1e9 == pytest.approx(4 * (top + bottom))


def test_programs_that_run_onnx_models_have_rows_of_forward_passes() -> None:
    step, forward, other = passes.measure(SMALL, BOTH, ONCE, "onnxruntime")
    assert (step["name"], other["name"]) == ("unet step", "unet forward onnxruntime")
    assert "speedup" not in step
    assert forward["speedup"] == pytest.approx(other["median_s"] / forward["median_s"])


def test_a_peer_that_is_far_slower_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    slow = {"ours": lambda: None, "emulated": lambda: time.sleep(2.1)}
    (row,) = rows.compared("x", slow, {}, flops=1.0, examples={}, seconds=0.0)
    assert (row["name"], "speedup" in row) == ("x", False)
    assert "emulated is left out: a pass takes 2.1 s" in capsys.readouterr().err


def test_only_a_peer_may_fail(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise AssertionError("wrong strides\nof a tensor")

    one = {"ours": lambda: None, "torch-compile channels_last_3d": fails}
    (row,) = rows.compared("x", one, {}, flops=1.0, examples={}, seconds=0.0)
    assert (row["name"], "speedup" in row) == ("x", False)
    said = capsys.readouterr().err
    assert "torch-compile channels_last_3d is left out: it fails with AssertionError: wrong" in said
    assert "of a tensor" not in said
    with pytest.raises(AssertionError):
        list(rows.compared("x", {"ours": fails}, {}, flops=1.0, examples={}, seconds=0.0))


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch, the yardstick, is not installed"
)
def test_pytorch_runs_the_same_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_OTHER_FORMAT", math.inf)
    made = list(passes.measure(SMALL, BOTH, ONCE, "torch"))
    assert [row["name"] for row in made] == [
        f"unet {what}{who}"
        for what in ("step", "forward")
        for who in ("", " torch contiguous", " torch channels_last")
    ]
    ours, *others = made[:3]
    best = min(row["median_s"] for row in others)
    assert ours["speedup"] == pytest.approx(best / ours["median_s"])


def test_the_command_prints_rows_and_refuses_what_it_cannot_compare_with() -> None:
    arguments = ["unet", "--set", "model.depth=1", "--set", "data.size=[4,4]", "--seconds", "0"]
    arguments += ["--set", "training.batch=1"]
    done = CliRunner().invoke(command, [*arguments, "--threads", "1", "--json"])
    assert done.exit_code == 0, done.output
    names = [json.loads(line)["name"] for line in done.output.splitlines()]
    assert names == ["unet step", "unet forward"]
    with pytest.raises(
        errors.InvalidArgumentError, match="'caffe', expected names of torch, torch-bf16"
    ):
        list(passes.measure(SMALL, BOTH, ONCE, "caffe"))
