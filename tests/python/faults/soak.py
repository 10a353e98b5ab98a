# SPDX-License-Identifier: Apache-2.0
"""A long training with checkpoints, validation and a report every minute: memory and file handles must not grow.

    python tests/python/faults/soak.py --minutes 60 --ranks 2

The job is `floodtide train`; this process writes the reports, as a notebook that stays open does, and is measured too.
Samples begin with the log; the first fifth of them is left out. A row for each process and quantity holds the slope and
its 95 % confidence interval. The exit status is 1 unless each interval lies below the bound, and validations and
reports came.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "mpi")]

import tomli_w  # noqa: E402
from growth import BLOCKS, Usage, slope, usage, verdict  # noqa: E402
from launch import ENVIRONMENT, MPIEXEC  # noqa: E402
from training_volume import document, write_volume  # noqa: E402

from floodtide import report  # noqa: E402
from floodtide.train.run_directory import read_log  # noqa: E402

START_S = 120.0
END_S = 120.0
CALIBRATION_S = 5.0
VALIDATIONS = 3  # aimed at between two checkpoints: they come by steps, which other work on the machine makes slower
WARM = 0.2  # share of the samples

# A rank tells its process id and trains as the command line does; with a leak it keeps memory in every step, and files.
TRAIN = """
import os, sys, time, floodtide
from floodtide.cli import main
floodtide.init()
name = f"{sys.argv[2]}.{floodtide.rank()}"
open(name + ".part", "w").write(str(os.getpid()))
os.replace(name + ".part", name)
leak_bytes, kept, files, step = int(sys.argv[3]), [], [], floodtide.train.Trainer.step
start_s = time.monotonic()
def leaking(trainer):
    kept.append(os.urandom(leak_bytes))
    if len(files) < 10 * (time.monotonic() - start_s) and len(files) < 500:
        files.append(open("/dev/null"))
    return step(trainer)
if leak_bytes:
    floodtide.train.Trainer.step = leaking
main(["train", sys.argv[1]])
"""


class Sampler:
    """A thread that notes what processes hold, while they live."""

    def __init__(self, pids: dict[str, int], period_s: float) -> None:
        self.samples: dict[str, list[tuple[float, Usage]]] = {name: [] for name in pids}
        """(seconds, usage) by name."""
        self._pids = pids
        self._period_s = period_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        start_s = time.monotonic()
        while not self._over.wait(self._period_s):
            for name, pid in self._pids.items():
                if (held := usage(pid)) is not None:
                    self.samples[name].append((time.monotonic() - start_s, held))


class Soak:
    """A training over ranks that is sampled until its end."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._folder = folder
        self._options = options
        self.run = folder / "soak"
        self.reports = 0

    def sample(self) -> dict[str, list[tuple[float, Usage]]]:
        """Train for the time given; (seconds, usage) of every rank and of this process, "reports"."""
        options = self._options
        every = max(1, round(self._steps_per_s() * options.every_s / VALIDATIONS))
        for _ in range(options.warm_reports):
            report.write([self._folder / "calibration"], self._folder / "report.html")
            gc.collect()
        process, names = self._start(self.run, validation={"every": every})
        sampler = None
        try:
            pids = {f"rank {rank}": pid for rank, pid in enumerate(self._pids(process, names))}
            pids["reports"] = os.getpid()
            self._wait_for_training(process, self.run)
            sampler = Sampler(pids, period_s=options.every_s / 30)
            start_s = time.monotonic()
            next_report_s = options.every_s
            while (now_s := time.monotonic() - start_s) < options.minutes * 60:
                assert process.poll() is None, "the training has ended"
                if now_s >= next_report_s:
                    report.write([self.run], self._folder / "report.html")
                    gc.collect()
                    self.reports += 1
                    next_report_s += options.every_s
                time.sleep(min(options.every_s / 30, 1))
            sampler.stop()
            self._stop(process, self.run)
        finally:
            if sampler is not None:
                sampler.stop()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return sampler.samples

    def _steps_per_s(self) -> float:
        """Steps of a short training by its time."""
        run = self._folder / "calibration"
        process, _ = self._start(run)
        self._wait_for_training(process, run)
        time.sleep(CALIBRATION_S)
        self._stop(process, run)
        trained = [record for record in read_log(run / "log.jsonl") if record["kind"] == "train"]
        return float(trained[-1]["fovs_per_s"]) / self._options.ranks

    def _wait_for_training(self, process: subprocess.Popen[bytes], run: Path) -> None:
        deadline = time.monotonic() + START_S
        while len(read_log(run / "log.jsonl")) < 2:
            assert process.poll() is None, self._said(run)
            assert time.monotonic() < deadline, "the training does not begin"
            time.sleep(0.05)

    def _stop(self, process: subprocess.Popen[bytes], run: Path) -> None:
        process.send_signal(signal.SIGUSR1)  # the launcher hands it on
        assert process.wait(END_S) == 0, self._said(run)

    def _said(self, run: Path) -> str:
        return run.with_suffix(".stderr").read_text()[-2000:]

    def _start(self, run: Path, **sections: Any) -> tuple[subprocess.Popen[bytes], list[Path]]:
        options = self._options
        values = document(
            self._folder,
            run={
                "dir": str(run),
                "log_every_s": options.every_s / 6,
                "checkpoint_every_s": options.every_s,
            },
            training={"steps": 10**9, "walkers": options.ranks},
            **sections,
        )
        configuration = run.with_suffix(".toml")
        configuration.write_text(tomli_w.dumps(values))
        command = [str(MPIEXEC), "-n", str(options.ranks), sys.executable, "-c", TRAIN]
        with run.with_suffix(".stderr").open("wb") as said:
            process = subprocess.Popen(
                [*command, configuration, run, str(options.leak_bytes)],
                stdout=subprocess.DEVNULL,
                stderr=said,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **ENVIRONMENT},
                start_new_session=True,
            )
        return process, [run.with_name(f"{run.name}.{rank}") for rank in range(options.ranks)]

    def _pids(self, process: subprocess.Popen[bytes], names: list[Path]) -> list[int]:
        deadline = time.monotonic() + START_S
        while not all(name.exists() for name in names):
            assert process.poll() is None, "the ranks do not begin"
            assert time.monotonic() < deadline, "the ranks do not begin"
            time.sleep(0.05)
        return [int(name.read_text()) for name in names]


def judge(samples: dict[str, list[tuple[float, Usage]]], options: argparse.Namespace) -> int:
    """Print a row for each process and quantity; the number of those that may grow."""
    bounds = {"rss": options.bound_mib, "own": options.bound_mib}
    bounds |= {"handles": options.bound_handles, "threads": options.bound_handles}
    units = {"rss": "MiB", "own": "MiB", "handles": "", "threads": ""}
    wrong = 0
    header = ("process", "quantity", "start", "end", "slope per hour", "95 % interval", "bound")
    print("{:10} {:9} {:>11} {:>11} {:>15} {:>22} {:>8}".format(*header))
    for name, rows in samples.items():
        warm = rows[int(len(rows) * WARM) :]
        times = [time_s for time_s, _ in warm]
        for quantity, bound in bounds.items():
            values = [getattr(held, quantity) for _, held in warm]
            fitted = slope(times, values)
            found = verdict(fitted, bound)
            wrong += found != "no growth"
            unit = units[quantity]
            print(
                f"{name:10} {quantity:9} {values[0]:7.1f} {unit:3} {values[-1]:7.1f} {unit:3} "
                f"{fitted.per_hour:+15.3f} {fitted.low:+10.3f} {fitted.high:+11.3f} {bound:8g}  {found}"
            )
    return wrong


def events(soak: Soak) -> dict[str, int]:
    """How many records, validations, checkpoints and reports there were."""
    records = read_log(soak.run / "log.jsonl")
    kinds = [record["kind"] for record in records]
    return {
        "steps": int(records[-1]["step"]),
        "log records": kinds.count("train"),
        "validations": kinds.count("validation"),
        "checkpoints kept": len(list((soak.run / "checkpoints").glob("step-*.h5"))),
        "reports": soak.reports,
    }


def main() -> None:
    """Parse the command line, train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="of training")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--every-s", type=float, default=60.0, help="between two checkpoints")
    parser.add_argument(
        "--warm-reports",
        type=int,
        default=60,
        help="written first: memory of a process settles in these",
    )
    parser.add_argument("--bound-mib", type=float, default=4.0, help="of memory per hour")
    parser.add_argument("--bound-handles", type=float, default=1.0, help="per hour")
    parser.add_argument("--leak-bytes", type=int, default=0, help="a leak on purpose, per step")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name).resolve()
        write_volume(folder)
        soak = Soak(folder, options)
        samples = soak.sample()
        counts = events(soak)
    print(", ".join(f"{number} {what}" for what, number in counts.items()))
    least = max(1, int(0.5 * options.minutes * 60 / options.every_s))
    missing = [what for what in ("validations", "reports") if counts[what] < least]
    if any(len(rows) * (1 - WARM) < 2 * BLOCKS + 1 for rows in samples.values()):
        print("too few samples: make it longer")
        sys.exit(1)
    wrong = judge(samples, options)
    print(f"{wrong} rows may grow{''.join(f', too few {what}' for what in missing)}")
    sys.exit(1 if wrong or missing else 0)


if __name__ == "__main__":
    main()
