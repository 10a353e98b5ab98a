# SPDX-License-Identifier: Apache-2.0
"""The example notebook runs from the first cell to the last."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from floodtide import _launch

ROOT = Path(__file__).resolve().parents[3]
STEPS = 150  # as the notebook says


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of nbclient's own event loop
def test_the_notebook_runs_and_shows_pictures(tmp_path: Path) -> None:
    if not Path(sys.executable).with_name("mpiexec").exists() or not _launch.plugins():
        pytest.skip("no mpiexec or no MPI plug-in (pip install 'floodtide[mpi]')")
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
    assert f"{STEPS} steps on 2 ranks\nthe same parameters on both ranks: True" in printed
