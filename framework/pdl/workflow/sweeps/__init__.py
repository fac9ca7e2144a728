"""`sweep`: one recipe with several values of its settings, over seeds or folds: a grid, or a search by Optuna; one run
after another, several at once, or on a cluster by Ray Tune.

A trial is a setting. Its runs (one, or one a seed or fold) lie in the sweep's folder, RUNS/KEY=VALUE,...; beside them

    sweep.html      the page (`pdl.workflow.sweeps.page`)
    trials.jsonl    of a search, or where trials are stopped: what was proposed, each evaluation, what was stopped

`Trials` decides what is trained next and what is stopped; `inline`, `workers` and `on_ray` train what it hands out. All
that is known is in the folder, so whoever goes on, and wherever, goes on from there.
"""

from pdl.workflow.sweeps.sweeping import sweep

__all__ = ["sweep"]
