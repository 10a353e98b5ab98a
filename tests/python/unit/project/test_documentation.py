# SPDX-License-Identifier: Apache-2.0
"""Pages are up to date: the configuration reference, Python names, and the examples' configurations."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import floodtide
from floodtide import config
from floodtide.base.tasks import Classes

ROOT = Path(__file__).resolve().parents[4]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def test_the_configuration_reference_is_what_the_code_says() -> None:
    generate = runpy.run_path(str(ROOT / "docs/generate_configuration.py"))["generate"]
    assert (ROOT / "docs/configuration.md").read_text("utf-8") == generate()


EXAMPLES = [
    path for path in sorted(ROOT.glob("examples/**/*.toml")) if "lab" not in path.parts[-3:]
]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_configurations_are_valid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOODTIDE_DATA", "/data")
    loaded = config.load(path)
    if isinstance(loaded.task, Classes):
        expected = "/data/msd_liver_ct/liver_train.h5:patient"
        assert [volume.groups for volume in loaded.data.volumes] == [expected]
    else:
        assert [volume.name for volume in loaded.data.volumes] == ["training_sample2"]


def test_python_names_on_the_pages_exist() -> None:
    for page in PAGES:
        for name in set(re.findall(r"\bft\.([\w.]*\w)", page.read_text("utf-8"))):
            target: object = floodtide
            for part in name.split("."):
                assert hasattr(target, part), f"{page.name} names ft.{name}"
                target = getattr(target, part)
