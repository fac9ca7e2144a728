"""What `pdl --help` says. Kept apart from typer, so that the answer comes at once."""

from __future__ import annotations

import sys
from shutil import get_terminal_size
from textwrap import fill

# name -> one line. The module pdl.cli.<name> holds EXAMPLE and `command` (a function) or `app` (a typer group).
COMMANDS = {
    "train": "Train a recipe; writes a run folder.",
    "launch": "Train a recipe on several machines: by ssh, Slurm or Kubernetes.",
    "plan": "Say what a training on several processes takes, memory and time of each.",
    "eval": "Measure a trained run, or its bundle, on a split.",
    "predict": "Use a trained run or a bundle on files, folders or standard input.",
    "chat": "Talk with a model that writes text, or finds the best of other texts.",
    "serve": "Answer requests over HTTP and gRPC; a page to try a model.",
    "export": "Write a trained run to one file: a bundle, or ONNX.",
    "import": "Make a bundle of a model of ONNX, TensorFlow Lite or Paddle.",
    "bench": "Measure how fast a bundle runs.",
    "runs": "List runs, choose and sort them.",
    "compare": "Compare runs: settings, metrics, curves.",
    "lr-find": "Find a learning rate: a few steps with one that rises.",
    "preview": "Write a page of samples as training will see them, augmented.",
    "sweep": "Train a recipe over lists of values, seeds or folds; one table.",
    "ensemble": "Average several runs: one run whose answers are the mean of theirs.",
    "leaderboard": "Train several recipes over several seeds, or compare runs; one table.",
    "compile": "Write a model as C, for small devices and other languages.",
    "package": "Make a wheel of a trained model; installed with pip, it is used by name.",
    "compress": "Write a trained run as a bundle in int8; shows what it costs.",
    "selftest": "Try recipes whole, in seconds each.",
    "check": "Look for faults in a recipe and its data before training.",
    "config": "List, show, check and compare recipes; look up their keys.",
    "list": "List models, optimizers, transforms, data sets and other parts of recipes.",
    "init": "Write a recipe for your own data.",
    "info": "This installation and machine, a run, or a bundle.",
    "graph": "Draw or print the program of a recipe's model.",
    "models": "List what there is: pretrained models, and models that recipes can train.",
    "download": "Fetch pretrained models, to be used offline.",
    "convert": "Write a data set in another format.",
    "vocab": "Learn the vocabulary of a tokenizer from texts.",
    "ngram": "Learn an n-gram language model from texts, for `pdl predict --lm`.",
    "data": "List the public data sets that recipes name, and fetch them.",
    "hub": "Look into the cache of pretrained models, empty it, or make a mirror.",
}
OPTIONS = {
    "--version": "Print the version.",
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Show completion for the current shell.",
    "-h, --help": "Show this message; `pdl COMMAND --help` explains a command.",
}
EXAMPLE = "Example:  pdl train -c cv/digits_lenet train.epochs=3"


def overview() -> str:
    """The whole text, as wide as the terminal."""
    columns = get_terminal_size().columns if sys.stdout.isatty() else 100
    head = "Usage: pdl COMMAND [ARGS]...\n\n  Train, measure and use models from one YAML file."
    sections = _section("Commands", COMMANDS, columns), _section("Options", OPTIONS, columns)
    return "\n\n".join([head, *sections, f"  {EXAMPLE}"])


def _section(title: str, lines: dict[str, str], columns: int) -> str:
    width = max(map(len, lines))
    shown = [
        fill(text, columns, initial_indent=f"  {name:<{width}}  ", subsequent_indent=" " * (width + 4))
        for name, text in lines.items()
    ]
    return "\n".join([f"{title}:", *shown])
