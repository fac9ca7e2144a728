"""Manifests for Kubernetes 1.31 and later: a plain Indexed Job, without an operator, and what belongs to it.

Pod i of the Job holds the processes i * places, ... of the training. How pods find one another, and what ends them, is
in `pdl.distributed.pods`, which each of them runs.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdl.config import Config
from pdl.distributed.pods import PORT, RESTART
from pdl.errors import CheckError, DataError, UsageError
from pdl.workflow.launching.common import (
    Layout,
    job_name,
    matched,
    needed,
    paths_in,
    recipe_text,
    write_files,
)

#: of the grammar of container images: host:port/path:tag@digest
IMAGE = (
    r"(?=.{1,512}$)([a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
SIZE = r"[1-9]\d*(\.\d+)?([kMGTP]|[KMGTP]i)?"
USER = 10001
_MOST = 1 << 20  # bytes of a ConfigMap
_STARTUP = 1800  # seconds for all pods to be there


def to_kubernetes(
    recipe: Config,
    save: str | Path,
    places: Layout,
    *,
    image: str,
    run: str | None = None,
    name: str | None = None,
    memory: str = "4Gi",
    storage: str = "10Gi",
    storage_class: str | None = None,
    data: str | None = None,
    grace: int = 120,
    restarts: int = 6,
    force: bool = False,
) -> list[Path]:
    """Write Dockerfile, runs.yaml (the volume), training.yaml (all else) and NOTES.md into the folder `save`.

    image    what the Dockerfile's image is called, with the registry
    run      the name of the run folder, in the volume; by default that of the job. Where it holds a run, this is gone
             on with
    memory   of each pod
    storage  size of the volume, and its class (`storage_class`)
    data     a PersistentVolumeClaim with the data sets, which is mounted as PDL_DATA
    grace    seconds that a pod which is told to end has for a step and a checkpoint
    restarts failures until the Job is given up; pods that are evicted are not counted
    """
    text, about = checked(recipe, places, image=image, run=run, name=name, memory=memory, storage=storage,
                          storage_class=storage_class, data=data)  # fmt: skip
    manifests = Manifests(**about, places=places, grace=grace, restarts=restarts)
    files = {
        "Dockerfile": dockerfile(needed(recipe)),
        "wheels/about.txt": "Wheels that pip does not find on an index go here (NOTES.md).\n",
        "runs.yaml": to_text(manifests.volume(storage, storage_class)),
        "training.yaml": to_text(*manifests.training(text)),
        "NOTES.md": _notes(manifests, recipe, Path(save)),
    }
    return write_files(save, files, force=force)


def checked(
    recipe: Config,
    places: Layout,
    *,
    image: str,
    run: str | None,
    name: str | None,
    memory: str,
    storage: str,
    storage_class: str | None,
    data: str | None,
) -> tuple[str, dict[str, Any]]:
    """The recipe's text and the arguments of `Manifests` but for places, grace and restarts. UsageError for what is not
    of the grammar of such names, and for a recipe that is too large."""
    name = job_name(name, recipe)
    label = "small letters, digits and dashes"
    matched("--image", image, IMAGE, "the name of a container image, such as registry.example/team/digits:1")
    matched("--memory", memory, SIZE, "a quantity such as 4Gi")
    matched("--storage", storage, SIZE, "a quantity such as 10Gi")
    run = matched("--run", run or name, r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,100}", "the name of a folder in the volume")
    for option, value in (("--storage-class", storage_class), ("--data", data)):
        if value is not None:
            matched(option, value, r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", label)
    text = recipe_text(recipe)
    if len(text.encode()) > _MOST:
        raise UsageError(f"the recipe has {len(text.encode())} bytes, more than the {_MOST} of a ConfigMap")
    return text, {"name": name, "image": image, "run": run, "memory": memory, "data": data}


class Manifests:
    """What a training is to Kubernetes."""

    def __init__(
        self,
        name: str,
        places: Layout,
        *,
        image: str,
        run: str,
        memory: str,
        data: str | None,
        grace: int,
        restarts: int,
    ) -> None:
        self.name, self.places, self.image, self.run, self.memory = name, places, image, run, memory
        self.data, self.grace, self.restarts = data, grace, restarts
        self.labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "pdl"}
        self.several = places.nodes > 1

    @property
    def shared(self) -> bool:
        """Whether several pods mount the volume."""
        return self.several

    def meta(self, suffix: str = "") -> dict[str, Any]:
        return {"name": self.name + suffix, "labels": self.labels}

    def volume(self, storage: str, storage_class: str | None) -> dict[str, Any]:
        """Of the run folders; apart from the rest, as it outlives the Job."""
        spec: dict[str, Any] = {
            "accessModes": ["ReadWriteMany" if self.shared else "ReadWriteOnce"],
            "resources": {"requests": {"storage": storage}},
        }
        if storage_class is not None:
            spec["storageClassName"] = storage_class
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": self.meta("-runs"), "spec": spec}

    def training(self, recipe: str) -> list[dict[str, Any]]:
        """The Job and all that it needs but the volume and the key."""
        made = [self.recipe(recipe), self.policy(), *([self._service()] if self.several else [])]
        return [*made, self.budget(self.places.nodes), self._job()]

    def recipe(self, text: str) -> dict[str, Any]:
        """Its text, which pods mount."""
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self.meta("-recipe")}
        return config | {"data": {f"{self.name}.yaml": text}}

    def _service(self) -> dict[str, Any]:
        """Gives pod 0 a name; headless, and before it is ready."""
        spec = {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": self.labels,
            "ports": [{"name": "pods", "port": PORT}],
        }
        return {"apiVersion": "v1", "kind": "Service", "metadata": self.meta(), "spec": spec}

    def policy(self) -> dict[str, Any]:
        """Only pods of this Job reach one another: MPI's messages are neither encrypted nor signed."""
        own = {"matchLabels": self.labels}
        spec = {
            "podSelector": own,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": own}]}] if self.several else [],
        }
        return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": self.meta(), "spec": spec}

    def budget(self, pods: int) -> dict[str, Any]:
        """All of them are needed, so drains of machines wait. Of Jobs only whole numbers of minAvailable are known."""
        spec = {
            "minAvailable": pods,
            "selector": {"matchLabels": self.labels},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        }
        return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": self.meta(), "spec": spec}

    def _job(self) -> dict[str, Any]:
        nodes = self.places.nodes
        final = [UsageError.exit_code, DataError.exit_code]
        assert CheckError.exit_code not in final
        spec = {
            "completionMode": "Indexed",
            "completions": nodes,
            "parallelism": nodes,
            "backoffLimit": self.restarts,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {"action": "Ignore", "onExitCodes": _codes(RESTART)},
                    {"action": "FailJob", "onExitCodes": _codes(*final)},
                ]
            },
            "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
            "template": {"metadata": {"labels": self.labels}, "spec": self.pod()},
        }
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": self.meta(), "spec": spec}

    def pod(self) -> dict[str, Any]:
        """What each pod is."""
        volumes: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "runs": ({"mountPath": "/runs"}, {"persistentVolumeClaim": {"claimName": f"{self.name}-runs"}}),
            "recipe": (
                {"mountPath": "/etc/pdl/recipe", "readOnly": True},
                {"configMap": {"name": f"{self.name}-recipe"}},
            ),
            "tmp": ({"mountPath": "/tmp"}, {"emptyDir": {"sizeLimit": "2Gi"}}),
            "shm": ({"mountPath": "/dev/shm"}, {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}),
        }
        if self.several:
            key = {"secretName": f"{self.name}-key", "defaultMode": 0o440}
            volumes["key"] = ({"mountPath": "/etc/pdl/key", "readOnly": True}, {"secret": key})
        if self.data is not None:
            claim = {"claimName": self.data, "readOnly": True}
            volumes["data"] = ({"mountPath": "/data", "readOnly": True}, {"persistentVolumeClaim": claim})
        return {
            **({"subdomain": self.name} if self.several else {}),
            "restartPolicy": "Never",  # podFailurePolicy asks for it: each try is a pod of its own
            "terminationGracePeriodSeconds": self.grace,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [self._container({name: mount for name, (mount, _) in volumes.items()})],
            "volumes": [{"name": name, **source} for name, (_, source) in volumes.items()],
        }

    def arguments(self) -> list[str]:
        """Of `pdl.distributed.pods`."""
        sizes = {"nodes": self.places.nodes, "places": self.places.places, "threads": self.places.threads}
        several = ["--service", self.name, "--key", "/etc/pdl/key/key"] if self.several else []
        recipe, run = f"/etc/pdl/recipe/{self.name}.yaml", f"/runs/{self.run}"
        words = ["train", "-c", recipe, "--run", run, f"distributed.data={self.places.workers}"]
        return [*(word for key, n in sizes.items() for word in (f"--{key}", str(n))), *several, *words]

    def _container(self, mounts: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        amounts = {"cpu": str(self.places.places * self.places.threads), "memory": self.memory}
        environment = {"PDL_CACHE": "/runs/.cache"} | ({"PDL_DATA": "/data"} if self.data is not None else {})
        return {
            "name": "training",
            "image": self.image,
            "args": self.arguments(),
            "env": [{"name": key, "value": value} for key, value in environment.items()],
            **({"ports": [{"name": "pods", "containerPort": PORT}]} if self.several else {}),
            "resources": {"requests": amounts, "limits": dict(amounts)},
            "startupProbe": {  # pods have found one another; where some find no machine the others do not wait for ever
                "exec": {"command": ["test", "-e", "/tmp/started"]},
                "periodSeconds": 10,
                "failureThreshold": _STARTUP // 10,
            },
            "livenessProbe": {  # it says so every 10 s; processes that hang are found by distributed.timeout
                "exec": {"command": ["sh", "-c", 'test -n "$(find /tmp/alive -mmin -2)"']},
                "periodSeconds": 30,
                "timeoutSeconds": 10,
                "failureThreshold": 3,
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [{"name": name, **mount} for name, mount in mounts.items()],
        }


def _codes(*codes: int) -> dict[str, Any]:
    return {"containerName": "training", "operator": "In", "values": sorted(codes)}


def number(count: int, what: str) -> str:
    """So many of something, in words."""
    return f"{count} {what}" if count == 1 else f"{count} {what}{'es' if what.endswith('s') else 's'}"


def to_text(*documents: Mapping[str, Any]) -> str:
    """YAML without anchors, texts of several lines as they are."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return str(yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, width=120, allow_unicode=True))


def dockerfile(packages: list[str], system: str = "") -> str:
    """An image with these packages, and a package of the `system`, and a user without rights."""
    version = ".".join(map(str, sys.version_info[:2]))
    return _DOCKERFILE.format(version=version, user=USER, packages=" ".join(f'"{each}"' for each in packages),
                              system=_SYSTEM.format(system) if system else "")  # fmt: skip


def _notes(made: Manifests, recipe: Config, folder: Path) -> str:
    name, nodes = made.name, made.places.nodes
    paths = "".join(f"\n    {each}" for each in paths_in(recipe))
    lacking = f"\nThe recipe names these paths, which the pods must have (override them in another launch):{paths}\n"
    key = f'    kubectl create secret generic {name}-key --from-literal=key="$(openssl rand -hex 32)"\n'
    return _NOTES.format(
        name=name,
        image=made.image,
        run=made.run,
        pods=number(nodes, "pod"),
        processes=number(made.places.places, "process"),
        threads=number(made.places.threads, "thread"),
        only=" ".join(f"--only {each.partition('[')[0].removeprefix('pdl-')}" for each in needed(recipe)),
        key=key if nodes > 1 else "",
        secret=f" && kubectl delete secret {name}-key" if nodes > 1 else "",
        wheels=shlex.quote(str(folder.resolve() / "wheels")),
        many="The volume is mounted by every pod: its class must allow ReadWriteMany (NFS, CephFS, ...).\n"
        * (nodes > 1),
        lacking=lacking if paths else "",
        grace=made.grace,
        restarts=made.restarts,
        restart=RESTART,
        minutes=_STARTUP // 60,
        floor=nodes - 1,
    )


_SYSTEM = "RUN apt-get update && apt-get install -y --no-install-recommends {} && rm -rf /var/lib/apt/lists/*\n"
_DOCKERFILE = """\
FROM python:{version}-slim
{system}RUN groupadd --gid {user} pdl && \\
    useradd --uid {user} --gid pdl --no-create-home --home-dir /tmp --shell /bin/bash pdl
COPY wheels /wheels
RUN pip install --no-cache-dir --find-links /wheels {packages}
ENV HOME=/tmp PYTHONUNBUFFERED=1
USER {user}:{user}
WORKDIR /runs
ENTRYPOINT ["python", "-m", "pdl.distributed.pods"]
"""

_NOTES = """\
# {name} on Kubernetes

{pods}, {processes} each, {threads} each. Kubernetes 1.31 or later; commands are for this folder.
{many}{lacking}
## Build, push, start

Wheels that no index has go into wheels/ first; in a checkout of pdl: `python tools/build_wheels.py --no-deps {only}
--out {wheels}`.

    docker build -t {image} .
    docker push {image}
{key}    kubectl apply -f runs.yaml -f training.yaml

## Look

    kubectl get pods -l app.kubernetes.io/name={name}
    kubectl logs -f -l app.kubernetes.io/name={name},batch.kubernetes.io/job-completion-index=0
    kubectl describe job {name}

## Stop, and go on

    kubectl patch job {name} --type=merge -p '{{"spec": {{"suspend": true}}}}'    # a checkpoint, then no pods
    kubectl patch job {name} --type=merge -p '{{"spec": {{"suspend": false}}}}'   # goes on from there

A Job that has failed, or was deleted, goes on likewise, as its run folder is there:

    kubectl delete job {name} --ignore-not-found && kubectl apply -f training.yaml

## Fetch the run

    kubectl run {name}-shell --image={image} --restart=Never --overrides='{{"spec": {{"volumes": [{{"name": "runs",
      "persistentVolumeClaim": {{"claimName": "{name}-runs"}}}}], "containers": [{{"name": "shell", "image": "{image}",
      "command": ["sleep", "3600"], "volumeMounts": [{{"name": "runs", "mountPath": "/runs"}}]}}]}}}}'
    kubectl wait --for=condition=Ready pod/{name}-shell
    kubectl cp {name}-shell:/runs/{run} {run}
    kubectl delete pod {name}-shell

## Delete

    kubectl delete -f training.yaml{secret}
    kubectl delete -f runs.yaml        # the runs, too

## What happens when

- A pod is evicted, its machine fails, or mpirun loses it: the training ends with a checkpoint where there is time
  ({grace} s), otherwise it goes back to the last one (train.checkpoint_seconds). All pods are made anew, exit code
  {restart}, and this counts as no failure.
- Exit codes 2 (the recipe is wrong) and 3 (the data is) end the Job at once. Others count: {restarts} failures end it.
- Machines that are drained wait for the training (PodDisruptionBudget); to let one pod go at a time:
  `kubectl patch pdb {name} --type=merge -p '{{"spec": {{"minAvailable": {floor}}}}}'`
- Where some pods find no machine the others wait {minutes} minutes, then fail.
- Processes that hang end the training after distributed.timeout, with the names of those that do not answer.
- Only pods of this Job may reach one another, where the cluster's network knows NetworkPolicy.
"""
