"""How the tests run: the whole suite in a process a core, tests that are named in this process. Property tests are
judged by what code does and not by how long it takes, so that a busy machine fails none.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent

settings.register_profile("pdl", deadline=None)
settings.load_profile("pdl")
os.environ.setdefault("PDL_OFFLINE", "1")  # no test reaches the network
os.environ.setdefault("PDL_CALIBRATE", "0")  # none chooses kernels by what this machine can do
# Threads of NumPy's products wait by spinning: where processes share the cores, most of the time of small products
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# As at a terminal, also where tests run in the background or under nohup: what they start inherits what is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if "PYTEST_XDIST_WORKER" in os.environ:  # before pdl is imported: one of several processes, each on a core of its own
    os.environ.setdefault("PDL_NUM_THREADS", "1")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A process a core for the whole suite, no process beside this one for tests that the command line names."""
    from pdl import threads

    if [Path(name).resolve() for name in config.args] != [HERE]:
        return 0
    return threads.available_cores()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs other programs comes first: long tests at the end would leave the other processes idle."""
    items.sort(key=lambda item: item.path.parent != HERE)
