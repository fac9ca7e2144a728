"""The errors pdl raises: one class per kind of trouble, each with the exit code that the CLI returns for it.

A message says what is wrong, where, with which values, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable


def listed(names: Iterable[object], most: int = 8) -> str:
    """Names in a message, no more than the first few, each cut at 60 characters: `a, b, ...`."""
    shown = [str(name)[:60] for name in names]
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")


class PdlError(Exception):
    """Any trouble that pdl explains itself; the CLI prints the message and no traceback."""

    exit_code = 1


class CheckError(PdlError):
    """A check the user asked for found something (exit code 1)."""


class UsageError(PdlError):
    """A command, function or file was used in a way that cannot work (exit code 2)."""

    exit_code = 2


class PackageError(UsageError):
    """A package that is not installed is needed; the message says for what, and how to get it."""


class ConfigError(UsageError):
    """A config tree has faults; `problems` lists every one of them, a line each."""

    def __init__(self, problems: str | list[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class DataError(PdlError):
    """A data set is missing, damaged or inconsistent (exit code 3)."""

    exit_code = 3


class LimitError(DataError):
    """A model takes more time, memory or steps than it may (exit code 3)."""


class TimeLimitError(LimitError, TimeoutError):
    """A run that was not done at its deadline."""


class MemoryLimitError(LimitError, MemoryError):
    """More memory than there is, or than a run may take."""


class StepLimitError(LimitError):
    """Loops of more steps than a run may take."""


class ShapeError(PdlError, ValueError):
    """Shapes that do not fit together, with both numbers."""


class IndexRangeError(ShapeError, IndexError):
    """An index outside its axis."""


class DtypeError(PdlError, TypeError):
    """A dtype that an op does not take."""


class SharingError(UsageError, BufferError, ValueError):
    """Memory that cannot be shared: with another library, or without a copy that was forbidden."""


class NumericalError(PdlError, ArithmeticError):
    """A NaN or infinity, found by a check that the user turned on."""


class GradientError(PdlError, RuntimeError):
    """A gradient was requested that does not exist."""


class TraceError(UsageError):
    """Python code that a program cannot hold: `reason`, and `where` the line ("file:line") that stopped the trace."""

    def __init__(self, reason: str, where: str) -> None:
        self.reason, self.where = reason, where
        super().__init__(f"{where}: {reason}")
