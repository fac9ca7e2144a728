"""How well does a net tell voices apart, and does it answer as Resemblyzer does with the same file?

    python tools/measure_speakers.py speech/resemblyzer speech/librispeech_spk_dev/librispeech_spk_dev/list.tsv
    python tools/measure_speakers.py BUNDLE TABLE --file "audio/{utt}.flac" --label speaker --pieces 2

All pairs of the recordings of a table, or of equal pieces of them, are trials: EER, minDCF, and the threshold of the
EER. With PDL_TORCH_PYTHON, a Python that has resemblyzer, torch and librosa, its own encoder embeds the same waveforms,
whole (`forward`) and by windows of 1.6 s (`embed_utterance`), levels raised to -30 dBFS as it does and silence left in:
the largest difference of its numbers from ours, and its EERs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.ranking import equal_error_rate, minimum_detection_cost
from pdl.workflow.prediction import open_model
from pdl_speech.data import AudioTable, Speakers

SCRIPT = """
import importlib.util, sys, types
import numpy as np
import scipy.ndimage
if importlib.util.find_spec("webrtcvad") is None:  # silence is left in, so it is not called
    sys.modules["webrtcvad"] = types.ModuleType("webrtcvad")
sys.modules.setdefault("scipy.ndimage.morphology", scipy.ndimage)  # where SciPy has dropped it
import torch
from resemblyzer import audio
from resemblyzer.voice_encoder import VoiceEncoder
torch.set_num_threads(1)
net, given, made = VoiceEncoder("cpu", verbose=False).eval(), np.load(sys.argv[1]), {}
for name in given.files:
    wave = audio.normalize_volume(given[name], -30, increase_only=True)
    with torch.no_grad():
        whole = net(torch.from_numpy(audio.wav_to_mel_spectrogram(wave))[None]).numpy()[0]
    made[name] = np.stack([whole, net.embed_utterance(wave)])
np.savez(sys.argv[1], **made)
"""


def verified(embeddings: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """EER with its threshold, and minDCF, of all pairs."""
    i, j = np.triu_indices(len(labels), 1)
    scores, same = np.einsum("td,td->t", embeddings[i], embeddings[j]), (labels[i] == labels[j]).astype(np.int64)
    rate, threshold = equal_error_rate(scores, same)
    costs = {f"min_dcf@{p:g}": minimum_detection_cost(scores, same, p)[0] for p in (0.01, 0.05)}
    return {"trials": len(scores), "eer": rate, **costs, "threshold": threshold}


def originals(waves: Sequence[np.ndarray], python: str) -> tuple[np.ndarray, np.ndarray]:
    """Resemblyzer's embeddings of waveforms at 16 kHz: of the whole, and by windows."""
    with tempfile.TemporaryDirectory() as folder:
        arrays = Path(folder) / "arrays.npz"
        np.savez(arrays, **{str(i): wave for i, wave in enumerate(waves)})
        subprocess.run([python, "-c", SCRIPT, str(arrays)], check=True)
        made = np.load(arrays)
        whole, windows = np.moveaxis(np.stack([made[str(i)] for i in range(len(waves))]), 1, 0)
        return whole, windows


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("table")
    parser.add_argument("--file", default="audio/{utt}.flac")
    parser.add_argument("--label", default="speaker")
    parser.add_argument("--pieces", type=int, default=2)
    args = parser.parse_args()
    session: Any = open_model(args.model)
    rate = session.pipeline.input.rate
    data = Speakers(AudioTable(args.table, file=args.file, label=args.label, rate=rate), pieces=args.pieces)
    waves = [data[i]["audio"] for i in range(len(data))]
    answers = session.pipeline.answers(waves, session.run)
    ours = np.array([answer.value["vector"] for answer in answers], np.float32)
    found: dict[str, Any] = {"recordings": len(waves), "pdl": verified(ours, data.labels)}
    if python := os.environ.get("PDL_TORCH_PYTHON"):
        whole, windows = originals(waves, python)
        found["difference"] = float(np.abs(whole - ours).max())
        found["original"] = {name: verified(x, data.labels) for name, x in (("forward", whole), ("windows", windows))}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
