"""`pdl serve`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import MaxMemory
from pdl.errors import CheckError, UsageError
from pdl.limits import bytes_in

EXAMPLE = (
    "Example:  pdl serve cv/digits_lenet"
    "    curl --data-binary @photo.png -H 'Content-Type: image/png' http://127.0.0.1:8000/predict"
    "    pdl serve digits=runs/digits/model.pdl digits:2=runs/new/model.pdl --split digits=1:90,2:10 --workers 2"
    "    pdl serve runs/digits --to k8s --image registry.example/digits:1 --save deployment"
)
FILES = ("image", "name", "memory", "replicas", "force")
"""Options of --to."""


def _option(flag: str, metavar: str, text: str, **more: Any) -> Any:
    return typer.Option(flag, metavar=metavar, help=text, **more)


def command(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME[:VERSION]=]MODEL...",
            help="Bundles, run folders with one, or names of `pdl models`; or a folder with versions 1, 2, ...",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, _option("--host", "ADDRESS", "Where to listen; 0.0.0.0: for other machines.")] = "127.0.0.1",
    port: Annotated[int, _option("--port", "PORT", "Of HTTP; 0: any.", min=0, max=65535)] = 8000,
    grpc: Annotated[
        int | None, _option("--grpc", "PORT", "gRPC there, too; 0: any.", min=0, max=65535, show_default=False)
    ] = None,
    workers: Annotated[int, _option("--workers", "N", "Processes that share socket, files and metrics.", min=1)] = 1,
    threads: Annotated[
        int | None,
        _option("--threads", "N", "Of each process; by default its share of the cores.", min=1, show_default=False),
    ] = None,
    batch: Annotated[int, _option("--batch", "N", "Requests that go through a model together, at most.", min=1)] = 32,
    budget: Annotated[
        float,
        _option("--budget", "MS", "Milliseconds that waiting and running may take; batches are kept to that.", min=0.1),
    ] = 20.0,
    delay: Annotated[
        float, _option("--delay", "MS", "Milliseconds to wait for others when nothing runs.", min=0)
    ] = 0.0,
    queue: Annotated[int, _option("--queue", "N", "Requests that may wait for a model; more get 429.", min=1)] = 256,
    timeout: Annotated[float, _option("--timeout", "SECONDS", "That a request may take.", min=0.01)] = 30.0,
    max_request: Annotated[
        int | None, _option("--max-request", "SIZE", "Bytes of a request; 16M.", parser=bytes_in, show_default=False)
    ] = None,
    max_pixels: Annotated[int, _option("--max-pixels", "N", "Of an image.", min=1)] = 50_000_000,
    connections: Annotated[
        int, _option("--connections", "N", "Requests that may be under way at once; more get 503.", min=1)
    ] = 1024,
    idle: Annotated[
        int, _option("--idle", "N", "Connections with nothing asked that stay open; the oldest go.", min=1)
    ] = 1024,
    max_memory: MaxMemory = None,
    split: Annotated[
        list[str] | None, _option("--split", "NAME=1:90,2:10", "Which share each version answers.", show_default=False)
    ] = None,
    shadow: Annotated[
        list[str] | None,
        _option(
            "--shadow",
            "NAME=VERSION",
            "A version that answers, too, unheard; /metrics says how it differs.",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[
        float, _option("--watch", "SECONDS", "Look so often for changed files; 0: on SIGHUP alone.", min=0)
    ] = 0.0,
    control: Annotated[bool, typer.Option("--control", help="Let requests load and unload models.")] = False,
    token_file: Annotated[
        Path | None,
        _option(
            "--token-file",
            "FILE",
            "Tokens, one a line: requests must show one. Or PDL_SERVE_TOKEN.",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        _option(
            "--allow-host",
            "NAME",
            "A name that requests may call this server by; by default those of loopback, or any.",
            show_default=False,
        ),
    ] = None,
    tls_cert: Annotated[Path | None, _option("--tls-cert", "FILE", "Certificate (PEM).", show_default=False)] = None,
    tls_key: Annotated[Path | None, _option("--tls-key", "FILE", "Its key (PEM).", show_default=False)] = None,
    drain: Annotated[float, _option("--drain", "SECONDS", "That requests have to end after SIGTERM.", min=0)] = 30.0,
    log_requests: Annotated[bool, typer.Option("--log-requests", help="A line of JSON for each request.")] = False,
    otel: Annotated[bool, typer.Option("--otel", help="A span of OpenTelemetry for each request.")] = False,
    to: Annotated[
        str | None, _option("--to", "k8s", "Write what Kubernetes and KServe need, into --save.", show_default=False)
    ] = None,
    save: Annotated[Path | None, _option("--save", "DIR", "k8s: the folder.", show_default=False)] = None,
    image: Annotated[str | None, _option("--image", "NAME", "k8s: the container image.", show_default=False)] = None,
    name: Annotated[str | None, _option("--name", "NAME", "k8s: of the deployment.", show_default=False)] = None,
    memory: Annotated[str | None, _option("--memory", "SIZE", "k8s: of each pod; 1Gi.", show_default=False)] = None,
    replicas: Annotated[int | None, _option("--replicas", "N", "k8s: pods; 2.", min=1, show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="k8s: replace files that say something else.")] = False,
) -> None:
    """Answer requests: POST /predict as `pdl predict --json` does, and the Open Inference Protocol (KServe v2) over
    HTTP and gRPC, which tritonclient and KServe's clients speak. A page at / asks a model from the browser.

    It listens on this machine alone, unless --host says more; then give it tokens and TLS. Logs are lines of JSON on
    standard error. SIGTERM drains, SIGHUP loads changed files; replace files by renaming, as `pdl export` does.
    """
    given = dict(locals())
    if not models:
        raise UsageError("which model? write it behind: pdl serve cv/digits_lenet")
    from pdl.serving.batching import Batching
    from pdl.serving.models import shadowed, shares, sources

    found = sources(models)
    if to is None and (stray := [each for each in ("save", *FILES) if given[each] not in (None, False)]):
        raise UsageError(f"--{stray[0]} is for --to k8s")
    policy = Batching(batch, budget / 1000, delay / 1000, queue)
    weights, shadows = shares(split or ()), shadowed(shadow or ())
    if to is not None:
        return _write(to, models, given)
    from pdl import threads as pool
    from pdl.serving import workers as processes
    from pdl.serving.server import LOCAL, Listening, listen, needed
    from pdl.serving.service import Log, Settings

    needed()
    where = Listening(host, port, grpc, _path(tls_cert), _path(tls_key), watch, drain)
    if grpc is not None:
        from pdl.serving.rpc import needed as needs_grpc

        needs_grpc()
        if workers > 1 and grpc == 0:
            raise UsageError("--grpc 0: several workers need a port that is named, such as --grpc 8001")
    hosts = tuple(allow_host or (LOCAL if where.loopback else ()))
    more = {} if max_request is None else {"request": max_request, "held": max(Settings.held, 4 * max_request)}
    settings = Settings(
        seconds=timeout, pixels=max_pixels, connections=connections, idle=idle, tokens=_tokens(token_file), hosts=hosts,
        control=control, requests=log_requests, **more,
    )  # fmt: skip
    share = threads or max(1, pool.get_num_threads() // workers)
    options = {"max_memory": max_memory}
    plan = processes.plan_of(found, policy, settings, where, options, weights, shadows, otel)
    sock = listen(where)
    bound = sock.getsockname()[1]
    log = Log()

    def started(grpc_port: int | None) -> None:
        shown = f"[{host}]" if ":" in host else host
        at = f"; gRPC at {shown}:{grpc_port}" if grpc_port is not None else ""
        style.out(
            f"serving {', '.join(f'{s.name}:{s.version}' for s in found)} at {where.scheme}://{shown}:{bound}{at}"
        )
        if not where.loopback and not (settings.tokens and where.cert):
            style.note("other machines can reach it; --token-file and --tls-cert say who may, and keep it secret")
        style.flush()

    with sock:
        if workers == 1:
            pool.set_num_threads(share)
            drained = processes.run_one(plan, sock, log, started)
        else:
            os.environ["PDL_NUM_THREADS"] = str(share)
            drained = processes.Workers(workers, plan, sock, log).run(started)
    if not drained:
        raise CheckError(f"requests were not answered within {drain:g} seconds (--drain)")


def _path(path: Path | None) -> str | None:
    if path is not None and not path.is_file():
        raise UsageError(f"{path}: no such file")
    return None if path is None else str(path)


def _tokens(file: Path | None) -> tuple[str, ...]:
    """Those of the file and of the environment; UsageError for one that is short, or cannot stand in a header."""
    from pdl.files import read_text

    lines = [] if file is None else read_text(file, 1 << 16).split("\n")
    lines.append(os.environ.get("PDL_SERVE_TOKEN", ""))
    found = tuple(line.strip() for line in lines if line.strip())
    if file is not None and not found:
        raise UsageError(f"--token-file {file}: holds no token; write one, such as `openssl rand -hex 32` makes")
    if any(len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token for token in found):
        raise UsageError("a token has at least 16 letters, digits or signs of ASCII; `openssl rand -hex 32` makes one")
    return found


def _write(to: str, models: list[str], given: dict[str, Any]) -> None:
    from pdl.workflow.launching.serving import to_kubernetes_serving

    if to != "k8s":
        raise UsageError(f"--to {to}: k8s is offered")
    if given["save"] is None or given["image"] is None:
        raise UsageError("--to k8s needs --save DIR and --image NAME, such as registry.example/digits:1")
    from pdl.serving.models import sources
    from pdl.workflow.locating import located

    files = {(each.name, each.version): each.file or located(each.place) for each in sources(models)}
    keys = ("name", "memory", "replicas", "force")
    more = {key: given[key] for key in keys if given[key] not in (None, False)}
    passed = ("batch", "budget", "delay", "queue", "timeout", "drain", "workers", "threads")
    paths = to_kubernetes_serving(
        files, given["save"], image=given["image"], options={key: given[key] for key in passed},
        split=given["split"] or (), shadow=given["shadow"] or (), grpc=given["grpc"] is not None, **more,
    )  # fmt: skip
    style.pairs([*((("files",) if not i else ("",)) + (str(path),) for i, path in enumerate(paths))])
    style.out(f"next   {given['save']}/NOTES.md has the commands")
