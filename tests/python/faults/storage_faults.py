# SPDX-License-Identifier: Apache-2.0
"""A training run whose disk fails, or which is killed, at every call that changes its run directory.

    python tests/python/faults/storage_faults.py              every call in every mode (minutes)
    python tests/python/faults/storage_faults.py --sample 20  every fsync and rename, and 20 others in each mode

In each trial a run goes on from a checkpoint and writes one more; at one call (storage_faults.c) something goes wrong.
Then every checkpoint must be readable, the same command must end with the bits of the run that nothing happened to, and
what was said must be one line. Trials are forks of one process that has imported floodtide and done nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

LOCK = "run.lock"
MODES = {"fail": 1, "fail-on": 2, "kill": 3, "tear": 4}
START, END = 3, 4  # updates before the trial, and after it
END_S = 60


class Call(NamedTuple):
    """A call that changes the run directory: its number from 1, its kind, the file."""

    number: int
    kind: str
    path: str

    @property
    def must_fail(self) -> bool:
        """Whether the run cannot be right without this call.

        It can without cleaning up, without closing what is safe already, without making folders that are there, and
        without HDF5's first look whether a file exists.
        """
        return self.kind not in ("unlink", "truncate", "close", "mkdir", "open")


class Ended(NamedTuple):
    """How a process ended: exit status (negative: a signal), what it said on standard error."""

    status: int
    said: str


def build(folder: Path) -> Path:
    """Compile storage_faults.c."""
    library = folder / "storage_faults.so"
    compiler = os.environ.get("CC", "cc")
    source = HERE / "storage_faults.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def train(folder: Path, run: Path, steps: int, fault: tuple[int, str] = (0, "fail")) -> Ended:
    """`floodtide train` in a fork, with a fault at call fault[0] (0: none); calls are listed in run's .calls."""
    import tomli_w
    from training_volume import document

    sections = {
        "run": {
            "dir": str(run),
            "checkpoint_every_s": 0.0,
            "keep_checkpoints": 1,
            "trace": True,
        },
        "training": {"steps": steps},
        "validation": {"box": ""},
    }
    path = run.with_suffix(".toml")
    path.write_text(tomli_w.dumps(document(folder, **sections)))
    said, calls = run.with_suffix(".said"), run.with_suffix(".calls")
    calls.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            _child(said, calls, run, path, fault)
        os._exit(99)
    deadline = time.monotonic() + END_S
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return Ended(os.waitstatus_to_exitcode(status), said.read_text())
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return Ended(98, f"no end after {END_S} s: {said.read_text()}")
        time.sleep(0.002)


def _child(said: Path, calls: Path, run: Path, path: Path, fault: tuple[int, str]) -> None:
    from floodtide import cli

    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    preloaded = ctypes.CDLL(None)
    number, mode = fault
    preloaded.fault_arm(ctypes.c_long(number), MODES[mode], os.fsencode(calls), os.fsencode(run))
    try:
        status = cli.run(["train", str(path)])
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def checkpoints(run: Path) -> dict[str, str]:
    """SHA-256 of all that each checkpoint holds, by file name; raises if one cannot be read."""
    import h5py

    found = {}
    for path in sorted((run / "checkpoints").glob("step-*.h5")):
        digest = hashlib.sha256()
        with h5py.File(path) as file:

            def add(name: str, item: object, digest: hashlib._Hash = digest) -> None:
                if isinstance(item, h5py.Dataset):
                    digest.update(name.encode() + item[()].tobytes())

            file.visititems(add)
        found[path.name] = digest.hexdigest()
    return found


def problems(
    folder: Path, before: Path, whole: dict[str, str], call: Call, mode: str, must_fail: bool
) -> list[str]:
    """What is wrong after a trial; empty if nothing is."""
    run = folder / "trial"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(before, run)
    found = []
    ended = train(folder, run, END, (call.number, mode))
    killed = mode in ("kill", "tear")
    lines = [line for line in ended.said.splitlines() if not is_progress(line)]
    if killed and ended.status != -signal.SIGKILL:
        found.append(f"status {ended.status}, expected to be killed")
    if not killed and ended.status not in (0, 1):
        found.append(f"status {ended.status}, expected 1")
    if not killed and ended.status == 0 and must_fail:
        found.append("status 0 although the call failed")
    if ended.status == 1 and (len(lines) != 1 or str(run) not in lines[0]):
        found.append("expected one line that names the file")
    try:
        kept = checkpoints(run)
    except OSError as error:
        return [*found, f"a checkpoint cannot be read: {error}"]
    if not kept or any(whole.get(name) != digest for name, digest in kept.items()):
        found.append(
            f"checkpoints {sorted(kept)} are not those of the run that nothing happened to"
        )
    again = train(folder, run, END)
    if again.status != 0:
        found.append(f"the next run ends with status {again.status}: {again.said}")
    elif checkpoints(run).get(f"step-{END}.h5") != whole[f"step-{END}.h5"]:
        found.append("the next run ends with other bits")
    left = [p.name for p in run.rglob("*") if p.name.startswith(".") or p.name == LOCK]
    if left:
        found.append(f"the next run leaves {left}")
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    steps = [record["step"] for record in log if record["kind"] == "train"]
    if steps != list(range(1, END + 1)):
        found.append(f"the log has steps {steps}")
    if found:
        found.append(f"said: {ended.said.strip()}")
    return found


def is_progress(line: str) -> bool:
    """Whether a line is a record of the log, or empty."""
    said = r"\d\d:\d\d:\d\d (step |\d+ parameters, )|floodtide: warning: "
    return not line.strip() or bool(re.match(said, line))


def campaign(sample: int | None, seed: int, only: int | None) -> int:
    """Run the trials and print what was found; the number of calls at which something is wrong."""
    for module in ("floodtide.cli.train", "floodtide.train", "tensorboardX.event_file_writer"):
        importlib.import_module(module)  # once, and not in every fork
    from training_volume import write_volume

    with tempfile.TemporaryDirectory(prefix="storage-faults-") as name:
        folder = Path(name).resolve()
        write_volume_in_a_fork(write_volume, folder)
        before = folder / "before"
        started = train(folder, before, START)
        assert started.status == 0, started.said
        run = folder / "trial"
        shutil.copytree(before, run)
        ended = train(folder, run, END)
        assert ended.status == 0, ended.said
        whole = {**checkpoints(before), **checkpoints(run)}
        calls = [
            Call(int(number), kind, path)
            for number, kind, path in (
                line.split(" ", 2) for line in run.with_suffix(".calls").read_text().splitlines()
            )
        ]
        for text in disorder(calls):
            raise AssertionError(text)
        chosen = choose(calls, sample, random.Random(seed))
        if only is not None:
            chosen = [(call, mode) for call, mode in chosen if call.number == only]
        kinds = {
            kind: sum(call.kind == kind for call in calls)
            for kind in sorted({c.kind for c in calls})
        }
        print(f"{len(calls)} calls: {kinds}; {len(chosen)} trials", flush=True)
        wrong = 0
        for call, mode in chosen:
            hit = calls[call.number - 1 :] if mode == "fail-on" else [call]
            must_fail = any(one.must_fail for one in hit)
            found = problems(folder, before, whole, call, mode, must_fail)
            wrong += bool(found)
            for text in found:
                place = Path(call.path).relative_to(run) if call.path else ""
                print(f"call {call.number} ({call.kind} {place}), {mode}: {text}", flush=True)
        print(f"{len(chosen)} trials, {wrong} of them wrong", flush=True)
        return wrong


def disorder(calls: list[Call]) -> list[str]:
    """Where a machine that loses its power could leave a renamed file without its content, or neither checkpoint."""
    found = []
    for call in calls:
        if call.kind != "rename":
            continue
        own = [other.kind for other in calls[: call.number - 1] if other.path == call.path]
        if [kind for kind in own if kind in ("write", "fsync")][-1:] != ["fsync"]:
            found.append(f"{call.path} is renamed before it is on disk")
        if "checkpoints" in call.path:
            folder = str(Path(call.path).parent)
            later = [other for other in calls[call.number :] if other.kind in ("fsync", "unlink")]
            if not later or (later[0].kind, later[0].path) != ("fsync", folder):
                found.append(f"the new name of {call.path} is not on disk before older files go")
    return found


def choose(
    calls: list[Call], sample: int | None, generator: random.Random
) -> list[tuple[Call, str]]:
    """All calls in all modes; with a sample, every fsync and rename, and so many others in each mode."""
    if sample is None:
        return [(call, mode) for call in calls for mode in MODES]
    always = [call for call in calls if call.kind in ("fsync", "rename")]
    others = [call for call in calls if call not in always]
    chosen = []
    for mode in MODES:
        picked = generator.sample(others, min(sample, len(others)))
        chosen += [(call, mode) for call in sorted([*always, *picked])]
    return chosen


def write_volume_in_a_fork(write_volume: object, folder: Path) -> None:
    """So that the process that all trials are forks of has no threads."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            write_volume(folder)  # type: ignore[operator]
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "the volume could not be written"


def main() -> None:
    """Parse the command line; start again with the library preloaded."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--sample", type=int, help="so many calls in each mode, beside every fsync and rename"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the call of this number alone")
    options = parser.parse_args()
    if "storage_faults.so" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory(prefix="storage-faults-") as name:
            library = build(Path(name))
            environment = {**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"}
            sys.exit(subprocess.run([sys.executable, *sys.argv], env=environment).returncode)
    sys.exit(1 if campaign(options.sample, options.seed, options.only) else 0)


if __name__ == "__main__":
    main()
