# SPDX-License-Identifier: Apache-2.0
"""Research: forecasts of throughput, sweeps of trainings and their reports, replays, and studies of the engine's speed.

It imports public names of the rest of floodtide, and nothing there imports it. `floodtide lab` has its commands.
"""
