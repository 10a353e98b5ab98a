# SPDX-License-Identifier: Apache-2.0
"""README: short enough, with the figures of the pages, and its five commands lead to a score."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile

from floodtide import data

ROOT = Path(__file__).resolve().parents[4]
TEXT = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)


def test_it_is_read_in_minutes() -> None:
    assert len(TEXT.split()) <= 700
    assert len(TEXT.splitlines()) <= 100
    assert len(TEXT.partition("```bash")[0].split()) <= 120


def test_its_figures_are_those_of_the_pages() -> None:
    rows = [line for line in TEXT.splitlines() if re.match(r"\|.*\]\(docs/", line)]
    assert len(rows) == 6
    for row in rows:
        name, _, ours, others, *_ = row.split("|")[1:]
        page = re.findall(r"\]\((docs/[^)#]*)", name)[0]
        home = (ROOT / page).read_text("utf-8")
        figures = re.findall(r"\d+\.\d+|\d\d+", f"{ours} {others}")
        assert figures, row
        for figure in figures:
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", home), (
                f"README: {figure} of {page}"
            )


def test_the_caption_of_its_picture_has_the_figures_of_the_page() -> None:
    caption = TEXT.split("own_volume.png)")[1].strip().splitlines()[0]
    home = (ROOT / "docs/your_volume.md").read_text("utf-8")
    for figure in re.findall(r"[\d,.]*\d", caption):
        assert figure in home, f"README: {figure}"


def test_the_paper_is_short_and_has_the_figures_of_the_pages() -> None:
    paper = (ROOT / "paper.md").read_text("utf-8").partition("# Summary")[2]
    assert len(paper.split()) <= 1000
    evidence = paper.partition("# Evidence")[2].partition("# ")[0]
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md"))
    for figure in re.findall(r"\d+\.\d+", evidence):
        assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", pages), f"paper.md: {figure}"
    cited = {*re.findall(r"@(\w+)", paper)}
    assert cited == {*re.findall(r"^@\w+\{(\w+)", (ROOT / "paper.bib").read_text("utf-8"), re.M)}


@pytest.mark.extra
def test_a_researcher_reaches_a_score(tmp_path: Path) -> None:
    """The commands for a TIFF stack run as they stand, but for six seconds instead of half an hour."""
    (block,) = (block for block in BLOCKS if "floodtide evaluate" in block)
    assert len(block.splitlines()) == 5
    image, labels = data.synth((40, 64, 100), seed=3)
    tifffile.imwrite(tmp_path / "stack.tif", image)
    tifffile.imwrite(tmp_path / "labels.tif", labels.astype(np.int32))
    program = tmp_path / "bin/floodtide"  # the one under test, also from a source tree
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m floodtide "$@"\n')
    program.chmod(0o755)
    folders = [str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-euc", block.replace("--minutes 30", "--minutes 0.1")],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "all voxels" in done.stdout
    assert (tmp_path / "inspect.html").exists()
    assert (tmp_path / "stack.png").read_bytes()[:4] == b"\x89PNG"
