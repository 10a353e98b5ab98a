# SPDX-License-Identifier: Apache-2.0
"""One trial: run a command in a limited child process, and judge its exit, its words and the files that it leaves.

The child is forked from a process that has imported floodtide already, so that a trial costs tens of milliseconds. That
process must never have computed anything itself: OpenMP's threads do not survive a fork.
"""

from __future__ import annotations

import hashlib
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CPU_S = 20
WALL_S = 600.0  # of a machine that does a hundred other things; waiting for a FIFO never ends
MEMORY_BYTES = 2 << 30
OUTPUT_BYTES = 1 << 28

FAILURES = (
    "silent",
    "traceback",
    "crash",
    "hang",
    "memory",
    "untidy",
    "leftover",
    "modified",
)
PASSES = ("refused", "same", "accepted")

_STDOUT, _STDERR = ".stdout", ".stderr"
# What a training says on standard error while all is well, and what readers remark about older files.
_REMARKS = re.compile(
    r"\d\d:\d\d:\d\d (step \d+|\d+ parameters,)|stopped at step |(floodtide: )?(note|warning): |\w+: \d+ of \d+ "
)
# A note that quotes what a file states and says that it is not used.
_UNUSED = re.compile(r"^floodtide: note: .*\bnot used\b")
_TEMPORARY = re.compile(r"\.(partial|part|tmp)\b|\.tmp-")
_NOT_A_NUMBER = re.compile(r"(?<![\w./-])[+-]?(nan|inf|infinity)(?![\w./-])", re.IGNORECASE)


@dataclass(frozen=True)
class Ending:
    """How a child ended.

    Attributes:
        status: Exit status, or minus the signal that killed it.
        stdout: What it printed.
        stderr: What it printed on standard error.
        cpu_s: Processor time, seconds.
        peak_bytes: Largest resident memory.
        timed_out: Whether the wall clock's limit ended it.
    """

    status: int
    stdout: str
    stderr: str
    cpu_s: float
    peak_bytes: int
    timed_out: bool

    @property
    def remarks_left_out(self) -> list[str]:
        """The lines of standard error that are not the ordinary ones of a command at work."""
        lines = self.stderr.splitlines()
        return [line for line in lines if line.strip() and not _REMARKS.match(line)]


def run_command(
    arguments: Sequence[str], folder: Path, *, fresh: bool = False, memory: int = MEMORY_BYTES
) -> Ending:
    """Run `floodtide ARGUMENTS` in a folder, under the limits.

    Args:
        arguments: Words after `floodtide`.
        folder: Working directory; also the one for temporary files.
        fresh: Start a new interpreter instead of a fork: slower, and it ends as a user's does.
        memory: Bytes of address space that the child may add to what it starts with.
    """
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _child(arguments, folder, fresh, memory)
    timed_out = False
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() - started > WALL_S:
            timed_out = True
            os.killpg(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            break
        time.sleep(0.002)
    outputs = []
    for name in (_STDOUT, _STDERR):
        path = folder / name
        outputs.append(path.read_bytes()[:1_000_000].decode("utf-8", "replace"))
        path.unlink()
    return Ending(
        status=os.waitstatus_to_exitcode(status),
        stdout=outputs[0],
        stderr=outputs[1],
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_bytes=usage.ru_maxrss * 1024,
        timed_out=timed_out,
    )


def _child(arguments: Sequence[str], folder: Path, fresh: bool, memory: int) -> None:
    status = 70
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        for name, number in ((_STDOUT, 1), (_STDERR, 2)):
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(file, number)
            os.close(file)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.environ["TMPDIR"] = str(folder)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_BYTES, OUTPUT_BYTES))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        if fresh:
            limit = memory + (2 << 30)  # what an interpreter with everything imported takes
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            words = [sys.executable, "-m", "floodtide", *arguments]
            os.execve(words[0], words, os.environ)
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + memory,) * 2)
        from floodtide import cli

        try:
            status = cli.run(list(arguments))
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _address_space() -> int:
    pages = Path("/proc/self/statm").read_text().split()[0]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def snapshot(folder: Path) -> dict[str, str]:
    """Every path below a folder, with its kind and what it holds."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(root, name)
            found[os.path.relpath(path, folder)] = _fingerprint(path)
    return found


def _fingerprint(path: str) -> str:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return f"link to {os.readlink(path)}"
    if not stat.S_ISREG(mode):
        return f"type {stat.S_IFMT(mode):o}"
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read(1 << 26)).hexdigest()
    except OSError as error:
        return f"unreadable: {error.errno}"


def verdict(
    ending: Ending,
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    outputs: Sequence[str],
    changes: Sequence[str],
    whole: Sequence[str],
    problem: str = "",
) -> tuple[str, str]:
    """Judge everything but the result itself: (verdict, reason), ("accepted", "") where the result is to be judged.

    Args:
        ending: How the command ended.
        before: `snapshot` before the command.
        after: And after it.
        outputs: Beginnings of the names that the command may make.
        changes: Beginnings of the names that it may change or remove.
        whole: Outputs that exist when the command succeeds, and never otherwise.
        problem: A word of standard output with which the command may exit with 1 and say nothing else.
    """
    text = ending.stderr
    if ending.timed_out or ending.status in (-signal.SIGXCPU, -signal.SIGKILL):
        return "hang", f"{ending.cpu_s:.1f} s of processor time"
    if ending.status < 0:
        return "crash", f"signal {-ending.status}: {text[-300:]}"
    if "Traceback (most recent call last)" in text:
        return "traceback", text.strip().splitlines()[-1][:300]
    if ending.peak_bytes > MEMORY_BYTES or "MemoryError" in text:
        return "memory", f"{ending.peak_bytes >> 20} MiB: {text[-200:]}"
    lines = ending.remarks_left_out
    if ending.status not in (0, 1, 2):
        return "untidy", f"exit {ending.status}: {text[-300:]}"
    if ending.status == 0 and any("Warning" in line for line in lines):
        return "untidy", f"warnings: {text[-300:]}"
    found_problems = ending.status == 1 and not lines and bool(problem) and problem in ending.stdout
    if ending.status and len(lines) != 1 and not found_problems:
        return "untidy", f"exit {ending.status}, {len(lines)} lines: {text[-400:]}"
    if lines and ending.status and not lines[0].startswith("floodtide"):
        return "untidy", f"exit {ending.status}: {lines[0][:300]}"
    if lines and ending.status and len(lines[0]) > 2000:
        return "untidy", f"a line of {len(lines[0])} letters"
    if lines and ending.status and "not enough memory" in lines[0]:
        return "memory", lines[0][:300]
    names = {name for name in after if name not in before}
    extra = [
        n for n in names if not n.startswith(tuple(outputs) or ("\0",)) or _TEMPORARY.search(n)
    ]
    if extra:
        return "leftover", f"exit {ending.status}: {', '.join(sorted(extra)[:5])}"
    made = [name for name in whole if name in names]
    if ending.status and made:
        return "leftover", f"exit {ending.status}, but there is {', '.join(made)}"
    touched = [n for n, what in before.items() if after.get(n) != what]
    touched = [n for n in touched if not n.startswith(tuple(changes) or ("\0",))]
    if touched:
        return "modified", ", ".join(sorted(touched)[:5])
    if ending.status:
        return "refused", lines[0] if lines else problem
    missing = [name for name in whole if name not in names]
    if missing:
        return "silent", f"exit 0 without {', '.join(missing)}"
    said = "".join(line for line in text.splitlines(keepends=True) if not _UNUSED.search(line))
    odd = _NOT_A_NUMBER.search(ending.stdout) or _NOT_A_NUMBER.search(said)
    if odd:
        return "silent", f"prints {odd.group()}: {(ending.stdout + text)[-300:]}"
    return "accepted", ""


def copy_sample(sample: Path, folder: Path) -> None:
    """Copy the valid files into an empty folder."""
    subprocess.run(["cp", "-a", f"{sample}/.", str(folder)], check=True)
