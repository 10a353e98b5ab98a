# SPDX-License-Identifier: Apache-2.0
"""Wrong usage under mpiexec: one line, and exit status 2 on every rank. mpiexec combines the statuses of the ranks."""

from __future__ import annotations

import shlex
from pathlib import Path

import h5py
import numpy as np
import pytest
from launch import mpiexec

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]

UNET = '[task]\nkind = "affinities"\n[model]\nkind = "unet"\n'

WRONG = [
    "segment",
    "segment none.toml --out s.h5:s --npz folder",
    "segment none.toml --out s.h5:s --voxel-nm 8",
    "segment none.toml --out s.h5:s --preview",
    "segment none.toml --out s.h5:s --subvolumes 2",
    "segment none.toml",
    "segment none.toml --out s.h5:s",
    "segment --out s.h5:s",
    "convert two.pbtxt plan.toml",
    "convert two.pbtxt plan.toml --resample-nm 8",
    "segment volume.h5:raw --model fib25 --preview --subvolumes 0:1",
    "segment volume.h5:raw --model fib25 --preview --estimate",
    "convert volume.h5:labels npz://npz",
    "segment unet.toml --out s.h5:s --subvolumes 0:1",
    "segment ffn.toml --out s.h5:s --subvolumes 0:1",
    "segment unet.toml --out s.h5:s --estimate",
    "segment ffn.toml --out s.h5:s --set segment.deltas=[-1,1,1]",
    "segment ffn.toml --out s.h5:s --set segment.unknown=1",
    "evaluate volume.h5:labels",
    "evaluate volume.h5:labels volume.h5:labels --baseline volume.h5:raw --classes",
    "evaluate volume.h5:labels volume.h5:labels --skeletons none.csv --classes",
    "evaluate volume.h5:labels volume.h5:none",
    "predict none.toml volume.h5:raw p.h5",
    "predict none volume.h5:raw p.h5:p --box 1",
    "predict none volume.h5:raw --overlap 2",
    "reconcile none s.h5:s",
    "agglomerate none.toml volume.h5:labels o.h5:o",
    "lab compare volume.h5:labels volume.h5:none",
    "agglomerate volume.h5:raw o.h5:o",
    "partition volume.h5:labels none/p.h5:p",
    "convert none out.npz --labels volume.h5:labels",
    "convert volume.h5:raw out.zarr --fov 9,9,9",
    "train none.toml",
    "train ffn.toml --set training.steps=-1",
    "inspect none.toml",
    "mesh volume.h5:labels",
    "report none",
    "lab synth none/s.h5",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("usage")
    with h5py.File(made / "volume.h5", "w") as file:
        file["raw"] = np.zeros((8, 8, 8), np.uint8)
        file["labels"] = np.ones((8, 8, 8), np.uint32)
    (made / "unet.toml").write_text(UNET)
    (made / "ffn.toml").write_text('[segment]\nimage = "volume.h5:raw"\nmean = 0\nstd = 1\n')
    return made


@pytest.mark.parametrize("ranks", [2, 3])
def test_forty_wrong_usages_end_with_status_2_on_every_rank_and_one_line(
    folder: Path, ranks: int
) -> None:
    wrong = {}
    for number, line in enumerate(WRONG):
        if number % 2 + 2 != ranks:
            continue
        program = f"import os, sys; os.chdir({str(folder)!r}); from floodtide.cli import main; main(sys.argv[1:])"
        result = mpiexec(ranks, ["-c", program, *shlex.split(line)])
        if result.status != 2 or len(result.stderr.splitlines()) != 1:
            wrong[line] = (result.status, result.stderr)

    assert wrong == {}
