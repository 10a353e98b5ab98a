# SPDX-License-Identifier: Apache-2.0
"""The example that exchanges weights with PyTorch runs."""

import importlib.util
import runpy
from pathlib import Path

import pytest

import floodtide as ft


@pytest.mark.extra
@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed (group `oracle`)"
)
def test_weights_go_to_pytorch_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(Path(__file__).parents[4] / "examples/torch_weights.py"))
    weights = example["model"].state_dict()
    assert all(
        (array == weights[name]).all()
        for name, array in ft.nn.load("from_torch.h5").state_dict().items()
    )
