# SPDX-License-Identifier: Apache-2.0
"""End the jobs that tests of this folder share."""

from shared_jobs import end_shared_jobs


def pytest_sessionfinish() -> None:
    """End the shared jobs after the last test."""
    end_shared_jobs()
