"""What `pdl plan` says of a step against what it takes, on meshes of as many processes as this machine has cores.

    python tools/bench/plan.py cv/digits_lenet --meshes one data=2 tensor=2 pipeline=2 --words data.batch_size=128

Every process has one thread and repeats one batch, since a plan does not count loading. A line has the plan, the
quickest and the median step of the first process, and plan / median. Processes wait for each other, so a mesh is
measured on cores that nobody else uses; of one process the quickest step says enough on a busy machine, too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from typing import Any

from train import table


def measured(recipe_name: str, sizes: dict[str, int], words: list[str], seconds: float) -> list[float]:
    """Seconds of each step on this rank."""
    import numpy as np

    import pdl.config
    from pdl.distributed.group import world
    from pdl.train.assembly import assemble
    from pdl.train.recipe import Recipe
    from pdl.workflow.training import _trainer

    group = world()
    axes = [f"distributed.{axis}={n}" for axis, n in sizes.items()]
    recipe = Recipe(pdl.config.load(recipe_name, [*words, *axes]))
    task = recipe.task.build()
    parts = assemble(task, recipe, seed=recipe.settings.seed, splits=("train",))
    trainer: Any = _trainer(recipe, task, parts, recipe.settings, limit=None, plain_lr=True, group=group)
    trainer.frozen.train()
    times: list[float] = []
    with nullcontext() if group is None else trainer.norms.joined():
        batches = next(trainer.step_batches())
        end = time.perf_counter() + seconds
        for _ in itertools.count():
            if group is not None:
                trainer.norms.begin([len(batches)] * group.size)
            begin = time.perf_counter()
            trainer.gradients(batches)
            trainer.update()
            times.append(time.perf_counter() - begin)
            trainer.state.step += 1
            over = time.perf_counter() > end and len(times) > 8
            if over if group is None else group.rows(np.array([over])).any():
                return times[3:]  # the first ones compile
    return times


def ask(name: str, sizes: dict[str, int], args: argparse.Namespace) -> list[float]:
    """The same in processes of their own."""
    mesh = ",".join(f"{axis}={n}" for axis, n in sizes.items()) or "one"
    line = [sys.executable, __file__, name, "--rank", "--meshes", mesh, "--seconds", str(args.seconds)]
    line += ["--words", *args.words]
    if sizes:
        from pdl.distributed.launcher import mpirun

        line = [mpirun(), "-n", str(math.prod(sizes.values())), "--bind-to", "core", *line]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PDL_NUM_THREADS": "1"}
    done = subprocess.run(line, env={**os.environ, **root}, stdout=subprocess.PIPE, text=True, check=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--meshes", nargs="+", default=["one", "data=2", "tensor=2", "pipeline=2"])
    parser.add_argument("--words", nargs="*", default=[], help="overrides of the recipe")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a measurement")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    pairs = {mesh: [part.split("=") for part in mesh.split(",") if "=" in part] for mesh in args.meshes}
    meshes = {mesh: {axis: int(n) for axis, n in parts} for mesh, parts in pairs.items()}
    if args.rank:
        from pdl.distributed.launcher import job_rank

        times = measured(args.recipe, meshes[args.meshes[0]], args.words, args.seconds)
        if not job_rank():
            print(json.dumps(times), flush=True)
        return
    os.environ["PDL_NUM_THREADS"] = "1"
    import pdl.config
    from pdl.workflow.planning import Planner

    planner = Planner(pdl.config.load(args.recipe, args.words))
    rows = []
    for mesh, sizes in meshes.items():
        plan, times = planner.plan(sizes), ask(args.recipe, sizes, args)
        middle = statistics.median(times)
        parts = ", ".join(f"{kind} {seconds * 1e3:.2f}" for kind, seconds in plan.seconds.items())
        numbers = (plan.step, min(times), middle)
        rows.append([mesh, *(f"{seconds * 1e3:.2f} ms" for seconds in numbers), f"{plan.step / middle:.2f}", parts])
    print(table(["mesh", "plan", "quickest", "median", "plan / median", "plan's parts, ms"], rows))


if __name__ == "__main__":
    main()
