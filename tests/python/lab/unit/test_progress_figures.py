# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab progress`: scores against time and fields of view, and the time to an F1 against walkers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import report_runs

from floodtide import cli

pytestmark = pytest.mark.extra

STEPS = range(0, 401, 100)


def write_run(folder: Path, walkers: int, seed: int, best: float = 0.9, ranks: int = 1) -> Path:
    """A training whose F1 rises evenly to `best` + 0.02 `seed` in 40 s."""
    folder.mkdir(parents=True)
    config = report_runs.CONFIG.replace("seed = 7", f'seed = {seed}\ndir = "{folder}"')
    made = f'partitions = "{folder}/partitions-0.h5:partitions"'  # by each training in its folder
    config = config.replace("voxel_size_nm", f"{made}\nvoxel_size_nm")
    (folder / "config.toml").write_text(f"{config}[training]\nwalkers = {walkers}\n")
    records = [{"kind": "start", "step": 0, "ranks": ranks, "walkers": walkers, "threads": 1}]
    for step in STEPS:
        validated = report_runs.validation_record(step, (best + 0.02 * seed) * step / 400)
        names = ("accuracy_50", "precision_50", "recall_50")
        validated["moves"] |= dict.fromkeys(names, validated["moves"]["f1_50"])
        records += [report_runs.training_record(step, 0.5), validated]
    (folder / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_means_and_deviations_of_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(write_run(tmp_path / f"run{seed}", 8, seed)) for seed in range(3)]
    out = tmp_path / "out"
    assert cli.run(["lab", "progress", *runs, "--out", str(out), "--published"]) == 0
    names = [
        f"{name}{kind}" for kind in (".svg", ".csv") for name in ("scores_by_time", "time_to_f1")
    ]
    assert capsys.readouterr().out.split() == [str(out / name) for name in names]
    assert all((out / name).read_bytes().startswith(b"<?xml") for name in names[:2])
    rows = table(out / "scores_by_time.csv")
    assert [(int(row["step"]), int(row["fovs"]), float(row["time_s"])) for row in rows] == [
        (step, 8 * step, 0.1 * step) for step in STEPS
    ]
    assert float(rows[-1]["f1"]) == pytest.approx(0.92)
    assert float(rows[-1]["f1_deviation"]) == pytest.approx(0.02)
    assert {row["seeds"] for row in rows} == {"3"}


def test_time_to_an_f1_by_walkers(tmp_path: Path) -> None:
    write_run(tmp_path / "runs/one", 1, 0)
    write_run(tmp_path / "runs/fast", 4, 0, ranks=4)
    write_run(tmp_path / "runs/slow", 4, 1, best=0.5)
    out = tmp_path / "out"
    assert (
        cli.run(["lab", "progress", str(tmp_path / "runs"), "--out", str(out), "--target", "0.6"])
        == 0
    )
    assert [
        (row["walkers"], row["ranks"], row["seed"], row["time_s"], row["trained_s"])
        for row in table(out / "time_to_f1.csv")
    ] == [
        ("1", "1", "0", "26.6667", "40.0"),
        ("4", "4", "0", "26.6667", "40.0"),
        ("4", "1", "1", "", "40.0"),
    ]


@pytest.mark.parametrize("lost", ["time_s", "validation"])
def test_a_log_without_times_is_refused(
    lost: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "runs/whole", 1, 0)
    log = write_run(tmp_path / "runs/part", 1, 1) / "log.jsonl"
    lines = log.read_text().replace(lost, "other" if lost == "time_s" else "train").splitlines()
    log.write_text("\n".join(lines) + "\n")
    (log.parent / "failure-rank-0.json").write_text('{"reason": "train: the loss is nan"}')
    assert cli.run(["lab", "progress", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 2
    assert "part: expected a log with validations and times" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_seeds_without_a_common_validation_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "runs/one", 1, 0)
    log = write_run(tmp_path / "runs/two", 1, 1) / "log.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps(one | {"step": one["step"] + 1}) + "\n" for one in records))
    assert cli.run(["lab", "progress", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 2
    assert "no training step at which all were validated" in capsys.readouterr().err


def test_times_of_other_numbers_of_ranks_are_not_averaged(tmp_path: Path) -> None:
    write_run(tmp_path / "runs/two", 4, 0, ranks=2)
    write_run(tmp_path / "runs/one", 4, 1)
    out = tmp_path / "out"
    assert cli.run(["lab", "progress", str(tmp_path / "runs"), "--out", str(out)]) == 0
    rows = table(out / "scores_by_time.csv")
    assert {row["line"] for row in rows} == {"1 rank x 1 thread", "2 ranks x 1 thread"}
    assert {row["seeds"] for row in rows} == {"1"}
