"""`pdl launch`: what is written for Kubernetes and Slurm is valid and does what it says; names from outside are held to
their grammar."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import pdl.config
from pdl.cli import main
from pdl.distributed.pods import RESTART
from pdl.errors import DataError, UsageError
from pdl.workflow.launching import Layout, hosts, layout, on_hosts, to_kubernetes, to_ray, to_slurm
from pdl.workflow.launching.kubernetes import to_text

Capture = pytest.CaptureFixture[str]
RECIPE = "cv/digits_lenet"
IMAGE = "registry.example:5000/team/digits:1.0"
#: the first release that knows all that is used, one between, and the newest that the package has
RELEASES = ("1.31.0", "1.33.0", kubernetes_validate.latest_version())


def documents(folder: Path) -> dict[str, dict[str, Any]]:
    files = sorted(folder.glob("*.yaml"))
    return {each["kind"]: each for file in files for each in yaml.safe_load_all(file.read_text())}


def written(folder: Path, *words: str, **more: Any) -> dict[str, dict[str, Any]]:
    to_kubernetes(pdl.config.load(RECIPE, list(words)), folder, more.pop("layout", Layout(4)), image=IMAGE, **more)
    return documents(folder)


# -- Kubernetes --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("places", [Layout(4, 2, 2), Layout(1, 4, 1)])
def test_manifests_are_valid(release: str, places: Layout, tmp_path: Path) -> None:
    made = written(tmp_path, layout=places, data="photos", storage_class="nfs")
    several = {"Service"} if places.nodes > 1 else set()
    kinds = {"ConfigMap", "Job", "NetworkPolicy", "PersistentVolumeClaim", "PodDisruptionBudget"}
    assert made.keys() == kinds | several
    for each in made.values():
        kubernetes_validate.validate(each, release, strict=True)


def test_the_schemas_find_faults(tmp_path: Path) -> None:
    job = written(tmp_path)["Job"]
    job["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenesProbe"):
        kubernetes_validate.validate(job, RELEASES[0], strict=True)


def test_what_refers_to_another_manifest_finds_it(tmp_path: Path) -> None:
    made = written(tmp_path, layout=Layout(3, 2, 4), memory="8Gi", grace=90, restarts=2)
    job, name = made["Job"]["spec"], made["Job"]["metadata"]["name"]
    pod = job["template"]["spec"]
    labels = job["template"]["metadata"]["labels"]
    assert made["Service"]["metadata"]["name"] == pod["subdomain"] == name == "digits-lenet"
    assert made["Service"]["spec"]["selector"] == labels
    assert made["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert made["PodDisruptionBudget"]["spec"] | {"unhealthyPodEvictionPolicy": ""} == {
        "minAvailable": 3,
        "selector": {"matchLabels": labels},
        "unhealthyPodEvictionPolicy": "",
    }
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volumes["runs"]["persistentVolumeClaim"]["claimName"] == made["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["recipe"]["configMap"]["name"] == made["ConfigMap"]["metadata"]["name"]
    assert f"secret generic {volumes['key']['secret']['secretName']} " in (tmp_path / "NOTES.md").read_text()
    (container,) = pod["containers"]
    assert {each["name"] for each in container["volumeMounts"]} == volumes.keys()
    assert container["resources"]["limits"] == {"cpu": "8", "memory": "8Gi"} == container["resources"]["requests"]
    assert (job["completions"], job["parallelism"], job["completionMode"]) == (3, 3, "Indexed")
    assert (pod["terminationGracePeriodSeconds"], job["backoffLimit"]) == (90, 2)
    rules = {tuple(each["onExitCodes"]["values"]): each["action"] for each in job["podFailurePolicy"]["rules"][1:]}
    assert rules == {(RESTART,): "Ignore", (UsageError.exit_code, DataError.exit_code): "FailJob"}
    assert pod["restartPolicy"] == "Never"


def test_pods_may_do_little(tmp_path: Path) -> None:
    pod = written(tmp_path)["Job"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert f"USER {pod['securityContext']['runAsUser']}:" in (tmp_path / "Dockerfile").read_text()


def test_the_recipe_in_the_config_map_is_the_resolved_one(tmp_path: Path) -> None:
    overrides = ["train.epochs=3", "distributed.data=4"]
    config = written(tmp_path / "job", *overrides)["ConfigMap"]
    ((file, text),) = config["data"].items()
    (tmp_path / file).write_text(text)
    assert pdl.config.load(tmp_path / file).plain() == pdl.config.load(RECIPE, overrides).plain()
    args = documents(tmp_path / "job")["Job"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[args.index("-c") + 1] == f"/etc/pdl/recipe/{file}"
    assert args[-1] == "distributed.data=4"


def test_the_image_has_the_suites_of_the_recipe(tmp_path: Path) -> None:
    written(tmp_path)
    text = (tmp_path / "Dockerfile").read_text()
    installed = re.findall(r'"([a-z-]+)\[([a-z,]+)\]==[^"]+"', text)
    assert installed == [("pdl-core", "train,mpi"), ("pdl-cv", "train")]


def test_texts_are_the_same_each_time_and_have_no_anchors(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        written(tmp_path / folder)
    names = ("training.yaml", "runs.yaml", "Dockerfile")
    assert all((tmp_path / "a" / each).read_bytes() == (tmp_path / "b" / each).read_bytes() for each in names)
    twice = {"key": "on"}
    text = to_text({"a": twice, "b": twice, "c": "one\ntwo: {}\n"})
    assert "&" not in text
    assert yaml.safe_load(text) == {"a": twice, "b": twice, "c": "one\ntwo: {}\n"}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("image", "a b"), ("image", "x;y"), ("image", "UPPER/x"), ("image", "x\nUSER root"), ("image", "-x"),
        ("name", "1st"), ("name", "a_b"), ("name", "a" * 51), ("name", "a-"), ("name", "a\n"), ("run", "../x"),
        ("run", "a/b"), ("memory", "4 GB"), ("storage", "much"), ("data", "A"), ("storage_class", "a b"),
    ],
)  # fmt: skip
def test_kubernetes_names_are_held_to_their_grammar(option: str, value: str, tmp_path: Path) -> None:
    given: Any = {"image": IMAGE, option: value}
    with pytest.raises(UsageError, match=f"--{option.replace('_', '-')} .*expected"):
        to_kubernetes(pdl.config.load(RECIPE), tmp_path / "job", Layout(2), **given)
    assert not (tmp_path / "job").exists()


def test_digests_and_ports_are_image_names(tmp_path: Path) -> None:
    for number, image in enumerate(("digits", "team/digits", f"localhost:5000/a/b_c:v1@sha256:{'0' * 64}")):
        to_kubernetes(pdl.config.load(RECIPE), tmp_path / str(number), Layout(), image=image)


def test_other_files_are_not_replaced(tmp_path: Path) -> None:
    written(tmp_path)
    written(tmp_path)  # the same
    before = (tmp_path / "training.yaml").read_text()
    with pytest.raises(UsageError, match="--force"):
        written(tmp_path, memory="8Gi")
    assert (tmp_path / "training.yaml").read_text() == before
    assert written(tmp_path, memory="8Gi", force=True)["Job"]


# -- KubeRay -----------------------------------------------------------------------------------------------------------
TABLES = "distributed.tables={servers: 3, mode: async}"
#: names of fields in RayJob and RayCluster, ray.io/v1 of KubeRay 1.5, that are used
FIELDS = {
    "": {"entrypoint", "submissionMode", "backoffLimit", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished",
         "rayClusterSpec"},
    "rayClusterSpec": {"rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"},
    "headGroupSpec": {"rayStartParams", "template"},
    "workerGroupSpecs": {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"},
}  # fmt: skip


def test_a_rayjob_and_its_pods(tmp_path: Path) -> None:
    """Pods are valid, the operator finds what it asks for, and the training is that of a pod of a plain Job."""
    to_ray(pdl.config.load("rec/synthetic_deepfm", [TABLES]), tmp_path, Layout(1, 2, 2), image=IMAGE, restarts=2)
    made = documents(tmp_path)
    job, labels = made["RayJob"]["spec"], made["RayJob"]["metadata"]["labels"]
    cluster = job["rayClusterSpec"]
    head, (group,) = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
    parts = {"": job, "rayClusterSpec": cluster, "headGroupSpec": head, "workerGroupSpecs": group}
    assert {name: set(part) for name, part in parts.items()} == FIELDS
    assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 3
    assert (job["backoffLimit"], cluster["authOptions"]) == (2, {"mode": "token"})
    assert shlex.split(job["entrypoint"])[:3] == ["python", "-m", "pdl.distributed.pods"]
    assert "distributed.data=2" in job["entrypoint"]
    for part in (head, group):
        pod = {"apiVersion": "v1", "kind": "Pod", **part["template"]}
        assert pod["metadata"]["labels"] == labels
        for release in RELEASES:
            kubernetes_validate.validate(pod, release, strict=True)
    for kind in ("ConfigMap", "NetworkPolicy", "PersistentVolumeClaim", "PodDisruptionBudget"):
        kubernetes_validate.validate(made[kind], RELEASES[0], strict=True)
    assert made["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]
    assert made["PodDisruptionBudget"]["spec"]["minAvailable"] == 4
    assert "ray[default]==" in (tmp_path / "Dockerfile").read_text()


@pytest.mark.parametrize(
    ("words", "places", "message"),
    [([], Layout(1), "the recipe has none: add 'distributed.tables="), ([TABLES], Layout(2), "give --nodes 1")],
)
def test_what_a_rayjob_needs(words: list[str], places: Layout, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        to_ray(pdl.config.load("rec/synthetic_deepfm", words), tmp_path, places, image=IMAGE)


# -- Slurm -------------------------------------------------------------------------------------------------------------
MPIRUN = """#!/bin/bash
printf '%s\\n' "$*" >> calls
trap 'echo asked >> calls; exit {asked}' USR1
for i in {{1..{tenths}}}; do sleep 0.1; done
exit {code}
"""


def submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, code: int = 0, tenths: int = 1, send: int | None = None,
    restarts: str = "0", run: str = "run's folder",
) -> tuple[int, list[str]]:  # fmt: skip
    """Run a script with programs in the place of mpirun and scontrol: the exit code, and what they were called with."""
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    for name, text in {
        "mpirun": MPIRUN.format(code=code, tenths=tenths, asked=138),
        "scontrol": '#!/bin/bash\necho "scontrol $@" >> calls\n',
    }.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setattr("pdl.workflow.launching.slurm.mpirun", lambda: str(programs / "mpirun"))
    to_slurm(pdl.config.load(RECIPE), tmp_path / "a job", Layout(2, 2), run=tmp_path / run, restarts=3, force=True)
    environment = {"SLURM_CPUS_PER_TASK": "2", "SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": restarts}
    (tmp_path / "calls").unlink(missing_ok=True)
    job = subprocess.Popen(
        ["bash", tmp_path / "a job" / "train.sbatch"],
        cwd=tmp_path,
        env=os.environ | environment,
        start_new_session=True,
    )
    if send is not None:
        end = time.monotonic() + 20
        while not (tmp_path / "calls").exists() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.1)
        job.send_signal(send)
        job.send_signal(send)
    code = job.wait(timeout=30)
    return code, (tmp_path / "calls").read_text().splitlines()


def test_the_batch_script_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, calls = submitted(tmp_path, monkeypatch)
    (line,) = calls
    assert code == 0
    assert line.startswith("-n 4 --map-by ppr:2:node:PE=2 --bind-to core -x PDL_NUM_THREADS=2 ")
    recipe, run = tmp_path / "a job" / "digits-lenet.yaml", tmp_path / "run's folder"
    assert line.endswith(f"{sys.executable} -m pdl train -c {recipe} --run {run} distributed.data=4")
    run.mkdir()
    (run / "config.yaml").touch()
    assert submitted(tmp_path, monkeypatch)[1] == [f"{line} --resume"]


@pytest.mark.parametrize(
    ("settings", "code", "again"),
    [
        ({"code": 2}, 2, False),
        ({"code": RESTART}, RESTART, True),
        ({"code": RESTART, "restarts": "3"}, RESTART, False),
        ({"tenths": 200, "send": signal.SIGUSR1}, 138, True),
        ({"tenths": 200, "send": signal.SIGTERM}, 138, False),
    ],
)
def test_the_batch_script_is_queued_again_where_that_helps(
    settings: dict[str, Any], code: int, again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, calls = submitted(tmp_path, monkeypatch, **settings)
    assert found == code
    assert calls.count("asked") == ("send" in settings)
    assert ("scontrol requeue 7" in calls) == again


def test_the_head_of_the_batch_script(tmp_path: Path) -> None:
    options = {"time": "1-02:00:00", "partition": "gpu,cpu", "account": "a.b", "memory": "16G", "grace": 60}
    to_slurm(pdl.config.load(RECIPE), tmp_path, Layout(4, 2, 3), **options)  # type: ignore[arg-type]
    head = [line for line in (tmp_path / "train.sbatch").read_text().splitlines() if line.startswith("#SBATCH")]
    assert {each.partition("--")[2] for each in head} == {
        "job-name=digits-lenet", "nodes=4", "ntasks-per-node=2", "cpus-per-task=3", "time=1-02:00:00",
        "partition=gpu,cpu", "account=a.b", "mem=16G", "signal=B:USR1@60", "open-mode=append",
        "output=digits-lenet-%j.log", "requeue",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value"),
    [("time", "soon"), ("partition", "a b"), ("partition", "a\n#SBATCH --uid=0"), ("account", "-x"), ("memory", "1 G")],
)
def test_slurm_names_are_held_to_their_grammar(option: str, value: str, tmp_path: Path) -> None:
    given: Any = {option: value}
    with pytest.raises(UsageError, match=f"--{option} .*expected"):
        to_slurm(pdl.config.load(RECIPE), tmp_path, Layout(2), **given)


# -- hosts, layouts, the command ---------------------------------------------------------------------------------------
@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


@pytest.mark.usefixtures("ssh")
def test_hosts_are_one_command_line(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("PDL_NUM_THREADS", "3")
    assert main(["launch", "-c", RECIPE, "--hosts", "node1:2,10.0.0.7", "--dry-run", "--run", "a b"]) == 0
    line = shlex.split(capsys.readouterr().out)
    assert line[line.index("--host") + 1] == "node1:2,10.0.0.7:1"
    assert line[line.index("-n") + 1] == "3"
    assert "PDL_NUM_THREADS=3" in line
    assert line[line.index("train") :] == ["train", "-c", RECIPE, "--run", "a b", "distributed.data=3"]


@pytest.mark.usefixtures("ssh")
@pytest.mark.parametrize("hosts", ["-oProxyCommand=x", "a b", "a;b", "a:0", "a:b", "", "a,,b", "a,a:2", "a\n"])
def test_what_is_no_name_of_a_machine_is_refused(hosts: str) -> None:
    with pytest.raises(UsageError, match="--hosts"):
        on_hosts([], hosts.split(","))


def test_layouts() -> None:
    assert layout(4) == Layout(4, 1)
    assert layout(4, nodes=1) == Layout(1, 4)
    assert layout(8, places=2) == Layout(4, 2)
    assert layout(nodes=4, places=2, threads=3) == Layout(4, 2, 3)
    for wrong in ({"workers": 4, "nodes": 3}, {"workers": 2, "nodes": 4}, {"workers": 4, "nodes": 2, "places": 4}):
        with pytest.raises(UsageError, match="processes"):
            layout(**wrong)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "--hosts node1:2,node2:2, or --to slurm, --to k8s or --to ray"),
        ("--to pbs --save x", "choose slurm, k8s, ray"),
        ("--to slurm", "--save DIR"),
        ("--to k8s --save x", "--image NAME"),
        ("--to k8s --save x --image a --time 1", "--time is for --to slurm"),
        ("--hosts a --save x", "--save is for --to slurm and --to k8s"),
        ("--to slurm --save x --dry-run", "--dry-run is for --hosts"),
        ("--to slurm --save x train.epochz=1", "train.epochz"),
    ],
)
def test_what_cannot_be_launched(
    words: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["launch", "-c", RECIPE, *words.split()]) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_command_writes_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    words = f"launch --to k8s -c {RECIPE} --workers 4 --nodes 1 --image {IMAGE} --save j train.epochs=3"
    assert main(words.split()) == 0
    assert "j/NOTES.md" in capsys.readouterr().out
    made = documents(tmp_path / "j")
    assert made["Job"]["spec"]["completions"] == 1
    assert "epochs: 3" in made["ConfigMap"]["data"]["digits-lenet.yaml"]
    assert made["Job"]["spec"]["template"]["spec"]["containers"][0]["args"][-1] == "distributed.data=4"


def test_machines_that_are_left_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, run, lines, codes = {"a", "b"}, tmp_path / "run", list[str](), [137, 0, 137, 1, 1, 1, 5]

    def start(line: list[str], *, timeout: float) -> int:
        lines.append(shlex.join(line))
        (run / "checkpoints").mkdir(parents=True, exist_ok=True)
        (run / "config.yaml").touch()
        if len(lines) == 1:
            there.remove("b")
        return codes[len(lines) - 1]

    monkeypatch.setattr(hosts, "start", start)
    monkeypatch.setattr(hosts, "reachable", lambda host: host.partition(":")[0] in there)
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(hosts, "_REACH", 0.01)
    words = ["-c", "cv/digits_lenet"]
    assert hosts.elastic(words, ["a:2", "b:2"], 2, str(run), threads=1, timeout=5) == 0
    assert "--host a:2,b:2" in lines[0]
    assert lines[0].endswith(f"--run {run} distributed.data=4")
    assert "--host a:2 " in lines[1]
    assert lines[1].endswith(f"--run {run} --resume distributed.data=2")
    assert hosts.elastic(words, ["a:2", "b:2"], 3, str(run), threads=1, timeout=0.05) == 101
    assert hosts.elastic(words, ["a:2"], 1, str(run), threads=1, timeout=5) == 1  # in vain
    assert len(lines) == 5
