# SPDX-License-Identifier: Apache-2.0
"""Truth near borders does not count: against a slow twin and figures of cremi_python, and on the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given, settings
from hypothesis import strategies as st

from floodtide import cli, errors, evaluate
from floodtide.cli import evaluate as evaluate_cli
from floodtide.data import Volume
from floodtide.evaluate import voxels
from floodtide.evaluate.voxels import near_border


def slow(labels: Any, reach: tuple[float, float]) -> Any:
    """Compare each voxel with each border voxel of its section."""
    near = np.zeros(labels.shape, bool)
    ratio = reach[1] / reach[0]
    for section, out in zip(labels, near, strict=True):
        ny, nx = section.shape
        border = [
            (y, x)
            for y, x in np.ndindex(ny, nx)
            if any(
                0 <= v < ny and 0 <= u < nx and section[v, u] != section[y, x]
                for v, u in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1))
            )
        ]
        for y, x in np.ndindex(ny, nx):
            out[y, x] = any(
                math.sqrt(((y - v) * ratio) ** 2 + (x - u) ** 2) <= reach[1] for v, u in border
            )
    return near


@settings(deadline=None)
@example(seed=0, ids=2, edge=0.1, nm=0.3, stretch=1.0)  # 0.3 / 0.1 is less than 3
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 3),
    st.sampled_from([0.1, 4.0, 5.0]),
    st.sampled_from([0.05, 0.3, 4.0, 20.0, 25.0, 1e12]),
    st.sampled_from([1.0, 2.0, 0.7]),
)
def test_voxels_near_a_border_are_those_of_a_slow_twin(
    seed: int, ids: int, edge: float, nm: float, stretch: float
) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, ids, (2, 3, 4)).repeat(3, 1).repeat(rng.integers(1, 4), 2)
    reach = (nm / (edge * stretch), nm / edge)
    np.testing.assert_array_equal(near_border(labels, reach), slow(labels, reach))


def pieces(centres: Any) -> Any:
    """Return which centre is nearest, from 1, in a volume of (6, 40, 50) voxels."""
    grid = np.stack(np.meshgrid(*map(np.arange, (6, 40, 50)), indexing="ij"), -1)
    distances = ((grid[..., None, :] - centres) ** 2 * (1, 0.1, 0.1)).sum(-1)
    return 1 + distances.argmin(-1)


def scene() -> tuple[Any, Any]:
    """Return a segmentation of 12 segments, and a truth of 11 objects and a part without label."""
    truth, segments = map(pieces, np.random.default_rng(11).random((2, 12, 3)) * (6, 40, 50))
    return segments, np.where(truth == 4, 0, truth)


@pytest.mark.parametrize(
    ("nm", "left", "split", "merge", "rand"),
    [
        (25.0, 1279, 1.1734680076956503, 0.4500386396717964, 0.4087090616003599),
        (8.0, 5347, 1.3821220885159247, 1.2466401527629318, 0.5519864364965079),
        (0.3, 8431, 1.5893380551768004, 1.4967219267455605, 0.6054695903382807),
    ],
)
def test_scores_are_those_of_cremi_python(
    tmp_path: Path, nm: float, left: int, split: float, merge: float, rand: float
) -> None:
    # The figures are those of create_border_mask, voi and adapted_rand of github.com/cremi/cremi_python at commit
    # aa6d211, for this scene with voxels of 4 nm. adapted_rand counts each voxel as a pair with itself.
    segments, truth = scene()
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["segments"], file["truth"] = segments, truth
    pair = [Volume(f"{tmp_path}/v.h5:{name}") for name in ("segments", "truth")]
    found = evaluate.report(*pair, border_nm=nm, voxel_nm=(40, 4, 4))
    assert found is not None
    scores, rows = found.table.scores(), found.table.rows().astype(float)
    assert scores["all_voxels"] == left
    assert scores["all_voi_split"] == pytest.approx(split, rel=1e-12)
    assert scores["all_voi_merge"] == pytest.approx(merge, rel=1e-12)
    rows = rows[rows[:, 1] > 0]
    squares = [(np.bincount(rows[:, i].astype(int), rows[:, 2]) ** 2).sum() for i in (0, 1)]
    assert 1 - 2 * (rows[:, 2] ** 2).sum() / sum(squares) == pytest.approx(rand, rel=1e-12)
    assert scores["all_adapted_rand_error"] == pytest.approx(rand, abs=0.003)
    assert evaluate.scores(*scene())["all_voxels"] > left


@pytest.mark.parametrize("block", [1, 250, 700, 5000, 1 << 24])
def test_blocks_do_not_change_which_voxels_count(
    tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voxels, "BLOCK_VOXELS", block)
    segments, truth = scene()
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["segments"], file["truth"] = segments, truth
    volumes = [Volume(f"{tmp_path}/v.h5:{name}") for name in ("segments", "truth")]
    box = ((1, 3, 2), (4, 35, 40))
    inside = np.s_[1:5, 3:38, 2:42]
    pair = evaluate.Pair(*volumes, box, (2.5, 3.0))
    expected = np.where(near_border(truth[inside], (2.5, 3.0)), 0, truth[inside])
    np.testing.assert_array_equal(pair.read()[1], expected)
    table = evaluate.ContingencyTable()
    table.add(segments[inside].copy(), expected)
    np.testing.assert_array_equal(pair.table().rows(), table.rows())


@pytest.fixture
def names(tmp_path: Path) -> tuple[str, str]:
    segments, truth = scene()
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["segments"], file["truth"] = segments, truth
    return f"{tmp_path}/v.h5:segments", f"{tmp_path}/v.h5:truth"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(evaluate_cli.command, arguments, catch_exceptions=False)


def test_the_command_scores_without_borders(names: tuple[str, str]) -> None:
    asked = ("--border-nm", "8", "--voxel-nm", "40,4,4", "--worst", "2")
    found = json.loads(run(*names, *asked, "--json").stdout)
    assert found["all_voxels"] == 5347
    assert found["trivial"]["everything one object"]["all_voxels"] == 5347
    assert "voxels up to 8 nm from a border in their section do not count" in found["notes"]
    assert sum(mistake["voxels"] for mistake in found["worst"]) < 5347
    low, high = found["intervals"]["all_voi_split"]
    assert low < found["all_voi_split"] < high
    text = run(*names, *asked).stdout
    assert "\n  95 % interval " in text
    assert f"{low:.4f}-{high:.4f}" in text


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("--border-nm", "-1"), "'-1', expected above 0"),
        (("--border-nm", "25"), "the voxel size, which no file states; expected voxel_nm"),
        (
            ("--border-nm", "900", "--voxel-nm", "4"),
            "every voxel of an object is at most 900 nm from",
        ),
        (("--border-nm", "25", "--classes"), "--border-nm is about objects"),
    ],
)
def test_a_distance_that_cannot_be_used_is_one_line(
    names: tuple[str, str], asked: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["evaluate", *names, *asked]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_script_needs_the_voxel_size_too(names: tuple[str, str]) -> None:
    pair = [Volume(name) for name in names]
    with pytest.raises(errors.InvalidArgumentError, match="expected voxel_nm"):
        evaluate.report(*pair, border_nm=25)
    with pytest.raises(errors.InvalidArgumentError, match="border_nm"):
        evaluate.report(*pair, border_nm=-25, voxel_nm=(4, 4, 4))
