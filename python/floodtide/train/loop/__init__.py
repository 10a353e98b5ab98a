# SPDX-License-Identifier: Apache-2.0
"""The step loop of a training, with its log records, its recovery from lost ranks, and what scripts may ask of it."""
