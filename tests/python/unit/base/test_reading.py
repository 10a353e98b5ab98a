# SPDX-License-Identifier: Apache-2.0
"""Files that floodtide reads in Python: whatever is wrong with them is one line that names the file."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import tomli_w
import training_slices
import training_volume
from report_runs import make_run

from floodtide import cli, config
from floodtide.base import reading
from floodtide.errors import InvalidFileError
from floodtide.train import Trainer


def one_line(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must refuse its input: status 2, one line, nothing on standard output."""
    capsys.readouterr()
    status = cli.run(list(words))
    printed = capsys.readouterr()
    assert status == 2, printed
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1, printed.err
    return printed.err


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a training of 2 + 2 steps: run/ has two checkpoints."""
    folder = tmp_path_factory.mktemp("finished")
    training_volume.write_volume(folder)
    for steps in (2, 4):
        Trainer.from_config(
            config.from_dict(training_volume.document(folder, training={"steps": steps}))
        ).run()
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage; train.toml goes on to 6 steps."""
    for name in ("volume.h5", "partitions.h5"):
        (tmp_path / name).symlink_to(finished / name)
    shutil.copytree(finished / "run", tmp_path / "run")
    document = training_volume.document(tmp_path, training={"steps": 6})
    (tmp_path / "train.toml").write_text(tomli_w.dumps(document))
    return tmp_path


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory with every part that a report shows; tests copy it."""
    return make_run(tmp_path_factory.mktemp("complete") / "run")


def test_a_fifo_a_device_and_a_folder_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, what in (
        ("fifo", "not a regular file"),
        ("zero", "not a regular file"),
        (".", "Is a directory"),
    ):
        with pytest.raises(InvalidFileError, match=f"{what}; expected words"):
            reading.read_bytes(tmp_path / name, "words")


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InvalidFileError, match=r"has 1099511627776 bytes; expected text"):
        reading.read_text(tmp_path / "huge")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "can't decode byte 0xff"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5000, "is not JSON"),
        (b"", "is not JSON"),
    ],
)
def test_json_that_is_none_is_one_short_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InvalidFileError, match=message) as caught:
        reading.read_json(tmp_path / "a.json", "an object")
    assert str(caught.value).startswith(f"{tmp_path}/a.json: ")
    assert len(str(caught.value)) < 500


def test_an_array_that_promises_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.zeros(4))
    content = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(content.replace(b"(4,)", b"(9,)"))
    with pytest.raises(InvalidFileError, match="cannot be read"):
        reading.read_arrays(tmp_path / "a.npz", ["a"], "array a", 1 << 20)
    np.savez(tmp_path / "b.npz", a=np.array([{}]))
    with pytest.raises(InvalidFileError, match=r"b\.npz: cannot be read"):
        reading.read_arrays(tmp_path / "b.npz", ["a"], "array a", 1 << 20)


def test_a_header_that_is_no_python_is_refused(tmp_path: Path) -> None:
    """NumPy looks for words of Python 2 in a header that it cannot read."""
    header = b"{'shape': (\n"
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", array)
    with pytest.raises(InvalidFileError, match=r"a\.npz: cannot be read"):
        reading.read_arrays(tmp_path / "a.npz", ["a"], "array a", 1 << 20)


@pytest.mark.parametrize("place", [200, 900, 5000, 9000, 20000, 30000])
def test_a_damaged_newest_checkpoint_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], place: int
) -> None:
    checkpoint = folder / "run" / "checkpoints" / "step-4.h5"
    content = bytearray(checkpoint.read_bytes())
    content[place : place + 2000] = b"\xa5" * 2000
    checkpoint.write_bytes(content)
    said = one_line(capsys, "train", str(folder / "train.toml"))
    assert "step-4.h5" in said
    assert "if the file is damaged, move it away to resume from the checkpoint before it" in said


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"nonsense", "log.jsonl, line 2: is not JSON"),
        (b"\xff\xfe", "log.jsonl: cannot be read: 'utf-8'"),
        (b"7", "log.jsonl, line 2: is not a JSON object"),
        (b'{"kind": "train"}', "log.jsonl, line 2: has no kind or no step"),
        (b'{"step": 1, "time_s": -1e300}', "log.jsonl, line 2: time_s is -1e+300"),
    ],
)
def test_a_damaged_log_stops_resuming_and_stays(
    folder: Path, capsys: pytest.CaptureFixture[str], line: bytes, message: str
) -> None:
    log = folder / "run" / "log.jsonl"
    lines = log.read_bytes().split(b"\n")
    lines[1] = line
    log.write_bytes(b"\n".join(lines))
    before = {path: path.read_bytes() for path in (folder / "run").rglob("*.*") if path.is_file()}
    said = one_line(capsys, "train", str(folder / "train.toml"))
    assert message in said
    assert "move the file away to start a new one" in said
    assert {path: path.read_bytes() for path in before} == before


def test_an_image_is_no_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "stack.tif").write_bytes(b"II*\0\xff\xd8")
    said = one_line(capsys, "train", f"{tmp_path}/stack.tif")
    assert said.startswith(f"floodtide train: {tmp_path}/stack.tif: cannot be read: 'utf-8'")
    assert said.endswith("a TOML configuration; floodtide init makes one from an image\n")


def test_a_missing_volume_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "evening.toml"
    path.write_text(
        '[[data.volumes]]\nname = "a"\nimage = "even.h5:raw"\nlabels = "even.h5:labels"\n'
    )
    assert one_line(capsys, "train", str(path)) == "floodtide train: even.h5: no such file\n"


def test_a_configuration_names_the_run_directory_of_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stack.toml").write_text(f'[run]\ndir = "{tmp_path}/run"\n')
    said = one_line(capsys, "report", str(tmp_path / "stack.toml"))
    assert said == f"floodtide report: no run directory at {tmp_path}/run\n"


def test_a_run_directory_whose_name_is_too_long_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "n" * 400
    said = one_line(capsys, "train", str(folder / "train.toml"), "--set", f"run.dir={name}")
    assert "File name too long" in said
    assert "no run directory" in one_line(capsys, "report", name)
    assert "no run directory" in one_line(capsys, "lab", "simulate", name)
    assert "neither a file" in one_line(capsys, "convert", name, str(folder / "out.h5"))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("log.jsonl", b'{"kind": "train", "step": "x"}\n', "line 1: step is 'x'"),
        ("log.jsonl", b'{"kind": "train", "step": 1, "time_s": NaN}\n', "time_s is nan"),
        ("log.jsonl", b'{"kind": "train", "step": 1, "loss": 1e300}\n', "loss is 1e+300"),
        ("log.jsonl", b'{"kind": "start", "ranks": 0}\n', "ranks is 0"),
        ("log.jsonl", b'{"kind": "start", "unit": []}\n', "unit is a list ([])"),
        (
            "log.jsonl",
            b'{"kind": "validation", "step": 1, "moves": 3}\n',
            "moves is an integer (3)",
        ),
        ("log.jsonl", b"\xff\n", "log.jsonl: cannot be read"),
        ("config.toml", b"data = 3", "data is an integer (3)"),
        ("config.toml", b"[[data.volumes]]\nvoxel_size_nm = [0, 1, 1]", "voxel_size_nm.0 is 0"),
        ("failure-rank-0.json", b"[]", "expected an object with a reason"),
        ("failure-rank-0.json", b'{"reason": 7}', "expected an object with a reason"),
    ],
)
def test_a_malformed_part_of_a_run_is_one_line(
    complete: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    content: bytes,
    message: str,
) -> None:
    run = shutil.copytree(complete, tmp_path / "run")
    (run / file).write_bytes(content)
    assert message in one_line(capsys, "report", str(run))


def test_the_failure_of_the_lowest_rank_counts(tmp_path: Path) -> None:
    from floodtide.train import read_run

    (tmp_path / "config.toml").write_text("")
    (tmp_path / "failure-rank-10.json").write_text('{"reason": "ten"}')
    (tmp_path / "failure-rank-9.json").write_text('{"reason": "nine"}')
    assert read_run(tmp_path).failure == "nine"


def test_odd_segmentations_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.toml").write_text("")
    file = tmp_path / "segmentation.h5"

    def refused() -> str:
        return one_line(capsys, "report", str(tmp_path))

    with h5py.File(file, "w") as made:
        made.create_group("segmentation")
    assert "cannot be read: not a dataset" in refused()
    with h5py.File(file, "w") as made:
        made["segmentation"] = np.full((2, 3, 4), "word", h5py.string_dtype())
    assert "elements are text" in refused()
    with h5py.File(file, "w") as made:
        made["segmentation"] = np.zeros((2, 3, 4), np.float32)
    assert "has float32 voxels, expected integers" in refused()
    with h5py.File(file, "w") as made:
        made.create_dataset("segmentation", (1 << 20,) * 3, "u1", chunks=(16,) * 3)
    assert file.stat().st_size < 3000
    assert "shape (1048576, 1048576, 1048576) is too large" in refused()
    with h5py.File(file, "w") as made:
        made["segmentation"] = np.zeros((2, 3, 4), np.uint8)
        made["segmentation"].attrs["box_start"] = [-1, 0, 0]
    assert "attribute box_start is -1, expected 0 to" in refused()
    assert not list(tmp_path.glob("report.html*"))


@pytest.mark.parametrize("name", ["$\\frac{$", "a$b$c", "_x", "\x1b[31m", "\u202e\U0001f30a"])
def test_names_of_runs_are_no_formulas(tmp_path: Path, name: str) -> None:
    from floodtide.report import curves
    from floodtide.train.recorded_run import Run

    records = [{"kind": "train", "step": n, "loss": 1.0, "time_s": 1.0 * n} for n in range(3)]
    runs = [Run(folder=tmp_path / str(n), name=name, train=records) for n in range(2)]
    assert curves.training_figure(runs)


def test_a_run_whose_name_is_no_text_is_reported(tmp_path: Path) -> None:
    run = tmp_path / os.fsdecode(b"run\xff")
    run.mkdir()
    (run / "config.toml").write_text("")
    assert cli.run(["report", str(run)]) == 0
    assert "run?" in (run / "report.html").read_text("utf-8")


def test_predict_with_a_damaged_configuration_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training_slices.write_slices(tmp_path)
    Trainer.from_config(
        config.from_dict(training_slices.document(tmp_path, training={"steps": 1}))
    ).run()
    checkpoint = tmp_path / "run" / "checkpoints" / "step-1.h5"
    words = (str(checkpoint), f"{tmp_path}/slices.h5:image", f"{tmp_path}/out.h5:labels")
    for value in (b"[run", b"\xff\xfe", np.arange(3), h5py.Empty("i4")):
        with h5py.File(checkpoint, "r+") as file:
            del file.attrs["configuration"]
            file.attrs["configuration"] = value
        assert "step-1.h5" in one_line(capsys, "predict", *words)
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(28, "No space left on device", "/some/file"),
            "/some/file: No space left on device",
        ),
        (OSError(24, "Too many open files"), "Too many open files"),
        (MemoryError("Unable to allocate 4 PiB"), "not enough memory: Unable to allocate 4 PiB"),
    ],
)
def test_failures_of_the_machine_are_one_line_and_exit_1(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    said: str,
) -> None:
    from floodtide.doctor import host

    def fail() -> None:
        raise error

    monkeypatch.setattr(host, "about", fail)
    assert cli.run(["info"]) == 1
    assert capsys.readouterr().err == f"floodtide info: {said}\n"


def test_mistakes_in_floodtide_stay_visible(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from floodtide.doctor import host

    def fail() -> None:
        raise AssertionError("a mistake")

    monkeypatch.setattr(host, "about", fail)
    with pytest.raises(SystemExit) as caught:
        cli.main(["info"])
    assert caught.value.code == 1
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.endswith("internal error: please report it with the lines above\n")


def test_messages_are_printable_and_of_bounded_length(capsys: pytest.CaptureFixture[str]) -> None:
    said = one_line(capsys, "report", "\x1b[31m" + "m" * 5000)
    assert "\x1b" not in said
    assert len(said) < 2000


def test_forecasts_refuse_logs_without_numbers(
    complete: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(complete, tmp_path / "run")
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    records = [{**record, "compute_s": float("nan")} for record in records]
    (run / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert "expected config.toml and a log.jsonl" in one_line(capsys, "lab", "simulate", str(run))
