# SPDX-License-Identifier: Apache-2.0
"""Errors about requests of google/ffn that floodtide cannot follow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from floodtide.errors import ConfigurationError, InvalidFileError

_ZARR = '{"driver": "zarr", "kvstore": {"driver": "file", "path": "volume.zarr"}}'


class Refuse:
    """Refuses what floodtide does not do."""

    def __init__(self, path: str, request: Mapping[str, Any]) -> None:
        self._path, self._request = path, request

    def field(self, name: str, expected: str = "a request without it") -> NoReturn:
        raise ConfigurationError(f"{self._path}: {name} is not supported, expected {expected}")

    def missing(self, names: Sequence[str]) -> NoReturn:
        raise ConfigurationError(
            f"{self._path}: {', '.join(names)} not set, expected a value for each"
        )

    def set_fields(self, *names: str) -> None:
        for name in names:
            if name in self._request:
                self.field(name)

    def other_than(self, name: str, only: str) -> None:
        value = self._request.get(name, only)
        if value.rpartition(".")[2] != only:
            self.field(f"{name} {value!r}", only)

    def arguments(self, name: str) -> dict[str, Any]:
        """Return the JSON object of a field."""
        text = self._request.get(name, "") or "{}"
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        if not isinstance(values, dict):
            raise InvalidFileError(f"{self._path}: {name} is {text[:60]!r}, expected a JSON object")
        return values

    def other_keys(self, name: str, values: Mapping[str, Any], known: set[str]) -> None:
        for key in values.keys() - known:
            self.field(f"{name}.{key}", f"only {', '.join(sorted(known)) or 'an empty object'}")

    def volume(self, volume: Mapping[str, Any], name: str) -> str:
        """Return the name of the volume of a field."""
        expected = f"""{name} {{ hdf5: "file:dataset" }} or {{ tensorstore: '{_ZARR}' }}"""
        for key in volume.keys() - {"hdf5", "tensorstore"}:
            self.field(f"{name}.{key}", expected)
        if len(volume) != 1:
            self.field(f"{'an empty ' * (not volume)}{name}", expected)
        if "hdf5" in volume:
            return str(volume["hdf5"])
        try:
            spec = json.loads(volume["tensorstore"])
            store = spec.pop("kvstore")
            path = str(store.pop("path"))
            plain = spec.pop("driver") in ("zarr", "zarr3") and store == {"driver": "file"}
        except (ValueError, TypeError, AttributeError, KeyError):
            plain, spec = False, {}
        if not plain or spec:
            self.field(f"{name}.tensorstore {volume['tensorstore']!r}", expected)
        return path.rstrip("/")
