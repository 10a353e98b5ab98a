# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of complete training under disturbances.

A benchmark is a module with `Options`, a dataclass; `DEFAULTS`, which replace defaults of `trainings.Trained`; and
`measure(lab, options)`, which is called on every rank and yields rows (`floodtide.bench.rows`).
"""
