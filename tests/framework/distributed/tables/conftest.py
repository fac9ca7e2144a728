"""`served`: table servers in this process, in place of Ray's."""

from __future__ import annotations

import pytest

from pdl.distributed.tables import actors
from pdl.distributed.tables.client import Here
from pdl.distributed.tables.server import TableServer


@pytest.fixture
def served(monkeypatch):
    """The servers of the trainings in the test, by job."""
    jobs = {}

    def start(count, specs, workers, order, folder, job):
        jobs[job] = [TableServer(number, specs, workers, order, folder) for number in range(count)]
        return "here", ""

    monkeypatch.setattr(actors, "start", start)
    monkeypatch.setattr(
        actors, "connect", lambda address, token, count, job, timeout: [Here(each) for each in jobs[job]]
    )
    monkeypatch.setattr(actors, "stop", lambda count, job: None)
    return jobs
