# SPDX-License-Identifier: Apache-2.0
"""Which learning rate a training uses and why, and warnings of known traps, as text for the start of a training."""

from __future__ import annotations

from floodtide.optim.lr import Schedule, scale
from floodtide.optim.optimizers import Optimizer

# gradient descent has linear scaling, these have not
_ADAPTIVE = ("adadelta", "adam", "adamw", "rmsprop", "adagrad", "lamb")
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


def traps(optimizer: Optimizer, schedule: Schedule, workers: int, batch: int) -> list[str]:
    """Return warnings about combinations that are known to disappoint. The arguments are as for `rate_used`."""
    factor = scale(schedule.scale, **schedule.scale_values)(workers, batch)
    found = []
    linear = factor in (workers, workers * batch) and not schedule.scale.startswith("sqrt")
    if optimizer.name in _ADAPTIVE and factor > 1 and linear:
        found.append(
            f"the rate of {optimizer.name} grows linearly with the walkers: this is too much beyond the gradient noise"
            " scale; schedule.scale 'sqrt' is the most that helped in our trainings, and training.noise_scale measures"
            " the noise scale"
        )
    from_base = schedule.warmup_steps and schedule.values.get("warmup_start") != "zero"
    if schedule.scale == "none" and from_base:
        found.append(
            "the warm-up (schedule.warmup_steps) changes nothing: it starts at the base rate, and schedule.scale 'none'"
            " keeps this rate; schedule.warmup_start 'zero' starts at 0"
        )
    return found
