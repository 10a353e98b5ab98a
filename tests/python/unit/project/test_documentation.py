# SPDX-License-Identifier: Apache-2.0
"""Pages are up to date: the references, Python names, and the examples' configurations. They need no Sphinx."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import floodtide
from floodtide import cli, config
from floodtide.base.tasks import Classes
from floodtide.lab import cli as lab

ROOT = Path(__file__).resolve().parents[4]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def test_the_configuration_reference_is_what_the_code_says() -> None:
    generate = runpy.run_path(str(ROOT / "docs/generate_configuration.py"))["generate"]
    assert (ROOT / "docs/configuration.md").read_text("utf-8") == generate()


def test_the_pages_of_commands_and_python_names_are_what_the_code_says() -> None:
    pages = runpy.run_path(str(ROOT / "docs/generate_reference.py"))["generate"]()
    api = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/api/*")}
    assert api == {path for path in pages if path.startswith("api/")}
    old = [path for path in pages if (ROOT / "docs" / path).read_text("utf-8") != pages[path]]
    assert not old, "run: python docs/generate_reference.py"


def test_the_reference_has_every_command_and_every_python_name() -> None:
    commands = (ROOT / "docs/commands.md").read_text("utf-8")
    research = [f"lab {name}" for name in lab.COMMANDS]
    for name in (*cli.COMMANDS, *research, "lab bench stalls", "bench allreduce"):
        assert re.search(rf"^##+ `floodtide {name}`$", commands, re.MULTILINE), name
    for package in ("nn", "optim", "data", "train", "config", "segment", "evaluate", "agglomerate"):
        page = (ROOT / f"docs/api/{package}.md").read_text("utf-8")
        for name in getattr(floodtide, package).__all__:
            assert f"## `{name}`\n" in page or f"`floodtide.{package}.{name}`" in page, name
    assert "### `Trainer.stop`\n" in (ROOT / "docs/api/train.md").read_text("utf-8")


def test_one_word_names_one_thing() -> None:
    """A walker is no worker, and a training step no update: in pages, reports, and comments of examples."""
    said = r"`[^`]*`|exactness ?=.*|linear_workers|[\"']workers[\"']|[Ww]orkers of the paper|Workers are walkers"
    other = r"\b[Ww]orkers?\b|\b(an|of|the last|the first) updates?\b"
    sources = [*PAGES, *ROOT.glob("examples/**/*.toml"), *ROOT.glob("python/floodtide/**/*.html")]
    written = (path for path in sources if "api" not in path.parts and path.name != "api.md")
    assert not [
        f"{path.relative_to(ROOT)}: {line}"
        for path in written
        for line in path.read_text("utf-8").splitlines()
        if re.search(other, re.sub(said, "", line))
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_shows_no_directives_where_sphinx_does_not_build_it(page: Path) -> None:
    shown = re.sub(r"<!--.*?-->", "", page.read_text("utf-8"), flags=re.DOTALL)
    raw = r"^ *(?:[`~]{3,} *\{.*|:::.*|\.\. [\w-]+::.*|\([\w-]+\)=)$|\{[\w:-]+\}`.*"
    assert not re.findall(raw, shown, re.MULTILINE)


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
