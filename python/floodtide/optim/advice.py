# SPDX-License-Identifier: Apache-2.0
"""Which learning rate a training uses and why, and warnings of known traps, as text for the start of a training."""

from __future__ import annotations

from floodtide.optim.lr import Schedule, scale
from floodtide.optim.optimizers import Optimizer

# gradient descent has linear scaling, these have not
_ADAPTIVE = ("adam", "adamw", "rmsprop", "adagrad", "lamb")
_STATISTICS_LAG = 10  # training steps: 1 / momentum of the moving statistics
_LARGE_FACTOR = 8.0
_ENDED = 0.01  # share of the highest rate below which further steps hardly change scores


def rate_used(schedule: Schedule, workers: int, batch: int) -> str:
    """Return a sentence about the rate after the warm-up.

    Args:
        schedule: The schedule of the training, with its base rate.
        workers: Walkers whose gradients a training step averages.
        batch: Examples of a walker in a training step.
    """
    base = float(schedule.values["base_lr"])
    rule = f"scale {schedule.scale!r}, {workers} walker{'s' if workers != 1 else ''}"
    if batch > 1:
        rule += f" of {batch} examples"
    if schedule.scale == "auto" and workers > 1:
        text = f"learning rate {base:g} x a factor from the measured gradient noise scale ({rule})"
    else:
        factor = scale(schedule.scale, **schedule.scale_values)(workers, batch)
        text = f"learning rate {base * factor:g} = {base:g} x {factor:g} ({rule})"
    if schedule.warmup_steps:
        start = "0" if schedule.values.get("warmup_start") == "zero" else f"{base:g}"
        text += f", after a linear warm-up from {start} in {schedule.warmup_steps} training steps"
    if schedule.name != "constant":
        text += f", then schedule {schedule.name!r}"
    return text


def cut_short(share: float) -> str:
    """Return the end of a sentence about a training that stops while its rate is a `share` of the highest.

    The text is empty if the rate has nearly fallen to its end.
    """
    if share < _ENDED:
        return ""
    return f", its learning rate still at {100 * share:.0f} % of the highest, so that scores are worse than at its end"


def traps(
    optimizer: Optimizer, schedule: Schedule, workers: int, batch: int, *, statistics: bool
) -> list[str]:
    """Return warnings about combinations that are known to disappoint.

    Args:
        optimizer, schedule, workers, batch: As for `rate_used`.
        statistics: The network has batch normalisation.
    """
    factor = scale(schedule.scale, **schedule.scale_values)(workers, batch)
    found = []
    if optimizer.name == "adadelta" and factor > 1:
        found.append(
            f"the rate of Adadelta is multiplied by {factor:g}: its steps do not shrink when gradients are averaged"
            " over walkers, so that its rate has no reason to grow; schedule.scale 'none' keeps it"
        )
    linear = factor in (workers, workers * batch) and not schedule.scale.startswith("sqrt")
    if optimizer.name in _ADAPTIVE and factor > 1 and linear:
        found.append(
            f"the rate of {optimizer.name} grows linearly with the walkers: this is too much beyond the gradient noise"
            " scale; schedule.scale 'sqrt' is the most that helped in our trainings, and training.noise_scale measures"
            " the noise scale"
        )
    if schedule.scale == "adam_sqrt":
        beta1 = float(optimizer.settings()["values"]["beta1"])
        if workers * (1 - beta1) > 1:
            found.append(
                f"with {workers} walkers the rule 'adam_sqrt' has no beta1: 1 - {workers} x (1 - {beta1:g}) is"
                " negative, and 0 is used"
            )
    if (
        schedule.scale == "none"
        and schedule.warmup_steps
        and schedule.values.get("warmup_start") != "zero"
    ):
        found.append(
            "the warm-up (schedule.warmup_steps) changes nothing: it starts at the base rate, and schedule.scale 'none'"
            " keeps this rate; schedule.warmup_start 'zero' starts at 0"
        )
    if statistics and factor >= _LARGE_FACTOR and not schedule.warmup_steps:
        found.append(
            f"the statistics of batch normalisation lag about {_STATISTICS_LAG} steps behind weights that move with"
            f" {factor:g} times the base rate: validation scores of the first steps are too low; a warm-up"
            " (schedule.warmup_steps) helps"
        )
    return found
