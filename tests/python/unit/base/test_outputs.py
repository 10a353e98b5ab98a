# SPDX-License-Identifier: Apache-2.0
"""What commands may write where, tried through the command line: no input and no foreign file is ever replaced."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tomli_w

from floodtide import cli, data, nn
from floodtide.base.files import SUFFIX
from floodtide.base.outputs import reserved, unchecked

JOB = ["job", "slurm", "config.toml", "--nodes", "1", "--time", "1:00:00"]
PARTITION = ["--lom-radius", "2,2,2", "--min-size", "1"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """labels.h5:stack and raw.h5:raw as another program wrote them, af.h5:af, model.h5, config.toml for segment."""
    monkeypatch.chdir(tmp_path)
    labels = np.kron(np.arange(1, 9).reshape(2, 2, 2), np.ones((9, 9, 9))).astype(np.int32)
    with h5py.File("labels.h5", "w") as file:
        file["stack"] = labels
    with h5py.File("raw.h5", "w") as file:
        file["raw"] = (10 * labels + 100).astype(np.uint8)
    nn.FFN(depth=2, fov=(7, 7, 7), deltas=(2, 2, 2), features=4, seed=1).save("model.h5")
    section = {
        "checkpoint": "model.h5",
        "image": "raw.h5:raw",
        "mean": 128.0,
        "std": 33.0,
        "min_segment_size": 1,
    }
    Path("config.toml").write_text("# mine\n" + tomli_w.dumps({"segment": section}))
    assert run("partition", "labels.h5:stack", "af.h5:af", *PARTITION) == 0
    return tmp_path


def run(*arguments: str) -> int:
    return cli.run(list(arguments))


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every regular file, by name."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def refused(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str, says: str) -> None:
    """The command ends with status 2 and one line, and no file has changed."""
    before = digests(folder)
    capsys.readouterr()
    assert run(*arguments) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1, said
    assert said[0].startswith(f"floodtide {arguments[0]}: ")
    assert says in said[0]
    assert digests(folder) == before


def spellings(folder: Path, name: str) -> list[str]:
    """Other names of a file."""
    path = folder / name
    (folder / "again").symlink_to(folder)
    (folder / f"soft-{name}").symlink_to(path)
    os.link(path, folder / f"hard-{name}")
    return [
        name,
        f"./{name}",
        f".//{name}",
        str(path),
        f"/{path}",
        f"again/{name}",
        f"again/../{folder.name}/{name}",
        f"soft-{name}",
        f"hard-{name}",
    ]


def test_no_output_replaces_an_input_whatever_its_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in spellings(folder, "labels.h5"):
        for dataset in ("stack", "af", "/stack"):
            out = f"{name}:{dataset}"
            refused(
                folder,
                capsys,
                *("partition", "labels.h5:stack", out, *PARTITION),
                says=f"the output {name} is also the input labels.h5",
            )


@pytest.mark.parametrize(
    "arguments",
    [
        ["segment", "config.toml", "--out", "raw.h5:segmentation"],
        ["segment", "config.toml", "--out", "raw.h5:raw"],
        ["segment", "config.toml", "--out", "model.h5:segmentation"],
        ["segment", "config.toml", "--out", "config.toml:segmentation"],
        ["convert", "model.h5", "model.h5"],
        ["convert", "model.h5", "./model.h5"],
        ["evaluate", "labels.h5:stack", "af.h5:af", "--picture", "labels.h5"],
        ["evaluate", "labels.h5:stack", "af.h5:af", "--picture", "af.h5"],
        [*JOB, "--out", "config.toml"],
        [*JOB, "--out", "hard-raw.h5"],
        [*JOB, "--out", "model.h5"],
        [*JOB, "--out", "env.tar.gz", "--environment", "./env.tar.gz"],
        ["lab", "simulate", "--compute-s", "1", "--samples", "samples.png", "--out", "samples.png"],
    ],
)
def test_inputs_of_every_command_stay(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "samples.png").write_text("0.1\n")
    (folder / "env.tar.gz").write_text("an environment")
    os.link("raw.h5", "hard-raw.h5")
    refused(folder, capsys, *arguments, says="is also the input")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["partition", "labels.h5:stack", "raw.h5:raw", *PARTITION],
            "no attribute written_by says that floodtide",
        ),
        (
            ["segment", "config.toml", "--out", "labels.h5:stack"],
            "no attribute written_by says that floodtide",
        ),
        (["partition", "labels.h5:stack", "model.h5:af", *PARTITION], "'floodtide checkpoint'"),
        (
            ["segment", "config.toml", "--out", "af.h5:af"],
            "no attribute written_by says that floodtide",
        ),
        (["segment", "config.toml", "--out", "notes.txt:ids"], "cannot be read as an HDF5 file"),
        (["convert", "model.h5", "labels.h5"], "not a file of format"),
        (
            ["lab", "synth", "synth.h5", "--shape", "16,16,16"],
            "no attribute written_by says that floodtide lab synth wrote it",
        ),
        (["lab", "synth", "notes.txt", "--shape", "16,16,16"], "cannot be read as an HDF5 file"),
        (["evaluate", "labels.h5:stack", "af.h5:af", "--picture", "notes.png"], "not a PNG"),
        (["evaluate", "labels.h5:stack", "af.h5:af", "--picture", "new.pdf"], "that ends in .png"),
        (
            ["lab", "simulate", "--paper", "--ranks", "1", "--out", "notes.svg"],
            "not an SVG picture",
        ),
    ],
)
def test_files_that_the_command_did_not_write_stay(
    arguments: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("notes.txt", "notes.svg", "notes.png"):
        (folder / name).write_text("notes of a person\n")
    data.write_volume("synth.h5", {"raw": np.zeros((4, 4, 4), np.uint8)})
    refused(folder, capsys, *arguments, says=says)


WRITERS: list[Callable[[str], list[str]]] = [
    lambda out: ["partition", "labels.h5:stack", f"{out}:af", *PARTITION],
    lambda out: ["segment", "config.toml", "--out", f"{out}:ids"],
    lambda out: ["convert", "model.h5", out],
    lambda out: ["lab", "synth", out, "--shape", "16,16,16"],
    lambda out: ["evaluate", "labels.h5:stack", "af.h5:af", "--picture", out],
]


def name_for(command: Callable[[str], list[str]]) -> str:
    return "out.png" if "--picture" in command("") else "out.h5"


@pytest.mark.parametrize("kind", ["folder", "fifo", "socket", "device", "link-to-device"])
@pytest.mark.parametrize("command", WRITERS)
def test_what_is_no_regular_file_is_refused(
    kind: str,
    command: Callable[[str], list[str]],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = folder / name_for(command)
    if kind == "folder":
        out.mkdir()
    elif kind == "fifo":
        os.mkfifo(out)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(out.name)
    elif kind == "device":
        out.symlink_to("/dev/full")
    else:
        (folder / "first").symlink_to("/dev/stdout")
        out.symlink_to("first")
    refused(folder, capsys, *command(out.name), says=out.name)


UNPRIVILEGED = """
import ctypes, sys
version_3_of_this_thread, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capset(version_3_of_this_thread, none) == 0
from floodtide import cli
sys.exit(cli.run(sys.argv[1:]))
"""
"""A command without capabilities, so that rights of files count for root, too."""


@pytest.mark.parametrize("command", WRITERS)
def test_a_write_protected_file_is_refused(
    command: Callable[[str], list[str]], folder: Path
) -> None:
    """Its folder may be written to, so that nothing else keeps the file from being replaced."""
    out = folder / name_for(command)
    out.write_bytes(b"")
    out.chmod(0o444)
    before = digests(folder)
    arguments = [sys.executable, "-c", UNPRIVILEGED, *command(out.name)]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2, ended.stderr
    assert f"{out.name}: exists and is write-protected" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert digests(folder) == before


def test_datasets_of_others_stay_beside_a_result(folder: Path) -> None:
    with h5py.File("mixed.h5", "w") as file:
        file["a/raw"] = np.arange(7)
        file["a/raw"].attrs["unit"] = "grey"
        file["link"] = h5py.SoftLink("/a/raw")
    for _ in range(2):  # the second replaces the first one's result
        assert run("partition", "labels.h5:stack", "mixed.h5:a/af", *PARTITION) == 0
        assert run("segment", "config.toml", "--out", "mixed.h5:ids") == 0
    with h5py.File("mixed.h5") as file, h5py.File("af.h5") as alone:
        np.testing.assert_array_equal(file["a/raw"], np.arange(7))
        assert file["a/raw"].attrs["unit"] == "grey"
        assert file.get("link", getlink=True).path == "/a/raw"
        np.testing.assert_array_equal(file["a/af"], alone["af"])
        assert {"a", "link", "ids", "origins", "overlaps", "counters"} == set(file)
    assert not list(folder.glob(".*"))


def test_a_second_segmentation_in_one_file_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its origins would replace those of the first; both are the same command's, so datasets are compared."""
    assert run("segment", "config.toml", "--out", "out.h5:first") == 0
    refused(
        folder,
        capsys,
        *("segment", "config.toml", "--out", "out.h5:second"),
        says="holds 'first' of floodtide segment, which 'origins' describes",
    )


def test_an_older_result_alone_in_its_file_is_replaced(folder: Path) -> None:
    assert run("partition", "labels.h5:stack", "af.h5:af", "--lom-radius", "1,1,1") == 0
    assert run("convert", "model.h5", "copy.h5") == 0
    assert run("convert", "model.h5", "copy.h5") == 0
    with h5py.File("af.h5") as file:
        assert list(file["af"].attrs["lom_radius_zyx"]) == [1, 1, 1]


def test_a_link_is_followed_and_stays(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "out.h5").symlink_to("elsewhere/real.h5")
    for _ in range(2):
        assert run("partition", "labels.h5:stack", "out.h5:af", *PARTITION) == 0
    assert (folder / "out.h5").is_symlink()
    assert [path.name for path in (folder / "elsewhere").iterdir()] == ["real.h5"]


def test_a_network_does_not_replace_the_checkpoint_of_a_run(folder: Path) -> None:
    with h5py.File("step-1.h5", "w") as file:
        file.attrs["format"] = "floodtide checkpoint"
        file["parameters/x"] = [1.0]
        file["optimizer/m"] = [1.0]
    before = (folder / "step-1.h5").read_bytes()
    assert run("convert", "model.h5", "step-1.h5") == 2
    assert (folder / "step-1.h5").read_bytes() == before


def test_outputs_of_a_report_are_checked_together(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = folder / "run"
    runs.mkdir()
    record = {"kind": "train", "step": 1, "time_s": 1.0, "loss": 0.5, "lr": 0.1}
    more = {"fovs": 2, "fovs_per_s": 1.0}
    (runs / "log.jsonl").write_text(json.dumps(record | more) + "\n")
    for _ in range(2):
        assert run("report", "run", "--figures", "figures") == 0
    assert (folder / "figures" / "training.svg").is_file()
    refused(folder, capsys, "report", "run", "--out", "run/log.jsonl", says="is not a report")
    (folder / "figures" / "training.svg").write_text("notes of a person\n")
    (runs / "report.html").unlink()
    refused(folder, capsys, "report", "run", "--figures", "figures", says="not an SVG picture")
    (folder / "page.html").write_text("<html>of a person</html>\n")
    refused(folder, capsys, "report", "run", "--out", "page.html", says="not a report of floodtide")


def test_a_name_of_the_greatest_length_can_be_written(folder: Path) -> None:
    name = "o" * 252 + ".h5"
    assert run("partition", "labels.h5:stack", f"{name}:af", *PARTITION) == 0
    assert (folder / name).is_file()


def test_left_over_files_of_killed_processes_are_removed(folder: Path) -> None:
    stale = folder / f".out.h5.99-0123456789abcdef{SUFFIX}"
    other = folder / f".other.h5.99-0123456789abcdef{SUFFIX}"
    for path in (stale, other):
        path.write_text("half")
    assert run("partition", "labels.h5:stack", "out.h5:af", *PARTITION) == 0
    assert not stale.exists()
    assert other.exists()


def test_an_output_in_use_by_this_process_is_not_refused_but_shared(folder: Path) -> None:
    with reserved("test", "out.h5", unchecked), reserved("test", "./out.h5", unchecked):
        assert (folder / ".out.h5.floodtide-lock").is_file()
    assert not list(folder.glob(".*"))


def test_the_last_of_several_blocks_gives_an_output_back(folder: Path) -> None:
    """Threads need not end in the order in which they began."""
    first, second = ExitStack(), ExitStack()
    first.enter_context(reserved("test", "out.h5", unchecked))
    second.enter_context(reserved("test", "out.h5", unchecked))
    first.close()
    assert (folder / ".out.h5.floodtide-lock").is_file()
    second.close()
    assert not list(folder.glob(".*"))


def test_threads_share_an_output_of_their_process(folder: Path) -> None:
    """Whatever their order, none of them fails, and the lock goes with the last one."""

    together = threading.Barrier(4)

    def hold(number: int) -> bool:
        together.wait()
        with reserved("test", "out.h5", unchecked):
            time.sleep(0.002 * (number % 4))
            return (folder / ".out.h5.floodtide-lock").is_file()

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(hold, range(80)))
    assert not list(folder.glob(".*"))


FULL = """
import resource, signal, sys
from floodtide import cli
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
sys.exit(cli.run(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["partition", "labels.h5:stack", "out.h5:af", *PARTITION],
        ["partition", "labels.h5:stack", "raw.h5:af", *PARTITION],
        ["segment", "config.toml", "--out", "out.h5:ids"],
        ["lab", "synth", "out.h5", "--shape", "32,32,32"],
        ["convert", "model.h5", "out.h5"],
        ["evaluate", "labels.h5:stack", "af.h5:af", "--picture", "out.png"],
        ["lab", "simulate", "--paper", "--ranks", "1,2", "--out", "out.svg"],
        [*JOB, "--out", "out.slurm"],
    ],
)
def test_a_full_disk_leaves_no_temporary_file(arguments: list[str], folder: Path) -> None:
    """Files may not grow beyond 1,000 bytes, which fails at the same calls."""
    before = digests(folder)
    command = [sys.executable, "-c", FULL, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in ended.stderr.splitlines() if line.startswith("floodtide ")]
    assert ended.returncode == 1, ended.stderr
    assert len(said) == 1, ended.stderr
    assert "File too large" in said[0]
    assert digests(folder) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_command_leaves_nothing(
    error: type[BaseException], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise error

    monkeypatch.setattr(data.partitions, "_blocks", interrupted)
    before = digests(folder)
    with pytest.raises(error):
        data.partition("labels.h5:stack", "out.h5:af", min_size=1, lom_radius=(2, 2, 2))
    assert digests(folder) == before


@pytest.mark.parametrize("missing", ["none", "labels.h5"])
def test_an_output_in_a_folder_that_does_not_exist_is_wrong_usage(folder, capsys, missing):
    for command in (
        ["partition", "labels.h5:stack", f"{missing}/af.h5:af", *PARTITION],
        ["convert", "raw.h5:raw", f"{missing}/copy.h5:raw"],
        ["inspect", "raw.h5:raw", "--out", f"{missing}/page.html"],
    ):
        assert run(*command) == 2
        said = capsys.readouterr().err
        assert "expected a folder that exists" in said
        assert len(said.splitlines()) == 1
