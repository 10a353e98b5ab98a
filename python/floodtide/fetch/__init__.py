# SPDX-License-Identifier: Apache-2.0
"""Public data sets and the published network: where they come from, and how they are prepared."""
