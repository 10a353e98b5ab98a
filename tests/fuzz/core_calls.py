# SPDX-License-Identifier: Apache-2.0
"""Call every function of the compiled core with arguments of other types, shapes, layouts and sizes than it expects.

    PYTHONPATH=python python tests/fuzz/core_calls.py --calls 20000 --seed 7

The stubs (python/floodtide/_core) list the functions and the types of their parameters. A call may raise any exception
of Python. It must not end the process, and must come back in time. Each call is printed before it is made, so that the
last lines name the call that has ended the process.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import faulthandler
import inspect
import os
import random
import resource
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from core_recipes import RECIPES, SAMPLE, ones, table

import floodtide as ft
from floodtide import _core

STUBS = Path(_core.__file__).parent / "_core"
MEMORY_BYTES = 6 << 30
CALL_S = 60

# What would end the process, change all later calls, or take long by design.
LEFT_OUT = {
    "comm.Communicator.abort",
    "comm.MpiLibrary",
    "comm.Watchdog",
    "count_interrupts",
    "data.ExampleSource.set_load_delay",
    "data.keep_at_end",
    "data.remove_at_end",
    "data.set_hdf5_program",
    "data.set_hdf5_rank",
    "set_num_threads",
    "Network.changing",  # later calls wait until its block ends
}
TEXTS = ("", "a", "adam", "ring", "sum", "native", "\0", "é" * 200)


def names_of(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    """The names of the rows of a registry."""
    return tuple(row["name"] for row in rows)


WORDS = {
    "optimizer": names_of(_core.optimizer_rows()),
    "schedule": names_of(_core.schedule_rows()),
    "rule": names_of(_core.scale_rows()),
    "scale": names_of(_core.scale_rows()),
    "policy": names_of(_core.segment.seed_policies()),
    "name": (*names_of(_core.optimizer_rows()), *names_of(_core.schedule_rows())),
    "algorithm": names_of(_core.comm.allreduce_rows()),
    "op": ("sum", "min", "max", "product"),
    "wire": ("native", "bf16"),
    "output": ("softmax", "sigmoid"),
    "compute": ("fp32", "bf16", "bf16-all"),
    "forward": ("layers", "fft"),
    "type": ("uint8", "float32", "int64"),
    "dtype": ("uint8", "float32", "int64"),
    "enumeration": ("compute", "wire"),
}
SMALL = (0, 1, 2, 3, 4, 5, 7, 8)
LARGE = (-1, -2, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63), 2**64 - 1, 2**64)
REALS = (0.0, -0.0, 0.5, 1.0, -1.0, 3.0, 1e-308, 1e308, float("nan"), float("inf"), -float("inf"))
DTYPES = (
    "u1",
    "i1",
    "u2",
    "i2",
    "u4",
    "i4",
    "u8",
    "i8",
    "f2",
    "f4",
    "f8",
    ">f4",
    "?",
    "c8",
    "O",
    "S3",
    "M8[s]",
)


@dataclass(frozen=True)
class Function:
    """A function, a method or a property: its name in the core, and the annotations of its parameters."""

    name: str
    owner: str  # class whose instance is the first argument; empty: none
    parameters: tuple[tuple[str, ast.expr | None, bool], ...]  # name, type, whether by keyword only
    is_property: bool = False


def functions() -> list[Function]:
    """All functions of the stubs, by name."""
    found: list[Function] = []
    for path in sorted(STUBS.glob("*.pyi")):
        module = "" if path.stem == "__init__" else f"{path.stem}."
        if path.stem == "bench":
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                found.append(_function(node, module, ""))
            if isinstance(node, ast.ClassDef):
                owner = f"{module}{node.name}"
                found += [
                    _function(one, f"{owner}.", owner)
                    for one in node.body
                    if isinstance(one, ast.FunctionDef)
                ]
    return [
        one
        for one in sorted(found, key=lambda f: f.name)
        if one.name not in LEFT_OUT and one.owner not in LEFT_OUT
    ]


def _function(node: ast.FunctionDef, prefix: str, owner: str) -> Function:
    is_init = node.name == "__init__"
    positional = [(a.arg, a.annotation, False) for a in node.args.args]
    named = [(a.arg, a.annotation, True) for a in node.args.kwonlyargs]
    return Function(
        name=f"{prefix}{node.name}",
        owner="" if is_init else owner,
        parameters=tuple(positional[1 if owner else 0 :] + named),
        is_property=any(ast.unparse(d) == "property" for d in node.decorator_list),
    )


class Arguments:
    """Random arguments. Arrays of one call mostly have the same shape and the right type, to pass some checks."""

    def __init__(self, generator: random.Random, folder: Path) -> None:
        self.random = generator
        self.folder = folder
        self.pool: dict[str, list[Any]] = {}
        self.shape: tuple[int, ...] = ()
        self.axes = 3
        self.large = LARGE
        self.values = np.random.default_rng(generator.randrange(2**32))

    def keep(self, value: Any) -> None:
        """Let later calls use an object of the core."""
        kinds = [
            f"{kind.__module__}.{kind.__qualname__}".removeprefix("floodtide._core.")
            for kind in type(value).__mro__
            if kind.__module__.startswith("floodtide._core")
        ]
        for kind in kinds:
            kept = self.pool.setdefault(kind, [])
            if len(kept) < 8:
                kept.append(value)
            else:
                kept[self.random.randrange(8)] = value

    def begin(self) -> None:
        """Start the arguments of another call."""
        side = self.random.choice((1, 3, 5, 7, 9, 12))
        shape = (side, side, side)
        if self.random.random() < 0.4:
            shape = tuple(self.random.choice((0, 1, 2, 5, 9)) for _ in range(3))
        self.shape = shape
        self.axes = self.random.choice((1, 2, 3, 3, 4, 5))

    def one(self, kind: str) -> Any:
        """An object of a class; None without one."""
        kept = self.pool.get(kind)
        return self.random.choice(kept) if kept else None

    def like(self, value: Any) -> Any:
        """Another value of the type of this one; for an array, mostly with the same shape."""
        if isinstance(value, np.ndarray):
            if self.random.random() < 0.3:
                return self.layout(value.astype(self.random.choice(DTYPES[:11])))
            shape = tuple(max(0, n + self.random.choice((-1, 0, 0, 0, 1))) for n in value.shape)
            return self.layout(np.resize(value, shape)) if value.size else value
        if isinstance(value, (bool, int, float)):
            return self.random.choice((self.integer(), self.real()))
        if isinstance(value, tuple):
            return self.triple()
        return self.callback() if callable(value) else self.text("")

    def changed(self, values: dict[str, Any]) -> dict[str, Any]:
        """The dictionary with at most two values changed."""
        result = dict(values)
        for key in self.random.sample(list(result), self.random.randrange(3)):
            result[key] = self.like(result[key])
        return result

    def array(self, dtype: str) -> Any:
        """An array, mostly of that type and of the shape of this call, with any layout."""
        pick = self.random.random
        if pick() < 0.05:
            return self.random.choice((None, 3, "array", [1.0], [[1], [2]]))
        kind = np.dtype(dtype if pick() < 0.9 else self.random.choice(DTYPES))
        axes = self.axes if pick() < 0.85 else self.random.randrange(6)
        shape = ((1, *self.shape) if axes > 3 else self.shape)[:axes]
        shape = (*shape, self.random.choice((1, 2, 3))) if axes == 5 else shape
        if pick() < 0.1:
            shape = tuple(
                max(0, n + self.random.choice((-1, 0, 1))) if pick() < 0.3 else n for n in shape
            )
        if axes == 2 and pick() < 0.7:  # a table
            shape = (self.random.choice((0, 1, 2, 5)), self.random.choice((1, 2, 3, 4)))
        if kind.hasobject:
            return np.full(shape, None, dtype=object)
        if kind.kind == "f":
            array = self.values.standard_normal(shape).astype(kind)
        else:
            array = self.values.integers(0, self.random.choice((2, 5, 120)), shape).astype(kind)
        return self.layout(array)

    def layout(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The same values in memory that is not as C++ wants it, at times."""
        kind = self.random.random()
        if kind < 0.7 or array.size == 0:
            return array
        if kind < 0.8:  # at an odd address
            buffer = bytearray(array.nbytes + 1)
            odd = np.frombuffer(buffer, dtype=array.dtype, offset=1).reshape(array.shape)
            odd[...] = array
            return odd
        if kind < 0.85:
            return np.asfortranarray(array)
        if kind < 0.9 and array.ndim > 0:
            return np.repeat(array, 2, axis=-1)[..., ::2]
        if kind < 0.95 and array.ndim > 0:
            return array[::-1]
        array.flags.writeable = False
        return array

    def integer(self) -> int:
        return self.random.choice(SMALL if self.random.random() < 0.8 else self.large)

    def real(self) -> float:
        return self.random.choice(REALS[2:6] if self.random.random() < 0.7 else REALS)

    def triple(self) -> Any:
        if self.random.random() < 0.05:
            return self.random.choice(((), (1,), (1, 2, 3, 4), None, "abc"))
        if self.random.random() < 0.4:
            return self.shape
        return tuple(self.integer() for _ in range(3))

    def path(self) -> str:
        names = (
            "sample.h5:raw",
            "sample.h5:labels",
            "sample.h5",
            "none.h5",
            "text.txt",
            "new.h5",
            "new.h5:a",
            "",
        )
        return str(self.folder / self.random.choice(names))

    def text(self, name: str) -> str:
        if name in (
            "path",
            "file",
            "prefix",
            "image",
            "labels",
            "masks",
            "partitions",
            "volume",
        ):
            return self.path()
        if name in ("dataset", "object"):
            return self.random.choice(("raw", "labels", "/", "", "none"))
        return self.random.choice(WORDS.get(name, TEXTS) if self.random.random() < 0.9 else TEXTS)

    def callback(self) -> Callable[..., Any]:
        answer = self.random.choice((None, 0.0, [1.0], "same", "raise"))

        def called(*arguments: Any) -> Any:
            if answer == "raise":
                raise ValueError("the callback fails")
            return arguments[-1] if answer == "same" and arguments else answer

        return called

    def of(self, name: str, annotation: ast.expr | None) -> Any:
        """A value for a parameter of that type."""
        text = "typing.Any" if annotation is None else ast.unparse(annotation)
        if self.random.random() < 0.02:
            return self.random.choice((None, "x", -1, 2.5, (), {}, object()))
        if "| None" in text and self.random.random() < 0.4:
            return None
        options = annotation
        while isinstance(options, ast.BinOp):
            options = options.left if self.random.random() < 0.5 else options.right
        text = text if options is None else ast.unparse(options)
        if text == "None":
            return None
        return self._of_type(name, text, options)

    def _of_type(self, name: str, text: str, node: ast.expr | None) -> Any:
        simple = {
            "int": self.integer,
            "float": self.real,
            "bool": lambda: self.random.random() < 0.5,
        }
        if text in simple:
            return simple[text]()
        if text == "str":
            return self.text(name)
        if text == "bytes":
            return self.random.choice((b"", b"abc", bytes(1000)))
        if "numpy.ndarray" in text and not text.startswith("collections"):
            return self.array(self.random.choice(DTYPES[:11]))
        if text.startswith("numpy.typing.NDArray["):
            element = text.removeprefix("numpy.typing.NDArray[").removesuffix("]")
            return self.array(
                self.random.choice(DTYPES[:11])
                if element == "typing.Any"
                else element.removeprefix("numpy.")
            )
        if "FixedSize" in text and text.startswith("typing.Annotated"):
            return self.triple() if "int" in text else tuple(self.real() for _ in range(3))
        if text.startswith("collections.abc.Callable"):
            return self.callback()
        if text.startswith(("collections.abc.Mapping", "dict")):
            assert isinstance(node, ast.Subscript)
            assert isinstance(node.slice, ast.Tuple)
            value = node.slice.elts[1]
            return {
                key: self.of(name, value)
                for key in self.random.sample(
                    ("beta1", "eps", "base_lr", "raw", "a"), self.random.randrange(3)
                )
            }
        if text.startswith(("collections.abc.Sequence", "list")):
            assert isinstance(node, ast.Subscript)
            return [
                self.of(name, node.slice) for _ in range(self.random.choice((0, 1, 1, 2, 3, 3)))
            ]
        if text.startswith("tuple"):
            assert isinstance(node, ast.Subscript)
            assert isinstance(node.slice, ast.Tuple)
            return tuple(self.of(name, one) for one in node.slice.elts)
        return self.one(text.removeprefix("floodtide._core."))


def start(arguments: Arguments) -> None:
    """Write small files, and make an object of each class."""
    labels = np.indices((12, 12, 12)).sum(0).astype(np.int64) // 12 + 1
    volume = {
        "raw": (40 * labels + 7).astype(np.uint8),
        "labels": labels,
        "partitions": (labels % 3).astype(np.uint8),
    }
    ft.data.write_volume(SAMPLE, volume)
    ft.data.write_volume("channels.h5", {"c": ones(2, 6, 6, 6)}, command="x")
    Path("text.txt").write_text("no volume")
    arguments.keep(_core.comm.self())
    makers = [f for f in functions() if f.name.endswith((".__init__", "_targets", "_walkers"))]
    for _ in range(2):  # some need objects of others
        for maker in makers:
            with contextlib.suppress(ft.errors.Error, TypeError):
                call(maker, arguments, changes=0)
    flooder = _core.segment.Flooder(**RECIPES["segment.Flooder.__init__"](arguments))
    flooder.segment_all(table((6, 6, 6)), None)
    arguments.keep(flooder.take_result((0, 0, 0), (12, 12, 12)))


def shown(value: Any) -> str:
    """A short text for an argument."""
    if isinstance(value, np.ndarray):
        flags = "" if value.flags.aligned and value.flags.c_contiguous else ", odd layout"
        return f"{value.dtype}{list(value.shape)}{flags}"
    return repr(value)[:60]


def call(function: Function, arguments: Arguments, changes: int) -> None:
    """Make one call, and keep its result if it is an object of the core.

    The call is that of the function's recipe with so many arguments changed, or without a recipe a random one.
    """
    arguments.begin()
    target: Any = _core
    *parents, last = function.name.removesuffix(".__init__").split(".")
    if function.owner:
        target = arguments.one(function.owner)
    else:
        for parent in parents:
            target = getattr(target, parent)
    types = {name: annotation for name, annotation, _ in function.parameters}
    positional = []
    recipe = RECIPES.get(function.name)
    if recipe is None:
        positional = [arguments.of(n, a) for n, a, by_name in function.parameters if not by_name]
        named = {n: arguments.of(n, a) for n, a, by_name in function.parameters if by_name}
    else:
        named = recipe(arguments)
        for name in arguments.random.sample(list(named), min(changes, len(named))):
            like = named[name]
            named[name] = (
                arguments.like(like) if name not in types else arguments.of(name, types[name])
            )
            if isinstance(like, np.ndarray) and arguments.random.random() < 0.5:
                named[name] = arguments.like(like)
    print(
        "   ", *map(shown, positional), *(f"{n}={shown(v)}" for n, v in named.items()), flush=True
    )
    value = getattr(target, last)
    if not function.is_property:
        value = value(*positional, **named)
    for one in value if isinstance(value, (tuple, list)) else (value,):
        arguments.keep(one)
        if isinstance(one, np.ndarray) and one.dtype != object:
            one.tobytes()  # reads memory that the core shows


def main() -> None:
    """Parse the command line and make the calls."""
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="names of functions begin with this")
    parser.add_argument("--skip", default="", help="names of functions, separated by commas")
    parser.add_argument(
        "--sanitized",
        action="store_true",
        help="under the address sanitizer, which ends the process without memory",
    )
    options = parser.parse_args()
    if not options.sanitized:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    faulthandler.enable()
    _core.set_num_threads(1)
    skipped = options.skip.split(",")
    names = [
        one for one in functions() if one.name.startswith(options.only) and one.name not in skipped
    ]
    outcomes: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory(prefix="core-calls-") as folder:
        os.chdir(folder)
        arguments = Arguments(random.Random(options.seed), Path(folder))
        if options.sanitized:
            arguments.large = tuple(n for n in LARGE if not 1 << 30 < n < 1 << 62)
        start(arguments)
        sample = Path(SAMPLE).read_bytes()
        for number in range(options.calls):
            function = names[number % len(names)]
            if number % 50 == 0 and Path(SAMPLE).read_bytes() != sample:  # a call has replaced it
                Path("copy").write_bytes(sample)
                Path("copy").replace(SAMPLE)
            print(number, function.name, flush=True)
            faulthandler.dump_traceback_later(CALL_S, exit=True)
            try:
                call(function, arguments, changes=arguments.random.choice((0, 1, 1, 2, 3)))
                outcome = "returned"
            except Exception as error:
                outcome = type(error).__name__
            faulthandler.cancel_dump_traceback_later()
            of = outcomes.setdefault(function.name, {})
            of[outcome] = of.get(outcome, 0) + 1
        del arguments
    never = sorted(name for name, of in outcomes.items() if "returned" not in of)
    print(
        f"{options.calls} calls of {len(names)} functions; never returned: {', '.join(never) or 'none'}"
    )


if __name__ == "__main__":
    main()
