# SPDX-License-Identifier: Apache-2.0
"""The example notebook runs from the first cell to the last."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of nbclient's own event loop
def test_the_notebook_runs_and_shows_pictures(tmp_path: Path) -> None:
    import nbclient
    import nbformat

    notebook = nbformat.read(ROOT / "examples/notebook.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    printed = "".join(output.get("text", "") for output in outputs)
    assert len(pictures) == 4
    assert "adapted Rand error" in printed
    assert "report.html" in printed
