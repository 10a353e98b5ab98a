# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab simulate`: rows, figures, and one line for each kind of wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from simulated_runs import measured_file, write_run

from floodtide import cli
from floodtide.lab import simulate
from floodtide.lab.simulate import rows as figures

pytestmark = pytest.mark.extra

QUICK = ("--ranks", "1,4", "--steps", "64")


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert cli.run(["lab", "simulate", *arguments, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_paper_has_a_row_for_each_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["scenario"] for row in rows(capsys, "--paper", "--ranks", "1")] == [
        figures.STALL,
        figures.STALL_PREFETCH,
        figures.STRAGGLER,
        figures.STRAGGLER_PARTIAL,
    ]


def test_a_forecast_has_a_row_for_each_network_and_number_of_ranks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = ("--bucket-mib", "2")
    found = rows(capsys, "--compute-s", "0.25", "--algorithm", "ring", *whole, *QUICK)
    assert [(row["network"], row["ranks"]) for row in found] == [
        (name, ranks) for name in simulate.NETWORKS for ranks in (1, 4)
    ]
    for row in found:
        links = simulate.Links(network=simulate.NETWORKS[row["network"]])
        expected = simulate.agreement_s(row["ranks"], links)
        expected += simulate.allreduce_cost_s("ring", 1889476, row["ranks"], links)
        assert row["comm_s"] == pytest.approx(expected, rel=1e-9)
        assert row["step_s"] == pytest.approx(0.25 + expected, rel=1e-9)
        assert row["fovs_per_s"] == pytest.approx(row["ranks"] / row["step_s"], rel=1e-9)
        assert row["efficiency"] == pytest.approx(0.25 / row["step_s"], rel=1e-9)


def test_a_run_is_forecast_and_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    *forecast, measured = rows(capsys, str(folder), "--network", "10gbe", *QUICK)
    assert measured["scenario"] == "measured: run"
    assert (measured["ranks"], measured["fovs_per_s"]) == (2, pytest.approx(6.4))
    parts = ("compute_s", "input_s", "comm_s", "update_s")
    assert sum(measured[part] for part in parts) == pytest.approx(0.61)
    # Two walkers of 0.25 s, each waiting 0.1 s every 5 fields of view, and an update of 0.01 s.
    assert forecast[0]["step_s"] == pytest.approx(2 * (0.25 + 0.1 / 5) + 0.01, rel=0.02)
    assert forecast[0]["update_s"] == pytest.approx(0.01)
    assert forecast[1]["step_s"] > forecast[0]["step_s"]
    hidden = rows(
        capsys, str(folder), "--network", "10gbe", "--load-s", "0.1", "--prefetch", "1", *QUICK
    )
    assert hidden[0]["step_s"] == pytest.approx(2 * 0.25 + 0.01, rel=1e-6)


def test_every_option_changes_the_forecast(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "samples.txt").write_text("0.2\n0.3\n0.7\n")
    base = ("--compute-s", "0.25", "--alpha-us", "50", "--gb-per-s", "0.1", "--ranks", "12")
    base = (*base, "--load-s", "0.2", "--moves", "3", "--steps", "64", "--backup", "0.25")
    plain = rows(capsys, *base)[0]["step_s"]
    for option in (
        "--sigma 0.2",
        f"--samples {tmp_path / 'samples.txt'}",
        "--update-s 0.1",
        "--depth 12",
        "--features 16",
        "--walkers-per-rank 2",
        "--load-s 0.1",
        "--moves 4",
        "--prefetch 1",
        "--backup 0",
        "--late abandon",
        "--alpha-us 5000",
        "--gb-per-s 1",
        "--cpu-ns-per-byte 20",
        "--ranks-per-node 4",
        "--ranks-per-node 4 --cores 2",
        "--algorithm recursive_doubling",
    ):
        assert rows(capsys, *base, *option.split())[0]["step_s"] != plain, option
    waiting = (*base, "--backup", "0")
    whole, cut = (
        rows(capsys, *waiting, "--bucket-mib", size)[0]["step_s"] for size in ("2", "0.25")
    )
    assert cut < whole
    seeds = [rows(capsys, *base, "--sigma", "0.2", "--seed", s)[0]["step_s"] for s in "01"]
    assert seeds[0] != seeds[1]


def test_ranks_of_a_node_share_its_cores(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fast = ("--alpha-us", "0", "--gb-per-s", "1e9", "--cores", "2", "--ranks-per-node", "4")
    found = rows(capsys, "--compute-s", "0.25", *fast, "--ranks", "1,2,3,4,8")
    assert [row["step_s"] for row in found] == pytest.approx(
        [0.25, 0.25, 0.375, 0.5, 0.5], rel=0.01
    )
    # The run had two ranks on the two cores, so its own times hold for two.
    folder = str(write_run(tmp_path / "run"))
    *found, _ = rows(capsys, *fast, "--load-s", "0", "--ranks", "2,4", folder)
    assert [row["step_s"] for row in found] == pytest.approx([0.51, 1.02], rel=0.01)


def test_the_target_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--compute-s", "0.25", "--network", "dragonfly", *QUICK, "--fovs-per-s", "39.5")
    assert rows(capsys, *arguments)[-1] == {
        "scenario": "target",
        "network": "dragonfly",
        "target_fovs_per_s": 39.5,
        "ranks": 10,
    }
    assert cli.run(["lab", "simulate", *arguments]) == 0
    assert (
        capsys.readouterr().out.splitlines()[-1] == "39.5 fields of view / s on dragonfly: 10 ranks"
    )
    assert rows(capsys, *arguments[:-1], "1e9")[-1]["ranks"] is None


def test_measured_sums_take_the_networks_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "theta.jsonl"
    row = {"name": "allreduce ring", "kernel": "ring", "shape": "472353 float32"}
    lines = [row | {"ranks": ranks, "median_s": s} for ranks, s in ((2, 0.5), (8, 1.5))]
    lines += [line | {"shape": "472400 float32"} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ("--compute-s", "0.25", "--allreduce", str(path), "--algorithm", "ring", *QUICK)
    found = rows(capsys, *arguments, "--bucket-mib", "2")
    assert [line["network"] for line in found] == ["theta", "theta"]
    assert found[1]["step_s"] == pytest.approx(0.25 + 1.0)


def test_the_table_has_a_line_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["lab", "simulate", "--compute-s", "0.25", "--network", "10gbe", *QUICK]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["scenario", "network", "ranks"]
    assert [line.split()[:3] for line in lines] == [["forecast", "10gbe", r] for r in ("1", "4")]
    assert lines[0].split()[4:] == ["0.2500", "0.00000", "4", "100.0%", "100.0%", "none"]


@pytest.mark.parametrize(("name", "start"), [("f.svg", b"<?xml"), ("f.pdf", b"%PDF")])
def test_the_figure_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, start: bytes
) -> None:
    run = write_run(tmp_path / "run")
    arguments = ["--paper", str(run), *QUICK, "--out", str(tmp_path / name)]
    assert cli.run(["lab", "simulate", *arguments]) == 0
    content = (tmp_path / name).read_bytes()
    assert content.startswith(start)
    assert len(content) > 5000
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "run"]


def test_a_figure_in_a_folder_that_does_not_exist_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--compute-s", "1", *QUICK, "--out", str(tmp_path / "absent" / "f.png")]
    assert cli.run(["lab", "simulate", *arguments]) == 2
    assert "has no folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "nothing to simulate: expected RUN, --compute-s, --samples or --paper"),
        ("--paper --network 10gbe", "forecast options are given, expected RUN"),
        ("absent", "no run directory at absent"),
        ("binary", "log.jsonl: cannot be read"),
        ("--compute-s x", "'x', expected 1e-09 to 1e+09 (s)"),
        ("--compute-s 0", "'0', expected 1e-09 to 1e+09"),
        ("--compute-s 1 --ranks 0", "'0', expected N[,N...], each 1 to 1048576 (ranks)"),
        ("--compute-s 1 --ranks 2,x", "'2,x', expected N[,N...], each 1 to"),
        ("--compute-s 1 --steps 0", "'0', expected 1 to 1000000 (steps)"),
        ("--compute-s 1 --seed -1", "'--seed': '-1', expected 0 to"),
        ("--compute-s 1 --network infiniband", "expected one of 10gbe, 100gbe, dragonfly"),
        ("--compute-s 1 --alpha-us 1", "--alpha-us and --gb-per-s describe a network together"),
        (
            "--compute-s 1 --alpha-us 1 --gb-per-s 0",
            "'0', expected above 0 and at most",
        ),
        (
            "--compute-s 1 --algorithm mpi",
            "no cost formula for algorithm 'mpi', expected one of ring",
        ),
        ("--compute-s 1 --cpu-ns-per-byte 1", "expected --alpha-us and --gb-per-s too"),
        (
            "--compute-s 1 --alpha-us 1 --gb-per-s 1 --cpu-ns-per-byte -1",
            "'-1', expected 0 to",
        ),
        ("--compute-s 1 --ranks-per-node 0", "'0', expected 1 to"),
        ("--compute-s 1 --cores 0", "'0', expected 1 to"),
        ("--compute-s 1 --bucket-mib -1", "'-1', expected 1e-05 to"),
        ("--compute-s 1 --load-s 1", "--load-s needs --moves"),
        ("--compute-s 1 --prefetch 1", "--moves, --prefetch and --readers are for --load-s"),
        ("--compute-s 1 --readers 2", "--moves, --prefetch and --readers are for --load-s"),
        ("--compute-s 1 --moves 2", "--moves, --prefetch and --readers are for --load-s"),
        ("--compute-s 1 --depth 0", "'0', expected 1 to 1000 (modules)"),
        ("--compute-s 1 --walkers-per-rank 0", "'0', expected 1 to"),
        ("--compute-s 1 --backup -1", "'-1', expected 0 to"),
        ("--compute-s 1 --late never", "'never' is not one of"),
        ("--compute-s 1 --fovs-per-s 0", "'0', expected above 0 and at most"),
        (
            "--samples absent.txt",
            "absent.txt: cannot be read: No such file or directory; expected seconds, one a line",
        ),
        ("--samples empty.txt", "empty.txt: expected seconds, one a line; it is empty"),
        ("--samples words.txt", "words.txt: cannot be read: could not convert"),
        ("--samples seconds.txt --sigma 1", "both samples and sigma"),
        ("--compute-s 1 --allreduce absent", "absent: cannot be read"),
        ("--compute-s 1 --allreduce rows.jsonl", "--allreduce needs --algorithm: one of ring"),
        ("--compute-s 1 --allreduce rows.jsonl --network 10gbe", "takes the place of a network"),
        ("--compute-s 1 --allreduce rows.jsonl --algorithm ring", "400 to 800 bytes on 2 ranks"),
        ("--compute-s 1 --out figure.jpg", "figure.jpg: ends in '.jpg', expected one of .png"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(
    arguments: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "words.txt").write_text("one two\n")
    (tmp_path / "seconds.txt").write_text("1.0 2.0\n")
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary" / "log.jsonl").write_bytes(b"\xff\xfe")
    measured_file(tmp_path / "rows.jsonl")
    defaults = [] if "--ranks" in arguments else ["--ranks", "1,4"]
    assert cli.run(["lab", "simulate", *defaults, *arguments.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert message in printed.err
