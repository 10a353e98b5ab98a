# SPDX-License-Identifier: Apache-2.0
"""Run the fuzzer: `python tests/fuzz/run.py --trials 10000 --seed 1`; prints a table of kinds and verdicts.

A failure names its kind and number: `--kind KIND --seed SEED --only NUMBER` runs it again, `--keep FOLDER` keeps the
files that it was given.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from fuzz.case import Case  # noqa: E402
from fuzz.kinds import KINDS, READ_BY_CORE  # noqa: E402
from fuzz.trial import (  # noqa: E402
    FAILURES,
    PASSES,
    copy_sample,
    run_command,
    snapshot,
    verdict,
)


class Fuzzer:
    """Samples in a folder for temporary files, and the outcomes of the undamaged commands.

    Args:
        folder: Where files are made; the caller removes it.
        fresh: Start a new interpreter for each trial.
    """

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self._folder = folder
        self._sample = folder / "sample"
        self._fresh = fresh
        self._outcomes: dict[str, Any] = {}
        self._sample.mkdir()
        done = subprocess.run(
            [sys.executable, str(HERE / "samples.py"), str(self._sample)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"the samples cannot be made: {done.stderr[-2000:]}")
        _import_everything()

    def trial(self, kind: str, seed: int, number: int, keep: Path | None = None) -> tuple[str, str]:
        """Run one trial: (verdict, what was damaged, how it ended)."""
        random = Random(f"{kind} {seed} {number}")
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            folder = Path(name)
            copy_sample(self._sample, folder)
            case = KINDS[kind].make(folder, random)
            if keep:
                shutil.copytree(
                    folder, keep, symlinks=True, dirs_exist_ok=True, copy_function=_copy
                )
                print(f"cd {keep} && floodtide {' '.join(_words(case))}")
            found, reason = self._judge(case, folder)
            _make_removable(folder)
        return found, f"{case.damage}; {case.command.line}: {reason}"

    def _judge(self, case: Case, folder: Path) -> tuple[str, str]:
        command = case.command
        before = snapshot(folder)
        ending = run_command(_words(case), folder, fresh=self._fresh)
        found, reason = verdict(
            ending,
            before,
            snapshot(folder),
            outputs=command.outputs,
            changes=command.changes,
            whole=command.whole,
            problem=command.problem,
        )
        if found != "accepted":
            return found, reason
        try:
            outcome = command.outcome(folder, ending.stdout)
        except Exception as error:
            return "silent", f"exit 0, and no result: {error!r}"[:300]
        if "NOT FINITE" in str(outcome):
            return "silent", f"exit 0, and the result is {outcome}"[:300]
        if not case.outcome_of:
            return "accepted", ""
        if outcome == self.undamaged(case.outcome_of):
            return "same", ""
        if case.strict:
            return "silent", "exit 0 with another result"
        return "accepted", ""

    def write(self, target: Path, kind: str, seed: int, number: int) -> None:
        """Write the files that a trial damages into a folder, with those that belong to them, for readers.cpp."""
        random = Random(f"{kind} {seed} {number}")
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            folder = Path(name)
            copy_sample(self._sample, folder)
            before = snapshot(folder)
            KINDS[kind].make(folder, random)
            changed = [path for path, what in snapshot(folder).items() if before.get(path) != what]
            target.mkdir(parents=True)
            for path in changed:
                source = folder / path
                parts = [source]
                if source.name.startswith("model.ckpt"):
                    parts = list(folder.glob("model.ckpt*"))
                for part in parts:
                    if part.is_file() and not part.is_symlink():  # no links, pipes and folders
                        shutil.copy(part, target)

    def write_samples(self, target: Path) -> None:
        """Write the valid files into a new folder."""
        shutil.copytree(self._sample, target)

    def undamaged(self, name: str) -> Any:
        """The outcome of a command on the sample files.

        Raises:
            SystemExit: If the command fails, which is no finding but a broken fuzzer.
        """
        from fuzz.commands import COMMANDS

        if name not in self._outcomes:
            command = COMMANDS[name]
            with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                copy_sample(self._sample, Path(folder))
                before = snapshot(Path(folder))
                ending = run_command(command.line.split(), Path(folder), fresh=self._fresh)
                found, reason = verdict(
                    ending,
                    before,
                    snapshot(Path(folder)),
                    outputs=command.outputs,
                    changes=command.changes,
                    whole=command.whole,
                    problem=command.problem,
                )
                if found != "accepted":
                    raise SystemExit(f"floodtide {command.line}, undamaged: {found}: {reason}")
                self._outcomes[name] = command.outcome(Path(folder), ending.stdout)
        return self._outcomes[name]


def _words(case: Case) -> list[str]:
    return [*case.command.line.split(), *case.arguments]


def _copy(source: str, target: str) -> None:
    if os.path.isfile(source):
        shutil.copy2(source, target)


def _make_removable(folder: Path) -> None:
    for root, folders, _ in os.walk(folder):
        for name in folders:
            os.chmod(os.path.join(root, name), 0o700, follow_symlinks=True)


def _import_everything() -> None:
    """What commands import when they are used, so that children need not."""
    import importlib

    import click

    from floodtide import cli

    for name in cli.COMMANDS:
        cli.group.get_command(click.Context(cli.group), name)
    for name in (
        "floodtide.train",
        "floodtide.segment.predict",
        "floodtide.report",
        "floodtide.report.planes",
        "floodtide.lab.forecasting",
        "floodtide.doctor",
        "floodtide.cli.demonstration",
        "h5py",
        "tensorboardX",
        "tensorboardX.proto.event_pb2",
        "tensorboardX.summary",
        "matplotlib.backends.backend_agg",
        "matplotlib.backends.backend_svg",
        "matplotlib.figure",
        "jinja2",
        "tqdm",
        "tifffile",
        "nibabel",
        "imageio.v3",
    ):
        importlib.import_module(name)


def plan(seed: int, trials: int, kind: str | None) -> Iterator[tuple[int, str]]:
    """The number and the kind of every trial."""
    names = list(KINDS)
    weights = [KINDS[name].weight for name in names]
    for number in range(trials):
        yield number, kind or Random(f"{seed} {number}").choices(names, weights)[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, help="chooses the damage (default: 1)")
    parser.add_argument("--kind", choices=sorted(KINDS), help="this kind alone (default: all)")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this trial alone, with --kind")
    parser.add_argument("--keep", type=Path, help="keep the files of --only in this new folder")
    parser.add_argument(
        "--write", type=Path, metavar="FOLDER", help="write the damaged files there, run nothing"
    )
    parser.add_argument(
        "--part",
        type=_part,
        default="0/1",
        metavar="K/N",
        help="every N-th trial, K is 0 to N - 1, to share",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="a new interpreter for each trial: slow"
    )
    parser.add_argument("--temporary", type=Path, help="where files are made (default: $TMPDIR)")
    options = parser.parse_args()
    if options.only is not None and not options.kind:
        parser.error("--only needs --kind")
    if options.keep and options.only is None:
        parser.error("--keep needs --only")
    folder = Path(tempfile.mkdtemp(prefix="floodtide-fuzz-", dir=options.temporary))
    try:
        return _run(Fuzzer(folder, fresh=options.fresh), options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _part(text: str) -> tuple[int, int]:
    part, parts = (int(word) for word in text.split("/"))
    if not 0 <= part < parts:
        raise argparse.ArgumentTypeError(f"{text!r}, expected K/N with K from 0 to N - 1")
    return part, parts


def _run(fuzzer: Fuzzer, options: argparse.Namespace) -> int:
    counts: Counter[tuple[str, str]] = Counter()
    part, parts = options.part
    chosen = (
        trial
        for trial in plan(options.seed, options.trials, options.kind)
        if trial[0] % parts == part
    )
    if options.only is not None:
        chosen = iter([(options.only, options.kind)])
    if options.write:
        fuzzer.write_samples(options.write / "sample")
        for number, kind in chosen:
            if kind in READ_BY_CORE:
                fuzzer.write(options.write / f"{kind}-{number}", kind, options.seed, number)
        return 0
    started = time.monotonic()
    for number, kind in chosen:
        found, text = fuzzer.trial(kind, options.seed, number, options.keep)
        counts[kind, found] += 1
        if found in FAILURES or options.only is not None:
            print(
                f"{found}: --kind {kind} --seed {options.seed} --only {number}: {text}", flush=True
            )
    _print_table(counts, time.monotonic() - started)
    return 1 if any(counts[key] for key in counts if key[1] in FAILURES) else 0


def _print_table(counts: Counter[tuple[str, str]], seconds: float) -> None:
    columns = (*PASSES, *FAILURES)
    print(f"{'kind':<24}" + "".join(f"{name:>10}" for name in columns))
    kinds = [kind for kind in KINDS if any(counts[kind, name] for name in columns)]
    for kind in kinds:
        print(f"{kind:<24}" + "".join(f"{counts[kind, name]:>10}" for name in columns))
    sums = [sum(counts[kind, name] for kind in kinds) for name in columns]
    print(f"{'all':<24}" + "".join(f"{value:>10}" for value in sums))
    print(f"{sum(sums)} trials in {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
