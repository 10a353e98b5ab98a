# SPDX-License-Identifier: Apache-2.0
"""Options that several subcommands share, and the types of option values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from floodtide.base.options import Range

if TYPE_CHECKING:  # generic for the type checker alone in older versions of click
    NumberBase = click.ParamType[float]
    NumbersBase = click.ParamType[tuple[float, ...]]
else:
    NumberBase = NumbersBase = click.ParamType

Command = TypeVar("Command", bound=Callable[..., Any])

overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="A.B=VALUE",
    help="Override a key of the configuration. Can be given several times.",
)


def require_same_arguments() -> None:
    """Check that all ranks have the same command-line arguments and the same version of floodtide. Collective.

    Raises:
        ConfigurationError: If arguments differ. The message names arguments, values and ranks.
        UnsupportedError: If versions or builds of floodtide differ.
    """
    from floodtide.comm import world
    from floodtide.train.same_on_ranks import require_same

    world.ensure_init()
    context = click.get_current_context()
    require_same(str(context.info_name), context.params, "arguments")


def of_fields(options: type[Any]) -> Callable[[Command], Command]:
    """Return a decorator that gives a command an option for each field of a dataclass of options."""

    def decorate(command: Command) -> Command:
        for field in reversed(dataclasses.fields(options)):
            known, choices = field.metadata["range"], field.metadata["choices"]
            command = click.option(
                f"--{field.name.replace('_', '-')}",
                type=click.Choice(choices) if choices else Number(known),
                default=field.default,
                show_default=True,
                help=f"{field.metadata['help']}.",
            )(command)
        return command

    return decorate


class Number(NumberBase):
    """Option type: one number of a range (`floodtide.base.limits`); an integer if the range's bounds are integers."""

    def __init__(self, limits: Range) -> None:
        self.limits = limits
        self.name = "integer" if limits.whole else "float"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = parse_number(value, whole=self.limits.whole)
        if number is None or number not in self.limits:
            self.fail(f"{_cut(value)}, expected {self.limits}", param, ctx)
        return number


class Numbers(NumbersBase):
    """Option type: comma-separated numbers of a range.

    Without `count`, any number of values is accepted. With `count`, one value stands for `count` equal values.
    """

    def __init__(self, limits: Range, count: int | None = None) -> None:
        self.limits = limits
        self.count = count
        self.name = ",".join(["N"] * count) if count else "N[,N...]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        numbers = []
        for word in str(value).split(","):
            number = parse_number(word, whole=self.limits.whole)
            if number is None or number not in self.limits:
                self.fail(f"{_cut(value)}, expected {self.name}, each {self.limits}", param, ctx)
            numbers.append(number)
        if self.count and len(numbers) == 1:
            numbers *= self.count
        if self.count and len(numbers) != self.count:
            self.fail(
                f"{_cut(value)}, expected 1 or {self.count} numbers, as {self.name}", param, ctx
            )
        return tuple(numbers)


def parse_number(value: Any, *, whole: bool) -> float | None:
    """Return the number that a text means; a number is returned as it is. None if the text is not a number."""
    try:
        return int(value) if whole and isinstance(value, str) else value if whole else float(value)
    except (ValueError, OverflowError):
        return None


def _cut(value: Any, most: int = 60) -> str:
    text = str(value)
    return f"'{text}'" if len(text) <= most else f"'{text[:most]}...'"
