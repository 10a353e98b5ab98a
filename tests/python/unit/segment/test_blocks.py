# SPDX-License-Identifier: Apache-2.0
"""Segmentation subvolume by subvolume: what is stored, what is refused, and what a restart does."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import bright_network
import h5py
import numpy as np
import pytest
from bright_network import in_subvolumes, segment_block
from click.testing import CliRunner

from floodtide import config, errors
from floodtide.cli import reconcile as reconcile_cli
from floodtide.cli import segment as segment_cli
from floodtide.data import Box, Volume
from floodtide.segment import Flooding, Pieces, Segmenter
from floodtide.segment.blocks import sampled_digest

SIZE = (24, 24, 24)


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Segmenter, Volume]:
    options = config.load(bright_network.configuration(tmp_path)).segment
    return Segmenter.load(options), Volume(options.image)


def segment_on_ranks(
    folder: Path, segmenter: Segmenter, volume: Volume, numbers: range | None = None
) -> int:
    return int(Flooding(segmenter, volume).write_subvolumes(str(folder), numbers)["segmented"])


def contents(pieces: Pieces) -> list[np.ndarray]:
    return [pieces.read(n, pieces.cut.subvolume(n)) for n in range(len(pieces.cut))]


def test_each_subvolume_is_what_a_segmentation_of_its_box_is(
    tmp_path: Path, parts: tuple[Segmenter, Volume]
) -> None:
    segmenter, volume = parts
    pieces = in_subvolumes(tmp_path / "pieces", segmenter, volume, subvolume=SIZE)
    assert len(pieces.cut) == 27
    assert pieces.cut.overlap == bright_network.FOV
    assert segment_on_ranks(pieces.directory, segmenter, volume) == 27
    expected = [segmenter.segment(volume, pieces.cut.subvolume(n)).segmentation for n in range(27)]
    for number, labels in enumerate(contents(pieces)):
        np.testing.assert_array_equal(labels, expected[number])
    assert sum(labels.max() > 0 for labels in expected) >= 10
    of_array = in_subvolumes(tmp_path / "array", segmenter, volume.read(), subvolume=SIZE)
    assert segment_block(of_array, 13, segmenter, volume.read())
    np.testing.assert_array_equal(of_array.read(13, of_array.cut.subvolume(13)), expected[13])


def test_a_restart_segments_what_is_missing_only(
    tmp_path: Path, parts: tuple[Segmenter, Volume]
) -> None:
    segmenter, volume = parts
    pieces = in_subvolumes(tmp_path / "pieces", segmenter, volume, subvolume=SIZE)
    assert segment_on_ranks(pieces.directory, segmenter, volume) == 27
    before = contents(pieces)
    times = [pieces.path(n).stat().st_mtime_ns for n in range(27)]
    for number in (3, 20):
        pieces.path(number).unlink()
    again = in_subvolumes(tmp_path / "pieces", segmenter, volume, subvolume=SIZE)
    assert again.missing() == [3, 20]
    assert segment_on_ranks(again.directory, segmenter, volume, numbers=range(10)) == 1
    assert segment_on_ranks(again.directory, segmenter, volume) == 1
    assert not segment_block(again, 5, segmenter, volume)
    for a, b in zip(before, contents(again), strict=True):
        np.testing.assert_array_equal(a, b)
    changed = [n for n in range(27) if pieces.path(n).stat().st_mtime_ns != times[n]]
    assert changed == [3, 20]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"subvolume": (26, 24, 24)}, r"subvolume = \[24, 24, 24\]"),
        ({"overlap": (8, 8, 8)}, r"overlap = \[9, 9, 9\]"),
        ({"box": ((0, 0, 0), (40, 40, 40))}, "box = 0:40,0:44,0:48"),
    ],
)
def test_a_folder_of_another_cut_is_refused(
    tmp_path: Path, parts: tuple[Segmenter, Volume], change: dict, says: str
) -> None:
    segmenter, volume = parts
    pieces = in_subvolumes(tmp_path / "pieces", segmenter, volume, subvolume=SIZE)
    assert segment_block(pieces, 0, segmenter, volume)
    with pytest.raises(errors.InvalidArgumentError, match=f"made with {says}, now it is"):
        in_subvolumes(tmp_path / "pieces", segmenter, volume, **({"subvolume": SIZE} | change))


def test_a_folder_of_another_network_or_option_is_refused(
    tmp_path: Path, parts: tuple[Segmenter, Volume]
) -> None:
    segmenter, volume = parts
    pieces = in_subvolumes(tmp_path / "pieces", segmenter, volume, subvolume=SIZE)
    assert segment_block(pieces, 0, segmenter, volume)
    other = config.load(tmp_path / "segment.toml", ["segment.move_threshold=0.8"]).segment
    with pytest.raises(errors.InvalidArgumentError, match=r"move_threshold = 0.9, now it is 0.8"):
        in_subvolumes(tmp_path / "pieces", Segmenter.load(other), volume, subvolume=SIZE)
    segmenter.model.parameters()["seed_update/conv_lom/biases"][0] = -4
    with pytest.raises(errors.InvalidArgumentError, match="network = "):
        in_subvolumes(tmp_path / "pieces", segmenter, volume, subvolume=SIZE)


def test_a_folder_with_other_files_is_refused(
    tmp_path: Path, parts: tuple[Segmenter, Volume]
) -> None:
    (tmp_path / "pieces").mkdir()
    (tmp_path / "pieces/thesis.tex").write_text("text")
    with pytest.raises(errors.InvalidArgumentError, match=r"has files but no cut\.json"):
        in_subvolumes(tmp_path / "pieces", *parts, subvolume=SIZE)
    assert [path.name for path in (tmp_path / "pieces").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[1]",
        '{"format": "floodtide subvolumes 9"}',
        '{"format": "floodtide subvolumes 1", "box": "0:9,0:9,0:9", "subvolume": [4, 4], "overlap": [0, 0, 0],'
        ' "volume_shape": [9, 9, 9], "settings": {}}',
        '{"format": "floodtide subvolumes 1", "box": "0:9,0:9,0:9", "subvolume": [4, 4, 4], "overlap": [0, 0, 0],'
        ' "volume_shape": [9, 9, 8], "settings": {}}',
    ],
)
def test_damaged_plans_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "cut.json").write_text(content)
    with pytest.raises(errors.InvalidFileError, match=r"cut\.json"):
        Pieces.open(tmp_path)


def test_a_subvolume_of_another_process_is_left_to_it(
    tmp_path: Path, parts: tuple[Segmenter, Volume]
) -> None:
    segmenter, volume = parts
    pieces = in_subvolumes(tmp_path / "pieces", segmenter, volume, subvolume=SIZE)
    program = "import sys; from floodtide.segment.flooding import output\n"
    program += "with output(sys.argv[1]): print('has it', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", program, pieces.reference(7)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "has it\n"
        with pytest.raises(errors.LockedError, match="in use by"):
            segment_block(pieces, 7, segmenter, volume)
        assert segment_block(pieces, 6, segmenter, volume)
        assert segment_block(pieces, 8, segmenter, volume)
    finally:
        other.communicate()
    assert segment_on_ranks(pieces.directory, segmenter, volume, numbers=range(6, 9)) == 1


def test_the_lock_of_a_process_that_was_killed_after_storing_is_removed(
    tmp_path: Path, parts: tuple[Segmenter, Volume]
) -> None:
    segmenter, volume = parts
    pieces = in_subvolumes(tmp_path / "pieces", segmenter, volume, subvolume=SIZE)
    assert segment_on_ranks(pieces.directory, segmenter, volume, numbers=range(2)) == 2
    program = "import os, sys; from floodtide.segment.flooding import output\n"
    program += "with output(sys.argv[1]): os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", program, pieces.reference(1)], check=False)
    lock = pieces.directory / ".0_0_12.h5.floodtide-lock"
    assert [path.name for path in pieces.directory.glob(".*")] == [lock.name]
    assert segment_on_ranks(pieces.directory, segmenter, volume, numbers=range(2)) == 0
    assert not lock.exists()


def run(command, *arguments: str) -> str:
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_commands_segment_and_reconcile(tmp_path: Path) -> None:
    file = str(bright_network.configuration(tmp_path, subvolume=[24, 24, 24]))
    pieces = str(tmp_path / "pieces")
    estimate = json.loads(run(segment_cli.command, file, "--out", pieces, "--estimate", "--json"))
    assert estimate["subvolumes"] == 27
    assert estimate["network_calls"] == 27 * 8**3
    assert estimate["memory_bytes_per_rank"] == 20 * 24**3 + 300 * 2**20
    assert not (tmp_path / "pieces").exists()
    first = json.loads(
        run(segment_cli.command, file, "--out", pieces, "--subvolumes", "0:10", "--json")
    )
    assert (first["segmented"], first["missing"]) == (10, 17)
    words = [file, "--out", pieces, "--estimate"]
    under_way = json.loads(run(segment_cli.command, *words, "--json"))
    assert under_way["segmented"] == 10
    assert under_way["network_calls"] == 17 * 8**3
    with pytest.raises(errors.InvalidArgumentError, match="17 of 27 subvolumes"):
        run(reconcile_cli.command, pieces, f"{tmp_path}/out.h5:labels")
    text = run(segment_cli.command, file, "--out", pieces)
    assert "segmented: 17\n" in text
    out = json.loads(run(reconcile_cli.command, pieces, f"{tmp_path}/out.h5:labels", "--json"))
    labels = Volume(out["out"])
    assert labels.shape == (40, 44, 48)
    assert labels.read().max() == out["objects"] > 1
    assert labels.text("image") == f"{tmp_path}/volume.h5:raw"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--out", "out.h5:labels"], "names a dataset, expected a folder"),
        (["--out", "pieces", "--subvolumes", "3"], "expected A:B"),
        (["--out", "pieces", "--subvolumes", "5:5"], "expected A:B"),
        (["--out", "pieces", "--subvolumes", "20:28"], "subvolume 27: expected one from 0 to 26"),
        (["--out", "pieces", "--set", "segment.overlap=[20,4,4]"], "at most half a subvolume"),
        (["--out", "pieces", "--set", "segment.subvolume=[8,24,24]"], "field of view"),
    ],
)
def test_calls_that_cannot_work_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    file = str(bright_network.configuration(tmp_path, subvolume=[24, 24, 24]))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.Error, match=says) as caught:
        run(segment_cli.command, file, *arguments)
    assert caught.value.exit_status == 2


@pytest.mark.parametrize("place", [(0, 0, 0), (39, 43, 47), (20, 3, 40)])
def test_an_image_that_changes_between_two_halves_is_refused(
    tmp_path: Path, place: tuple[int, int, int]
) -> None:
    file = str(bright_network.configuration(tmp_path, subvolume=[24, 24, 24]))
    pieces = str(tmp_path / "pieces")
    run(segment_cli.command, file, "--out", pieces, "--subvolumes", "0:2")
    with h5py.File(tmp_path / "volume.h5", "r+") as image:
        image["raw"][place] ^= 1

    with pytest.raises(errors.InvalidArgumentError, match=r"voxels of .*volume\.h5:raw = "):
        run(segment_cli.command, file, "--out", pieces)


def test_a_mask_or_seeds_that_change_between_two_halves_are_refused(tmp_path: Path) -> None:
    mask, seeds = tmp_path / "mask.h5", tmp_path / "seeds.txt"
    with h5py.File(mask, "w") as file:
        file["mask"] = np.zeros((40, 44, 48), np.uint8)
    seeds.write_text("20 20 20\n")
    keys = {
        "subvolume": [24, 24, 24],
        "masks": f'[{{volume = "{mask}:mask"}}]',
        "seeds": f'"{seeds}"',
    }
    words = [str(bright_network.configuration(tmp_path, **keys)), "--out", str(tmp_path / "pieces")]
    run(segment_cli.command, *words, "--subvolumes", "0:2")

    seeds.write_text("20 20 21\n")
    with pytest.raises(errors.InvalidArgumentError, match=r"seeds in .*seeds\.txt = "):
        run(segment_cli.command, *words)
    seeds.write_text("20 20 20\n")
    with h5py.File(mask, "r+") as file:
        file["mask"][1, 2, 3] = 1
    with pytest.raises(errors.InvalidArgumentError, match=r"voxels of .*mask\.h5:mask = "):
        run(segment_cli.command, *words)


def test_a_large_volume_is_sampled_everywhere() -> None:
    read = []

    def zeros(box: Box) -> np.ndarray:
        read.append(box)
        return np.zeros(box[1], np.uint8)

    text = sampled_digest(zeros, ((1000, 0, 0), (2000, 5000, 5000)))

    assert text == sampled_digest(zeros, ((1000, 0, 0), (2000, 5000, 5000)))
    assert sum(np.prod(size) for _, size in read) <= 2 * 2**21
    starts = np.array([start for start, _ in read])
    assert (np.ptp(starts, axis=0) > [1000, 2500, 2500]).all()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--subvolumes", "0:99", "--set", "segment.subvolume=[30,30,30]"], "subvolume 98"),
        (["--set", "segment.subvolume=[8,24,24]"], "field of view"),
        (["--set", "segment.subvolume=[12,12,12]", "--set", "segment.overlap=[9,9,9]"], "half"),
    ],
)
def test_a_refused_command_does_not_hinder_the_right_one(
    tmp_path: Path, wrong: list[str], says: str
) -> None:
    file = str(bright_network.configuration(tmp_path, subvolume=[24, 24, 24]))
    pieces = tmp_path / "pieces"
    with pytest.raises(errors.Error, match=says):
        run(segment_cli.command, file, "--out", str(pieces), *wrong)

    report = run(segment_cli.command, file, "--out", str(pieces), "--subvolumes", "0:2", "--json")

    assert json.loads(report)["segmented"] == 2


def test_a_process_whose_plan_was_replaced_stores_nothing(
    tmp_path: Path, parts: tuple[Segmenter, Volume]
) -> None:
    segmenter, volume = parts
    pieces = in_subvolumes(tmp_path / "pieces", segmenter, volume, subvolume=SIZE)
    in_subvolumes(tmp_path / "pieces", segmenter, volume, subvolume=(30, 30, 30))

    with pytest.raises(errors.InvalidArgumentError, match=r"made with subvolume = \[30, 30, 30\]"):
        segment_block(pieces, 3, segmenter, volume)


@pytest.mark.parametrize(
    "change",
    [
        {"box": "0:1099511627776,0:1099511627776,0:1099511627776"},
        {"box": "0:1099511627776,0:24,0:24", "subvolume": [1, 1, 1]},
        {"box": "0:100000000,0:24,0:24", "overlap": [12, 12, 12]},
    ],
)
def test_a_plan_that_claims_too_much_is_refused_at_once(tmp_path: Path, change: dict) -> None:
    plan = {
        "format": "floodtide subvolumes 1",
        "box": "0:24,0:24,0:24",
        "subvolume": [24, 24, 24],
        "overlap": [0, 0, 0],
        "settings": {},
    } | change
    plan["volume_shape"] = [int(part.partition(":")[2]) for part in plan["box"].split(",")]
    (tmp_path / "cut.json").write_text(json.dumps(plan))

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(errors.InvalidFileError, match=r"cut\.json: .*(voxels|subvolumes)"):
        Pieces.open(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
