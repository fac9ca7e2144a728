"""Every recipe of every suite: short, named, with a comment at its head, accepted by the check; and taken whole through
the self-test on what stands in for its data, a few of each task in every run and all of them with -m slow.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import pytest

from pdl.config import load
from pdl.config.named import shipped
from pdl.errors import DataError
from pdl.hub.public import public_sets
from pdl.train.recipe import Recipe, faults
from pdl.workflow import preview, selftest
from pdl_cv.data import FashionMNIST

ROOT = Path(__file__).parents[1]
RECIPES = {f"{path.parent.name}/{path.stem}": path for path in sorted(ROOT.glob("configs/*/*.yaml"))}

#: task -> the recipes of it that every run takes whole: the cheapest that differ in kind
QUICK = {
    "pdl_cv.Classification": ("cv/digits_lenet",),
    "pdl_cv.Detection": (),  # their nets take long; tests/cv trains small ones
    "pdl_cv.Generation": ("cv/fashion_mnist_gan",),
    "pdl_cv.ImageToImage": ("cv/fashion_mnist_pix2pix",),
    "pdl_cv.InstanceSegmentation": (),
    "pdl_cv.Keypoints": (),
    "pdl_cv.Retrieval": ("cv/omniglot_retrieval",),
    "pdl_cv.Segmentation": (),
    "pdl_cv.VideoClassification": ("cv/moving_digits_tsm",),
    "pdl_graph.GraphInfomax": ("graph/cora_dgi",),
    "pdl_graph.GraphPrediction": ("graph/esol_gin", "graph/mutag_gin"),
    "pdl_graph.KnowledgeGraph": ("graph/wn18rr_rotate", "graph/wn18rr_distmult"),
    "pdl_graph.LinkPrediction": ("graph/celegans_vgae",),
    "pdl_graph.NodeClassification": ("graph/cora_gcn", "graph/cora_rgcn"),
    "pdl_graph.NodeEmbedding": ("graph/blogcatalog_node2vec",),
    "pdl_graph.SubgraphLinks": ("graph/ns_seal",),
    "pdl_nlp.Correction": ("nlp/sighan_correction",),
    "pdl_nlp.Dialogue": ("nlp/dailydialog_retrieval",),
    "pdl_nlp.Embedding": ("nlp/sts_b_zh_embedding",),
    "pdl_nlp.LanguageModel": ("nlp/shakespeare_gpt",),
    "pdl_nlp.MaskedLanguageModel": ("nlp/ernie_zh",),
    "pdl_nlp.Matching": ("nlp/matching_file",),
    "pdl_nlp.Seq2Seq": ("nlp/seq2seq_file",),
    "pdl_nlp.SpanExtraction": ("nlp/drcd_bidaf",),
    "pdl_nlp.Tagging": ("nlp/ud_ewt_bilstm",),
    "pdl_nlp.TextClassification": ("nlp/chnsenticorp_bow", "nlp/sst2_encoder", "nlp/sst2_textcnn"),
    "pdl_nlp.WordVectors": ("nlp/word_vectors",),
    "pdl_quantum.AdaptVQE": ("quantum/lih_adapt_vqe",),
    "pdl_quantum.GibbsPreparation": ("quantum/gibbs_tfi",),
    "pdl_quantum.QAOA": ("quantum/maxcut_qaoa",),
    "pdl_quantum.QuantumClassifier": ("quantum/circles_classifier",),
    "pdl_quantum.QuantumKernel": ("quantum/moons_kernel",),
    "pdl_quantum.SSVQE": ("quantum/h2_ssvqe",),
    "pdl_quantum.VQD": ("quantum/h2_vqd",),
    "pdl_quantum.VQE": ("quantum/h2_vqe",),
    "pdl_quantum.VQSD": ("quantum/vqsd",),
    "pdl_rec.ClickThrough": ("rec/adult_mmoe", "rec/synthetic_deepfm"),
    "pdl_rec.Matching": ("rec/ml100k_bpr",),
    "pdl_ocr.InformationExtraction": ("ocr/sroie_fields",),
    "pdl_ocr.TextDetection": ("ocr/sroie_pages",),
    "pdl_ocr.TextRecognition": ("ocr/icdar2015_words",),
    "pdl_speech.AudioClassification": ("speech/digits",),
    "pdl_rec.NextItem": ("rec/ml100k_gru4rec", "rec/ml100k_sasrec"),
    "pdl_speech.SlotFilling": ("speech/coffee_orders",),
    "pdl_speech.SpeakerVerification": ("speech/fsdd_speakers",),
    "pdl_speech.SpeechRecognition": ("speech/an4_ctc",),
    "pdl_speech.SpeechSynthesis": ("speech/asterisk_fastspeech",),
}
#: recipe -> a package of an extra that it needs
NEEDS = {"quantum/water_vqe": "pyscf"}
#: click files of the reader's own have no form that something could stand in for, nor have the reader's own fonts
WITHOUT_STAND_IN = {"ocr/synthetic_pages", "ocr/synthetic_words", "rec/ml100k_deepfm", "rec/ml100k_lr"}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_short_and_accepted(name: str) -> None:
    lines = RECIPES[name].read_text().splitlines()
    assert lines[0].startswith("# ")
    assert len(lines) <= 40
    assert name in shipped()
    recipe = load(RECIPES[name])
    found = [fault.message for fault in faults(recipe)]
    left_open = sum("???" in line for line in lines)  # for the reader to fill in
    assert len(found) == left_open
    assert all(message.startswith("a value must be given") for message in found)
    task = recipe["task"]["_target_"]
    assert task in QUICK, "a task without a recipe in the quick self-tests"
    assert (name in QUICK[task]) == (name in quick())


#: a recipe of each suite that every run previews
PREVIEWED = (
    "cv/digits_lenet", "graph/esol_gin", "nlp/sst2_textcnn", "quantum/maxcut_qaoa", "rec/ml100k_bpr", "speech/digits"
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in PREVIEWED else [pytest.mark.slow]) for name in RECIPES],
)
def test_a_recipe_is_previewed(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    try:
        cut = selftest.cut_down(RECIPES[name], (), tmp_path / "data")
    except selftest.Skipped as reason:
        pytest.skip(str(reason))
    found = preview(cut.config, samples=2, versions=2)
    assert len(found.sections) > 1
    assert all(re.search("<td|<figure|<mark", each.html) for each in found.sections)  # and not text alone
    assert "<tr" in found.page()


def quick() -> set[str]:
    return {name for names in QUICK.values() for name in names}


def passes(name: str, folder: Path) -> selftest.Outcome:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    outcome = selftest.run(RECIPES[name], folder=folder)
    assert outcome.status == "passed", f"{outcome.step}: {outcome.reason}"
    return outcome


@pytest.mark.parametrize(
    "name",
    [n if n in quick() else pytest.param(n, marks=pytest.mark.slow) for n in RECIPES if n not in WITHOUT_STAND_IN],
)
def test_a_recipe_passes_the_selftest(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that has nothing below PDL_DATA."""
    for variable in ("PDL_DATA", "PDL_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / "nothing"))
    passes(name, tmp_path)
    assert (tmp_path / "run/report.html").is_file()


@pytest.mark.parametrize(
    ("name", "balanced"),
    [
        ("cv/digits_lenet", True),
        ("graph/mutag_gin", True),
        ("quantum/circles_classifier", True),
        ("graph/cora_gcn", False),
    ],
)
def test_rare_classes_can_count_more(name: str, balanced: bool, tmp_path: Path) -> None:
    """Where a step is one pass over a whole graph there is nothing to draw."""
    words = ["task.class_weights=balanced", "task.focal_gamma=1", f"data.balanced={balanced}"]
    outcome = selftest.run(RECIPES[name], words, folder=tmp_path)
    assert outcome.status == "passed", f"{outcome.step}: {outcome.reason}"
    if not balanced:
        outcome = selftest.run(RECIPES[name], ["data.balanced=true"], folder=tmp_path / "again")
        assert "does not draw its training samples one by one" in outcome.reason


@pytest.mark.slow
@pytest.mark.skipif("PDL_TEST_DATA" not in os.environ, reason="PDL_TEST_DATA names no folder of real data")
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_passes_the_selftest_on_its_own_data(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDL_DATA", os.environ["PDL_TEST_DATA"])
    outcome = passes(name, tmp_path)
    if outcome.data != selftest.OWN:
        pytest.skip(f"its data is not here: {outcome.notes[0]}")


@pytest.mark.parametrize("name", sorted(WITHOUT_STAND_IN))
def test_a_recipe_without_a_stand_in_is_skipped_and_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("PDL_DATA", "PDL_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / "nothing"))
    outcome = selftest.run(RECIPES[name], folder=tmp_path)
    assert (outcome.status, outcome.step) == ("skipped", "data")
    assert "has no stand-in" in outcome.reason


#: data that ships or is generated, at length
HERE = {"graph/powerlaw_sage", "graph/bbbp_gin", "graph/esol_gin"}
#: data that the reader gives; where it comes from and how it lies is said at the head of the recipe
GIVEN = {
    "cv/bccd_picodet",
    "cv/bccd_yolov3",
    "cv/camvid_deeplab",
    "cv/camvid_pix2pix",
    "cv/drishti_deeplab",
    "cv/lsp_simple_baseline",
    "cv/mmwave_gesture_r2plus1d",
    "cv/msr_action3d_stgcn",
    "cv/neu_det_picodet",
    "cv/nuclei_mask_rcnn",
    "cv/nuclei_unet",
    "cv/omniglot_retrieval",
    "cv/orl_faces",
    "cv/pets_deeplab",
    "cv/roadsign_picodet",
    "nlp/atis_bilstm_crf",
    "nlp/chnsenticorp_bilstm",
    "nlp/chnsenticorp_bow",
    "nlp/chnsenticorp_encoder",
    "nlp/chnsenticorp_textcnn",
    "nlp/clinc150_textcnn",
    "nlp/dailydialog_gpt",
    "nlp/dailydialog_retrieval",
    "nlp/dailydialog_emotion",
    "nlp/ernie_2_zh",
    "nlp/ernie_dialogues",
    "nlp/ernie_tiny",
    "nlp/ernie_zh",
    "nlp/drcd_bidaf",
    "nlp/lcqmc_simnet",
    "nlp/multi30k_lstm",
    "nlp/multi30k_transformer",
    "nlp/ocnli_esim",
    "nlp/drcd_encoder",
    "nlp/pawsx_zh_simnet",
    "nlp/people_daily_lac",
    "nlp/resume_bilstm_crf",
    "nlp/resume_encoder",
    "nlp/shakespeare_gpt",
    "nlp/shakespeare_gpt_tiny",
    "nlp/sighan_correction",
    "nlp/snips_bilstm_crf",
    "nlp/sst2_textcnn",
    "nlp/sts_b_zh_embedding",
    "nlp/tatoeba_en_zh",
    "nlp/ted_punctuation",
    "nlp/ud_ewt_bilstm",
    "ocr/icdar2015_words",
    "ocr/sroie_fields",
    "ocr/sroie_pages",
    "speech/an4_ctc",
    "speech/asterisk_fastspeech",
    "speech/coffee_orders",
    "speech/fsdd",
    "speech/fsdd_speakers",
    "speech/fsdd_unheard",
    "speech/keywords6",
}
#: lists and files of the reader's own: images, texts, lines, pages, fonts
LISTED = {
    "cv/face_mask_mobilenetv2",
    "nlp/language_model",
    "nlp/matching_file",
    "nlp/seq2seq_file",
    "nlp/tagging_file",
    "nlp/text_classification",
    "nlp/word_vectors",
    "ocr/line_direction",
    "ocr/page_fields",
    "ocr/parseq_words",
    "ocr/ppocr_lines",
    "ocr/ppocr_pages",
    "ocr/synthetic_pages",
    "ocr/synthetic_words",
    "ocr/text_lines",
    "ocr/text_pages",
    "speech/audio_folder",
    "speech/librispeech_speakers",
    "speech/speaker_folder",
}


@pytest.mark.parametrize("name", sorted(GIVEN))
def test_a_recipe_says_where_its_data_comes_from(name: str) -> None:
    text, train = RECIPES[name].read_text(), load(RECIPES[name])["data"]["train"]
    while inner := train.get("recordings", train.get("dataset")):  # of a data set that is built on another
        train = inner
    root = train["root"] if "root" in train else Path(train["path"]).parent
    root = train["path"] if root == Path() else root  # a folder
    head = " ".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    assert re.search(rf"Data: .+ PDL_DATA/{root}\b.+ Protocol: ", head)


def test_data_that_is_not_here_can_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data ships, is generated, or its error names an entry of `pdl data list`; of recipes that read the same files one
    stands for all."""
    monkeypatch.setenv("PDL_DATA", str(tmp_path))
    monkeypatch.setenv("PDL_CACHE", str(tmp_path))
    monkeypatch.setattr(FashionMNIST, "PLACES", [place for place in FashionMNIST.PLACES if place[0] != "/"])
    asked = {repr(load(path).get("data.train")): name for name, path in RECIPES.items()}
    for name in sorted({*asked.values()} - HERE - GIVEN - LISTED):
        if "folder" in name or (name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None):
            continue
        try:
            (data,) = Recipe(load(RECIPES[name])).data.datasets(["train"]).values()
            assert data.fingerprint  # of all of it, also where files are opened late
            said = None
        except DataError as error:
            said = str(error)
        if said is not None:
            found = re.search(r"pdl data get (\S+?/\w+)", said)
            assert found is not None, f"{name}: {said}"
            assert found[1] in public_sets(), name


def test_the_quick_recipes_are_recipes() -> None:
    assert quick() <= set(RECIPES)
