"""Answers out of all paragraphs of a file of questions: `python tools/measure_evidence.py READER QUESTIONS.json`.

Each question is answered from all paragraphs of the file, and not from its own alone: prints how often its paragraph is
among those that are read, and exact match and F1 of the best answer, as the reader's task counts them.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from pdl.runtime.predict import Configured, predict
from pdl.workflow.prediction import open_model
from pdl_nlp.data import QuestionFile
from pdl_nlp.span_extraction.metrics import exact_match, f1, mostly_chinese
from pdl_nlp.steps.evidence import READ, Evidence


def main() -> None:
    """Parse the command line, answer, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader")
    parser.add_argument("questions", type=Path)
    parser.add_argument("--retriever", help="a model that gives vectors; by default BM25")
    parser.add_argument("--count", type=int, help="of so many questions, spread over the file")
    args = parser.parse_args()
    data = QuestionFile(args.questions)
    samples = [data[row] for row in range(len(data))]
    paragraphs = list(dict.fromkeys(" ".join(sample["paragraph"].split()) for sample in samples))
    kind = "cmrc" if mostly_chinese(paragraphs[:100]) else "squad"
    kept = np.linspace(0, len(samples) - 1, args.count or len(samples)).astype(int)
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "paragraphs.txt"
        corpus.write_text("\n".join(paragraphs) + "\n", encoding="utf-8")
        options = {"--search": [str(corpus)], **({"--retriever": [args.retriever]} if args.retriever else {})}
        reader = Configured.of(open_model(args.reader), options)
        retriever = reader.pipeline.answering(Evidence).retriever
        found = there = exact = score = 0.0
        for row in kept.tolist():
            sample = samples[row]
            question, own = sample["question"], paragraphs.index(" ".join(sample["paragraph"].split())) + 1
            places = [retriever.passages[n].place for n in retriever.search([question], READ)[1][0].tolist()]
            there += f"{corpus}:{own}" in places
            found += places[:1] == [f"{corpus}:{own}"]
            (answer,) = predict(reader, [question], topk=1)
            answers = answer.answer.value["found"]
            best = answers[0]["answer"] if answers else ""
            exact += exact_match(best, sample["answers"], kind)
            score += f1(best, sample["answers"], kind)
    n = len(kept)
    print(f"{n} questions, {len(paragraphs)} paragraphs, {len(retriever.passages)} passages")
    print(f"paragraph first {found / n:.4f}, among {READ} {there / n:.4f}")
    print(f"exact match {exact / n:.4f}, F1 {score / n:.4f}")


if __name__ == "__main__":
    main()
