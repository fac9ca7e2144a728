"""ONNX's own test suite: a few cases of every family here, all of it with -m slow; and the tool that runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the package onnx: pip install onnx")

TOOLS = Path(__file__).parents[3] / "tools"

#: file of the suite -> cases of it
CASES = {
    "abs": ("test_abs",),
    "add": ("test_add_bcast", "test_add_uint16"),
    "affinegrid": ("test_affine_grid_3d_align_corners_expanded",),
    "argmax": ("test_argmax_negative_axis_keepdims_random_select_last_index",),
    "attention": ("test_attention_4d_gqa_with_past_and_present", "test_attention_3d_softcap_expanded"),
    "batch_normalization": ("test_batchnorm_example_training_mode",),
    "bernoulli": ("test_bernoulli_seed",),
    "bitshift": ("test_bitshift_left_int32_negative_shift",),
    "cast": (
        "test_cast_FLOAT_to_FLOAT8E4M3FN",
        "test_cast_no_saturate_FLOAT16_to_FLOAT8E5M2",
        "test_cast_FLOAT_to_INT4",
    ),
    "causal_conv_with_state": ("test_causal_conv_with_state_basic",),
    "center_crop_pad": ("test_center_crop_pad_crop_and_pad",),
    "clip": ("test_clip_default_int8_inbounds",),
    "col2im": ("test_col2im_pads",),
    "compress": ("test_compress_negative_axis",),
    "conv": ("test_conv_with_autopad_same",),
    "convinteger": ("test_convinteger_with_padding",),
    "convtranspose": ("test_convtranspose_output_shape",),
    "cumsum": ("test_cumsum_1d_reverse_exclusive",),
    "deformconv": ("test_deform_conv_with_mask_bias",),
    "dequantizelinear": ("test_dequantizelinear_blocked",),
    "det": ("test_det_nd",),
    "dft": ("test_dft_inverse",),
    "div": ("test_div_int32_trunc",),
    "dropout": ("test_training_dropout_mask",),
    "einsum": ("test_einsum_batch_diagonal",),
    "gathernd": ("test_gathernd_example_int32_batch_dim1",),
    "gemm": ("test_gemm_all_attributes",),
    "gridsample": ("test_gridsample_bicubic_align_corners_1_additional_1",),
    "gru": ("test_gru_seq_length",),
    "if_": ("test_if_seq", "test_if_opt"),
    "image_decoder": ("test_image_decoder_decode_png_rgb",),
    "layernormalization": ("test_layer_normalization_4d_axis2",),
    "linear_attention": ("test_linear_attention_gated_delta",),
    "loop": ("test_loop16_seq_none",),
    "lstm": ("test_lstm_with_peepholes",),
    "mod": ("test_mod_mixed_sign_int64",),
    "nonmaxsuppression": ("test_nonmaxsuppression_two_batches",),
    "onehot": ("test_onehot_negative_indices",),
    "optionalgetelement": ("test_optional_get_element_optional_sequence",),
    "pad": ("test_wrap_pad",),
    "qlinearconv": ("test_qlinearconv",),
    "quantizelinear": ("test_quantizelinear_e4m3fn",),
    "reduce_log_sum_exp": ("test_reduce_log_sum_exp_empty_set",),
    "resize": ("test_resize_tf_crop_and_resize", "test_resize_downsample_sizes_cubic_antialias"),
    "roialign": ("test_roialign_mode_max",),
    "rotaryembedding": ("test_rotary_embedding_3d_input",),
    "scan": ("test_scan_sum",),
    "scatterelements": ("test_scatter_elements_with_reduction_max",),
    "sequence_map": ("test_sequence_map_add_1_sequence_1_tensor",),
    "slice": ("test_slice_neg_steps",),
    "softmax_cross_entropy_loss": ("test_sce_NCd1_mean_weight_negative_ii_log_prob",),
    "stft": ("test_stft_with_window",),
    "string_split": ("test_string_split_maxsplit",),
    "tfidfvectorizer": ("test_tfidfvectorizer_tf_batch_uniandbigrams_skip5",),
    "topk": ("test_top_k_uint64",),
    "ai_onnx_ml.tree_ensemble": ("test_ai_onnx_ml_tree_ensemble_set_membership",),
    "unique": ("test_unique_not_sorted_without_axis",),
    "upsample": ("test_upsample_nearest",),
}
REFUSED = {"test_image_decoder_decode_png_rgb": "ImageDecoder"}
NAMES = [name for names in CASES.values() for name in names]


@pytest.fixture(scope="module")
def tool() -> Any:
    sys.path.insert(0, str(TOOLS))
    try:
        import onnx_conformance
    finally:
        sys.path.remove(str(TOOLS))
    return onnx_conformance


@pytest.fixture(scope="module")
def cases(tool: Any) -> dict[str, Any]:
    return {case.name: case for case in tool.load_cases(("node",), files=tuple(CASES))}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_a_case_passes_or_is_refused_by_name(name: str, tool: Any, cases: dict[str, Any]) -> None:
    outcome = tool.run_case(cases[name])
    if name in REFUSED:
        assert outcome.state == "not supported"
        assert REFUSED[name] in outcome.reason
    else:
        assert outcome.state == "passed", outcome.reason


@pytest.mark.parametrize("kind", ["simple", "pytorch-converted", "pytorch-operator"])
@pytest.mark.filterwarnings("ignore")
def test_whole_models_of_the_suite_pass(kind: str, tool: Any) -> None:
    faults = [o for o in map(tool.run_case, tool.load_cases((kind,))) if o.state != "passed"]
    assert not faults


@pytest.mark.slow
def test_the_whole_suite_has_no_wrong_answer(tmp_path: Path, tool: Any) -> None:
    path = tmp_path / "outcomes.json"
    command = [sys.executable, str(TOOLS / "onnx_conformance.py"), "-j", "2", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    found = json.loads(path.read_text())
    node = found["summary"]["node"]
    assert node["passed"] >= 1873
    assert {c["op"] for c in found["cases"] if c["state"] == "not supported"} == {"ImageDecoder"}
    assert {c["name"] for c in found["cases"] if c["state"] == "as engines do"} == {*tool.ENGINES}


def test_a_wrong_answer_fails(tool: Any, cases: dict[str, Any]) -> None:
    case = cases["test_abs"]
    ((ins, (y,)),) = case.data_sets
    for wrong in (y + 0.01, y.astype(np.float64), y[:1]):
        outcome = tool.run_case(case._replace(data_sets=[(ins, [wrong])]))
        assert outcome.state == "failed"
        assert "wrong answer" in outcome.reason


def test_cases_that_crash_or_hang_are_lines_of_the_report(
    tool: Any, cases: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(case: Any) -> Any:
        if case.name == "test_abs":
            os._exit(7)
        if case.name == "test_det_nd":
            threading.Event().wait()
        return tool.Outcome(case.name, case.kind, case.op, "passed")

    monkeypatch.setattr(tool, "run_case", run)
    some = [cases[n] for n in ("test_abs", "test_det_nd", "test_qlinearconv")]
    crashed, hung, good = tool.run_cases(some, jobs=2, limit=1.0)
    assert (crashed.state, crashed.reason) == ("failed", "the process died with exit code 7")
    assert (hung.state, hung.reason) == ("failed", "no answer within 1 s")
    assert good.state == "passed"
    text = tool.report([crashed, hung, good])
    assert "Abs" in text
    assert "the process died with exit code 7" in text
