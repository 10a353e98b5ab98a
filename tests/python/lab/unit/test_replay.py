# SPDX-License-Identifier: Apache-2.0
"""`floodtide lab replay`: in which network call objects of another segmentation differ."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import bright_network
import h5py
import numpy as np
import pytest

from floodtide import cli, config, data
from floodtide.lab.replay import replay
from floodtide.nn.load import load_ffn
from floodtide.segment import Seeded, Segmenter, SegmentOptions, read_origins

pytestmark = pytest.mark.extra


@pytest.fixture
def found(tmp_path: Path) -> Path:
    """A folder with the segmentation of a volume, and a copy of it that tests change."""
    file = bright_network.configuration(tmp_path)
    assert cli.run(["segment", str(file), "--out", f"{tmp_path}/out.h5:ids"]) == 0
    shutil.copy(tmp_path / "out.h5", tmp_path / "reference.h5")
    return tmp_path


def change(path: Path, edit) -> np.ndarray:
    with h5py.File(path, "r+") as file:
        labels = file["ids"][()]
        edit(labels)
        attributes = dict(file["ids"].attrs)
        del file["ids"]
        file["ids"] = labels
        file["ids"].attrs.update(attributes)
    return labels


def replayed(folder: Path, capsys, *arguments: str) -> list[dict]:
    capsys.readouterr()
    words = ["lab", "replay", f"{folder}/out.h5:ids", f"{folder}/reference.h5:ids", *arguments]
    assert cli.run([*words, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_equal_segmentations_have_nothing_to_replay(found: Path, capsys):
    assert replayed(found, capsys) == []


def test_the_first_call_with_a_wrong_voxel_is_named(found: Path, capsys):
    """Voxels are removed from an object of the reference; only that object is flooded again."""
    origins = read_origins(f"{found}/reference.h5:ids")
    origin = max(origins, key=lambda origin: origin.calls)
    options = config.load(found / "segment.toml").segment
    volume = data.Volume(options.image)
    last = np.zeros(volume.shape, int)
    removed = np.zeros(volume.shape, bool)

    def noted(move) -> None:
        z, y, x = (slice(a - 4, a + 5) for a in move.position_zyx)
        last[z, y, x] = move.step + 1

    with h5py.File(found / "out.h5") as file:
        labels = file["ids"][()]
    earlier = np.where(labels < origin.id, labels, 0)
    grown = Segmenter.load(options).segment_at(volume, origin.zyx, noted, initial=earlier)
    own = labels == origin.id
    chosen = sorted(set(last[own].tolist()))[1:]
    removed = own & np.isin(last, chosen[-2:])
    change(found / "reference.h5", lambda stored: stored.__setitem__(removed, 0))

    (row,) = replayed(found, capsys, "--roundings", "1")
    count = int(np.count_nonzero(removed))
    assert (row["id"], row["calls"], row["voxels"]) == (origin.id, origin.calls, count)
    assert row["visible_call"] == chosen[-2]
    assert tuple(row["visible_zyx"]) == grown.moves[chosen[-2] - 1]
    assert row["margin"] > 1
    assert row["rounding"] == 0


def test_objects_at_reflected_faces_are_flooded_again(tmp_path: Path, capsys):
    file = str(bright_network.configuration(tmp_path))
    out = f"{tmp_path}/out.h5:ids"
    assert cli.run(["segment", file, "--out", out, "--set", "segment.reflect=true"]) == 0
    shutil.copy(tmp_path / "out.h5", tmp_path / "reference.h5")
    with h5py.File(tmp_path / "out.h5") as stored:
        labels = stored["ids"][()]
    name = int(
        labels[0][labels[0] > 0][0]
    )  # reaches the first plane: fields of view reach beyond it
    removed = labels[0] == name
    change(tmp_path / "reference.h5", lambda stored: stored[0].__setitem__(removed, 0))
    (row,) = replayed(tmp_path, capsys, "--roundings", "0")
    assert (row["id"], row["voxels"]) == (name, np.count_nonzero(removed))
    assert row["visible_call"] > 0
    assert row["visible_zyx"][0] <= 4


def test_an_object_that_an_earlier_one_changed_is_equal_when_flooded_again(found: Path, capsys):
    def edit(labels) -> None:
        name = int(np.bincount(labels[labels > 0]).argmax())
        labels[tuple(np.argwhere(labels == name)[0])] = 0

    change(found / "out.h5", edit)
    (row,) = replayed(found, capsys)
    assert row["voxels"] == 0
    words = ["lab", "replay", f"{found}/out.h5:ids", f"{found}/reference.h5:ids"]
    assert cli.run(words) == 0
    assert "flooded again it is equal" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["volume.h5:raw"], "origins"),
        (["missing.h5:ids"], "missing.h5"),
        (["reference.h5:ids", "--roundings", "-1"], "'-1', expected 0 to"),
    ],
)
def test_wrong_input_is_one_line(found: Path, capsys, words, message):
    capsys.readouterr()
    words = [f"{found}/{words[0]}", *words[1:]]
    assert cli.run(["lab", "replay", f"{found}/out.h5:ids", *words]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert message in lines[0]


class Tie:
    """A network with a tie: a face's best logit is the threshold of movement plus `error` in the first field of view.

    Bright voxels become object.
    """

    fov, deltas = (9, 9, 9), (3, 3, 3)

    def __init__(self, error: float) -> None:
        self.error = error

    def forward(self, image, logits):
        answer = np.where(image > 0, np.maximum(logits, np.float32(1)), np.float32(-10))
        answer[4, 4, 4] = 8
        if np.count_nonzero(logits < 0) == logits.size - 1:  # only the seed is object
            answer[4, 4, 7] = np.float32(np.log(0.9 / 0.1)) + np.float32(self.error)
        return answer


def test_a_replay_with_another_rounding_finds_the_call_where_two_programs_leave_each_other():
    image = np.full((20, 20, 40), 60, np.uint8)
    image[6:14, 6:14, 6:34] = 200
    options = SegmentOptions(mean=128.0, std=33.0, min_segment_size=20, disco_seed_threshold=-1.0)
    seed = (10, 10, 12)
    theirs = Segmenter(Tie(1e-6), options).segment(image, seeds=[seed])
    mine = Segmenter(Tie(-1e-6), options)
    assert theirs.origins[0].iterations > mine.segment(image, seeds=[seed]).origins[0].iterations
    origin = Seeded(1, seed, theirs.origins[0].iterations)
    volume = data.Volume(image)
    seen: list[tuple[int, int]] = []
    row = replay(
        mine,
        volume,
        theirs.segmentation,
        origin,
        roundings=20,
        progress=lambda done, whole: seen.append((done, whole)),
    )
    assert row.voxels > 0
    assert row.calls == 1
    assert row.rounding > 0
    assert (row.left_call, row.left_zyx) == (2, seed)
    assert all(done <= whole for done, whole in seen)
    assert replay(mine, volume, theirs.segmentation, origin, roundings=0).rounding == 0


def test_a_box_is_flooded_again_at_its_place(tmp_path: Path, capsys):
    file = bright_network.configuration(tmp_path)
    words = ["segment", str(file), "--out", f"{tmp_path}/out.h5:ids", "--box", "3:38,4:43,5:48"]
    assert cli.run(words) == 0
    shutil.copy(tmp_path / "out.h5", tmp_path / "reference.h5")
    labels = change(tmp_path / "reference.h5", lambda stored: stored.__setitem__(stored == 1, 0))
    assert labels.max() > 1
    with h5py.File(tmp_path / "out.h5", "r+") as stored:
        stored["ids"][tuple(np.argwhere(stored["ids"][()] == 2)[0])] = 0
    row = next(row for row in replayed(tmp_path, capsys) if row["id"] == 2)
    assert row["calls"] == next(
        o.calls for o in read_origins(f"{tmp_path}/out.h5:ids") if o.id == 2
    )


def test_rounding_explains_an_object_that_differs_in_one_voxel(
    data_folder: Path, published_file: Path
) -> None:
    """Object 168 differs by one voxel of 130 network calls in a whole run on a processor with AVX-512."""
    with h5py.File(data_folder / "fib25/training_sample2/grayscale_maps.h5") as file:
        image = data.Volume(file["raw"][()])
    with h5py.File(published_file) as file:
        labels = file["segmentation"][()]
    checkpoint = data_folder / "ffn_fib25_checkpoint/model.ckpt-27465036"
    model = load_ffn(checkpoint, fov=(33, 33, 33), deltas=(8, 8, 8))
    segmenter = Segmenter(model, SegmentOptions(mean=128.0, std=33.0))
    origins = read_origins(f"{published_file}:segmentation")
    (origin,) = (origin for origin in origins if origin.id == 168)
    row = replay(segmenter, image, labels, origin, roundings=4)
    assert row.calls == origin.calls == 130
    assert row.voxels <= 1
    assert row.voxels == 0 or row.rounding > 0
