# SPDX-License-Identifier: Apache-2.0
"""Training on two hosts over cables of several rates, timed, beside the forecast of `floodtide lab simulate`.

    python tests/python/lab/throughput.py                       10 Gbit/s, 1 Gbit/s and 100 Mbit/s; minutes
    python tests/python/lab/throughput.py --rates 100 --rounds 1

Hosts are those of network.py: one core and one rank with one thread each. The forecast starts from the steps of a
training of one rank on each host at the same time, because they share the machine's memory, once before and once after
the timed training, from the latency of a barrier over the cable, and from the processor time of a byte in a plain TCP
transfer both ways. A row is the median of the rounds; exit status 1 if a forecast is off by more than 15 %.
Needs root and a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), *(str(TESTS / folder) for folder in ("hosts", "mpi"))]

import network  # noqa: E402
import tomli_w  # noqa: E402
from launch import ENVIRONMENT  # noqa: E402
from launch_hosts import check, run  # noqa: E402

from floodtide import data  # noqa: E402
from floodtide.lab import simulate  # noqa: E402
from floodtide.lab.simulate.forecast import Options, forecast_jobs  # noqa: E402

TOLERANCE = 0.15
ALGORITHM = "ring"
PAYLOAD = 1448 / 1514  # of a full Ethernet frame, which is what the rate counts
HOSTS = ["alpha", "beta"]
FOV = 17
TIMEOUT_S = 600

BARRIERS = """
    import statistics, time
    import floodtide as ft
    ft.init()
    seconds = []
    for _ in range(300):
        start = time.perf_counter()
        ft.barrier()
        seconds.append(time.perf_counter() - start)
    if ft.rank() == 0:
        print(statistics.median(seconds[50:]))
"""

# One of the two ends: its address, its peer's, the bytes to send and to receive, and its core. Prints the processor
# time that passed on the core, in seconds: the kernel's work for the cable is nobody's, but it is in /proc/stat.
TRANSFER = """
    import os, socket, sys, threading, time
    own, peer, size, core = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    def busy_s():
        for line in open("/proc/stat"):
            name, *ticks = line.split()
            if name == "cpu" + core:
                user, nice, system, idle, iowait, irq, softirq = map(int, ticks[:7])
                return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    listener = socket.create_server((own, 5001))
    deadline = time.monotonic() + 20
    while True:
        try:
            outgoing = socket.create_connection((peer, 5001), timeout=20)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    incoming, _ = listener.accept()
    block = bytearray(1 << 18)
    def send():
        left = size
        while left > 0:
            left -= outgoing.send(block[: min(left, len(block))])
    before = busy_s()
    sender = threading.Thread(target=send)
    sender.start()
    into, left = bytearray(1 << 18), size
    while left > 0:
        got = incoming.recv_into(into)
        assert got, "the other end closed the connection"
        left -= got
    sender.join()
    print(busy_s() - before)
"""
TRANSFER_S = 3  # that it takes if the cable is the limit


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The network that is trained, and for how many steps."""

    depth: int
    features: int
    steps: int


class Trainings:
    """Trainings on a synthetic volume in a folder, each with a run directory of its own."""

    def __init__(self, folder: Path, setting: Setting, hosts: network.Network) -> None:
        self._folder = folder
        self._setting = setting
        self._hosts = hosts
        self._numbers = itertools.count()
        image, labels = data.synth((3 * FOV,) * 3, seed=0)
        data.write_volume(folder / "volume.h5", {"raw": image, "labels": labels})
        data.partition(
            f"{folder}/volume.h5:labels",
            f"{folder}/partitions.h5:af",
            lom_radius=(4, 4, 4),
            min_size=10,
        )

    def alone(self) -> simulate.Calibration:
        """Train one rank on each host at the same time; what the first one measured, step by step."""
        started = []
        for host in HOSTS:
            run_dir, arguments = self._training(log_every_s=0.0)
            command = [*self._hosts.enter(host), sys.executable, *arguments]
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, **ENVIRONMENT},
            )
            started.append((run_dir, process))
        for _, process in started:
            said, _ = process.communicate(timeout=TIMEOUT_S)
            if process.returncode != 0:
                raise SystemExit(f"a training of one rank failed: {said}")
        return simulate.calibrate(started[0][0])

    def together(self) -> float:
        """Train one rank on each host as one job; fields of view per second of both."""
        run_dir, arguments = self._training(log_every_s=0.5)
        done = run(self._hosts, arguments, timeout_s=TIMEOUT_S)
        if done.status != 0:
            raise SystemExit(f"a training of two ranks failed: {done.stderr}")
        return simulate.calibrate(run_dir).fovs_per_s

    def _training(self, *, log_every_s: float) -> tuple[Path, list[str]]:
        """A new run directory, and arguments of Python."""
        run_dir = self._folder / f"run-{next(self._numbers)}"
        volume = {
            "name": "synthetic",
            "image": f"{self._folder}/volume.h5:raw",
            "labels": f"{self._folder}/volume.h5:labels",
            "partitions": f"{self._folder}/partitions.h5:af",
        }
        document = {
            "run": {"dir": str(run_dir), "threads": 1, "log_every_s": log_every_s},
            "data": {"volumes": [volume]},
            "model": {
                "depth": self._setting.depth,
                "features": self._setting.features,
                "fov": [FOV] * 3,
                "deltas": [FOV // 4] * 3,
            },
            "training": {"steps": self._setting.steps},
            "comm": {"algorithm": ALGORITHM},
        }
        path = run_dir.with_suffix(".toml")
        path.write_text(tomli_w.dumps(document))
        return run_dir, ["-m", "floodtide", "train", str(path)]


def cpu_s_per_byte(hosts: network.Network, cores: list[str], mbit_per_s: float) -> float:
    """Processor seconds of a host in which TCP sends a byte and receives one, mean of the two hosts."""
    size = round(mbit_per_s * 1e6 / 8 * PAYLOAD * TRANSFER_S)
    ends = []
    for host, peer, core in zip(HOSTS, reversed(HOSTS), cores, strict=True):
        line = [sys.executable, "-c", textwrap.dedent(TRANSFER)]
        line += [hosts.address(host), hosts.address(peer), str(size), core]
        ends.append(
            subprocess.Popen([*hosts.enter(host), *line], stdout=subprocess.PIPE, text=True)
        )
    said = [end.communicate(timeout=TIMEOUT_S)[0] for end in ends]
    if any(end.returncode != 0 for end in ends):
        raise SystemExit("a transfer over the cable failed")
    return statistics.mean(map(float, said)) / size


def forecast(
    alone: simulate.Calibration, latency_s: float, cpu_s: float, mbit_per_s: float
) -> float:
    """Fields of view per second of two ranks, as `floodtide lab simulate` has them."""
    options = Options(
        alpha_us=1e6 * latency_s,
        gb_per_s=mbit_per_s / 8e3 * PAYLOAD,
        cpu_ns_per_byte=1e9 * cpu_s,
        algorithm=ALGORITHM,
    )
    (named,) = forecast_jobs(options, alone)
    return simulate.simulate(named.job, len(HOSTS)).fovs_per_s


def main() -> None:
    """Parse the command line; print a row for each rate."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rates", default="10000,1000,100", help="Mbit/s, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--features", type=int, default=32)
    arguments = parser.parse_args()
    if reason := network.missing():
        sys.exit(reason)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < len(HOSTS):
        sys.exit(f"{len(cores)} cores, expected one for each of {len(HOSTS)} hosts")
    rates = [float(rate) for rate in arguments.rates.split(",")]
    setting = Setting(depth=arguments.depth, features=arguments.features, steps=arguments.steps)
    timed: dict[float, list[float]] = {rate: [] for rate in rates}
    predicted: dict[float, list[float]] = {rate: [] for rate in rates}
    latencies: dict[float, list[float]] = {rate: [] for rate in rates}
    costs: dict[float, list[float]] = {rate: [] for rate in rates}
    own = [str(core) for core in cores[: len(HOSTS)]]
    with (
        tempfile.TemporaryDirectory(prefix="throughput-") as folder,
        network.Network(HOSTS, cores=own) as hosts,
    ):
        trainings = Trainings(Path(folder), setting, hosts)
        for _ in range(arguments.rounds):
            before = trainings.alone()
            for rate in rates:
                hosts.limit(rate)
                latencies[rate].append(float(check(hosts, BARRIERS)))
                costs[rate].append(cpu_s_per_byte(hosts, own, rate))
                timed[rate].append(trainings.together())
                after = trainings.alone()
                forecasts = [
                    forecast(alone, latencies[rate][-1], costs[rate][-1], rate)
                    for alone in (before, after)
                ]
                predicted[rate].append(statistics.mean(forecasts))
                before = after
    gradient = sum(bucket.bytes for bucket in simulate.ffn_buckets(setting.depth, setting.features))
    print(f"gradient {gradient / 1e6:.2f} MB, one rank {before.fovs_per_s:.1f} fields of view / s")
    print(
        f"{'Mbit/s':>8} {'latency us':>11} {'ns / byte':>10} {'timed FOV/s':>12} {'forecast':>9} {'ratio':>6}"
    )
    wrong = 0
    for rate in rates:
        ratio = statistics.median(p / t for p, t in zip(predicted[rate], timed[rate], strict=True))
        wrong += abs(ratio - 1) > TOLERANCE
        latency, cost, seen, said = (
            statistics.median(values[rate]) for values in (latencies, costs, timed, predicted)
        )
        print(
            f"{rate:8g} {1e6 * latency:11.1f} {1e9 * cost:10.2f} {seen:12.2f} {said:9.2f} {ratio:6.3f}"
        )
    print(f"{wrong} of {len(rates)} rates off by more than {TOLERANCE:.0%}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
