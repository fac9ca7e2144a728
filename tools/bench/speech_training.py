"""Training speed of speech nets, pdl against PyTorch: whole steps (features, forward, loss, gradients, clip, AdamW).

    python tools/bench/speech_training.py --torch-python PYTHON                       # one thread each
    python tools/bench/speech_training.py --torch-python PYTHON --only conformer_s res8 --inputs features --json X

deep_speech_2, conformer_s  CTC of 28 characters; `--batch` sounds a step, of lengths drawn as those of LibriSpeech
                            (2 to 16 s, most of them long) or of AN4 (1 to 6 s); `--batches` of an epoch that pdl's
                            loader makes, which are of different lengths
res8, bc_resnet_1, bc_resnet_8, ds_cnn      twelve commands, 64 clips of a second a step

Features are 80 log-mel bands every 10 ms, those of the papers for commands; "features": computed before, "waveforms": a
part of the step, in PyTorch by torch.stft. pdl runs `pdl.train.Trainer` with the tasks' losses; PyTorch
(speech_torch.py) runs eagerly, in NCHW and in channels last. Both begin with the same weights, and in evaluation their
losses must agree; Deep Speech 2 has its norms elsewhere in PyTorch. The sides are processes that take short turns
(turns.py) over the same batches; the ratio is to the faster layout of PyTorch. On a busy machine, `--clock cpu`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import turns
from infer import cpu
from train import table

RATE, BANDS, CHARACTERS, CLIPS = 16000, 80, "abcdefghijklmnopqrstuvwxyz' ", 64
SIDES = ("pdl", "torch nchw", "torch nhwc")
INPUTS = ("features", "waveforms")
PACE = 14  # characters a second
TOLERANCE = 1e-3
#: shortest and longest, in seconds, and the powers of a beta distribution between them
LENGTHS = {"librispeech": (2.0, 16.0, 3.0, 1.2), "an4": (1.0, 6.0, 1.5, 3.0)}
#: net -> its class and arguments, and, of commands, its features
NETS: dict[str, tuple[str, dict[str, Any], tuple[str, dict[str, Any]] | None]] = {
    "deep_speech_2": ("DeepSpeech2", {"num_classes": len(CHARACTERS) + 1}, None),
    "conformer_s": ("Conformer", {"num_classes": len(CHARACTERS) + 1}, None),
    "res8": ("SpeechResNet", {}, ("MFCC", {"n_fft": 480, "n_mfcc": 40})),
    "bc_resnet_1": ("BCResNet", {"width": 1}, ("LogMel", {"n_fft": 480, "n_mels": 40})),
    "bc_resnet_8": ("BCResNet", {"width": 8}, ("LogMel", {"n_fft": 480, "n_mels": 40})),
    "ds_cnn": ("DSCNN", {}, ("MFCC", {"n_fft": 640, "hop_length": 320, "n_mels": 40, "n_mfcc": 10})),
}
OTHER = {"deep_speech_2"}  # in PyTorch


def net_of(name: str, given: str) -> Any:
    """A fresh net."""
    import pdl
    import pdl_speech
    from pdl_speech import features as front

    pdl.seed(0)
    kind, arguments, own = NETS[name]
    if own is None:
        features = front.Given(channels=BANDS) if given == "features" else front.LogMel(rate=RATE, n_mels=BANDS)
    else:
        features = getattr(front, own[0])(rate=RATE, **own[1])
    return getattr(pdl_speech, kind)(features=features, **arguments)


# -- what both sides read ----------------------------------------------------------------------------------------------
def batches(name: str, given: str, args: argparse.Namespace) -> list[dict[str, np.ndarray]]:
    """Noise of real lengths with texts, as pdl's loader makes batches of it; or clips with labels."""
    import pdl
    from pdl.data import BucketBatchSampler, bucket_sizes
    from pdl_speech.recognition import loader

    rng = np.random.default_rng(0)
    net = net_of(name, given)
    if NETS[name][2] is not None:
        audio = 0.1 * rng.standard_normal((CLIPS, RATE)).astype(np.float32)
        made = net.features.eval()(pdl.Tensor(audio)).numpy() if given == "features" else audio
        return [{"audio": made, "label": rng.integers(0, 12, CLIPS)}]
    low, high, a, b = LENGTHS[args.lengths]
    frames = (100 * (low + (high - low) * rng.beta(a, b, 1000))).astype(np.int64)
    lengths = frames if given == "features" else frames * (RATE // 100)
    sizes = bucket_sizes(lengths, padding=loader.PADDING, most=loader.SIZES)
    sampler = BucketBatchSampler(lengths, args.batch, sizes, shuffle=True)
    chosen = [rows for rows in sampler.batches(0) if len(rows) == args.batch]
    key = "features" if given == "features" else "audio"

    def sample(index: int) -> dict[str, Any]:
        shape = (lengths[index], BANDS) if given == "features" else (lengths[index],)
        labels = rng.integers(1, len(CHARACTERS) + 1, frames[index] * PACE // 100)
        sound = 0.1 * rng.standard_normal(shape, np.float32)
        return {key: sound, "text": "", "labels": labels, "index": index}

    made = [loader.batched([sample(i) for i in rows], sizes, 0) for rows in chosen[: args.batches]]
    return [{k: v for k, v in batch.items() if k not in ("text", "index")} for batch in made]


def write(name: str, given: str, args: argparse.Namespace, folder: Path) -> int:
    """Batches, weights in PyTorch's order of axes, and what the front end multiplies by; the samples of a pass."""
    made = batches(name, given, args)
    np.savez(folder / "batches.npz", **{f"{i}.{k}": v for i, each in enumerate(made) for k, v in each.items()})
    net = net_of(name, given)
    turned = {0: (), 1: (0,), 2: (1, 0), 3: (2, 1, 0), 4: (3, 2, 0, 1)}
    weights = {key: p.detach().numpy().transpose(turned[p.ndim]) for key, p in net.named_parameters()}
    np.savez(folder / "weights.npz", **weights)
    front: dict[str, Any] = {}
    if given == "waveforms":
        features = net.features
        front = {"n_fft": features.n_fft, "hop": features.hop_length, "window": features.window.numpy()}
        front |= {k: getattr(features, k).numpy() for k in ("filters", "dct") if hasattr(features, k)}
    np.savez(folder / "front.npz", **front)
    return sum(len(each["audio"]) for each in made)


# -- pdl ---------------------------------------------------------------------------------------------------------------
def pdl_side(name: str, given: str, args: argparse.Namespace) -> tuple[Callable[[], Any], dict[str, Any]]:
    """A pass over the batches, and what the net says before it learns."""
    import pdl
    from pdl import threads
    from pdl.nn.module import evaluating
    from pdl.train import Loss, Task, Trainer, TrainSettings
    from pdl_speech import SpeechRecognition

    class Commands(Task):
        """`pdl_speech.AudioClassification`'s loss, of waveforms or of features."""

        def step(self, model: Any, batch: Any) -> Any:
            x = pdl.as_tensor(batch["audio"])
            logits = model(x) if given == "waveforms" else model.classify(x)
            return Loss(pdl.cross_entropy(logits, pdl.as_tensor(batch["label"])), len(batch["label"]))

    threads.set_num_threads(1)
    net = net_of(name, given)
    with np.load(args.folder / "batches.npz") as held:
        found: dict[str, dict[str, np.ndarray]] = {}
        for key in held.files:
            number, field = key.split(".")
            found.setdefault(number, {})[field] = held[key]
    passed = list(found.values())
    spoken = NETS[name][2] is None
    task: Any = SpeechRecognition(characters=CHARACTERS) if spoken else Commands()
    settings = TrainSettings(epochs=1, clip_norm=args.clip if spoken else None)
    trainer = Trainer(task, net, pdl.optim.AdamW(net, lr=1e-4), {"train": passed}, settings)
    with evaluating(net), pdl.no_grad():
        first = float(task.step(net, passed[0]).value.item())
    net.train()

    def pass_over() -> None:
        for batch in passed:
            trainer.gradients([batch])
            trainer.update()

    pass_over()
    if trainer.compiled is None or trainer.compiled.stopped is not None:
        raise SystemExit(f"{name}: the step of pdl is not compiled")
    return pass_over, {"loss": first, "parameters": sum(p.size for p in net.parameters())}


# -- the race ----------------------------------------------------------------------------------------------------------
def run(name: str, given: str, args: argparse.Namespace) -> dict[str, Any]:
    """All sides of a net, in turns."""
    with tempfile.TemporaryDirectory() as made:
        count = write(name, given, args, Path(made))
        clip = args.clip if NETS[name][2] is None else 0.0
        commands = {}
        for side in args.sides:
            worker = [sys.executable, __file__, "--folder", made, "--clock", args.clock, "--clip", str(args.clip),
                      "--worker", name, given]  # fmt: skip
            peer = str(Path(__file__).with_name("speech_torch.py"))
            torch = [args.torch_python, peer, name, side.split()[-1], made, str(clip), args.clock]
            commands[side] = worker if side == "pdl" else torch
        rows = turns.race(commands, seconds=args.seconds, turns=args.turns)
    for row in rows.values():
        if "median" in row:
            row["samples_per_second"] = count / row["median"]
    check(name, rows)
    best = turns.ratio(rows, "pdl", [side for side in rows if side != "pdl"]) if "pdl" in rows else None
    return {"rows": rows, "peer": best and best[0], "ratio": best and best[1]}


def check(name: str, rows: dict[str, Any]) -> None:
    """Both have as many parameters and the same loss; `SystemExit` otherwise."""
    facts = [(row["parameters"], row["loss"]) for row in rows.values() if "error" not in row]
    if name in OTHER or not facts:
        return
    if any(n != facts[0][0] or abs(loss - facts[0][1]) > TOLERANCE * abs(facts[0][1]) for n, loss in facts):
        raise SystemExit(f"{name}: the sides do not train the same, parameters and losses: {facts}")


def cells(name: str, given: str, result: dict[str, Any], sides: list[str]) -> list[str]:
    """A line of the table."""
    rows = result["rows"]
    wrong = next((f"{side}: {row['error']}" for side, row in rows.items() if "error" in row), None)
    if wrong is not None:
        return [name, given, wrong[:160]]
    rates = [f"{rows[side]['samples_per_second']:.2f}" for side in sides]
    return [name, given, *rates, f"{result['ratio']:.2f}" if result["ratio"] else "-"]


def main() -> None:
    """Run a race, or (as a worker) one side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", default=sys.executable, help="the interpreter that has PyTorch")
    parser.add_argument("--only", nargs="+", choices=list(NETS), default=list(NETS), help="these nets (default: all)")
    parser.add_argument("--inputs", nargs="+", choices=INPUTS, default=list(INPUTS))
    parser.add_argument("--sides", nargs="+", choices=[*SIDES, "torch compiled"], default=list(SIDES))
    parser.add_argument("--lengths", choices=list(LENGTHS), default="librispeech", help="of sounds with texts")
    parser.add_argument("--batch", type=int, default=8, help="sounds with texts in a step")
    parser.add_argument("--batches", type=int, default=3, help="of sounds with texts in a pass")
    parser.add_argument("--clip", type=float, default=5.0, help="norm of the gradient, with texts")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn, at least one pass over the batches")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--clock", choices=list(turns.CLOCKS), default="wall", help="cpu: on a busy machine (turns.py)")
    parser.add_argument("--json", type=Path, help="write everything here")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--worker", nargs=2, metavar=("NET", "INPUT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        turns.serve(*pdl_side(*args.worker, args), args.clock)
        return
    results = {name: {given: run(name, given, args) for given in args.inputs} for name in args.only}
    lines = [cells(name, given, row, args.sides) for name, each in results.items() for given, row in each.items()]
    print(f"\n{cpu()}, one thread, {args.clock} clock")
    print(table(["net", "input", *[f"{side} samples/s" for side in args.sides], "ratio"], iter(lines)))
    if args.json:
        args.json.write_text(json.dumps({"cpu": cpu(), "nets": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
