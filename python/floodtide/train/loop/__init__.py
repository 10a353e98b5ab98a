# SPDX-License-Identifier: Apache-2.0
"""The step loop of a training, with its log records and what scripts may ask of it."""
