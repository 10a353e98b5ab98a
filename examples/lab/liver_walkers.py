# SPDX-License-Identifier: Apache-2.0
"""The poster's study on two cores: one U-Net trained by 1, 2, 4, ... walkers, by five rules for the learning rate.

Every training has ten epochs. Each walker contributes two slices to a step, so W walkers make 1/W of the steps of
one, rounded down for each epoch. A rank computes several walkers one after another if there are more walkers than
ranks. Such a training has the same result as with a rank for each walker, but takes longer. The script writes one
report for each rule (loss and Dice against time, patches a second, time to a loss; each slice is a patch), a table
and a figure of all rules, and a figure of the Dice that ranks would report if each validated the last network alone,
on its share of the patients. Started again, it skips finished trainings, and continues interrupted ones.

    FLOODTIDE_DATA=... python examples/lab/liver_walkers.py    # from the repository's root; half an hour on two cores
    ... liver_walkers.py --seeds 0 1 2    # three trainings for each number of the table
    ... liver_walkers.py --folder runs/momentum --set optimizer.name=momentum --set optimizer.lr=0.05 --walkers 1 8 32
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from floodtide import report
from floodtide.train import Run, read_run

CONFIG = Path(__file__).resolve().with_suffix(".toml")
BATCH = 2  # slices of a walker
RULES = {  # scale, epochs of warm-up, rate after them
    "linear": ("linear", 0, "constant"),
    "linear_warmup": ("linear", 2, "constant"),
    "sqrt_warmup": ("sqrt", 2, "constant"),
    "linear_warmup_cosine": ("linear", 2, "cosine"),
    "sqrt_warmup_cosine": ("sqrt", 2, "cosine"),
}


def halve(source: Path, target: Path) -> int:
    """Write slices of half the extents, means of 2x2 pixels; return their number."""
    with h5py.File(source) as file:
        images, masks = (file[name][:].astype(np.float32) for name in ("image", "mask"))
        patients = file["patient"][:]
    n, y, x = images.shape
    blocks = (n, y // 2, 2, x // 2, 2)
    partial = target.with_suffix(".partial")
    with h5py.File(partial, "w") as file:
        file["image"] = np.round(images.reshape(blocks).mean((2, 4))).astype(np.uint8)
        file["mask"] = (masks.reshape(blocks).mean((2, 4)) >= 0.5).astype(np.uint8)
        file["patient"] = patients
    partial.replace(target)
    return n


def train(rule: str, walkers: int, seed: int, epoch: int, options: argparse.Namespace) -> Path:
    """Train in a folder of its own; return the folder. A training that diverges is a result, too."""
    scale, warmup_epochs, schedule = RULES[rule]
    folder, ranks = options.folder, min(options.ranks, walkers)
    # Of one walker the scaled rate is the base rate: neither scale nor warm-up matters.
    name = f"{rule}-{walkers}" if walkers > 1 else f"{schedule}-1"
    name += f"-seed-{seed}" if seed else ""
    settings = {
        "run.dir": name,
        "run.seed": seed,
        "training.walkers": walkers,
        "training.steps": options.epochs * epoch,
        "schedule.scale": scale,
        "schedule.name": schedule,
        "schedule.warmup_steps": warmup_epochs * epoch if walkers > 1 else 0,
        "validation.every": epoch,
    }
    command = [sys.executable, "-m", "floodtide", "train", str(CONFIG)]
    pairs = [f"{key}={value}" for key, value in settings.items()] + options.set
    command += [word for pair in pairs for word in ("--set", pair)]
    if ranks > 1:
        command = ["mpiexec", "-n", str(ranks), *command]
    print(f"{name}: {options.epochs * epoch} training steps", flush=True)
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    done = subprocess.run(command, check=False, env=environment, cwd=folder)
    if done.returncode == 2:  # it could not begin, and has said why
        sys.exit(2)
    return folder / name


def dices(run: Run) -> list[float]:
    """Dice of each held-out patient that has one after the last epoch; empty if a training did not get to one."""
    found = run.validation[-1]["classes"][0]["dice_groups"] if run.validation else []
    return [dice for dice in found if dice is not None]


def mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else np.nan


def axes_of(label: str) -> tuple[Any, Any]:
    """A figure and its axes, over numbers that double."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 4), layout="constrained")
    axis.set_xscale("log", base=2)
    axis.set_xlabel(label)
    axis.grid(alpha=0.3)
    return figure, axis


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """The last Dice against the number of walkers: a line a rule, from lowest to highest seed."""
    figure, axis = axes_of("walkers (2 slices each in a training step)")
    counts = sorted({row["walkers"] for row in rows})
    for (number, rule), marker in zip(enumerate(RULES), "sov^D", strict=False):
        cells = [
            [row["dice"] for row in rows if (row["rule"], row["walkers"]) == (rule, n)]
            for n in counts
        ]
        means = np.array([mean(cell) for cell in cells])
        spread = [means - [min(cell) for cell in cells], [max(cell) for cell in cells] - means]
        at = np.array(counts) * 1.03 ** (number - 2)  # beside each other
        axis.errorbar(at, means, spread, marker=marker, capsize=2, label=rule.replace("_", ", "))
    axis.set_xticks(counts, [str(n) for n in counts])
    axis.set_ylabel("Dice at the end, mean of held-out patients")
    axis.legend(title="rate")
    figure.savefig(path)


def draw_alone(patients: Sequence[float], path: Path) -> None:
    """The Dice of one network that each rank would report if it validated alone, on its share of the patients."""
    counts = [n for n in (1, 2, 4, 8, 16) if n <= len(patients)]
    figure, axis = axes_of("ranks that share the held-out patients")
    for n in counts:
        axis.plot(
            [n] * n, [mean(patients[rank::n]) for rank in range(n)], "o", color="C0", alpha=0.6
        )
    axis.set_xticks(counts, [str(n) for n in counts])
    axis.set_ylabel("Dice of each rank")
    figure.savefig(path)


def main() -> None:
    """Train all, and write the reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--walkers", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--ranks", type=int, default=2, help="processes at once (default 2)")
    parser.add_argument("--epochs", type=int, default=10, help="of each training (default 10)")
    parser.add_argument("--folder", type=Path, default=Path("runs/liver_walkers"))
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="as train's"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    folder = options.folder
    data = Path(os.environ["FLOODTIDE_DATA"]) / "msd_liver_ct"
    folder.mkdir(parents=True, exist_ok=True)
    halve(data / "liver_validation.h5", folder / "validation.h5")
    slices = halve(data / "liver_train.h5", folder / "train.h5")
    rows = []
    for rule in RULES:
        cells = list(itertools.product(options.walkers, options.seeds))
        trained = [train(rule, n, seed, slices // (BATCH * n), options) for n, seed in cells]
        report.write(trained, folder / f"{rule}.html", folder / rule)
        for (walkers, seed), path in zip(cells, trained, strict=True):
            found = dices(read_run(path, path.name))
            score = round(mean(found), 4)
            rows.append({"rule": rule, "walkers": walkers, "seed": seed, "dice": score})
    draw(rows, folder / "rules.svg")
    draw_alone(found, folder / "alone.svg")
    with (folder / "scores.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    print("\n".join(str(path) for path in sorted(folder.glob("*.html"))))


if __name__ == "__main__":
    main()
