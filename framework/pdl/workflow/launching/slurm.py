"""A batch script for Slurm.

Inside an allocation `mpirun` starts its daemons through `srun` by itself, and so needs nothing of Slurm but that
program. `srun --mpi=pmix` would start the processes without mpirun, but only where Slurm was built with PMIx, and with
a version that the one in Open MPI's wheel understands.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from pdl.config import Config
from pdl.distributed.launcher import mpirun
from pdl.errors import UsageError
from pdl.workflow.launching.common import Layout, job_name, matched, paths_in, recipe_text, write_files

TIME = r"\d+(:[0-5]?\d){0,2}|\d+-\d+(:[0-5]?\d){0,2}"
WORD = r"[A-Za-z0-9_.][A-Za-z0-9_.,-]*"


def to_slurm(
    recipe: Config,
    save: str | Path,
    places: Layout,
    *,
    run: str | Path | None = None,
    name: str | None = None,
    time: str | None = None,
    partition: str | None = None,
    account: str | None = None,
    memory: str | None = None,
    grace: int = 120,
    restarts: int = 20,
    force: bool = False,
) -> list[Path]:
    """Write train.sbatch, the resolved recipe and NOTES.md into the folder `save`, on a file system of all machines.

    run       the run folder, likewise; by default runs/NAME. Where it holds a run, this is gone on with
    memory    of each machine, such as 16G
    grace     seconds before the end of the time limit at which the training writes a checkpoint, to be queued again
    restarts  how often at most
    """
    name = job_name(name, recipe)
    options = {
        "job-name": name,
        "nodes": places.nodes,
        "ntasks-per-node": places.places,
        "cpus-per-task": places.threads,
        "time": time and matched("--time", time, TIME, "minutes, H:M:S or D-H:M:S, such as 2:00:00"),
        "partition": partition and matched("--partition", partition, WORD, "the name of a partition"),
        "account": account and matched("--account", account, WORD, "the name of an account"),
        "mem": memory and matched("--memory", memory, r"\d+[KMGT]?", "a size such as 16G"),
        "signal": f"B:USR1@{grace}",
        "open-mode": "append",
        "output": f"{name}-%j.log",
    }
    folder, runs = Path(save).resolve(), Path(run or Path("runs") / name).resolve()
    for option, path in (("--save", folder), ("--run", runs)):
        if "\n" in str(path):
            raise UsageError(f"{option} {str(path)!r}: the path must be one line")
    head = [f"#SBATCH --{option}={value}" for option, value in options.items() if value]
    values = {"mpirun": mpirun(), "python": sys.executable, "recipe": folder / f"{name}.yaml", "run": runs}
    script = _SCRIPT.format(
        head="\n".join([*head, "#SBATCH --requeue"]),
        values="\n".join(f"{key}={shlex.quote(str(value))}" for key, value in values.items()),
        workers=places.workers,
        places=places.places,
        restarts=restarts,
    )
    quoted = {"script": shlex.quote(str(folder / "train.sbatch")), "run": shlex.quote(str(runs))}
    named = "".join(f"\n    {each}" for each in paths_in(recipe))
    paths = f", and so must these of the recipe:{named}\nOther" if named else ".\nRelative"
    notes = _NOTES.format(name=name, python=sys.executable, grace=grace, restarts=restarts, paths=paths, **quoted)
    files = {"train.sbatch": script, f"{name}.yaml": recipe_text(recipe), "NOTES.md": notes}
    return write_files(folder, files, force=force)


_SCRIPT = """\
#!/bin/bash
{head}
# See NOTES.md. mpirun starts its daemons (prted) on the machines of the allocation by srun, which needs PATH.
{values}
export PATH="$(dirname "$mpirun"):$PATH"

words=(train -c "$recipe" --run "$run" distributed.data={workers})
if [ -f "$run/config.yaml" ]; then words+=(--resume); fi

"$mpirun" -n {workers} --map-by "ppr:{places}:node:PE=$SLURM_CPUS_PER_TASK" --bind-to core \\
    -x "PDL_NUM_THREADS=$SLURM_CPUS_PER_TASK" "$python" -m pdl "${{words[@]}}" &
job=$!

# The training ends after the step under way, with a checkpoint: a second signal would end it at once.
ending=
end() {{
    if [ -z "$ending" ]; then kill -USR1 "$job"; fi
    ending=$1
}}
trap 'end again' USR1  # the time limit is near, or the job is preempted
trap 'end ever' TERM   # scancel
while kill -0 "$job" 2>/dev/null; do wait "$job"; done  # a signal ends a wait, not the job
wait "$job"
code=$?

# 101 asks to be started again
if [ "$code" -ne 0 ] && {{ [ "$ending" = again ] || [ "$code" -eq 101 ]; }}; then
    if [ "${{SLURM_RESTART_COUNT:-0}}" -lt {restarts} ]; then scontrol requeue "$SLURM_JOB_ID"; fi
fi
exit "$code"
"""

_NOTES = """\
# {name} with Slurm

The folder of these files, the run folder and the Python environment of {python}
must be seen by every machine at the same paths{paths} data is looked for below PDL_DATA, which sbatch hands on.

    sbatch {script}
    squeue --me
    tail -f {run}/train.log
    scancel --signal=USR1 --batch JOB    # a checkpoint, then it is queued again
    scancel JOB                          # ends it; submitted again it goes on from its last checkpoint

- {grace} s before the time limit (`--signal`) the training writes a checkpoint and ends, and the script queues the job
  again, at most {restarts} times. Where Slurm preempts jobs it does the same if slurm.conf has
  PreemptParameters=send_user_signal and a GraceTime; otherwise the job is queued again by Slurm and goes on from its
  last checkpoint (train.checkpoint_seconds).
- A job that is submitted when the run folder is there goes on with that run; remove it or name another (--run) to
  begin anew.
- Exit codes 2 (the recipe is wrong) and 3 (the data is) are not tried again.
"""
