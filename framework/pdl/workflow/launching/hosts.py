"""Several machines that this one reaches by ssh."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from pdl.distributed.launcher import command
from pdl.errors import UsageError
from pdl.threads import available_cores
from pdl.workflow.launching.common import matched

#: of RFC 1123, or an IPv4 address; such a name is no option of ssh
HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[1-9]\d{0,3})?"


def on_hosts(words: Sequence[str], hosts: Sequence[str], *, threads: int | None = None) -> list[str]:
    """The command line that runs ``pdl train WORDS`` on `hosts`, each ``NAME`` or ``NAME:PLACES``.

    Every machine needs this Python environment and this working directory at the same paths, the recipe and its data,
    and lets this one in by ssh without a password. `threads` are those of each process; by default PDL_NUM_THREADS, or
    the cores of this machine divided by the most places.
    """
    for host in hosts:
        matched("--hosts", host, HOST, "names of machines, as in node1:2,node2:2")
    names = [host.partition(":")[0] for host in hosts]
    if len(set(names)) < len(names) or not names:
        raise UsageError(f"--hosts {','.join(hosts)}: name each machine once, as in node1:2,node2:2")
    if shutil.which("ssh") is None:
        raise UsageError("--hosts: there is no ssh here; install it (Debian, Ubuntu: apt install openssh-client)")
    places = [int(host.partition(":")[2] or 1) for host in hosts]
    own = os.environ.get("PDL_NUM_THREADS", "")
    each = threads or (int(own) if own.isdigit() and int(own) else max(1, available_cores() // max(places)))
    told = [f"{name}:{n}" for name, n in zip(names, places, strict=True)]
    return command(["train", *words], sum(places), hosts=told, threads=each)
