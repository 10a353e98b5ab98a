# SPDX-License-Identifier: Apache-2.0
"""Pages are up to date: the configuration reference, forecasts, Python names, and the examples' configurations."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import floodtide
from floodtide import config, sweep

ROOT = Path(__file__).resolve().parents[4]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def test_the_configuration_reference_is_what_the_code_says() -> None:
    generate = runpy.run_path(str(ROOT / "docs/generate_configuration.py"))["generate"]
    assert (ROOT / "docs/configuration.md").read_text("utf-8") == generate()


def test_the_forecasts_are_what_the_model_says() -> None:
    """One table stands for all: the others take a minute (docs/generate_scaling.py --check)."""
    made = runpy.run_path(str(ROOT / "docs/generate_scaling.py"))
    assert made["efficiencies"](made["COMPUTE_S"]) in (ROOT / "docs/scaling.md").read_text("utf-8")


SWEEPS = [path for path in sorted(ROOT.glob("examples/study/*.toml")) if path.stem != "base"]


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_the_example_sweeps_are_valid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOODTIDE_DATA", "/data")
    monkeypatch.chdir(ROOT)
    plan = sweep.load(path)
    assert plan.directory == Path("runs/study") / path.stem
    real = ("real", "large")
    expected = "training_sample2" if path.stem in real else "synthetic"
    assert {cell.config.data.volumes[0].name for cell in plan.cells} == {expected}


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(ROOT.glob("examples/**/*.toml")) if path not in SWEEPS],
    ids=lambda path: path.stem,
)
def test_the_example_configurations_are_valid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOODTIDE_DATA", "/data")
    loaded = config.load(path)
    if loaded.model.kind == config.SLICES:
        folder = {"liver": "/data/msd_liver_ct/liver_", "liver_workers": ""}
        expected = f"{folder[path.stem]}train.h5:patient"
        assert [stack.patients for stack in loaded.data.slices] == [expected]
        return
    expected = "synthetic" if path.stem in ("modes", "base") else "training_sample2"
    assert [volume.name for volume in loaded.data.volumes] == [expected]


def test_python_names_on_the_pages_exist() -> None:
    for page in PAGES:
        for name in set(re.findall(r"\bft\.([\w.]*\w)", page.read_text("utf-8"))):
            target: object = floodtide
            for part in name.split("."):
                assert hasattr(target, part), f"{page.name} names ft.{name}"
                target = getattr(target, part)
