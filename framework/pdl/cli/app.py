"""The command table, and what happens to errors: one message on stderr and an exit code, never a traceback."""

from __future__ import annotations

import errno
import importlib
import keyword
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pdl import packages, threads, watch
from pdl.cli import style
from pdl.cli.overview import COMMANDS, overview
from pdl.distributed.launcher import end_job, job_rank, job_size
from pdl.errors import DataError, PdlError
from pdl.version import __version__

INTERRUPTED = 130
GRACE = 1.0


class LazyGroup(TyperGroup):
    """Lists commands from the table above and imports one when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # names only: for suggestions and listings

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, imported now."""
        return load(cmd_name) if cmd_name in COMMANDS else None

    def get_help(self, ctx: Any) -> str:
        """The overview, which needs no command to be imported."""
        return overview()


def load(name: str) -> Any:
    """The typer command in pdl/cli/<name>.py; with a _ for each dash, and behind a name that is a word of Python."""
    module = importlib.import_module(f"pdl.cli.{name.replace('-', '_')}{'_' if keyword.iskeyword(name) else ''}")
    group = getattr(module, "app", None)
    if group is None:
        group = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        no_args, settings = getattr(module, "NO_ARGS_IS_HELP", True), getattr(module, "SETTINGS", None)
        group.command(name, epilog=module.EXAMPLE, no_args_is_help=no_args, context_settings=settings)(module.command)
    command = typer.main.get_command(group)
    command.name = name
    for each in (command, *getattr(command, "commands", {}).values()):
        each.epilog = _examples(each.epilog)
    return command


def _examples(epilog: str) -> str:
    """One example a line, unbroken: \\b keeps lines as they are. Four blanks or more stand between two."""
    first, *others = re.split(" {4,}", epilog)
    return "\n".join(["\b", first, *(" " * len("Example:  ") + other for other in others)])


HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(cls=LazyGroup, rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=HELP)


def _version(wanted: bool) -> None:
    if wanted:
        style.out(f"pdl {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _pdl(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        style.out(overview())


def run(arguments: list[str]) -> int:
    """Parse, call, and turn every outcome into an exit code."""
    with _telling():
        code = _run(arguments)
    if code and job_size() > 1:
        end_job(code)
    return code


@contextmanager
def _telling() -> Iterator[None]:
    """What the hub, the packages and the runtime have to say goes to the terminal, for as long as a command runs."""
    before = packages.tell, watch.note, watch.progress, watch.steps
    packages.tell = watch.note = style.note
    watch.progress, watch.steps = style.progress, style.steps
    try:
        yield
    finally:
        packages.tell, watch.note, watch.progress, watch.steps = before


def _run(arguments: list[str]) -> int:
    streams = sys.stdout, sys.stderr
    try:
        threads.check_environment()
        result = typer.main.get_command(app).main(arguments, prog_name="pdl", standalone_mode=False)
        style.flush()
        code = result if isinstance(result, int) else 0
    except SystemExit as leaving:
        if (sys.stdout, sys.stderr) == streams:
            return leaving.code if isinstance(leaving.code, int) else 0
        sys.stdout, sys.stderr = streams  # typer wraps them when its own help meets a closed pipe
        return _report(BrokenPipeError(), arguments)
    except Exception as error:
        return _report(error, arguments)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        style.error("pdl: interrupted")
    return code


def _report(error: Exception, arguments: list[str]) -> int:
    if job_rank():
        time.sleep(GRACE)  # of an error that all ranks have the first one speaks, and ends the others
        style.error(f"rank {job_rank()}:")
    if isinstance(error, BrokenPipeError):
        style.silence()
        return style.CLOSED_PIPE
    if os.environ.get("PDL_DEBUG", "0") not in ("", "0"):
        style.traceback(error)
    elif isinstance(error, PdlError):
        style.error(str(error))
    elif hasattr(error, "format_message"):
        style.error(_usage(error))
    elif isinstance(error, (OSError, MemoryError)):
        style.error(_refused(error))
        return DataError.exit_code
    else:
        style.error(_crash(error, arguments))
    return int(getattr(error, "exit_code", 1))


#: what to do where the system refuses
ADVICE = {
    errno.ENOSPC: "free some space, or choose another place",
    errno.EDQUOT: "free some space, or choose another place",
    errno.EFBIG: "this file system or user may not have files so large; choose another place",
    errno.EACCES: "choose a place that you may read and write",
    errno.EPERM: "choose a place that you may read and write",
    errno.EROFS: "choose a place that can be written to",
    errno.ENOENT: "is the name right, and the folder there?",
    errno.ENOTDIR: "a file stands where a folder should be",
    errno.EEXIST: "a file stands where a folder should be",
    errno.EISDIR: "a folder stands where a file should be",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def _refused(error: OSError | MemoryError) -> str:
    """What the system refused: the path, its reason, what to do."""
    if isinstance(error, MemoryError):
        return f"not enough memory{f': {error}' if str(error) else ''}; try a smaller batch, or smaller inputs"
    place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes, os.PathLike)) else ""
    advice = ADVICE.get(error.errno or 0)
    return f"{place}{error.strerror or error or type(error).__name__}{f'; {advice}' if advice else ''}"


def _usage(error: Any) -> str:
    """typer's complaint, and where to read more."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        return str(error.format_message())
    message = "pdl: " + " ".join(error.format_message().split())
    if type(error).__name__ == "NoSuchOption":
        message += " (settings of a recipe are given without dashes: train.epochs=3)"
    return f"{message}\nTry '{context.command_path} --help'." if context else message


def _crash(error: Exception, arguments: list[str]) -> str:
    """Save the traceback where the user can send it from; say where."""
    import tempfile
    import traceback

    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    text = f"pdl {' '.join(arguments)}\n\n" + "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="pdl-crash-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
    except OSError:
        return f"pdl: unexpected error: {said}\nPDL_DEBUG=1 shows where."
    where = f"the details are in {file.name} (PDL_DEBUG=1 shows them here)"
    return f"pdl: unexpected error: {said}\nThis is a bug in pdl or in a suite; {where}."
