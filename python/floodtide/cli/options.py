# SPDX-License-Identifier: Apache-2.0
"""Options that several subcommands share, the types of option values, and results on the terminal."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from floodtide.base import limits
from floodtide.base.options import Range, shown

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
rows_as_json = click.option("--json", "as_json", is_flag=True, help="Print a JSON object per row.")

_FIRST = (
    "benchmark", "name", "kernel", "threads", "ranks", "median_s", "gflops", "peak_gflops", "ratio",
)  # fmt: skip
_CONDITIONS = (
    *("level", "shape", "wire", "transport", "samples", "processor", "version", "date"),
    *("p10_s", "p90_s", "min_s", "mean_s"),
)  # the table leaves them out
_WORDS, _FIGURES = 22, 9  # width of a column of texts, and of a column of numbers at least


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


def print_rows(rows: Iterable[Mapping[str, Any]], as_json: bool) -> None:
    """Print each row as soon as there is one, and the names of the columns whenever they change.

    The table has all values but lists and conditions of the measurement.

    Args:
        rows: The rows, as JSON values by name.
        as_json: Print JSON objects, with all values.
    """
    before = list[str]()
    for row in rows:
        if as_json:
            click.echo(json.dumps(row))
            continue
        names = _columns(row)
        if names != before:
            click.echo("  ".join(_column(name, row[name], name) for name in names).rstrip())
            before = names
        cells = (_column(name, row[name], _text(row[name])) for name in names)
        click.echo("  ".join(cells).rstrip())


def _columns(row: Mapping[str, Any]) -> list[str]:
    names = [name for name in _FIRST if name in row]
    names += [name for name in row if name not in (*_FIRST, *_CONDITIONS)]
    return [name for name in names if not isinstance(row[name], list | dict)]


def _column(name: str, value: Any, text: str) -> str:
    return text.ljust(_WORDS) if isinstance(value, str) else text.rjust(max(len(name), _FIGURES))


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def require_same_arguments() -> None:
    """Check that all ranks have the same command-line arguments and the same version of floodtide. Collective.

    Raises:
        ConfigurationError: If arguments, versions or builds differ. The message names arguments, values and ranks.
    """
    from floodtide.comm import world
    from floodtide.train.same_on_ranks import require_same

    world.current()
    context = click.get_current_context()
    require_same(str(context.info_name), context.params, "arguments")


def of_fields(options: type[Any], **defaults: Any) -> Callable[[Command], Command]:
    """Return a decorator that gives a command an option for each field of a dataclass of options.

    A truth value becomes a flag, a tuple of numbers becomes numbers with commas between them, and a tuple of texts
    becomes an option that can be given several times.

    Args:
        options: The dataclass. Fields that `floodtide.base.options.option` has not made keep their defaults.
        defaults: Defaults by field, in place of those of the dataclass.
    """
    hints = typing.get_type_hints(options)

    def decorate(command: Command) -> Command:
        for field in reversed(dataclasses.fields(options)):
            if "help" not in field.metadata:
                continue
            default = defaults.get(field.name, field.default)
            text = field.metadata["help"]
            needed = default is dataclasses.MISSING
            given: dict[str, Any] = {"required": True} if needed else {"default": default}
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
    if hint is Path:
        return {"type": click.Path(path_type=Path)}
    if hint is str or parts[:1] == (str,):
        return {"type": click.Choice(choices) if choices else str, "multiple": hint is not str}
    count = None
    if parts:
        count = 0 if parts[-1] is Ellipsis else len(parts)
    return {"type": number_type(known, count)}


def number(
    flag: str, range: Range, text: str, *, count: int | None = None, **given: Any
) -> Callable[[Command], Command]:
    """Return an option for numbers as `number_type` has them. Its help shows the default, if it has one."""
    shows = "default" in given
    return click.option(
        flag, type=number_type(range, count), help=text, show_default=shows, **given
    )


def text(flag: str, metavar: str, text: str, **given: Any) -> Callable[[Command], Command]:
    """Return an option for a text, such as a name of a file."""
    return click.option(flag, metavar=metavar, help=text, **given)


def switch(flag: str, text: str) -> Callable[[Command], Command]:
    """Return an option that is False unless it is given."""
    return click.option(flag, is_flag=True, help=text)


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


def number_type(range: Range, count: int | None = None) -> Callable[[Any], Any]:
    """Return an option type: a number of a range (`floodtide.base.limits`), or several with commas between them.

    They are integers if the range's bounds are integers.

    Args:
        count: How many there are, as a tuple; one stands for `count` equal ones. 0: any number of them. None: one, and
            no tuple.
    """
    single, expected = count is None, str(range)
    name = ",".join(["N"] * count) if count else "N[,N...]"
    if single:
        name = "integer" if range.whole else "float"
    else:
        expected = f"{name}, each {range}"

    def convert(value: Any) -> Any:
        if not isinstance(value, str):  # a default
            return value
        numbers = [parse_number(one, range) for one in ([value] if single else value.split(","))]
        if None in numbers:
            raise click.BadParameter(f"{shown(value)}, expected {expected}")
        if count and len(numbers) == 1:
            numbers *= count
        if count and len(numbers) != count:
            raise click.BadParameter(f"{shown(value)}, expected 1 or {count} numbers, as {name}")
        return numbers[0] if single else tuple(numbers)

    convert.__name__ = name
    return convert


def parse_number(text: str, range: Range) -> float | None:
    """Return the number of a range that a text means; None if it means none."""
    with contextlib.suppress(ValueError, OverflowError):
        number = int(text) if range.whole else float(text)
        return number if number in range else None
    return None


box = click.option("--box", default="", help="Only this box, z0:z1,y0:y1,x0:x1 in voxels.")

voxel_nm = number(
    "--voxel-nm",
    limits.VOXEL_SIZE,
    "Voxel size in nm; default: what the file states.",
    count=3,
    metavar="Z,Y,X",
)
