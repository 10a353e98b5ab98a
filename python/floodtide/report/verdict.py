# SPDX-License-Identifier: Apache-2.0
"""The head of a report: whether a run is better than trivial predictors, how long it ran, and on which data."""

from __future__ import annotations

from typing import Any

from floodtide.base.progress import duration
from floodtide.data import TrainingVolume
from floodtide.evaluate import trivial
from floodtide.evaluate.trivial import Verdict, is_number, judged
from floodtide.report import comparison, planes
from floodtide.report.segmented import Segmented
from floodtide.train.recorded_run import Record, Run


def head(run: Run, found: Segmented | None) -> dict[str, Any]:
    """Return what stands first in the report of a run, by name.

    `run`; `verdict`, whether it is better than trivial predictors, None if nothing tells; `duration` of the training,
    "" if the log does not say; `volumes`, names and properties of the first three training volumes.
    """
    times = [record["time_s"] for record in (*run.train, *run.validation) if "time_s" in record]
    volumes = []
    for volume in run.config.get("data", {}).get("volumes", [])[:3]:
        name = str(volume.get("name") or volume.get("image", "?"))
        named = name != TrainingVolume.name  # the name of volumes that are given none
        volumes.append((f"Volume {name}" if named else "Volume", _volume_text(volume)))
    took = duration(max(times)) if times else ""
    return {"run": run, "verdict": verdict_of(run, found), "duration": took, "volumes": volumes}


def verdict_of(run: Run, found: Segmented | None) -> Verdict | None:
    """Return the verdict on a run: from its segmentation, else from its last validation; None without either."""
    if found is not None and found.answers:
        own, *answers = found.answers
        named = {name: found.answers[name] for name in answers}
        if judgement := trivial.verdict(found.answers[own], named, found.interval):
            return judgement
    if not run.validation:
        return None
    last = run.validation[-1]
    score, least = comparison.scores(run.task, last)
    if not (is_number(score) and is_number(least)):
        return None
    return judged(
        score - least,
        f"in the validation at step {last['step']:,}, the {run.task.score_name} is {score:.3f}, that of a trivial"
        f" prediction {least:.3f}",
    )


def _volume_text(table: Record) -> str:
    """Return size, voxel size and normalisation of a training volume; what its file does not tell is left out."""
    parts = []
    if volume := planes.opened(str(table.get("image", ""))):
        parts.append(" x ".join(map(str, volume.shape)) + f" voxels, {volume.dtype}")
    if is_number(table.get("mean")) and is_number(table.get("std")):
        parts.append(f"normalised with {table['mean']:g} and {table['std']:g}")
    if size := table.get("voxel_size_nm"):
        parts.append(" x ".join(f"{edge:g}" for edge in size) + " nm a voxel")
    if table.get("box"):
        parts.append(f"trained on {table['box']}")
    return "; ".join(parts) or "-"
