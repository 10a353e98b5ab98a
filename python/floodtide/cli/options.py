# SPDX-License-Identifier: Apache-2.0
"""Options that several subcommands share, and the types of option values."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from floodtide.base import limits
from floodtide.base.options import Range, shown

if TYPE_CHECKING:  # generic for the type checker alone in older versions of click
    NumberBase = click.ParamType[float]
    NumbersBase = click.ParamType[tuple[float, ...]]
else:
    NumberBase = NumbersBase = click.ParamType

Command = TypeVar("Command", bound=Callable[..., Any])
Options = TypeVar("Options")

overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="A.B=VALUE",
    help="Override a key of the configuration. Can be given several times.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def show(report: Mapping[str, Any], as_json: bool) -> None:
    """Print a report on rank 0: as a JSON object, or a line for each value that is not None."""
    from floodtide.comm import world

    if world.rank() == 0:
        click.echo(json.dumps(report) if as_json else "\n".join(_lines("", report)))


def _lines(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _lines(f"{name} {key}".strip().replace("_", " "), part)
    elif isinstance(value, list) and value and isinstance(value[0], Mapping | str):
        yield from (f"{name}: {_cell(row)}" for row in value)
    elif value is not None:
        yield f"{name}: {_cell(value)}"


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_cell(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        rows = any(isinstance(row, Mapping) for row in value)
        return ("; " if rows else ",").join(map(_cell, value)) or "none"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


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


def of_fields(
    options: type[Any], only: Collection[str] = (), **defaults: Any
) -> Callable[[Command], Command]:
    """Return a decorator that gives a command an option for each field of a dataclass of options.

    A truth value becomes a flag, a tuple of numbers becomes numbers with commas between them, and a tuple of texts
    becomes an option that can be given several times.

    Args:
        options: The dataclass, with fields of `floodtide.base.options.option`.
        only: Names of fields; empty: all that `option` has made. The others keep their defaults.
        defaults: Defaults by field, in place of those of the dataclass.
    """
    hints = typing.get_type_hints(options)

    def decorate(command: Command) -> Command:
        for field in reversed(dataclasses.fields(options)):
            if "help" not in field.metadata or (only and field.name not in only):
                continue
            default = defaults.get(field.name, field.default)
            text = field.metadata["help"]
            given: dict[str, Any] = {"default": default}
            if default is dataclasses.MISSING:
                given = {"required": True}
            command = click.option(
                f"--{field.name.replace('_', '-')}",
                show_default=default not in (None, False, "", ()),
                help=text if text.endswith((".", "]")) else f"{text}.",
                **given,
                **_parsing(hints[field.name], field.metadata),
            )(command)
        return command

    return decorate


def filled(options: type[Options], values: dict[str, Any]) -> Options:
    """Take the fields of a dataclass out of a command's values, and return the dataclass with them."""
    names = [field.name for field in dataclasses.fields(options)]  # type: ignore[arg-type]
    return options(**{name: values.pop(name) for name in names if name in values})


def _parsing(hint: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of click.option that say how a value of a type is written."""
    known, choices = metadata["range"], metadata["choices"]
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    parts = typing.get_args(hint)
    if hint is bool:
        return {"is_flag": True}
    if parts and parts[0] is str:
        return {"multiple": True, "type": click.Choice(choices) if choices else str}
    if parts:
        return {"type": Numbers(known, None if parts[-1] is Ellipsis else len(parts))}
    if hint is Path:
        return {"type": click.Path(path_type=Path)}
    if hint is str:
        return {"type": click.Choice(choices) if choices else str}
    return {"type": Number(known)}


def number(
    flag: str, range: Range, text: str, *, count: int | None = None, **given: Any
) -> Callable[[Command], Command]:
    """Return an option for one number of a range, or for `count` numbers. Its help shows the default, if it has one."""
    kind = Numbers(range, count) if count else Number(range)
    return click.option(flag, type=kind, help=text, show_default="default" in given, **given)


def refuse_given(names: Collection[str], why: str) -> None:
    """Refuse options of the current command that were given and would have no effect.

    Args:
        why: The rest of the message, behind the option.

    Raises:
        click.UsageError: If one of the options is on the command line.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name in names and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{parameter.opts[0]} {why}")


class Number(NumberBase):
    """Option type: one number of a range (`floodtide.base.limits`); an integer if the range's bounds are integers."""

    def __init__(self, range: Range) -> None:
        self.limits = range
        self.name = "integer" if range.whole else "float"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = parse_number(value, whole=self.limits.whole)
        if number is None or number not in self.limits:
            self.fail(f"{shown(str(value))}, expected {self.limits}", param, ctx)
        return number


class Numbers(NumbersBase):
    """Option type: comma-separated numbers of a range.

    Without `count`, any number of values is accepted. With `count`, one value stands for `count` equal values.
    """

    def __init__(self, range: Range, count: int | None = None) -> None:
        self.limits = range
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
                self.fail(
                    f"{shown(str(value))}, expected {self.name}, each {self.limits}", param, ctx
                )
            numbers.append(number)
        if self.count and len(numbers) == 1:
            numbers *= self.count
        if self.count and len(numbers) != self.count:
            self.fail(
                f"{shown(str(value))}, expected 1 or {self.count} numbers, as {self.name}",
                param,
                ctx,
            )
        return tuple(numbers)


def parse_number(value: Any, *, whole: bool) -> float | None:
    """Return the number that a text means; a number is returned as it is. None if the text is not a number."""
    try:
        return int(value) if whole and isinstance(value, str) else value if whole else float(value)
    except (ValueError, OverflowError):
        return None


box = click.option("--box", default="", help="Only this box, z0:z1,y0:y1,x0:x1 in voxels.")

voxel_nm = click.option(
    "--voxel-nm",
    type=Numbers(limits.VOXEL_SIZE, 3),
    metavar="Z,Y,X",
    help="Voxel size in nm; default: what the file states.",
)
