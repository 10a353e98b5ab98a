# SPDX-License-Identifier: Apache-2.0
"""Check who imports whom in python/floodtide (CONTRIBUTING.md, "Layers"). `check_layers.py` calls this.

A room is a folder of the package, or a file beside the folders. Imports inside functions and those for the type checker
count like all others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = "floodtide"
MOST_FLOORS = 5

_BASE = ("errors", "base", "comm")
_PARTS = (*_BASE, "config", "data", "nn", "optim")
ENGINE = (*_PARTS, "train", "segment", "evaluate", "agglomerate", "shapes")
TOOLS = ("report", "bench", "doctor", "job", "view", "fetch", "plan")
LAB = "lab"

# Room: the rooms that it may import beside itself.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "errors": (),
    "base": ("errors",),
    "comm": ("errors",),
    "config": _BASE,
    "data": _BASE,
    "nn": _BASE,
    "optim": _BASE,
    "evaluate": _PARTS,
    "train": _PARTS,
    "segment": _PARTS,
    "agglomerate": (*_PARTS, "segment", "evaluate"),
    "shapes": _PARTS,
    **dict.fromkeys(TOOLS, ENGINE),
    "cli": (*ENGINE, *TOOLS),
    "__main__": ("cli",),
    "__init__": (*ENGINE, *TOOLS),
    LAB: (*ENGINE, *TOOLS, "cli", "__init__"),  # public names only, see `_private`
}
OPEN = ("base", "bench", "cli")
"""Rooms of tools, whose modules lab may use."""
DOORS = ("__init__", "__main__", "cli", LAB)
"""What stands above the floors: what a folder exports, the program, and lab."""

Graph = dict[str, set[str]]


def check(root: Path) -> list[str]:
    """Return all violations in a tree, each as `file: what, what was expected`."""
    folder = root / "python" / PACKAGE
    if not folder.is_dir():
        return []
    imports = dict(_imports(folder))
    problems = []
    for module, targets in sorted(imports.items()):
        room = module.split(".")[0]
        if room not in MAY_IMPORT:
            problems.append(f"python/{PACKAGE}/{room}: has no row in the table of rooms")
            continue
        for target in sorted({target.split(".")[0] for target in targets} - {room}):
            if target not in MAY_IMPORT[room]:
                allowed = ", ".join(MAY_IMPORT[room]) or "nothing"
                problems.append(
                    f"python/{PACKAGE}/{module.replace('.', '/')}: {room} imports {target}; expected only {allowed}"
                )
    return problems + _private(folder) + _tangled(imports)


def _private(folder: Path) -> list[str]:
    """What lab imports that is not public.

    A name is public if it is in the `__all__` of its module, if its module is in the `__all__` of the folder above, or
    if its module is in an open room.
    """
    public = {
        ".".join((PACKAGE, *path.relative_to(folder).with_suffix("").parts)).removesuffix(
            ".__init__"
        ): _exported(path)
        for path in folder.rglob("*.py")
    }
    own = f"{PACKAGE}.{LAB}"
    problems = []
    for path in sorted((folder / LAB).rglob("*.py")):
        for module, name in _from(ast.parse(path.read_text("utf-8"))):
            if f"{module}.".startswith(f"{own}.") or f"{module}.{name}".startswith(f"{own}."):
                continue
            above, _, last = module.rpartition(".")
            known = name in public.get(module, ())
            if f"{module}.{name}" == own or known:
                continue
            if module.startswith(tuple(f"{PACKAGE}.{room}" for room in OPEN)) and name[0] != "_":
                continue
            if last not in public.get(above, ()) or name.startswith("_"):
                problems.append(
                    f"{path.relative_to(folder.parents[1])}: imports {module}.{name}; expected a public name, in an"
                    " __all__"
                )
    return problems


def _exported(path: Path) -> tuple[str, ...]:
    """The `__all__` of a file; empty without one."""
    for node in ast.parse(path.read_text("utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return tuple(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    return ()


def _from(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(module, name) of each import from the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            if f"{node.module}.".startswith(f"{PACKAGE}."):
                yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if f"{alias.name}.".startswith(f"{PACKAGE}."):
                    module, _, name = alias.name.rpartition(".")
                    yield module, name


def _tangled(imports: Mapping[str, set[str]]) -> list[str]:
    """Circles, and folders on too many floors."""
    problems = []
    for folder, graph in sorted(_folders(imports).items()):
        where = f"python/{PACKAGE}/{folder.replace('.', '/')}".rstrip("/")
        try:
            floors = _floors(graph)
        except RecursionError:
            problems.append(f"{where}: modules import each other in a circle")
            continue
        doors = DOORS if not folder else DOORS[:1]
        counted = [floor for name, floor in floors.items() if name not in doors]
        if counted and max(counted) > MOST_FLOORS:
            problems.append(f"{where}: {max(counted)} floors, expected at most {MOST_FLOORS}")
    return problems


def _folders(imports: Mapping[str, set[str]]) -> dict[str, Graph]:
    """For each folder, which of its files and folders import which others of them."""
    graphs: dict[str, Graph] = {}
    for module, targets in imports.items():
        parts = module.split(".")
        for depth in range(len(parts)):
            folder, own = parts[:depth], parts[depth]
            graph = graphs.setdefault(".".join(folder), {})
            graph.setdefault(own, set())
            for target in targets:
                other = target.split(".")
                if other[:depth] == folder and len(other) > depth and other[depth] != own:
                    graph[own].add(other[depth])
    return graphs


def _floors(graph: Graph) -> dict[str, int]:
    """The floor of each name: one above the highest that it imports. RecursionError for a circle."""
    floors: dict[str, int] = {}

    def floor(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            raise RecursionError
        if name not in floors:
            lower = graph.get(name, set()) - {"__init__"}
            floors[name] = 1 + max((floor(other, (*above, name)) for other in lower), default=0)
        return floors[name]

    for name in graph:
        floor(name)
    return floors


def _imports(folder: Path) -> Iterator[tuple[str, set[str]]]:
    """Each module (a folder as `folder.__init__`), and the package's modules that it imports."""
    modules = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).with_suffix("").parts
        modules[".".join(parts)] = path
    for module, path in modules.items():
        targets = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for name in _named(node):
                target = _module(name, modules)
                if target is not None and target != module:
                    targets.add(target)
        yield module, targets


def _named(node: ast.AST) -> list[str]:
    """Dotted names below the package that a statement imports."""
    prefix = f"{PACKAGE}."
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        names = []
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


def _module(name: str, modules: Mapping[str, Path]) -> str | None:
    """The module that a dotted name is in; None for the compiled core."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        candidate = ".".join(parts[:length])
        if candidate in modules:
            return candidate
        if f"{candidate}.__init__" in modules:
            return f"{candidate}.__init__"
    return None
