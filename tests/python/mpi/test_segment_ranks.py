# SPDX-License-Identifier: Apache-2.0
"""Segmentation in subvolumes on several ranks, and after a job was killed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import affinity_network
import bright_network
import h5py
import numpy as np
import pytest
from launch import ENVIRONMENT, MPIEXEC, assert_one_line, shared
from processes import kill_job

from floodtide.base.files import temporary
from floodtide.data.places import table_of
from floodtide.segment import Pieces

pytestmark = [pytest.mark.mpi, pytest.mark.any_library]

SHAPE = (96, 96, 160)
COUNT = 4 * 4 * 7
KILLS = 4
SIZE = "segment.subvolume=[32,32,32]"


def segment(file: Path, out: Path) -> list[str]:
    return ["-m", "floodtide", "segment", str(file), "--out", str(out), "--set", SIZE]


def labels(ranks: int, pieces: Path, out: Path) -> np.ndarray:
    result = shared(ranks, ["-m", "floodtide", "reconcile", str(pieces), f"{out}:labels"])
    assert result.status == 0, result.stderr
    with h5py.File(out) as file:
        return np.asarray(file["labels"])


def start(ranks: int, arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(MPIEXEC), "-n", str(ranks), sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **ENVIRONMENT},
        start_new_session=True,
    )


def kill_after(job: subprocess.Popen[str], pieces: Path, stored: int, pause_s: float) -> bool:
    """Kill a job some time after a number of subvolumes are stored; return False if it has ended by itself."""
    deadline = time.monotonic() + 60
    while len(list(pieces.glob("[!.]*.h5"))) < stored:
        assert job.poll() is None, job.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(pause_s)
    running = job.poll() is None
    kill_job(job)
    job.communicate()
    return running


@pytest.mark.extra
def test_the_result_does_not_depend_on_ranks_or_kills(tmp_path: Path) -> None:
    file = bright_network.configuration(tmp_path, SHAPE, checkpoint_interval=0.005)
    without_checkpoints = ["--set", "segment.checkpoint_interval=0.0"]
    result = shared(1, [*segment(file, tmp_path / "whole"), *without_checkpoints])
    assert result.status == 0, result.stderr
    assert f"segmented: {COUNT}\n" in result.stdout
    expected = labels(1, tmp_path / "whole", tmp_path / "whole.h5")
    assert expected.max() > 3

    generator = random.Random(20261124)
    killed = tmp_path / "killed"
    for kill in range(KILLS):
        job = start(kill % 3 + 1, segment(file, killed))
        # The first jobs are killed at any moment after they have begun, also before anything is stored.
        stored = kill * COUNT // (KILLS + 2)
        assert kill_after(job, killed, stored, generator.uniform(0.0, 0.05) + 0.6 * (kill < 2))
    assert len(list(killed.glob("[!.]*.h5"))) < COUNT
    result = shared(3, segment(file, killed))
    assert result.status == 0, result.stderr
    np.testing.assert_array_equal(labels(3, killed, tmp_path / "killed.h5"), expected)
    for path in (tmp_path / "whole").glob("*.h5"):
        with h5py.File(path) as a, h5py.File(killed / path.name) as b:
            np.testing.assert_array_equal(a["segmentation"], b["segmentation"])
    left = [p.name for p in killed.iterdir() if p.suffix not in (".h5", ".json")]
    assert left == []


def test_a_unet_segments_alike_on_any_ranks_and_after_a_kill(tmp_path: Path) -> None:
    pytest.importorskip("waterz")
    file = affinity_network.train(tmp_path)

    def line(pieces: Path) -> list[str]:
        names = [str(file), "--out", str(pieces)]
        return ["-m", "floodtide", "segment", *names, *affinity_network.SUBVOLUME]

    found = []
    for ranks in (1, 2, 3):
        pieces = tmp_path / f"pieces{ranks}"
        if ranks == 3:
            assert kill_after(start(2, line(pieces)), pieces, 5, 0.0)
            assert 5 <= len(list(pieces.glob("[!.]*.h5"))) < 27
            part = Pieces.open(pieces)  # a table was begun, too
            temporary(table_of(part.reference(part.missing()[0]))).touch()
        result = shared(ranks, line(pieces))
        assert result.status == 0, result.stderr
        assert result.stdout.count("subvolumes: 27\n") == 1  # rank 0 alone prints
        found.append(labels(ranks, pieces, tmp_path / f"out{ranks}.h5"))
    assert found[0].max() > 3
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
    left = {path.suffix for path in (tmp_path / "pieces3").iterdir()}
    assert left == {".h5", ".json", ".csv"}
    text = shared(2, [*line(tmp_path / "new"), "--box", "0:65,0:64,0:64"], status=2).stderr
    assert text.count("is not inside") == 1


PREDICT_IN_SMALL_BLOCKS = """
import sys
from unittest import mock
from floodtide import errors
from floodtide.cli import main
from floodtide.comm import world
from floodtide.segment import predict
def forward(self, blocks, before=predict.Predictor._forward):
    if sys.argv[1] == "fail" and world.rank() == 1:
        raise errors.NumericalError("no number")
    return before(self, blocks)
with mock.patch.object(predict, "bytes_per_voxel", lambda model: predict.MEMORY_MIB * 2.0**20 / 24**3):
    with mock.patch.object(predict.Predictor, "_forward", forward):
        main(sys.argv[2:])
"""


@pytest.mark.parametrize("command", ["predict", "segment"])
def test_ranks_share_the_blocks_of_a_prediction(tmp_path: Path, command: str) -> None:
    pytest.importorskip("waterz")
    file = affinity_network.train(tmp_path)
    name = "out.h5" if command == "predict" else "out.predicted.h5"
    found = []
    for ranks in (1, 2, 3):
        (tmp_path / str(ranks)).mkdir()
        out = f"{tmp_path}/{ranks}/out.h5:a"
        line = [command, str(tmp_path / "run"), f"{tmp_path}/volume.h5:raw", out]
        if command == "segment":
            line = [command, str(file), "--out", out, "--box", "0:64,0:64,0:60"]
        result = shared(ranks, ["-c", PREDICT_IN_SMALL_BLOCKS, "work", *line])
        assert result.status == 0, result.stderr
        assert result.stdout.count("out: ") == 1  # rank 0 alone prints
        with h5py.File(tmp_path / str(ranks) / name) as stored:
            (key,) = stored
            found.append(stored[key][()])
    assert found[0].shape[0] == 3
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_a_rank_that_cannot_predict_ends_all_and_keeps_the_older_result(tmp_path: Path) -> None:
    affinity_network.train(tmp_path)
    line = ["predict", str(tmp_path / "run"), f"{tmp_path}/volume.h5:raw", f"{tmp_path}/out.h5:a"]
    line += ["--voxel-nm", "16,16,16"]  # else a note says that the image states none
    assert shared(1, ["-m", "floodtide", *line]).status == 0
    before = (tmp_path / "out.h5").read_bytes()
    result = shared(3, ["-c", PREDICT_IN_SMALL_BLOCKS, "fail", *line], status=2)
    assert result.stderr.count("no number") == 1
    assert (tmp_path / "out.h5").read_bytes() == before
    assert not list(tmp_path.glob(".out*"))
    for wrong, said in (
        (["--box", "0:65,0:64,0:64"], "is not inside"),
        (["--probabilities"], "softmax"),
    ):
        result = shared(2, ["-m", "floodtide", *line, *wrong], status=2)
        assert_one_line(result.stderr)
        assert said in result.stderr


def test_an_error_of_one_rank_is_one_line_on_all(tmp_path: Path) -> None:
    file = bright_network.configuration(tmp_path)
    arguments = [*segment(file, tmp_path / "pieces"), "--set", "segment.overlap=[17,0,0]"]
    result = shared(2, arguments, status=2)
    assert result.status == 2
    assert result.stderr.count("at most half a subvolume") == 1


def test_resegmentation_does_not_depend_on_ranks(tmp_path: Path) -> None:
    file = bright_network.configuration(tmp_path, (40, 64, 96))
    out = ["-m", "floodtide", "segment", str(file), "--out", f"{tmp_path}/out.h5:labels"]
    assert shared(1, out).status == 0
    found = []
    for ranks in (1, 3):
        pairs = tmp_path / f"pairs{ranks}"
        command = ["-m", "floodtide", "agglomerate", str(file), f"{tmp_path}/out.h5:labels"]
        command += [f"{tmp_path}/out{ranks}.h5:objects", "--pairs", str(pairs)]
        result = shared(ranks, [*command, "--set", "resegment.max_distance=4.0"])
        assert result.status == 0, result.stderr
        assert result.stdout.count("merged pairs: ") == 1
        with h5py.File(tmp_path / f"out{ranks}.h5") as stored:
            objects = np.asarray(stored["objects"])
        texts = {path.name: path.read_text() for path in pairs.iterdir()}
        found.append((objects, texts))
    (objects, texts), (others, other_texts) = found
    np.testing.assert_array_equal(objects, others)
    assert texts == other_texts
    assert {"pairs.json", "pairs.csv", "equivalences.csv", "scores_000000.json"} <= texts.keys()


EVALUATE_IN_SMALL_BLOCKS = """
import sys
from unittest import mock
from floodtide.cli import main
places = ["floodtide.evaluate.voxels.BLOCK_VOXELS", "floodtide.evaluate.classes.BLOCK_VOXELS"]
with mock.patch(places[0], 4096), mock.patch(places[1], 4096):
    main(sys.argv[1:])
"""


@pytest.mark.parametrize("options", [[], ["--objects"], ["--objects", "--box", "7:8,0:30,0:30"]])
def test_scores_do_not_depend_on_ranks(tmp_path: Path, options: list[str]) -> None:
    generator = np.random.default_rng(3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("segments", "truth"):
            values = generator.integers(0, 4 if options else 40, size=(40, 30, 30))
            file[name] = values.astype(np.uint16)
        if options:
            names = {value: f"class {value}" for value in range(4)}
            file["segments"].attrs["classes"] = json.dumps(names)
            file["segments_probabilities"] = generator.random((4, 40, 30, 30)).astype(np.float32)
    command = ["-c", EVALUATE_IN_SMALL_BLOCKS, "evaluate"]
    command += [f"{tmp_path}/a.h5:segments", f"{tmp_path}/a.h5:truth", *options]
    one, three = (shared(ranks, [*command, "--json"]) for ranks in (1, 3))
    assert one.status == three.status == 0, three.stderr
    assert one.stdout == three.stdout
    assert len(one.stdout.splitlines()) == 1  # rank 0 alone prints
