# SPDX-License-Identifier: Apache-2.0
"""Write the pages of commands and Python names. Usage: python docs/generate_reference.py"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from floodtide import cli

MADE = "*Made by docs/generate_reference.py from {}. Change the code and run it again.*"
UNITS = "Arrays are NumPy arrays with axes z, y, x; lengths are in voxels. `...` stands for a long default."
NAVIGATION = "<!-- site\n```{toctree}\n:hidden:\n:glob:\n\napi/*\n```\nsite -->"
NAMES = "nn optim data train config segment agglomerate evaluate report errors"
PAGES = {"api/floodtide.md": ["floodtide"]}
PAGES |= {f"api/{name}.md": [f"floodtide.{name}"] for name in NAMES.split()}
PAGES["api/optim.md"].append("floodtide.optim.lr")
LINKS = {names[0]: f"[`{names[0]}`](%s{path})" for path, names in PAGES.items()}
PAGES["lab/api.md"] = ["floodtide.lab", "floodtide.lab.simulate", "floodtide.lab.sweep"]


def public_names(name: str) -> dict[str, Any]:
    found = vars(importlib.import_module(name))
    own = [one for one in found if getattr(found[one], "__module__", "") == name and one[0] != "_"]
    return {one: getattr(importlib.import_module(name), one) for one in found.get("__all__", own)}


PUBLIC = {name: public_names(name) for names in PAGES.values() for name in names}
BY_ID = {id(value): name for values in PUBLIC.values() for name, value in values.items()}


def generate() -> dict[str, str]:
    """Return the pages as Markdown, by their paths in docs/."""
    program = click.Context(cli.group, info_name="floodtide")
    pages = {"commands.md": ["# Commands", MADE.format("help texts"), *of_command(program, "##")]}
    made = MADE.format("docstrings")
    for path, (first, *others) in PAGES.items():
        pages[path] = [f"# `{first}`", made, *of_module(first, "##")]
        for name in others:
            pages[path] += [f"## `{name}`", *of_module(name, "###")]
    pages["api.md"] = ["# Python interface", made, UNITS, listed(list(LINKS), ""), NAVIGATION]
    return {path: "\n\n".join(filter(None, blocks)) + "\n" for path, blocks in pages.items()}


def of_command(context: click.Context, level: str) -> Iterator[str]:
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield from (f"{level} `{context.command_path}`", f"```text\n{usage}\n```")
    yield from markdown(command.help, "", "text")
    yield "\n".join(of_option(one) for one in command.params if isinstance(one, click.Option))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found: Any = command.get_command(context, name)
            below = level + "#" * (context.parent is not None)
            yield from of_command(click.Context(found, context, name), below)


def of_option(option: click.Option) -> str:
    kind, value = option.type, option.default
    values = "|".join(kind.choices) if isinstance(kind, click.Choice) else kind.name.upper()
    words = ", ".join(option.opts) + f" {option.metavar or values}" * (not option.is_flag)
    text = prose(str(option.help), "") + " Required." * option.required
    if option.show_default and not option.required:
        text += f" Default: `{','.join(map(str, value)) if isinstance(value, tuple) else value}`."
    return f"- `{words}`: {text}"


def of_module(module: str, level: str) -> Iterator[str]:
    yield from markdown(importlib.import_module(module).__doc__, "../")
    values = PUBLIC[module].items()
    yield listed([value.__name__ for _, value in values if inspect.ismodule(value)], "../")
    for name, value in values:
        yield from [] if inspect.ismodule(value) else of_value(name, value, level)


def listed(modules: list[str], up: str) -> str:
    firsts = {name: str(importlib.import_module(name).__doc__).split("\n")[0] for name in modules}
    rows = [(LINKS[name] % up if name in LINKS else f"`{name}`", firsts[name]) for name in modules]
    return "\n".join(f"- {link}: {prose(first, up)}" for link, first in rows)


def of_value(path: str, value: Any, level: str, hidden: int = 0) -> Iterator[str]:
    """Yield the blocks of a public name: heading, signature, docstring; of a class also its members."""
    name, kind = path.split(".")[-1], type(value)
    doc = re.sub(r"^\w+\(self: .*\n\s*", "", inspect.getdoc(value) or "")  # compiled: a signature
    if isinstance(value, types.GenericAlias):  # in Python 3.10, this is also a type
        text, doc = f"{name} = {short(repr(value))}", ""
    elif kind is property:
        text = f"{name}: {Source(inspect.signature(value.fget).return_annotation)}"
    elif inspect.isroutine(value):
        text = signature(name, value, hidden)
    elif isinstance(value, type):
        bases = [[one] if has_entry(one) else one.__bases__ for one in value.__bases__]
        names = [
            one.__name__ for part in bases for one in part if has_entry(one) and one is not object
        ]
        text = f"class {name}({', '.join(names)})".removesuffix("()")
        makers = [getattr(value, one) for one in ("__init__", "__new__")]
        for maker in list(filter(inspect.isfunction, makers))[:1]:
            text += "\n" + signature(name, maker, 1).split(" -> ")[0]
    else:
        text, doc = f"{name}: {kind.__name__}", doc if kind.__module__ != "builtins" else ""
    yield from (f"{level} `{path}`", f"```python\n{text}\n```", *markdown(doc, "../"))
    for name, member, hidden in members(value) if text.startswith("class ") else ():
        yield from of_value(f"{path}.{name}", member, f"{level}#", hidden)


def has_entry(cls: type) -> bool:
    return id(cls) in BY_ID or cls.__module__ == "builtins"


def members(cls: type) -> Iterator[tuple[str, Any, int]]:
    """Yield documented methods and properties, also of bases without a page: name, value, arguments to hide."""
    bases = [one for one in cls.__mro__ if not has_entry(one) and ".base." not in one.__module__]
    for name in dict.fromkeys(name for base in (cls, *bases) for name in vars(base)):
        found, value = inspect.getattr_static(cls, name), getattr(cls, name)
        if isinstance(found, functools.cached_property):
            value = property(found.func)
        is_public = name[0] != "_" or name in ("__call__", "__iter__")
        if is_public and (isinstance(value, property) or inspect.isroutine(value)):
            is_bound = inspect.ismethod(value) or isinstance(found, staticmethod)
            yield from [(name, value, not is_bound)] if inspect.getdoc(value) else []


class Source(str):
    """A text that a signature shows without quotes."""

    __repr__ = str.__str__


def source(annotation: Any) -> Source:
    return Source(getattr(annotation, "__forward_arg__", annotation))  # that of named tuples


def shown(default: Any) -> Any:
    text = BY_ID.get(id(default), repr(default))
    text = "..." if len(text) > 100 or "<" in text else text
    return default if default is inspect.Parameter.empty else Source(text)


def signature(name: str, function: Any, hidden: int) -> str:
    """Return a call with the annotations of the source."""
    if not inspect.isfunction(inspect.unwrap(getattr(function, "__func__", function))):  # compiled
        return short(re.sub(r"self: [\w.]+(, )?", "", function.__doc__.split("\n")[0]))
    found = inspect.signature(function)
    arguments = [
        one.replace(annotation=source(one.annotation), default=shown(one.default))
        for one in list(found.parameters.values())[hidden:]
    ]
    result = source(found.return_annotation)
    line = f"{name}{found.replace(parameters=arguments, return_annotation=result)}"
    if len(line) <= 100:
        return line
    return re.sub(r", (?=\*|\w+: )", ",\n    ", line.replace("(", "(\n    ", 1))


def short(text: str) -> str:
    """Return a type or a compiled signature without the names of modules."""
    return re.sub(r"\b([A-Za-z_]\w*\.)+(?=\w)", "", text)


def markdown(text: str | None, up: str, language: str = "python") -> Iterator[str]:
    """Yield the blocks of a docstring: paragraphs, sections as lists, and indented examples as code."""
    lines = inspect.cleandoc(text or "").replace("\b\n", "") + "\n"
    lines = re.sub("^Example: ", "Example:\n  ", lines, flags=re.MULTILINE)
    section = None
    for block in re.findall(r"(?:\S.*\n)+|(?:\n* .*\n)+", lines):
        body = textwrap.dedent(block).strip("\n")
        if not block.startswith((" ", "\n")):
            section = re.fullmatch("(Args|Attributes|Raises|Returns|Yields):", body)
            yield f"**{section[1]}**" if section else prose(body, up)
        elif section:
            has_names = section[1] not in ("Returns", "Yields")
            if has_names:
                body = re.sub(r"^(\S.*?):\s", r"`\1`: ", body, flags=re.MULTILINE)
            entries = re.split(r"\n+(?=\S)", body) if has_names else [body]
            yield "\n".join(f"- {prose(one, up)}" for one in entries)
        else:
            is_command = body.startswith(("floodtide ", "mpiexec "))
            yield f"```{'bash' if is_command else language}\n{body}\n```"


def prose(text: str, up: str) -> str:
    """Return a paragraph in Markdown: options as code, names of pages as links, other marks escaped."""
    parts = " ".join(text.split()).split("`")
    for i in range(0, len(parts), 2):
        part = re.sub(r"[*<](?=[\w/*])|(?<!\w)_|_(?!\w)", r"\\\g<0>", parts[i])
        part = re.sub(r"(?<![\w-])--[a-z][\w-]*", r"`\g<0>`", part)
        parts[i] = re.sub(r"\bdocs/([\w/]+\.md)", rf"[docs/\1]({up}\1)", part)
    return "`".join(parts)


if __name__ == "__main__":
    for path, page in generate().items():
        (Path(__file__).parent / path).write_text(page, "utf-8")
