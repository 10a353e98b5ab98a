# SPDX-License-Identifier: Apache-2.0
"""Search for the fastest setting: in stages, or all settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from floodtide import config
from floodtide.base import limits
from floodtide.base.options import option
from floodtide.bench.rows import Row
from floodtide.bench.shapes import available_cores
from floodtide.errors import ConfigurationError
from floodtide.lab import ranges
from floodtide.lab.tune.measuring import Measurement, measure
from floodtide.lab.tune.settings import POLICIES, Setting, candidates, default_setting

EQUAL = 0.01  # settings within this share of the fastest count as equal
_KEPT = 3  # pairs of ranks and threads of which busy waiting is tried
_NEAR = 0.05  # settings within this share of the fastest get all rounds

_FACTORS = (2, 4)  # larger batches that the rows show

Measure = Callable[[Setting, float], float]
"""Function of a setting and the expected throughput: measured fields of view per second."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How much is measured."""

    walkers: int | None = option(
        None,
        "Number of walkers on the host: the batch of a step.  [default: training.walkers, else the number of cores]",
        range=limits.RANKS,
    )
    seconds: float = option(2.0, "Duration of a measurement", range=ranges.SOME_SECONDS)
    rounds: int = option(
        3, "Number of measurements of each of the fastest settings", range=limits.COUNT
    )
    exhaustive: bool = option(False, "Measure all settings in all rounds, not only the fastest")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The chosen setting, why, and everything that was measured, the fastest first."""

    setting: Setting
    fovs_per_s: float
    default: Measurement
    measurements: tuple[Measurement, ...]

    @property
    def reason(self) -> str:
        """One sentence for the terminal."""
        ratio = self.fovs_per_s / self.default.best
        count = len(self.measurements)
        if self.setting == self.default.setting:
            return f"no other of {count} settings is more than {EQUAL:.0%} faster than the default"
        return (
            f"{ratio:.2f} times as fast as the default ({self.default.setting}); the simplest within {EQUAL:.0%} of the"
            f" fastest of {count} settings"
        )


def tuned(
    file: str, overrides: Sequence[str], options: Options, progress: Progress
) -> tuple[Choice, list[Row]]:
    """Measure this machine, and return the choice and a row of results for each setting, the fastest first.

    The last rows show the chosen setting with 2 and 4 times as many walkers.

    Args:
        file: Configuration file of a flood-filling network.
        overrides: Overrides "a.b=value" of the configuration.
        options: How much is measured.
        progress: Called with the measurements made and their expected number.

    Raises:
        ConfigurationError: If the network is of another kind.
        UnsupportedError: If the ranks cannot be started, or do not train.
    """
    settings = config.load(file, overrides)
    model: Any = settings.model
    if settings.task.predicts:
        raise ConfigurationError(f"{file}: model.kind is '{model.kind}', tune expects 'ffn'")
    cores = available_cores()
    batch = options.walkers or settings.training.walkers or cores

    def measured(setting: Setting, rate: float) -> float:
        return measure(setting, model, seconds=options.seconds, fovs_per_s=rate)

    choice = search(
        candidates(cores, batch),
        default_setting(cores, batch),
        measured,
        rounds=options.rounds,
        exhaustive=options.exhaustive,
        progress=progress,
    )
    best = choice.measurements[0].best
    found = list(choice.measurements)
    for factor in _FACTORS:
        larger = dataclasses.replace(choice.setting, walkers=factor * choice.setting.walkers)
        rates = [measured(larger, choice.fovs_per_s) for _ in range(options.rounds)]
        found.append(Measurement(larger, rates))
    return choice, [one.row(best) for one in found]


def search(
    settings: Sequence[Setting],
    default: Setting,
    measure: Measure,
    *,
    rounds: int,
    exhaustive: bool = False,
    progress: Progress | None = None,
) -> Choice:
    """Return the simplest setting whose throughput is within EQUAL of the fastest.

    In stages: all pairs of ranks and threads, with sleeping threads; then all waiting policies of the fastest pairs;
    then more rounds of all settings near the fastest, until each has `rounds`. Exhaustive: `rounds` rounds of all
    settings.

    Args:
        settings: The settings to try.
        default: The setting to compare with; one of `settings`.
        measure: Measures a setting once.
        rounds: Number of measurements of each finalist.
        exhaustive: Measure all settings in all rounds.
        progress: Called with the measurements made and their expected number.
    """
    found = {setting: Measurement(setting) for setting in settings}
    rate = measure(
        default, 1.0
    )  # tells the number of steps; not counted, because the caches were cold
    done = 0

    def once(setting: Setting, left: int) -> None:
        nonlocal done, rate
        rate = measure(setting, rate)
        found[setting].fovs_per_s.append(rate)
        done += 1
        if progress:
            progress(done, done + left)

    plain = [one for one in settings if one.wait == POLICIES[0]]
    more = _KEPT * (len(settings) // max(len(plain), 1)) + _KEPT * (rounds - 1)
    stage = list(settings) * rounds if exhaustive else plain
    for index, setting in enumerate(stage):
        once(setting, len(stage) - index - 1 + (0 if exhaustive else more))
    if not exhaustive:
        kept = {(one.ranks, one.threads) for one in _fastest(found)[:_KEPT]}
        variants = [
            one for one in settings if (one.ranks, one.threads) in kept and one not in plain
        ]
        for index, setting in enumerate(variants):
            once(setting, len(variants) - index - 1 + _KEPT * (rounds - 1))
    while waiting := _to_measure(found, default, rounds):
        left = sum(rounds - len(found[one].fovs_per_s) for one in waiting)
        once(min(waiting, key=lambda one: len(found[one].fovs_per_s)), left - 1)
    return _choice(found, found[default])


def _to_measure(
    found: Mapping[Setting, Measurement], default: Setting, rounds: int
) -> list[Setting]:
    """Return the settings near the fastest, and the default, that do not have all rounds yet."""
    fastest = _fastest(found)
    least = (1.0 - _NEAR) * found[fastest[0]].best
    near = [one for one in fastest if found[one].best >= least or one == default]
    return [one for one in near if len(found[one].fovs_per_s) < rounds]


def _fastest(found: Mapping[Setting, Measurement]) -> list[Setting]:
    known = [one for one in found.values() if one.fovs_per_s]
    return [one.setting for one in sorted(known, key=lambda one: -one.best)]


def _choice(found: Mapping[Setting, Measurement], default: Measurement) -> Choice:
    ordered = [found[one] for one in _fastest(found)]
    equal = [one for one in ordered if one.best >= (1.0 - EQUAL) * ordered[0].best]
    chosen = min(equal, key=lambda one: (one.setting != default.setting, one.setting.effort))
    return Choice(
        setting=chosen.setting, fovs_per_s=chosen.best, default=default, measurements=tuple(ordered)
    )
