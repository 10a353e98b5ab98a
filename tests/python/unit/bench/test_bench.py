# SPDX-License-Identifier: Apache-2.0
"""`floodtide bench`: rows have the promised fields, options are checked."""

from __future__ import annotations

import functools
import json
import time

import pytest
from click.testing import CliRunner, Result

from floodtide import _core, errors
from floodtide.bench import passes
from floodtide.bench.rows import _slow, _started, enough, output_of, threads, timed_in_turn
from floodtide.bench.shapes import ConvShape, Timing
from floodtide.cli.bench import command

pytestmark = pytest.mark.extra

PROMISED = ("name", "kernel", "threads", "ranks", "median_s", "gflops", "peak_gflops", "ratio")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, standalone_mode=False)


def rows_of(result: Result) -> list[dict[str, object]]:
    assert result.exception is None, result.output
    return [json.loads(line) for line in result.output.splitlines()]


@pytest.fixture(scope="module")
def conv_rows() -> list[dict[str, object]]:
    arguments = "conv --size 3,4,5 --channels 2,16 --threads 1,2 --seconds 0 --json"
    return rows_of(run(*arguments.split()))


def test_conv_has_a_row_for_each_pass_and_thread_count(conv_rows: list[dict[str, object]]) -> None:
    assert [(row["name"], row["threads"]) for row in conv_rows] == [
        (f"conv {name}", count)
        for count in (1, 2)
        for name in ("forward", "backward_data", "backward_weights")
    ]


def test_rows_have_the_promised_fields(conv_rows: list[dict[str, object]]) -> None:
    for row in conv_rows:
        for field in (
            *PROMISED,
            "p10_s",
            "p90_s",
            "level",
            "shape",
            "processor",
            "version",
            "date",
        ):
            assert field in row
        assert row["shape"] == "3x4x5, kernel 3x3x3, 2 to 16 channels"
        assert row["kernel"] in dict(_core.bench.conv_kernels())
        assert row["samples"] >= 20


def test_figures_of_a_row_agree(conv_rows: list[dict[str, object]]) -> None:
    flops = 2 * 3 * 4 * 5 * 27 * 2 * 16
    for row in conv_rows:
        assert row["min_s"] <= row["p10_s"] <= row["median_s"] <= row["p90_s"]
        assert row["gflops"] == pytest.approx(flops / row["median_s"] * 1e-9)
        assert row["ratio"] == pytest.approx(row["gflops"] / row["peak_gflops"])


def test_against_times_a_second_kernel() -> None:
    shape = ConvShape(size=(2, 2, 2), channels=(16, 16))
    timing = Timing(threads=(1,), seconds=0.0)
    rows = list(passes.conv(shape, timing, against="reference"))
    assert [row["kernel"] for row in rows[1::2]] == ["reference"] * 3


def test_threads_are_restored(conv_rows: list[dict[str, object]]) -> None:
    before = _core.num_threads()
    with threads(before + 1):
        assert _core.num_threads() == before + 1
    assert _core.num_threads() == before


def test_table_shows_the_same_rows() -> None:
    result = run("conv", "--size", "2", "--channels", "16", "--threads", "1", "--seconds", "0")
    lines = result.output.splitlines()
    assert len(lines) == 4
    assert set(PROMISED) <= set(lines[0].split())
    assert not {"shape", "processor", "date"} & set(lines[0].split())
    assert lines[1].startswith("conv forward")


@pytest.mark.parametrize("option", [["--size", "3,4"], ["--size", "0"], ["--threads", "a"]])
def test_bad_numbers_are_named(option: list[str]) -> None:
    result = run("conv", *option)
    assert result.exception is not None
    assert f"'{option[1]}', expected" in str(result.exception)


def test_unknown_kernel_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(errors.Error, match=r"'winograd' is unknown, expected one of .*reference"):
        next(passes.conv(ConvShape(), Timing(seconds=0.0), against="winograd"))


def test_every_benchmark_is_a_command_with_an_example() -> None:
    for name in command.commands:
        _, _, example = run(name, "--help").output.partition("Example:")
        assert f"floodtide bench {name}" in example


@pytest.mark.parametrize(
    ("samples", "spent_s", "expected"),
    [(20, 0.0, True), (19, 1.9, False), (3, 2.0, True), (2, 100.0, False)],
)
def test_slow_bodies_need_fewer_samples(samples: int, spent_s: float, expected: bool) -> None:
    assert enough(samples, spent_s) is expected


def test_a_process_of_its_own_that_fails_is_one_line() -> None:
    with pytest.raises(errors.InternalError, match="the sum failed: TypeError"):
        output_of("the sum failed", "-c", "1 + ''")
    with pytest.raises(errors.InternalError, match="status 3"):
        output_of("the end", "-c", "import os; os._exit(3)")


def test_of_compiled_formats_the_first_that_runs_is_measured() -> None:
    called = []

    def body(name: str) -> None:
        called.append(name)
        if name.endswith("refused"):
            raise AssertionError("expected another stride")

    names = ("floodtide", "torch-compile refused", "torch-compile a", "torch-compile b")
    started = _started({name: functools.partial(body, name) for name in names})
    assert list(started) == ["floodtide", "torch-compile a"]
    assert "torch-compile b" not in called


def test_the_slower_memory_format_of_a_program_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seconds = {"floodtide": 0.05, "torch a": 0.04, "torch b": 0.01, "onnxruntime": 0.03}
    assert _slow(seconds) == ["torch a"]
    assert "torch a is left out: the other memory format is faster" in capsys.readouterr().err


def test_slow_peers_end_a_measurement() -> None:
    bodies = {"floodtide": lambda: None, "torch": lambda: time.sleep(0.01)}
    times, _ = timed_in_turn(bodies, 0.01)  # of the first function: thousands of calls
    assert len(times["torch"]) == 20
