# SPDX-License-Identifier: Apache-2.0
"""The site: its strict build, and the commands on the pages of its first five readers."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from floodtide import cli

pytestmark = pytest.mark.extra

ROOT = Path(__file__).resolve().parents[4]
READERS = (
    "Start",
    "Train on your volume",
    "Segment a volume",
    "Python and pipelines",
    "Run on a cluster",
)
MARK = re.compile(
    r"<!-- (test: run(?:, needs (?P<needs>torch))?|tested by: (?P<tests>\S.*\S)|not run: (?P<reason>\S.{9,}\S)) -->"
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, with the comment above it."""

    page: str
    line: int
    language: str
    text: str
    mark: re.Match[str] | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def toctrees() -> dict[str, list[str]]:
    """Return {caption: pages} of the navigation."""
    text = (ROOT / "docs/index.md").read_text("utf-8")
    found = re.findall(
        r"```\{toctree\}\n:caption: ([^\n]*)\n:maxdepth: 1\n:hidden:\n\n(.*?)```", text, re.DOTALL
    )
    return {caption: pages.split() for caption, pages in found}


def blocks(page: Path) -> list[Block]:
    """Return the blocks of commands and of Python on a page."""
    lines = page.read_text("utf-8").splitlines()
    found = []
    for i, line in enumerate(lines):
        if line in ("```bash", "```python"):
            end = lines.index("```", i)
            mark = MARK.fullmatch(lines[i - 1])
            text = "\n".join(lines[i + 1 : end]) + "\n"
            found.append(Block(page.name, i + 1, line[3:], text, mark))
    return found


def of_readers() -> list[Block]:
    names = [name for caption in READERS for name in toctrees()[caption]]
    pages = [ROOT / f"docs/{name}.md" for name in names]
    return [block for page in pages if page.exists() for block in blocks(page)]


def test_every_block_is_run_by_a_test_or_says_why_not() -> None:
    for block in of_readers():
        assert block.mark is not None, (
            f"{block}: expected <!-- test: run -->, <!-- tested by: FILE::TEST, ... --> or <!-- not run: reason -->"
            " above the block"
        )
        for path in re.findall(r"tests/[\w/.]+\w", block.mark["reason"] or ""):
            assert (ROOT / path).exists(), f"{block} names {path}"
        for test in (block.mark["tests"] or "").split(", "):
            file, _, name = test.partition("::")
            source = (ROOT / "tests/python" / file).read_text("utf-8") if file else ""
            assert not file or f"def {name}(" in source, f"{block} names {test}"


def commands(text: str) -> list[list[str]]:
    """Return the arguments of each floodtide command in lines of a shell."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if "floodtide" in words:
            arguments = words[words.index("floodtide") + 1 :]
            ends = [i for i, word in enumerate(arguments) if word in ("|", ">", "&&", ";")]
            found.append(arguments[: min(ends, default=len(arguments))])
    return found


def parse(group: click.Group, arguments: list[str], parent: click.Context | None = None) -> None:
    """Read arguments as the command line does, without running the command."""
    command = group.get_command(parent or click.Context(group), arguments[0])
    assert command is not None
    if isinstance(command, click.Group):
        with click.Context(command, info_name=arguments[0]) as context:
            parse(command, arguments[1:], context)
        return
    command.make_context(arguments[0], arguments[1:])


def test_every_command_on_every_page_has_valid_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    count = 0
    for page in pages:
        for block in blocks(page):
            for arguments in commands(block.text) if block.language == "bash" else []:
                count += 1
                try:
                    parse(cli.group, arguments)
                except click.UsageError as error:
                    pytest.fail(f"{block}: {shlex.join(arguments)}: {error.format_message()}")
    assert count > 40


PREPARE = """
import floodtide as ft

image, labels = ft.data.synth((40, 40, 40), seed=1)
ft.data.write_volume("cube.h5", {"raw": image, "labels": labels})
ft.data.partition("cube.h5:labels", "classes.h5:af", lom_radius=(4, 4, 4), min_size=50)
"""
CONFIGURATION = """
[run]
dir = "runs/fib25"
threads = 1
[[data.volumes]]
name = "cube"
image = "cube.h5:raw"
labels = "cube.h5:labels"
partitions = "classes.h5:af"
mean = 128.0
std = 33.0
[model]
depth = 2
features = 8
fov = [17, 17, 17]
deltas = [6, 6, 6]
[training]
steps = 2
walkers = 4
"""
RUN = [
    block
    for block in of_readers()
    if block.mark and not (block.mark["reason"] or block.mark["tests"])
]


@pytest.mark.mpi
@pytest.mark.any_library
@pytest.mark.parametrize("page", sorted({block.page for block in RUN}))
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    """Blocks of a page run in their order, in one folder with a small volume and its configuration."""
    program = tmp_path / "bin/floodtide"  # the one under test, also from a source tree
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m floodtide "$@"\n')
    program.chmod(0o755)
    folders = [str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": os.pathsep.join(folders)}
    (tmp_path / "fib25.toml").write_text(CONFIGURATION)
    skipped = []
    bodies = [("python", PREPARE, "the preparation")]
    for block in RUN:
        if block.page == page and block.mark is not None:
            needs = block.mark["needs"]
            if needs and importlib.util.find_spec(needs) is None:
                skipped.append(str(block))
            else:
                bodies.append((block.language, block.text, str(block)))
    for language, text, name in bodies:
        shell = [sys.executable, "-c"] if language == "python" else ["bash", "-euc"]
        done = subprocess.run(
            [*shell, text], cwd=tmp_path, env=environment, capture_output=True, timeout=600
        )
        assert done.returncode == 0, f"{name}: {done.stderr.decode()[-2000:]}"
    if skipped:
        pytest.skip(f"without PyTorch all blocks ran but {', '.join(skipped)}")


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    if importlib.util.find_spec("sphinx") is None:
        pytest.skip("no Sphinx (pip install --group docs)")
    command = [sys.executable, str(ROOT / "docs/build.py"), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    for page in ("index.html", "docs/index.html", "docs/start.html", "docs/api/train.html"):
        assert (tmp_path / "site" / page).is_file(), page
    assert "Trainer" in (tmp_path / "site/docs/api/train.html").read_text("utf-8")
    assert "--cores-per-node" in (tmp_path / "site/docs/commands.html").read_text("utf-8")
    navigation = 'toctree-l2"><a class="reference internal" href="api/train.html"'
    assert navigation in (tmp_path / "site/docs/api.html").read_text("utf-8")
