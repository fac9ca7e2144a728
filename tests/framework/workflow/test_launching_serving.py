"""`pdl serve --to k8s`: the manifests are valid, and start what was asked for."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from pdl.cli import main
from pdl.runtime import load
from pdl.serving.models import sources
from tests.framework.workflow.test_launching import IMAGE, RELEASES

LENET = "cv/digits_lenet"


def written(folder: Path, *words: str) -> dict[str, dict[str, Any]]:
    assert main(["serve", *words, "--to", "k8s", "--image", IMAGE, "--save", str(folder)]) == 0
    files = (folder / name for name in ("deployment.yaml", "inferenceservice.yaml"))
    return {each["kind"]: each for file in files for each in yaml.safe_load_all(file.read_text())}


def test_manifests_are_valid_and_start_the_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"d={LENET}", f"d={LENET}", "--split", "d=1:90,2:10", "--workers", "2", "--threads", "3", "--grpc", "1"]
    made = written(tmp_path, *words, "--name", "digits", "--memory", "2Gi", "--drain", "20", "--queue", "64")
    assert "NOTES.md" in capsys.readouterr().out
    assert made.keys() == {"NetworkPolicy", "Service", "PodDisruptionBudget", "Deployment", "InferenceService"}
    pod = made["Deployment"]["spec"]["template"]["spec"]
    predictor = dict(made["InferenceService"]["spec"]["predictor"])
    assert (predictor.pop("minReplicas"), predictor.pop("maxReplicas")) == (1, 2)
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": predictor}  # KServe's pods are pods
    for release in RELEASES:
        for each in (*(made[kind] for kind in made if kind != "InferenceService"), plain):
            kubernetes_validate.validate(each, release, strict=True)
    (container,) = pod["containers"]
    assert container["resources"]["limits"] == {"cpu": "6", "memory": "2Gi"}
    assert pod["terminationGracePeriodSeconds"] > 20
    line = shlex.join(container["args"])
    for part in ("d:1=/models/d/1/model.pdl d:2=/models/d/2/model.pdl", "--split d=1:90,2:10", "--grpc 8081",
                 "--queue 64",
                 "--host 0.0.0.0 --port 8080", "--token-file /etc/pdl/token/token", "--drain 20"):  # fmt: skip
        assert part in line
    paths = {container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert paths == {"/v2/health/ready", "/v2/health/live"}
    docker = (tmp_path / "Dockerfile").read_text()
    assert '"pdl-core[grpc,serve,train]==' in docker
    assert "COPY models /models" in docker
    assert [each.version for each in sources([str(tmp_path / "models/d")])] == ["1", "2"]
    assert load(tmp_path / "models/d/2/model.pdl").inputs[0].name == "image"
    written(tmp_path, *words, "--name", "digits", "--memory", "2Gi", "--drain", "20", "--queue", "64")  # the same again
    assert main(["serve", LENET, "--to", "k8s", "--image", IMAGE, "--save", str(tmp_path)]) == 2
    assert "with another text" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "value"), [("--image", "x; rm"), ("--name", "A"), ("--memory", "much")])
def test_names_from_outside_are_held_to_their_grammar(option: str, value: str, tmp_path: Path) -> None:
    words = {"--image": IMAGE, "--save": str(tmp_path), option: value}
    assert main(["serve", LENET, "--to", "k8s", *(word for pair in words.items() for word in pair)]) == 2
    assert not list(tmp_path.iterdir())
