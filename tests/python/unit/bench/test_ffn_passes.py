# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench step`: rows have the promised fields, the comparison and its absence are clear."""

from __future__ import annotations

import importlib.util
import json
import math
from typing import Any

import pytest
from click.testing import CliRunner

from floodtide import config, errors, nn
from floodtide.bench import passes, rows, shapes
from floodtide.cli.bench import command

pytestmark = pytest.mark.extra

SMALL = config.from_dict(
    {
        "model": {"depth": 2, "fov": [5, 5, 5], "features": 4, "deltas": [0, 0, 0]},
        "training": {"walkers": 2},
    }
)
ONCE = shapes.Timing(threads=(1,), seconds=0.0)


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here depends on the pauses between measurements."""
    monkeypatch.setattr("floodtide.bench.rows._PAUSE_S", 0.0)


def test_a_row_has_the_promised_fields_and_they_agree() -> None:
    arguments = "step --set model.depth=2 --set model.fov=[3,5,7] "
    arguments += "--set model.features=4 --set training.walkers=2 --threads 1 --seconds 0 --json"
    result = CliRunner().invoke(command, arguments.split(), standalone_mode=False)
    assert result.exception is None, result.output
    (row,) = (json.loads(line) for line in result.output.splitlines())
    assert row["name"] == "step"
    assert row["shape"] == "depth 2, 4 features, 3x5x7, batch 2"
    assert row["samples"] >= 20
    assert "speedup" not in row
    flops = passes.flops_of(nn.FFN(2, features=4).core, 2 * 3 * 5 * 7)["step"]
    assert row["gflops"] == pytest.approx(flops / row["median_s"] * 1e-9)
    assert row["ratio"] == pytest.approx(row["gflops"] / row["peak_gflops"])
    assert row["fovs_per_s"] == pytest.approx(2 / row["median_s"])
    assert 0 < row["step_memory_mib"] < row["peak_memory_mib"]


def test_forward_is_a_benchmark_of_its_own() -> None:
    arguments = "forward --set model.depth=2 --set model.fov=[3,5,7] "
    arguments += "--set model.features=16 --threads 1 --seconds 0 --json"
    result = CliRunner().invoke(command, arguments.split(), standalone_mode=False)
    assert result.exception is None, result.output
    (row,) = (json.loads(line) for line in result.output.splitlines())
    assert row["name"] == "forward"
    flops = passes.flops_of(nn.FFN(2, features=16).core, 3 * 5 * 7)["forward"]
    assert flops == 2 * 27 * 3 * 5 * 7 * (2 * 16 + 3 * 16 * 16)
    assert row["gflops"] == pytest.approx(flops / row["median_s"] * 1e-9)


def test_flops_of_a_step_are_three_passes_less_the_first_backward_data() -> None:
    voxels, features = 3 * 5 * 7, 4
    first, other = 2 * features, features * features
    expected = 2 * 27 * voxels * (2 * first + 3 * 3 * other)
    assert passes.flops_of(nn.FFN(2, features=features).core, voxels)["step"] == expected


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="PyTorch, what this compares with, is not installed (dependency group `oracle`)",
)
def test_against_torch_has_a_row_for_each_memory_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_OTHER_FORMAT", math.inf)
    for name in ("step", "forward"):
        ours, *others = passes.measure(SMALL, [name], ONCE, "torch")
        assert [row["kernel"] for row in others] == ["torch contiguous", "torch channels_last_3d"]
        best = min(row["median_s"] for row in others)
        assert ours["speedup"] == pytest.approx(best / ours["median_s"])
    ours, *others = passes.measure(SMALL, ["step"], ONCE, "torch-bf16")
    assert [row["kernel"] for row in others] == [
        "torch-bf16 contiguous",
        "torch-bf16 channels_last_3d",
    ]


def test_a_step_of_the_benchmark_lowers_the_loss() -> None:
    made = passes.FfnPasses(SMALL)
    losses = [made.step() for _ in range(20)]
    assert losses[-1] < losses[0]


def test_what_cannot_be_compared_with_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        errors.InvalidArgumentError, match="'caffe', expected names of torch, torch-bf16, "
    ):
        list(passes.measure(SMALL, ["step"], ONCE, "caffe"))

    def find_nothing(name: str) -> Any:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", find_nothing)
    with pytest.raises(
        errors.UnsupportedError, match="--against torch needs torch, expected to be installed"
    ):
        list(passes.measure(SMALL, ["step"], ONCE, "torch"))
