# SPDX-License-Identifier: Apache-2.0
"""Train from a script without a configuration file, on one rank or many.

    python examples/train_mpi.py
    mpiexec -n 2 python examples/train_mpi.py

A second start resumes from runs/train_mpi, where all steps are done. Remove this folder to train again.

It makes a small synthetic volume; put the names of your own datasets (file.h5:dataset) in its place.
"""

import floodtide as ft


def main() -> None:
    """Make a volume, share its examples out to eight walkers, and train for 60 steps."""
    ft.init()
    if ft.rank() == 0:
        image, labels = ft.data.synth((64, 64, 64))
        ft.data.write_volume("cube.h5", {"raw": image, "labels": labels})
    ft.barrier()
    ft.data.partition("cube.h5:labels", "classes.h5:af", lom_radius=(12, 12, 12), min_size=100)

    model = ft.nn.FFN(depth=3, features=8, fov=(17, 17, 17), deltas=(4, 4, 4))
    cube = ft.data.TrainingVolume("cube.h5:raw", "cube.h5:labels", "classes.h5:af", name="cube")
    trainer = ft.train.Trainer(
        model=model,
        data=ft.data.Shards(cube, patch_size=model.patch_size, walkers=8),
        optimizer=ft.optim.Adam(lr=1e-3),
        schedule=ft.optim.lr.Schedule(
            "constant", warmup_steps=20, scale="sqrt"
        ),  # to 1e-3 * sqrt(8)
        directory="runs/train_mpi",
        steps=60,
    )
    with trainer:
        for step in trainer:
            if ft.rank() == 0 and step.number % 10 == 0:
                print(f"step {step.number}: loss {step.loss:.4f}, rate {step.lr:.2g}", flush=True)


main()
