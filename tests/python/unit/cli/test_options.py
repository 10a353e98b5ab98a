# SPDX-License-Identifier: Apache-2.0
"""Options of commands that come from dataclasses, and rows of results on the terminal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from floodtide import cli
from floodtide.base import limits
from floodtide.base.options import REQUIRED, option
from floodtide.cli.options import filled, of_fields, print_rows


@dataclass(frozen=True, kw_only=True)
class Options:
    """One field of each kind."""

    nodes: int = option(REQUIRED, "Number of nodes", range=limits.COUNT)
    batch: int = option(1, "Batch", range=limits.BATCH)
    fov: tuple[int, int, int] = option((33, 33, 33), "Field", range=limits.FIELD_OF_VIEW)
    ranks: tuple[int, ...] = option((1, 2), "Ranks", range=limits.RANKS)
    formats: tuple[str, ...] = option((), "Formats", choices=("zarr", "n5"))
    exhaustive: bool = option(False, "All")
    load_s: float | None = option(None, "Seconds.  [default: none]", range=limits.SECONDS)
    out: Path | None = option(None, "File")
    name: str = option("", "Name")


def run(*words: str) -> Any:
    seen: list[Any] = []

    @click.command()
    @of_fields(Options, batch=4)
    def command(**options: Any) -> None:
        seen.append(filled(Options, options))
        assert not options

    result = CliRunner().invoke(command, words)
    return seen[0] if seen else result.output


def test_defaults_are_those_of_the_dataclass_or_of_the_command() -> None:
    assert run("--nodes", "2") == Options(nodes=2, batch=4)


def test_every_kind_of_field_is_parsed() -> None:
    words = "--nodes 2 --fov 9 --ranks 3,4 --formats n5 --formats zarr --exhaustive --load-s 0.5"
    expected = {"fov": (9, 9, 9), "ranks": (3, 4), "formats": ("n5", "zarr"), "load_s": 0.5}
    assert run(*words.split(), "--out", "a b", "--name", "c") == Options(
        nodes=2, batch=4, exhaustive=True, out=Path("a b"), name="c", **expected
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "Missing option '--nodes'"),
        ("--nodes 0", "'0', expected 1 to"),
        ("--nodes 1 --fov 9,9", "expected 1 or 3 numbers"),
        ("--nodes 1 --formats tiff", "'tiff' is not one of"),
    ],
)
def test_wrong_values_are_named(words: str, message: str) -> None:
    assert message in run(*words.split())


def test_help_shows_texts_and_defaults() -> None:
    text = " ".join(run("--help").split())
    assert "Number of nodes. [required]" in text
    assert "Batch. [default: 4]" in text
    assert "Seconds. [default: none]" in text
    assert "Name. --help" in text  # an empty default is none


def test_rows_show_every_result_and_no_conditions(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"wait_share": 0.25, "name": "a", "processor": "P", "threads": 2, "losses": [1.0]},
        {"wait_share": None, "name": "b", "processor": "P", "threads": 2, "losses": [2.0]},
    ]
    print_rows(rows, as_json=False)
    head, *lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert head == ["name", "threads", "wait_share"]
    assert lines == [["a", "2", "0.25"], ["b", "2", "-"]]
    print_rows(rows, as_json=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == rows


@pytest.mark.parametrize("words", [[], ["lab"]])
def test_a_group_without_a_command_prints_its_whole_help(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    cli.run(words)  # click 8.1 prints the help on standard output, and its status is 0
    said = capsys.readouterr()
    assert said.out + said.err == shown
