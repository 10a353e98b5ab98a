# SPDX-License-Identifier: Apache-2.0
"""Train on FIB-25 and compare the network before and after, with bootstrap intervals.

Scores two fixed sets of centres, one in the training part and one in the held-out part, before and after training, and
draws the centres anew 2,000 times to give 95 % intervals. Run on two ranks, from the repository's root:

    FLOODTIDE_DATA=... mpiexec -n 2 python examples/fib25/train_and_compare.py examples/fib25/fine_tune.toml

The configuration's run.stop_after_s says how long it trains. Writes comparison.json and
comparison.png into the run directory.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

import floodtide as ft
from floodtide import config as configuration
from floodtide.base import style
from floodtide.base.progress import bar
from floodtide.cli.training_lines import TrainingLines
from floodtide.train import FloodValidation, Trainer

LOM_RADIUS = (24, 24, 24)  # half a field of view and one step, as google/ffn's README sets it
RESAMPLES = 2000


def pooled(table: np.ndarray) -> dict[str, float]:
    """Scores over rows of (cross-entropy sum, voxels, TP, FP, FN, TN)."""
    entropy, voxels, tp, fp, fn, _ = table.sum(axis=0)
    return {"cross_entropy": entropy / voxels, "f1": 2 * tp / max(2 * tp + fp + fn, 1.0)}


def intervals(before: np.ndarray, after: np.ndarray) -> dict[str, dict[str, list[float]]]:
    """95 % intervals of before, after and their difference, over the same resampled centres."""
    random = np.random.default_rng(0)
    draws: dict[str, list[list[float]]] = {"cross_entropy": [], "f1": []}
    for _ in range(RESAMPLES):
        rows = random.integers(0, len(before), len(before))
        first, last = pooled(before[rows]), pooled(after[rows])
        for name, values in draws.items():
            values.append([first[name], last[name], last[name] - first[name]])
    result = {}
    for name, values in draws.items():
        low, high = np.percentile(values, [2.5, 97.5], axis=0)
        result[name] = {
            key: [float(low[i]), float(high[i])]
            for i, key in enumerate(("before", "after", "difference"))
        }
    return result


def compare(before: Any, after: Any) -> dict[str, Any]:
    """Scores of two validation results on the same centres, first pass and after the moves."""
    result: dict[str, Any] = {"trivial": before.summary()["trivial"]}
    for part in ("first_pass", "moves"):
        tables = [getattr(outcome, f"{part}_centres") for outcome in (before, after)]
        result[part] = {
            "before": pooled(tables[0]),
            "after": pooled(tables[1]),
            "interval_95": intervals(*tables),
        }
    return result


def draw(results: dict[str, Any], path: Path) -> None:
    """Differences after minus before, with 95 % intervals over the same centres."""
    rows = [(part, when) for part in results for when in ("first_pass", "moves")]
    names = [f"{part}, {when.replace('_', ' ')}" for part, when in rows]
    with style.figure(9.0, 2.6) as figure:
        panels = figure.subplots(1, 2, sharey=True)
        for axis, name, title in (
            (panels[0], "cross_entropy", "Change of cross-entropy (below 0: better)"),
            (panels[1], "f1", "Change of F1 (above 0: better)"),
        ):
            for y, (part, when) in enumerate(rows):
                scores = results[part][when]
                low, high = scores["interval_95"][name]["difference"]
                axis.plot([low, high], [y, y], color=style.SERIES[0])
                axis.plot(scores["after"][name] - scores["before"][name], y, "o", color="black")
            axis.axvline(0.0, color=style.GREY, ls="--")
            axis.set_yticks(range(len(rows)), names)
            axis.set_ylim(len(rows) - 0.5, -0.5)
            axis.locator_params(axis="x", nbins=5)
            axis.set_title(title)
        path.write_bytes(style.rendered(figure, "png", 120))


def main() -> None:
    """Partition once, score, train, score again."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=VALUE")
    arguments = parser.parse_args()
    ft.init()
    config = configuration.load(arguments.config, arguments.set)
    volume = config.data.volumes[0]
    if not Path(volume.partitions.rpartition(":")[0]).exists():
        with bar("voxels", "partition") as progress:
            ft.data.partition(
                volume.labels, volume.partitions, lom_radius=LOM_RADIUS, progress=progress
            )
    trainer = Trainer.from_config(config, callbacks=[TrainingLines()])

    def centres(box: str, seed: int) -> FloodValidation:
        return FloodValidation(
            dataclasses.replace(volume, box=box),
            patch_size=trainer.model.patch_size,
            centres=config.validation.centres,
            seed=seed,
        )

    held_out = config.validation
    sets = {
        "training part": centres(volume.box, held_out.seed + 1),
        "held out": centres(held_out.box, held_out.seed),
    }
    before = {name: fixed.run(trainer.model) for name, fixed in sets.items()}
    trainer.run()
    results = {
        name: compare(before[name], fixed.run(trainer.result)) for name, fixed in sets.items()
    }
    if ft.rank() == 0:
        text = json.dumps({"steps": trainer.steps_done, **results}, indent=2)
        (trainer.directory / "comparison.json").write_text(text + "\n")
        draw(results, trainer.directory / "comparison.png")
        print(text)


if __name__ == "__main__":
    main()
