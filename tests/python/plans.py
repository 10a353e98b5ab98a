# SPDX-License-Identifier: Apache-2.0
"""Plans of `floodtide init` for tests: without measuring the machine, and refused ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from floodtide import cli
from floodtide.plan import networks


def measure_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let plans take these rates: a busy machine would plan few steps."""
    monkeypatch.setattr(networks, "training_rate", lambda *_: 100.0)
    monkeypatch.setattr(networks, "patch_rate", lambda *_: 10.0)


def planned(*line: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert cli.run(["init", *line, "--replace", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(*line: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.run(list(line)) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1, text
    return text
