# SPDX-License-Identifier: Apache-2.0
"""`floodtide info`."""

from __future__ import annotations

import json

import pytest

from floodtide import _core, cli
from floodtide.comm import launching


def test_json_holds_every_fact(capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.run(["info", "--json"])

    facts = json.loads(capsys.readouterr().out)
    assert status == 0
    assert facts["version"] == _core.__version__
    assert facts["isa"] == _core.active_isa()
    assert {"name": "reference", "isa": "reference"} in facts["kernels"]
    assert 0 < facts["memory_available_bytes"] <= facts["memory_bytes"]
    assert facts["mpi"]["plugins"] == launching.plugins()
    assert facts["mpi"]["ranks"] == 1


def test_text_names_what_is_absent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "plugin", lambda family: launching.Path(f"/nowhere/{family}"))
    monkeypatch.setattr("floodtide.comm.world._state.library", None)

    status = cli.run(["info"])

    lines = capsys.readouterr().out.splitlines()
    assert status == 0
    assert "mpi plugins: none" in lines
    assert any(line.startswith("mpi no library: ") for line in lines)
