"""The same on a cluster, by Ray Tune: it finds the cores, starts the processes and replaces those that are lost. What
is trained and what is stopped `Trials` says here as everywhere, by way of Tune's interfaces of searches and schedulers,
so that a sweep may be begun on one machine and go on on several.

Machines must see the sweep's folder under one path, and have pdl installed.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pdl.errors import CheckError, PackageError, PdlError, UsageError
from pdl.threads import set_num_threads
from pdl.workflow.leaderboards import begun
from pdl.workflow.run import Run
from pdl.workflow.sweeps.plans import Job, ordered
from pdl.workflow.sweeps.running import Halted, Reporting
from pdl.workflow.sweeps.trials import Trials
from pdl.workflow.sweeps.workers import AGAIN, told

LOCAL = "local"
_SET = {
    "RAY_USAGE_STATS_ENABLED": "0", "RAY_CHDIR_TO_TRIAL_DIR": "0", "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_AIR_NEW_OUTPUT": "0", "TUNE_DISABLE_SIGINT_HANDLER": "1",
}  # fmt: skip


def require_tune() -> tuple[Any, Any]:
    """Ray and its Tune. PackageError where they are not installed."""
    try:
        import ray
        from ray import tune
    except ImportError as error:
        raise PackageError('--ray needs Ray Tune: pip install "pdl-core[tune]"') from error
    return ray, tune


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray at an address ("local": on this machine, for as long as the block takes; "auto": the cluster that this
    machine is part of), unless it is connected already. UsageError where nothing answers."""
    for name, value in _SET.items():
        os.environ.setdefault(name, value)
    ray, tune = require_tune()
    mine = not ray.is_initialized()
    if mine:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        where = {"include_dashboard": False} if address == LOCAL else {"address": address}
        try:
            ray.init(**quiet, **where)
        except Exception as error:  # Ray raises of all kinds, and Exception itself
            raise UsageError(f"--ray {address}: no Ray answers there ({str(error).splitlines()[0]})") from error
    try:
        yield tune
    finally:
        if mine:
            ray.shutdown()


def on_ray(trials: Trials, address: str, jobs: int | None, threads: int) -> None:
    """Train all on a cluster, `jobs` runs at once (by default as many as it has room for), each with so many cores. An
    interruption ends the runs under way, which go on from their latest checkpoints."""
    with connected(address) as tune:
        place, shared = trials.maker.runs / ".ray", _Shared(trials, threads)
        tuner = tune.Tuner(
            tune.with_resources(_train, {"cpu": threads}),
            tune_config=tune.TuneConfig(
                metric="value", mode="min" if trials.less else "max", num_samples=-1, search_alg=_search(shared),
                scheduler=_scheduler(shared), max_concurrent_trials=jobs,
            ),
            run_config=tune.RunConfig(
                name="tune", storage_path=str(place.resolve()), verbose=0,
                failure_config=tune.FailureConfig(max_failures=AGAIN),
            ),
        )  # fmt: skip
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of Ray's own parts
                tuner.fit()
        finally:
            shutil.rmtree(place, ignore_errors=True)  # all that matters is in the runs
        if shared.error is not None:
            raise shared.error


class _Shared:
    """What search and scheduler both know: the jobs under way, by Tune's names of trials."""

    def __init__(self, trials: Trials, threads: int) -> None:
        self.trials, self.threads = trials, threads
        self.jobs: dict[str, Job] = {}
        self.error: PdlError | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Tune writes down what it is given, which nobody reads: all that is known is in the sweep's folder."""
        return dict, ()

    def take(self, name: str) -> dict[str, Any] | None:
        """The order of a new trial of Tune's; None where there is none now."""
        try:
            job = None if self.error is not None else self.trials.take()
        except PdlError as error:
            self.error, job = error, None
        if job is None:
            return None
        self.jobs[name] = job
        return {"order": json.dumps(job.order), "threads": self.threads, "place": os.getcwd()}

    def heard(self, name: str, said: dict[str, Any]) -> bool:
        """An evaluation: whether the run is to stop."""
        job = self.jobs.get(name)
        if job is None or "epoch" not in said:
            return False
        reason = self.trials.evaluated(job, said["epoch"], said["value"], said["last"])
        if reason:
            del self.jobs[name]
            self.trials.stopped(job, reason)
        return bool(reason)

    def over(self, name: str, said: dict[str, Any]) -> None:
        """A trial of Tune's has ended."""
        job = self.jobs.pop(name, None)
        if job is None:
            return
        try:
            if job.plan.folder.result.is_file():
                self.trials.done(job)
            else:
                lost = f"its process was lost {AGAIN + 1} times"
                kind = said.get("failed", "")
                self.trials.failed(job, told(kind, said["said"]) if kind else CheckError(lost))
        except PdlError as error:
            self.error = error


def _search(shared: _Shared) -> Any:
    from ray.tune.search import Searcher

    class Search(Searcher):  # type: ignore[misc]
        """Gives out what `Trials` says; what Tune would keep of it, the sweep's folder keeps."""

        def suggest(self, trial_id: str) -> Any:
            return shared.take(trial_id) or (None if shared.jobs else Searcher.FINISHED)

        def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
            shared.over(trial_id, result or {})

        def save(self, checkpoint_path: str) -> None:
            pass

        def restore(self, checkpoint_path: str) -> None:
            pass

    return Search(metric="value", mode="min" if shared.trials.less else "max")


def _scheduler(shared: _Shared) -> Any:
    from ray.tune.schedulers import FIFOScheduler

    class Scheduler(FIFOScheduler):  # type: ignore[misc]
        """Stops what `Trials` says."""

        def on_trial_result(self, controller: Any, trial: Any, result: dict[str, Any]) -> str:
            return str(self.STOP if shared.heard(trial.trial_id, result) else self.CONTINUE)

    return Scheduler()


def _train(config: dict[str, Any]) -> None:
    """A run, in a process of Ray's."""
    from ray import tune

    order = json.loads(config["order"])
    set_num_threads(config["threads"])
    folder, nothing = Path(order["folder"]), float("nan")

    def evaluated(epoch: int, value: float, last: bool) -> str:
        try:
            tune.report({"epoch": epoch, "value": value, "last": last})
        except SystemExit:  # so Tune stops a trial; its checkpoint is still to be written
            return "stopped"
        return ""

    try:
        if not folder.parent.is_dir():
            raise UsageError(
                f"{folder.parent}: {platform.node()} does not see it; put it where all machines do (--runs)"
            )
        if Path(config["place"]).is_dir():
            os.chdir(config["place"])
        with suppress(Halted):
            begun(ordered(order), Run(folder), False, [Reporting(evaluated)])
    except PdlError as error:
        tune.report({"failed": type(error).__name__, "said": str(error), "value": nothing})
