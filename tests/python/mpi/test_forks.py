# SPDX-License-Identifier: Apache-2.0
"""Children that ranks make with fork(): they neither take part in the job, nor end it, however they end."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w
import training_volume
from launch import script

from floodtide.train import read_log

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("ending", ["pass", "os._exit(0)", "raise ValueError('of a child')"])
def test_a_child_of_a_rank_ends_as_it_likes(ending: str) -> None:
    result = script(
        2,
        f"""
        import os, sys
        import numpy as np
        import floodtide as ft
        ft.init(timeout_s=20)
        done = ft.allreduce_async(np.ones(10, np.float32), op=ft.Sum)
        ft.synchronize(done)
        handle = ft.allreduce_async(np.ones(1000, np.float32), op=ft.Sum)
        number = os.fork()
        if number == 0:
            assert not ft.is_initialized()
            calls = [(call, one) for call in (ft.synchronize, ft.poll) for one in (done, handle)]
            for call, *arguments in [(ft.init,), *calls]:
                try:
                    call(*arguments)
                except ft.errors.UnsupportedError as error:
                    assert "child (fork) of a rank" in str(error), error
                else:
                    os._exit(9)
            {ending}
        else:
            status = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
            assert status == {1 if "raise" in ending else 0}, status
            assert ft.synchronize(handle).sum() == 2000
            assert ft.allreduce(np.float64([1]), op=ft.Sum)[0] == 2
            print("rank", ft.rank(), "goes on")
        """,
    )
    assert result.status == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["rank 0 goes on", "rank 1 goes on"]
    assert ("of a child" in result.stderr) == ("raise" in ending)


@pytest.mark.extra
def test_a_child_of_a_training_ends_as_it_likes(tmp_path: Path) -> None:
    """The trainer's threads, its prefetcher, its log and its lock are those of the parent."""
    training_volume.write_volume(tmp_path)
    document = training_volume.document(tmp_path, training={"steps": 6})
    (tmp_path / "train.toml").write_text(tomli_w.dumps(document))
    result = script(
        2,
        f"""
        import os, sys
        import floodtide as ft
        from floodtide import config
        from floodtide.train import Trainer
        ft.init(timeout_s=20)
        trainer = Trainer.from_config(config.load("{tmp_path}/train.toml"))
        for _ in trainer:
            if trainer.steps_done == 2:
                number = os.fork()
                if number == 0:
                    sys.exit(3)
                status = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
                assert status == 3, status
        trainer.close()
        if ft.rank() == 0:
            print(trainer.steps_done)
        """,
    )
    assert result.status == 0, result.stderr
    assert result.stdout == "6\n"
    steps = [r["step"] for r in read_log(tmp_path / "run" / "log.jsonl") if r["kind"] == "train"]
    assert steps == sorted(set(steps))
