"""The runtime knows no domain: what one knows of lives with its suite, as steps and ops."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pdl.runtime

RUNTIME = Path(pdl.runtime.__file__).parent

#: a domain -> its words. A program and an ONNX file are graphs of nodes, and `runtime.Session` is a session, so that
#: these alone are not among them
WORDS = {
    "graphs": r"edge_index|edge lists?|node_?names?|neighbou?rs?|sub-?graphs?|enclosing|\bhops?\b|\bseal\b|\btriples?\b"
    r"|\bentit(y|ies)\b|\brelations?\b|knowledge|\bgraph_(input|folder)|new[-_]graph",
    "chemistry": r"molecul|\bsmiles\b|\batoms?\b|\bbonds?\b|chemi",
    "quantum": r"quantum|pauli|qubits?|hamiltonian|\bcircuits?\b|bit_?strings?|bit string",
    "recommendation": r"recommend|\bclick|\busers?\b|[\"'](?-i:sessions?)[\"']|\bsessions? of items"
    r"|session_(file|input)|\btop_items?\b|\bcandidates?\b",
    "text in images": r"\bocr\b|text ?box|\bdb_?boxes\b|paddle|reading order",
    "a suite": r"\bpdl[_-](graph|quantum|rec|ocr|cv)\b",
}


@pytest.mark.parametrize("domain", WORDS)
def test_no_word_of_a_domain(domain: str) -> None:
    word = re.compile(WORDS[domain], re.IGNORECASE)
    found = [
        f"{path.relative_to(RUNTIME)}:{number}: {line.strip()}"
        for path in sorted(RUNTIME.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if word.search(line)
    ]
    assert not found, "steps of a domain belong to its suite: see 'How to add a step' in CONTRIBUTING.md"
