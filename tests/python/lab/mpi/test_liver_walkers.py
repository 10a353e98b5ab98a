# SPDX-License-Identifier: Apache-2.0
"""The study of walkers on liver slices."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import h5py
import numpy as np
import pytest

from floodtide.train import read_run

SCRIPT = Path(__file__).resolve().parents[4] / "examples/lab/liver_walkers.py"
RULES = ("linear", "linear_warmup_cosine")  # of five

pytestmark = [pytest.mark.mpi, pytest.mark.any_library, pytest.mark.extra]


def study() -> ModuleType:
    """The script as a module that trains by two of its rules."""
    spec = importlib.util.spec_from_file_location("liver_walkers", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.RULES = {name: module.RULES[name] for name in RULES}
    return module


def test_the_study_of_workers_trains_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    (tmp_path / "msd_liver_ct").mkdir()
    for name, first, n in (("train", 0, 8), ("validation", 8, 2)):
        with h5py.File(tmp_path / "msd_liver_ct" / f"liver_{name}.h5", "w") as file:
            masks = np.zeros((n, 32, 32), np.uint8)
            masks[:, 8:20, 4:25] = 1
            file["image"] = (100 * masks + random.integers(0, 50, masks.shape)).astype(np.uint8)
            file["mask"] = masks
            file["patient"] = np.arange(first, first + n, dtype=np.int32)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLOODTIDE_DATA", str(tmp_path))
    words = "liver_walkers.py --walkers 1 2 --seeds 0 3 --epochs 4"
    monkeypatch.setattr(sys, "argv", words.split())
    study().main()
    folder = tmp_path / "runs/liver_walkers"
    with h5py.File(folder / "train.h5") as file:
        assert file["image"].shape == (8, 16, 16)
        assert (file["mask"][:, 4:10, 2:12] == 1).all()
    assert (folder / "constant-1/checkpoints/step-16.h5").is_file()
    assert (folder / "cosine-1/checkpoints/step-16.h5").is_file()
    for rule in RULES:
        assert (folder / f"{rule}-2/checkpoints/step-8.h5").is_file()
        assert (folder / f"{rule}.html").is_file()
        assert (folder / rule / "by_time.svg").is_file()
    assert (folder / "rules.svg").is_file()
    assert (folder / "alone.svg").is_file()
    with (folder / "scores.csv").open() as file:
        rows = list(csv.DictReader(file))
    cells = [(rule, w, seed) for rule in RULES for w in "12" for seed in "03"]
    assert [(row["rule"], row["walkers"], row["seed"]) for row in rows] == cells
    last = read_run(folder / "linear-2-seed-3").validation[-1]["classes"][0]["dice_groups"]
    (row,) = (
        row for row in rows if (row["rule"], row["walkers"], row["seed"]) == ("linear", "2", "3")
    )
    assert float(row["dice"]) == pytest.approx(np.mean(last), abs=1e-4)
