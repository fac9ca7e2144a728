"""The processes of one training in the pods of a Kubernetes Job: `mpirun` in pod 0 starts Open MPI's daemons in the
others, without ssh and without an operator.

Pod 0 leads: it listens, each other pod connects to it, and both show that they hold the key of the Job (an HMAC
challenge in either direction). When all are there it runs mpirun, whose remote shell is `agent` below: it hands the
arguments of each daemon (`prted`) to the pod that is to run it. All the while both ends say that they are alive.

    python -m pdl.distributed.pods --nodes 4 --places 2 --threads 2 train -c /etc/pdl/digits.yaml --run /runs/digits

A run folder with a config.yaml is gone on with. A pod that is told to end, pod 0 or another, ends the training after
the step under way, with a checkpoint. Exit codes: 0, what `pdl` says, or `RESTART`.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

from pdl.distributed.launcher import command, mpirun, start
from pdl.errors import PdlError, UsageError

RESTART = 101  # exit code: start again, this counts as no failure
PORT = 7077
BEAT, SILENCE = 10.0, 60.0  # seconds between signs of life, and without one until the other end counts as gone
PATIENCE = 10.0  # seconds that mpirun has to see that a pod is gone
STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGUSR1)
SIGNS = Path(tempfile.gettempdir())  # of `alive` and `started`, which the probes look at
_AGENT = "PDL_AGENT"  # environment: where the lead listens to its agents
_LOST = (AuthenticationError, EOFError, OSError, ValueError)


class Line:
    """Messages, objects of JSON, to and from another process that holds the key.

    beat     seconds between signs of life
    silence  and without one until the other end counts as gone
    """

    def __init__(self, connection: Any, *, beat: float = BEAT, silence: float = SILENCE) -> None:
        self.connection, self.beat, self.silence = connection, beat, silence
        self._turn = threading.Lock()
        _thread(self._beat)

    def send(self, **message: Any) -> None:
        """Nothing happens where the other end is gone; `receive` says so."""
        with self._turn, suppress(OSError):
            self.connection.send_bytes(json.dumps(message).encode())

    def receive(self) -> dict[str, Any] | None:
        """The next message; None where the other end is gone."""
        with suppress(*_LOST):
            while self.connection.poll(self.silence):
                message = json.loads(self.connection.recv_bytes(1 << 20))
                if isinstance(message, dict) and message:
                    return message
        self.connection.close()
        return None

    def _beat(self) -> None:
        while not self.connection.closed:
            self.send()
            time.sleep(self.beat)


class Lead:
    """Pod 0, which waits for the pods `names`, and hands mpirun's daemons to them."""

    def __init__(self, names: Sequence[str], key: bytes, port: int, folder: str) -> None:
        self.names, self.key = frozenset(names), key
        self.lines: dict[str, Line] = {}
        self.ended: dict[str, queue.Queue[int]] = {name: queue.Queue() for name in names}
        self.changed = threading.Condition()
        self.running, self.lost = False, ""
        self.pods = Listener(("", port), backlog=len(names) + 8)
        self.agents = Listener(str(Path(folder) / "agents"), family="AF_UNIX", backlog=len(names) + 8)
        _thread(self._accept, self.pods, self._serve)
        _thread(self._accept, self.agents, self._hand_on)

    def wait(self) -> None:
        """Return when all pods are there."""
        with self.changed:
            while missing := sorted(self.names - self.lines.keys()):
                _say(f"waiting for {', '.join(missing)}")
                self.changed.wait()

    def run(self, line: Sequence[str]) -> int:
        """mpirun's exit code; `RESTART` where a pod was lost or told to end."""
        os.environ[_AGENT] = str(self.agents.address)
        self.running = True
        try:
            code = start(line, once=True)
        finally:
            self.running = False
            del os.environ[_AGENT]
        return RESTART if code and (self.lost or code in STOPPED) else code

    def dismiss(self) -> None:
        """Tell the other pods that all is done."""
        for line in list(self.lines.values()):
            line.send(over=True)
        with self.changed:
            self.changed.wait_for(lambda: not self.lines, timeout=PATIENCE)

    def close(self) -> None:
        """Listen no more."""
        self.pods.close()
        self.agents.close()

    def _accept(self, listener: Listener, serve: Any) -> None:
        with suppress(OSError):  # closed
            while True:
                _thread(serve, listener.accept())

    def _serve(self, connection: Any) -> None:
        try:
            deliver_challenge(connection, self.key)
            answer_challenge(connection, self.key)
            name = json.loads(connection.recv_bytes(1 << 10))["name"]
        except (*_LOST, KeyError, TypeError):
            return connection.close()
        if name not in self.names:
            _say(f"{name!r} is no pod of this Job")
            return connection.close()
        line = Line(connection)
        with self.changed:
            self.lines[name] = line
            self.changed.notify_all()
        while (message := line.receive()) is not None:
            if "ended" in message:
                self.ended[name].put(int(message["ended"]))
            elif "stop" in message and self.running:
                _say(f"{name} is told to end")
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        with self.changed:
            if self.lines.get(name) is line:
                del self.lines[name]
            self.changed.notify_all()
        if self.running:
            self._miss(name)

    def _miss(self, name: str) -> None:
        self.lost = name
        _say(f"{name} is gone; the training begins again from its last checkpoint")
        self.ended[name].put(1)
        time.sleep(PATIENCE)
        if self.running:
            os._exit(RESTART)  # the first process of a container ends all others

    def _hand_on(self, connection: Any) -> None:
        with suppress(*_LOST, KeyError):
            request = json.loads(connection.recv_bytes(1 << 20))
            line = self.lines.get(request["host"])
            if line is not None:
                line.send(daemon=request["arguments"])
                connection.send_bytes(json.dumps(self.ended[request["host"]].get()).encode())
        connection.close()


class Follower:
    """Another pod: it runs the daemon that the lead at `address` has for it."""

    def __init__(self, name: str, key: bytes, address: tuple[str, int]) -> None:
        self.name, self.key, self.address = name, key, address
        self.line: Line | None = None
        self.daemon: subprocess.Popen[bytes] | None = None
        self.told = threading.Event()
        signal.signal(signal.SIGTERM, lambda number, frame: self.told.set())
        _thread(self._leave)

    def run(self) -> int:
        """The exit code."""
        while self.daemon is None:
            line = self.line = self._connected()
            while (message := line.receive()) is not None:
                if "over" in message:
                    line.connection.close()
                    return 0
                if "daemon" in message:
                    self.daemon = subprocess.Popen(daemon(message["daemon"]), env=_relocated())
                    _thread(self._tell_end, line, self.daemon)
            self.line = None
            time.sleep(1)
        with suppress(subprocess.TimeoutExpired):
            self.daemon.wait(PATIENCE)  # it ends its processes, as the lead is gone
        return RESTART

    def _connected(self) -> Line:
        said = ""
        while True:
            try:
                connection = Client(self.address, authkey=self.key)
                break
            except _LOST as error:
                now = str(error) or type(error).__name__
                if now != said:
                    _say(f"waiting for {self.address[0]}: {now}")
                said = now
                time.sleep(2)
        with suppress(OSError):
            connection.send_bytes(json.dumps({"name": self.name}).encode())
        line = Line(connection)
        (SIGNS / "started").touch()
        return line

    def _tell_end(self, line: Line, process: subprocess.Popen[bytes]) -> None:
        line.send(ended=process.wait())

    def _leave(self) -> None:
        """Told to end: the training first, then this pod."""
        self.told.wait()
        if self.line is not None and self.daemon is not None:
            self.line.send(stop=True)
            self.daemon.wait()
            time.sleep(1)  # for what is on its way to the lead
        os._exit(RESTART)


def agent(arguments: Sequence[str]) -> int:
    """What mpirun takes for ssh: `HOST`, then a line for a shell there, in pieces. Ends when the daemon does."""
    host, *pieces = arguments
    given = shlex.split(" ".join(pieces).rpartition("/prted ")[2])
    if pieces[-1:] == [")"]:  # for users of sh it is within ( .profile; ... )
        given.pop()
    with Client(os.environ[_AGENT], family="AF_UNIX") as connection:
        connection.send_bytes(json.dumps({"host": host, "arguments": given}).encode())
        try:
            return int(json.loads(connection.recv_bytes(1 << 10))) and 1
        except EOFError:
            return 1


def daemon(arguments: Sequence[str]) -> list[str]:
    """The command line of Open MPI's daemon. UsageError for arguments that mpirun does not give it."""
    line = [str(Path(mpirun()).with_name("prted"))]
    rest = iter(map(str, arguments))
    for word in rest:
        if word in ("--leave-session-attached", "--allow-run-as-root"):
            line.append(word)
        elif word in ("--prtemca", "--pmixmca") and re.fullmatch(r"\w+", name := next(rest, "")):
            line += [word, name, next(rest, "")]
        else:
            raise UsageError(f"{word!r} is no argument of Open MPI's daemon")
    return line


def _relocated() -> dict[str, str]:
    """The environment in which Open MPI finds its files beside mpirun."""
    prefix = Path(mpirun()).parent.parent
    libraries = os.pathsep.join(filter(None, [str(prefix / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]))
    return os.environ | {"PRTE_PREFIX": str(prefix), "PMIX_PREFIX": str(prefix), "LD_LIBRARY_PATH": libraries}


def main(arguments: Sequence[str]) -> int:
    """Lead or follow, by the index of this pod (JOB_COMPLETION_INDEX)."""
    parser = argparse.ArgumentParser(prog="python -m pdl.distributed.pods")
    parser.add_argument("--nodes", type=int, default=1, help="pods")
    parser.add_argument("--places", type=int, default=1, help="processes of each")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--service", default="", help="the headless service, which is named as the Job is")
    parser.add_argument("--key", type=Path, help="the file that holds the Job's key")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="train ...", help="of pdl")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(RESTART))
    index = int(os.environ.get("JOB_COMPLETION_INDEX", "0"))
    names = [f"{given.service}-{i}" for i in range(given.nodes)]
    key = given.key.read_bytes().strip() if given.nodes > 1 else b""
    _thread(_live)
    if index:
        return Follower(names[index], key, (f"{names[0]}.{given.service}", given.port)).run()
    words = _going_on(given.words)
    workers, threads = given.nodes * given.places, given.threads
    with tempfile.TemporaryDirectory() as folder:
        if given.nodes == 1:
            line = command(words, workers, threads=threads, bind=False)
            (SIGNS / "started").touch()
            code = start(line, once=True)
            return RESTART if code in STOPPED else code
        lead = Lead(names[1:], key, given.port, folder)
        lead.wait()
        (SIGNS / "started").touch()
        shell = {"plm_ssh_agent": f"{sys.executable} -m {__spec__.name}", "plm_ssh_no_tree_spawn": "1"}
        options = ["--leave-session-attached"]
        options += [word for name, value in shell.items() for word in ("--prtemca", name, value)]
        hosts = [f"{name}:{given.places}" for name in names]
        line = command(words, workers, hosts=hosts, threads=threads, bind=False, options=options)
        code = lead.run(line)
        if code == 0:
            lead.dismiss()
        lead.close()
        return code


def _going_on(words: Sequence[str]) -> list[str]:
    """`words`, with --resume where the folder behind --run holds a run."""
    run = words[words.index("--run") + 1] if "--run" in words[:-1] else None
    return [*words, "--resume"] if run is not None and (Path(run) / "config.yaml").is_file() else list(words)


def _live() -> None:
    while True:
        (SIGNS / "alive").touch()
        time.sleep(BEAT)


def _thread(function: Any, *arguments: Any) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        sys.exit(agent(sys.argv[1:]) if _AGENT in os.environ else main(sys.argv[1:]))
    except PdlError as error:
        _say(str(error))
        sys.exit(error.exit_code)
