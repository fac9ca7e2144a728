"""Recipes tried whole on a little data: trained, resumed, evaluated, exported, and the bundle compared with the run.

    outcome = pdl.workflow.selftest.run("cv/digits_lenet", folder=Path("somewhere"))
    outcome.status                  "passed", "failed" or "skipped"; outcome.reason says why

A recipe's own data is used where it is on this machine, otherwise a stand-in that its data sets write
(`Dataset.stand_in`). What a task makes of a recipe to keep it short is said by `Task.smoke_test`. Nothing is fetched.
"""

from pdl.workflow.selftest.chain import STEPS, Outcome, run
from pdl.workflow.selftest.tiny import OWN, Cut, Skipped, cut_down

__all__ = ["OWN", "STEPS", "Cut", "Outcome", "Skipped", "cut_down", "run"]
