# SPDX-License-Identifier: Apache-2.0
"""Write docs/configuration.md from the configuration's dataclasses and the registries.

Usage: python docs/generate_configuration.py [--check]
--check writes nothing and exits with 1 if the page is not what would be written.
"""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from floodtide import config
from floodtide.base.options import parameters, range_of, registered_fields
from floodtide.base.tasks import TASKS

PAGE = Path(__file__).with_name("configuration.md")

HEAD = """\
<!-- Made by docs/generate_configuration.py; change the code and run it again. -->
# Configuration

This page lists every key of a floodtide configuration. A run is configured by one TOML file.

- Every key has a default, unless the table says *required*.
- An unknown key is an error; the message names the most similar known key.
- floodtide saves the complete configuration, including defaults, in the run directory.
- On the command line, `--set section.key=value` overrides a key. `--set data.volumes.0.key=value`
  overrides a key of the first volume.

`task.kind` says what is learnt: flood filling, the class of each voxel, affinities, affinities with
local shape descriptors (`lsd`), or the distance to the boundary. `model.kind` selects the network:
`ffn` learns flood filling, and `unet` learns all other tasks. Some keys have a meaning only for some
tasks. The tables name these tasks; with other tasks such a key is an error.

A number outside of its range is an error, and so are NaN and infinity. The unit of a range stands
in parentheses. The ranges are wide: not every number in a range makes sense or fits into memory.

All ranks must read the same configuration. At the start, floodtide compares the configuration and
the version of floodtide over all ranks. Only two things may differ between ranks: `run.threads`, and
the folders of input files, so that each host can read from its own disk. The file names must be equal.

Sizes and positions are (z, y, x) in voxels. Boxes are `z0:z1,y0:y1,x0:x1`; the ends are excluded.
Where several boxes are allowed, semicolons separate them.
Volumes are `file:dataset` or have one of the other forms in [File formats](formats.md).
`~` and `$NAME` are expanded in paths. Relative paths are relative to the
working directory.

Environment variables:

- `FLOODTIDE_ISA` limits the instruction set of the kernels.
- `FLOODTIDE_VERBOSE=dispatch` prints which kernels are chosen and why.
- `FLOODTIDE_LIBMPI` (a path) chooses one of several MPI libraries.
- `FLOODTIDE_DATA` is the folder of the data that `floodtide fetch` brings; `--model fib25` and
  `--from fib25` look there.
- `OMP_NUM_THREADS` sets the number of threads of a rank if `run.threads` is 0.
"""


def generate() -> str:
    """Return the page as Markdown."""
    parts = [HEAD]
    for section in dataclasses.fields(config.Config):
        hint = typing.get_type_hints(config.Config)[section.name]
        alternatives = section.metadata.get("alternatives")
        for cls in alternatives or (hint,):
            of_kind = f', kind "{cls.kind}"' if alternatives else _kinds(section)
            parts.append(_section(f"`[{section.name}]`{of_kind}", cls))
            if not alternatives:
                parts += [_registry(values) for values in registered_fields(hint)]
            parts += _sections_of_tables(section.name, cls)
    return "\n".join(parts)


def _section(title: str, cls: type) -> str:
    lines = [f"## {title}", "", str(cls.__doc__).strip().split("\n")[0], ""]
    lines += ["| key | type | default | range | meaning |", "|---|---|---|---|---|"]
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if "rows" in field.metadata or field.name in dict(_tables(cls)):
            continue  # these get separate tables
        limits = field.metadata["range"]
        cells = (
            f"`{field.name}`",
            _type(hints[field.name]),
            _default(field),
            "" if limits is None else str(limits),
            _meaning(field),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _sections_of_tables(name: str, cls: type) -> list[str]:
    """Return the sections of all lists of tables in a section. Tables of one kind share a section."""
    names: dict[type, list[str]] = {}
    for key, table in _tables(cls):
        names.setdefault(table, []).append(f"{name}.{key}")
    parts = []
    for table, keys in names.items():
        parts.append(_section(", ".join(f"`[[{key}]]`" for key in keys), table))
        parts += _sections_of_tables(keys[0], table)
    return parts


def _tables(cls: type) -> list[tuple[str, type]]:
    """Return (name, dataclass of one table) for each field that is a list of tables."""
    return [
        (name, typing.get_args(hint)[0])
        for name, hint in typing.get_type_hints(cls).items()
        if typing.get_origin(hint) is tuple and dataclasses.is_dataclass(typing.get_args(hint)[0])
    ]


def _kinds(field: dataclasses.Field[Any]) -> str:
    """Return a note that names the tasks an option is for, or "" if it is for all tasks."""
    given = field.metadata.get("kinds", ())
    kinds = [task.kind for task in TASKS if task.has(field)] if given else []
    if len(kinds) == len(TASKS) - 1:
        (other,) = {task.kind for task in TASKS} - set(kinds)
        return f" (not `{other}`)"
    return f" ({', '.join(f'`{kind}`' for kind in kinds)} only)" if kinds else ""


def _registry(field: dataclasses.Field[Any]) -> str:
    selector = field.metadata["selector"]
    lines = [f"Further keys of the section, by `{selector}`:", ""]
    lines += [
        f"| {selector} | key | type | default | range | meaning |",
        "|---|---|---|---|---|---|",
    ]
    for row in field.metadata["rows"]():
        lines.append(f"| `{row['name']}` | | | | | {row['help']} |")
        for spec in parameters(field, row["name"]).values():
            number = spec["type"] in ("real", "integer")
            limits = range_of(spec) if number else ", ".join(f"`{c}`" for c in spec["choices"])
            lines.append(
                f"| | `{spec['name']}` | {spec['type']} | `{_toml(spec['default'])}` "
                f"| {limits} | {spec['help']} |"
            )
    return "\n".join([*lines, ""])


def _meaning(field: dataclasses.Field[Any]) -> str:
    choices = field.metadata.get("choices", ())
    text = str(field.metadata["help"]).replace("|", "\\|")
    if len(choices) > 1 and field.metadata.get("range") is None:
        text += f". One of {', '.join(f'`{choice}`' for choice in choices)}"
    return text + _kinds(field)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return "`{}`"
    if field.default is dataclasses.MISSING:
        return "*required*"
    return "left out" if field.default is None else f"`{_toml(field.default)}`"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return repr(value)


def _type(hint: Any) -> str:
    arguments = list(_arguments(hint))
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        word = f", or {_type(str)}" if str in arguments[1:] else ""
        return _type(arguments[0]) + word
    if origin is Mapping:
        return f"table of {'numbers' if arguments[1] is float else 'strings'}"
    if origin is tuple:
        if typing.get_origin(arguments[0]) is tuple:
            return f"list of lists of {_type(arguments[0])}"
        inner = {int: "integers", float: "numbers", str: "strings"}[arguments[0]]
        return f"list of {inner}" if arguments[-1] is Ellipsis else f"{len(arguments)} {inner}"
    return {int: "integer", float: "number", str: "string", bool: "boolean"}[hint]


def _arguments(hint: Any) -> Iterator[Any]:
    return (argument for argument in typing.get_args(hint) if argument is not type(None))


def main() -> int:
    """Write the page, or compare the file with it."""
    page = generate()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text("utf-8") == page else 1
    PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
