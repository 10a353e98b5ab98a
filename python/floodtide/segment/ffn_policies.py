# SPDX-License-Identifier: Apache-2.0
"""Seed policies of google/ffn, as options of this package. Source: google/ffn, seed.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from floodtide.base.registry import REVERSED
from floodtide.config.segment_options import LISTED, seed_policies
from floodtide.segment.ffn_refuse import Refuse

_ARGUMENTS = "seed_policy_args"
_REVERSED = "ReverseCoords"
_SEQUENCE = "SequentialPolicies"
_PLANAR_PEAKS = "PolicyPeaks2d"


def seed_options(name: str, refuse: Refuse) -> dict[str, Any]:
    """Return the options of a request's seed policy.

    Args:
        name: Name of the policy; its arguments are in the request.
        refuse: The request.
    """
    given = refuse.arguments(_ARGUMENTS)
    policies = _Policies(refuse)
    names = policies.names(name, given, _ARGUMENTS)
    if names == [LISTED]:
        return {"seeds": policies.seeds}
    return {
        "seed_policy": ", ".join(names),
        "seed_values": policies.values,
        "seeds": policies.seeds,
    }


class _Policies:
    """Translates policies, and collects their parameters.

    Attributes:
        values: Parameters of all policies so far, by our names.
        seeds: The folder of PolicyInvertOrigins; empty without this policy.
    """

    def __init__(self, refuse: Refuse) -> None:
        self.values: dict[str, Any] = {}
        self.seeds = ""
        self._refuse = refuse
        self._rows = {row["published"]: row for row in seed_policies()}

    def names(self, name: str, given: Mapping[str, Any], where: str) -> list[str]:
        """Return our names of a policy with some arguments, `reversed` before names of reversed policies."""
        policy, rest = _class_of(name), dict(given)
        if policy == _REVERSED:
            inner = str(rest.pop("policy_to_reverse", ""))
            return _turned(self.names(inner, rest, f"{where}.policy_to_reverse"))
        if policy == _SEQUENCE:
            return self._sequence(rest, where)
        if policy not in self._rows:
            known = ", ".join([*self._rows, _REVERSED])
            label = f"seed_policy {name!r}" if where == _ARGUMENTS else f"{where} {name!r}"
            self._refuse.field(label, f"{known} or {_SEQUENCE}")
        row = self._rows[policy]
        if row["name"] == LISTED:
            self._take_folder(rest, where)
            return [LISTED]
        order = rest.pop("sort_cmp", "ascending") if policy == _PLANAR_PEAKS else "ascending"
        if order not in ("ascending", "descending"):
            self._refuse.field(f"{where}.sort_cmp {order!r}", "ascending or descending")
        # Our parameters have the names of google/ffn behind the policy's: grid_step.
        keys = {spec["name"].removeprefix(row["name"] + "_"): spec for spec in row["parameters"]}
        self._refuse.other_keys(where, rest, set(keys))
        for key, spec in keys.items():
            value = rest.get(key, spec["default"])
            if self.values.setdefault(spec["name"], value) != value:
                self._refuse.field(
                    f"{where}: {policy} with {key} {self.values[spec['name']]} and {value}",
                    "one value for all parts of a sequence",
                )
        names = [row["name"]]
        return _turned(names) if order == "descending" else names

    def _take_folder(self, given: Mapping[str, Any], where: str) -> None:
        self._refuse.other_keys(where, given, {"segmentation_dir"})
        seeds = str(given.get("segmentation_dir"))
        if self.seeds not in ("", seeds):
            self._refuse.field(
                f"{where}: a second segmentation_dir", "one for all parts of a sequence"
            )
        self.seeds = seeds

    def _sequence(self, given: Mapping[str, Any], where: str) -> list[str]:
        policies = given.get("policies")
        self._refuse.other_keys(where, given, {"policies"})
        if not isinstance(policies, list) or not policies:
            self._refuse.field(f"{where}.policies {policies!r}", "[[name, arguments], ...]")
        found = []
        for i, part in enumerate(policies):
            place = f"{where}.policies.{i}"
            if not (
                isinstance(part, list)
                and len(part) == 2
                and isinstance(part[0], str)
                and isinstance(part[1], dict)
            ):
                self._refuse.field(f"{place} {part!r}", "[name, arguments]")
            found += self.names(part[0], part[1], place)
        return found


def _turned(names: list[str]) -> list[str]:
    """Return policies that give the seeds of these policies in reverse order."""
    word = f"{REVERSED} "
    return [
        name.removeprefix(word) if name.startswith(word) else word + name
        for name in reversed(names)
    ]


def _class_of(name: str) -> str:
    return name.rpartition(".")[2]
