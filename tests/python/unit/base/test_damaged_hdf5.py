# SPDX-License-Identifier: Apache-2.0
"""HDF5 files with which the HDF5 library crashes, or makes no progress: an error in one line, and the program goes on.

The other side of it: signals, core files and `faulthandler` are those of the program, and no intact file is blamed.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pytest
from damaged_hdf5 import IMAGE, endless_file, long_chunks_file, oldest_file

import floodtide
from floodtide import _core, cli
from floodtide.data import Volume
from floodtide.errors import InvalidFileError


@pytest.mark.parametrize("write", [endless_file, long_chunks_file])
def test_a_file_that_ends_the_library_is_refused(
    tmp_path: Path, write: Callable[[Path], None], capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "v.h5"
    write(path)
    for _ in range(2):
        with pytest.raises(
            InvalidFileError, match=r"v\.h5: is damaged: [^\n]*another copy of the file$"
        ):
            Volume(f"{path}:raw")
    assert cli.run(["partition", f"{path}:raw", f"{tmp_path}/p.h5:af"]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert os.listdir(tmp_path) == ["v.h5"]


def test_a_file_that_changes_is_checked_again(tmp_path: Path) -> None:
    path = tmp_path / "v.h5"
    for _ in range(2):
        oldest_file(path)
        np.testing.assert_array_equal(Volume(f"{path}:raw").read(), IMAGE)
        endless_file(path)
        with pytest.raises(InvalidFileError):
            Volume(f"{path}:raw")


def test_attributes_that_are_lists_of_texts_are_read(tmp_path: Path) -> None:
    oldest_file(tmp_path / "v.h5")
    with h5py.File(tmp_path / "v.h5", "a") as file:
        file["raw"].attrs["short"] = np.array([b"ab", b"c\0d"], "S3")
        file["raw"].attrs["none"] = h5py.Empty(h5py.string_dtype())
    core = Volume(f"{tmp_path}/v.h5:raw").core
    assert core.texts("axes") == ["z", "y", "x"]
    assert core.texts("units") == ["nm"]
    assert core.texts("short") == ["ab", "c"]
    assert core.texts("nothing") == []


def test_a_file_of_very_many_objects_is_read(tmp_path: Path) -> None:
    """The program that looks first looks only at the objects that are read."""
    with h5py.File(tmp_path / "v.h5", "w") as file:
        for i in range(1200):
            file[f"group{i % 30}/{i}"] = i
        file["raw"] = IMAGE
    np.testing.assert_array_equal(Volume(f"{tmp_path}/v.h5:raw").read(), IMAGE)
    with pytest.raises(InvalidFileError, match="has no dataset 'nothing'"):
        Volume(f"{tmp_path}/v.h5:nothing")


def test_an_intact_file_of_many_links_and_levels_is_not_blamed(tmp_path: Path) -> None:
    """The program that looks first takes a small part of the ten seconds after which a file counts as damaged."""
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["raw"] = IMAGE
        group = file.create_group("/".join(["group"] * 90))
        for i in range(400):
            group[f"{i}"] = i
            file[f"link{i}"] = h5py.SoftLink("/nothing")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    np.testing.assert_array_equal(Volume(f"{tmp_path}/v.h5:raw").read(), IMAGE)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 3


def test_chunks_of_other_filters_are_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_dataset("raw", data=IMAGE.astype(np.int32), chunks=(12, 12, 12), scaleoffset=0)
    volume = Volume(f"{tmp_path}/v.h5:raw")
    box = ((3, 4, 5), (18, 17, 16))
    np.testing.assert_array_equal(volume.read(box), IMAGE[3:21, 4:21, 5:21])
    np.testing.assert_array_equal(volume.read(), IMAGE)


def test_threads_open_intact_and_damaged_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.h5" for number in range(8)]
    for number, path in enumerate(paths):
        (oldest_file, endless_file)[number % 2](path)

    def damaged(number: int) -> bool:
        try:
            np.testing.assert_array_equal(Volume(f"{paths[number % 8]}:raw").read(), IMAGE)
        except InvalidFileError:
            return True
        return False

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(damaged, range(48))) == [False, True] * 24


def run(
    folder: Path, text: str, package: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program that has read a volume, and changes nothing about signals before `text`."""
    oldest_file(folder / "v.h5")
    endless_file(folder / "damaged.h5")
    head = f"""
    import os, resource, signal, threading
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir("{folder}")
    from floodtide.data import Volume
    from floodtide.errors import Error, InvalidFileError
    """
    package = package or Path(floodtide.__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=60,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(package), *filter(None, sys.path))),
            **environment,
        },
    )


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_signal_ends_the_program_while_it_reads(tmp_path: Path, number: int) -> None:
    """Its status is that of the signal, nothing is printed, and so no file is blamed."""
    done = run(
        tmp_path,
        f"""
        def read():
            while True:
                Volume("v.h5:raw").read()
        for _ in range(2):
            threading.Thread(target=read, daemon=True).start()
        Volume("v.h5:raw").read()
        caught = int(open("/proc/self/status").read().split("SigCgt:")[1].split()[0], 16)
        for one in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGABRT):
            assert not caught >> (one - 1) & 1, one
        os.kill(os.getpid(), {int(number)})
        """,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-number, "", "")


def test_faulthandler_works(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import faulthandler
        faulthandler.enable()
        Volume("v.h5:raw").read()
        os.kill(os.getpid(), signal.SIGSEGV)
        """,
    )
    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert "damaged" not in done.stderr


def test_children_of_fork_check_files(tmp_path: Path) -> None:
    """What the parent has checked before, what it has not, and while a thread of the parent checks."""
    done = run(
        tmp_path,
        """
        Volume("v.h5:raw")
        over = threading.Event()
        def check():
            while not over.is_set():
                os.utime("v.h5")
                Volume("v.h5:raw")
        thread = threading.Thread(target=check)
        thread.start()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                assert Volume("v.h5:raw").read().shape == (24, 24, 24)
                try:
                    Volume("damaged.h5:raw")
                except InvalidFileError:
                    os._exit(0)
                os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
        over.set()
        thread.join()
        """,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "before",
    [
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "signal.signal(signal.SIGCHLD, reap)",
        "signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)",
        "os.close(0); os.close(1)",
    ],
)
def test_a_program_may_handle_signals_and_close_its_streams(tmp_path: Path, before: str) -> None:
    done = run(
        tmp_path,
        f"""
        def reap(*_):
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pass
        {before}
        for i in range(20):
            os.utime("v.h5", (i, i))
            assert Volume("v.h5:raw").read().shape == (24, 24, 24)
            try:
                Volume("damaged.h5:raw")
            except Error:
                continue
            raise AssertionError("a damaged file was read")
        signal.setitimer(signal.ITIMER_REAL, 0)
        """,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_program_that_looks_first_is_beside_the_core() -> None:
    program = Path(_core.__file__).with_name("_hdf5_check")
    assert os.access(program, os.X_OK)
    assert subprocess.run([program], check=False).returncode == 64


def test_without_the_program_one_line_names_it(tmp_path: Path) -> None:
    package = tmp_path / "package/floodtide"
    package.mkdir(parents=True)
    for path in Path(floodtide.__file__).parent.iterdir():
        if path.name not in ("_hdf5_check", "__pycache__"):
            (package / path.name).symlink_to(path)
    text = """
    try:
        Volume("v.h5:raw")
    except Error as error:
        print(error)
    """
    done = run(tmp_path, text, package.parent)
    assert done.stdout == (
        f"{package}/_hdf5_check: cannot be started, to check v.h5: No such file or directory\n"
    ), done.stderr
