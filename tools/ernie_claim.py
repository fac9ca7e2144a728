"""ERNIE's claim at small scale: encoders of one size, pretrained for the same time on the same texts.

    python tools/ernie_claim.py corpus FOLDER
    pdl vocab characters FOLDER/corpus.txt --lower --least 2 --out VOCAB
    pdl train -c nlp/ernie_zh TEXTS task.masking=token --run random
    pdl train -c nlp/ernie_zh TEXTS task.masking=ernie task.tagger=RUN --run entity
    pdl train -c nlp/ernie_zh TEXTS train.max_steps=1 optim.lr=1e-9 --run none
    python tools/ernie_claim.py finetune none random entity --out RUNS

TEXTS     task.tokenizer=VOCAB model.max_length=128 train.max_steps=6000
          data.train.path=FOLDER/corpus.txt data.train.split=null data.train.ratios=null
          data.val.path=FOLDER/heldout.txt data.val.split=null data.val.ratios=null
RUN       of people_daily_lac; here of two epochs (train.epochs=2)
corpus    writes FOLDER/{corpus,heldout}.txt, documents between blank lines in a random order: statutes
          (PDL_DATA/zh_law/*.txt.xz, but for administrative regulations, rules and judicial interpretations), People's
          Daily (the first nine tenths, its tags taken off), and the training texts of the three tasks without their
          labels
finetune  trains each run's encoder on ChnSentiCorp (recipe chnsenticorp_encoder), Resume NER (resume_encoder) and STS-B
          in Chinese (sts_b_zh_embedding) with every seed, one after another, and prints mean and standard deviation of
          the metric on test; the epoch is chosen on dev. Runs that RUNS has are not trained again
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from pdl_nlp.data import TaggedFile, TextFile
from pdl_nlp.data.reading import locate

STATUTES = ("刑法", "宪法", "宪法相关法", "民法典", "民法商法", "社会法", "经济法", "行政法", "诉讼与非诉讼程序法")
HELD_OUT = 300  # documents
TASKS = {
    "chnsenticorp": ("nlp/chnsenticorp_encoder", "test/accuracy"),
    "resume": ("nlp/resume_encoder", "test/f1"),
    "sts_b_zh": ("nlp/sts_b_zh_embedding", "test/spearman"),
}


def pieces(lines: Iterable[str], most: int) -> Iterator[str]:
    """Lines in a row as documents of about `most` characters."""
    held, size = list[str](), 0
    for line in filter(None, map(str.strip, lines)):
        if held and size + len(line) > most:
            yield "\n".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line)
    if held:
        yield "\n".join(held)


def documents() -> Iterator[tuple[str, list[str]]]:
    """What texts are, and these as documents."""
    folder, laws = locate("zh_law"), list[str]()
    for name in STATUTES:
        text = lzma.decompress((folder / f"{name}.txt.xz").read_bytes()).decode()
        laws += [each for law in text.split("\n\n") for each in pieces(law.split("\n"), 1000)]
    yield "statutes", laws
    paper = TaggedFile("people_daily/199801.txt", form="words", between=(0, 0.9))
    yield "People's Daily", list(pieces(("".join(words) for words in paper.tokens), 500))
    yield "ChnSentiCorp", TextFile("chnsenticorp/train.tsv", text="text_a").texts
    resume = TaggedFile("resume/train.char.bmes")
    yield "Resume", list(pieces(("".join(characters) for characters in resume.tokens), 500))
    pairs = TextFile("sts_b_zh/train.tsv", columns=["text", "pair", "label"], pair="pair")
    both = (text for pair in zip(pairs.texts, pairs.pairs or (), strict=True) for text in pair)
    sentences = list(dict.fromkeys(both))
    random.Random(1).shuffle(sentences)
    yield "STS-B", list(pieces(sentences, 300))


def corpus(folder: Path) -> None:
    """Write the texts that encoders are pretrained on."""
    found = list[str]()
    for name, texts in documents():
        texts = ["\n".join(line.strip() for line in text.splitlines() if line.strip()) for text in texts]
        print(f"{name}: {len(texts):,} documents, {sum(map(len, texts)):,} characters")
        found += filter(None, texts)
    random.Random(0).shuffle(found)
    folder.mkdir(parents=True, exist_ok=True)
    for name, texts in (("heldout", found[:HELD_OUT]), ("corpus", found[HELD_OUT:])):
        (folder / f"{name}.txt").write_text("\n\n".join(texts) + "\n", encoding="utf-8")


def finetune(args: argparse.Namespace) -> None:
    """Train what is not trained yet, and print the table."""
    found: dict[tuple[str, str], list[float]] = {}
    for seed in range(args.seeds):
        for task in args.task:
            recipe, metric = TASKS[task]
            for source in args.runs:
                run = args.out / f"{task}_{source.name}_{seed}"
                if not (run / "result.json").is_file():
                    given = [f"model.pretrained={source.resolve()}", f"train.seed={seed}", "train.export=false"]
                    subprocess.run(
                        [sys.executable, "-m", "pdl", "train", "-c", recipe, "--run", str(run), *given], check=True
                    )
                measured = json.loads((run / "result.json").read_text(encoding="utf-8"))["metrics"][metric]
                found.setdefault((source.name, task), []).append(measured)
                print(run.name, f"{measured:.4f}", flush=True)
    for source in args.runs:
        own = [found[source.name, task] for task in args.task]
        spread = "  ".join(f"{task} {shown(values)}" for task, values in zip(args.task, own, strict=True))
        print(f"{source.name:>8}  {spread}  mean {np.mean(own):.4f}")


def shown(values: list[float]) -> str:
    """Mean and standard deviation over the seeds."""
    return f"{np.mean(values):.4f}" + (f" ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else "")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("corpus")
    one.add_argument("folder", type=Path)
    one.set_defaults(run=lambda args: corpus(args.folder))
    two = commands.add_parser("finetune")
    two.add_argument("runs", type=Path, nargs="+")
    two.add_argument("--out", type=Path, required=True)
    two.add_argument("--seeds", type=int, default=3)
    two.add_argument("--task", nargs="+", choices=TASKS, default=list(TASKS))
    two.set_defaults(run=finetune)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
