# SPDX-License-Identifier: Apache-2.0
"""The example notebooks run from the first cell to the last, and the repository has their outputs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from floodtide.comm import launching

pytestmark = pytest.mark.extra

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def _ranks() -> None:
    """Both notebooks end with ranks of their own."""
    if not Path(sys.executable).with_name("mpiexec").exists() or not launching.plugins():
        pytest.skip("no mpiexec or no MPI plug-in (pip install '.[mpi]')")


def pictures_of(notebook) -> int:
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    return sum("image/png" in output.get("data", {}) for output in outputs)


def run(name: str, folder: Path, **replaced: str) -> tuple[int, str]:
    """Run a notebook with other values of its constants. Return the number of pictures and what was printed."""
    import nbclient
    import nbformat

    notebook = nbformat.read(ROOT / name, as_version=4)
    for constant, value in replaced.items():
        first = next(cell for cell in notebook.cells if f"{constant} = " in cell.source)
        first.source = re.sub(
            rf"^{constant} = .*$", f"{constant} = {value}", first.source, flags=re.M
        )
    last = notebook.cells[-1]
    last.source = last.source.replace('["steps"] = 100', '["steps"] = 5')
    client = nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": folder}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return pictures_of(notebook), "".join(output.get("text", "") for output in outputs)


@pytest.mark.parametrize(
    ("name", "pictures"), [("notebook", 4), ("liver", 1)], ids=["notebook", "liver: none of slices"]
)
def test_outputs_are_stored(name: str, pictures: int) -> None:
    """`jupyter execute --inplace` stores them."""
    import nbformat

    notebook = nbformat.read(ROOT / f"examples/{name}.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert pictures_of(notebook) == pictures
    assert "/tmp/" not in nbformat.writes(notebook)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of nbclient's own event loop
def test_the_notebook_runs_and_shows_pictures(tmp_path: Path) -> None:
    pictures, printed = run("examples/notebook.ipynb", tmp_path, STEPS="200")
    assert pictures == 4
    assert "adapted Rand error" in printed
    assert "report.html" in printed
    assert "5 steps on 2 ranks\nthe same parameters on both ranks: True" in printed


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_notebook_of_slices_runs(
    tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOODTIDE_DATA", str(data_folder))
    pictures, printed = run("examples/liver.ipynb", tmp_path, STEPS="4")
    assert pictures == 3
    assert "dice_pooled" in printed
    assert "4 steps; the same parameters on both ranks: True" in printed
