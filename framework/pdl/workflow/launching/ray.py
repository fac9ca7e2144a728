"""A RayJob for KubeRay 1.5.1 and later: the processes that train in the head's pod, table servers in pods of their own.

The operator forms the Ray cluster, draws its token, and runs the training as the Ray job of that cluster; what the
processes do there is what they do in a pod of a plain Job (`pdl.distributed.pods`).
"""

from __future__ import annotations

import shlex
from importlib import metadata
from pathlib import Path
from typing import Any

from pdl.config import Config
from pdl.config.tree import leaves
from pdl.errors import PackageError, UsageError
from pdl.workflow.launching.common import Layout, needed, paths_in, write_files
from pdl.workflow.launching.kubernetes import Manifests, checked, dockerfile, number, to_text

DASHBOARD, GCS = 8265, 6379
OPERATOR = {"app.kubernetes.io/name": "kuberay-operator"}


def to_ray(
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
    """Write Dockerfile, runs.yaml (the volume), training.yaml (all else) and NOTES.md into the folder `save`; arguments
    as those of `to_kubernetes`. The recipe says how many servers there are (distributed.tables).

    UsageError for a recipe without tables, and for processes on more than one machine.
    """
    values = {tuple(map(str, key)): value for key, value in leaves(recipe.plain())}
    servers = next((value for key, value in values.items() if key[-3:] == ("distributed", "tables", "servers")), None)
    tables = any(key[:2] == ("distributed", "tables") and len(key) > 2 for key in values)
    if not tables:
        raise UsageError(
            "--to ray is for tables on servers, and the recipe has none: add 'distributed.tables={servers: 2, mode: "
            "async}', or use --to k8s"
        )
    if places.nodes > 1:
        raise UsageError(
            f"--to ray: the processes that train share one pod, {places.nodes} are asked for; give --nodes 1 "
            f"--workers {places.workers}"
        )
    try:
        version = metadata.version("ray")
    except metadata.PackageNotFoundError as error:
        raise PackageError("--to ray names the version of Ray that is here: pip install 'pdl-core[ray]'") from error
    text, about = checked(recipe, places, image=image, run=run, name=name, memory=memory, storage=storage,
                          storage_class=storage_class, data=data)  # fmt: skip
    made = _RayManifests(**about, places=places, grace=grace, restarts=restarts)
    made.servers, made.version = int(servers or 1), version
    packages = [each.replace("[train,mpi]", "[train,mpi,ray]") for each in needed(recipe)]
    files = {
        "Dockerfile": dockerfile([*packages, f"ray[default]=={version}"], "wget"),  # the operator's probes call it
        "wheels/about.txt": "Wheels that pip does not find on an index go here (NOTES.md).\n",
        "runs.yaml": to_text(made.volume(storage, storage_class)),
        "training.yaml": to_text(*made.training(text)),
        "NOTES.md": _notes(made, recipe, Path(save)),
    }
    return write_files(save, files, force=force)


class _RayManifests(Manifests):
    servers: int
    version: str

    @property
    def shared(self) -> bool:
        """Servers keep their snapshots in the run folder."""
        return True

    def training(self, recipe: str) -> list[dict[str, Any]]:
        return [self.recipe(recipe), self.policy(), self.budget(1 + self.servers), self._job()]

    def policy(self) -> dict[str, Any]:
        """Only pods of this job reach one another, and the operator the dashboard: Ray's messages are pickles."""
        made = super().policy()
        operator = [{"namespaceSelector": {}, "podSelector": {"matchLabels": OPERATOR}}]
        made["spec"]["ingress"] = [
            {"from": [{"podSelector": {"matchLabels": self.labels}}]},
            {"from": operator, "ports": [{"port": DASHBOARD}]},
        ]
        return made

    def _job(self) -> dict[str, Any]:
        cores = self.places.places * self.places.threads
        spec = {
            "entrypoint": shlex.join(["python", "-m", "pdl.distributed.pods", *self.arguments()]),
            "submissionMode": "HTTPMode",  # the operator submits: no further pod
            "backoffLimit": self.restarts,
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": 600,
            "rayClusterSpec": {
                "rayVersion": self.version,
                "authOptions": {"mode": "token"},
                "headGroupSpec": {
                    "rayStartParams": {"num-cpus": "0", "dashboard-host": "0.0.0.0"},  # no server beside the training
                    "template": self._ray_pod(str(cores), head=True),
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "tables",
                        "replicas": self.servers,
                        "minReplicas": self.servers,
                        "maxReplicas": self.servers,
                        "rayStartParams": {"num-cpus": "1"},
                        "template": self._ray_pod("1", head=False),
                    }
                ],
            },
        }
        return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": self.meta(), "spec": spec}

    def _ray_pod(self, cores: str, *, head: bool) -> dict[str, Any]:
        """That of a plain Job, but for what the operator sets: the command, probes and restarts."""
        pod = self.pod()
        (plain,) = pod["containers"]
        amounts = {"cpu": cores, "memory": self.memory}
        container = {key: value for key, value in plain.items() if key not in ("args", "startupProbe", "livenessProbe")}
        container |= {"name": "ray", "resources": {"requests": amounts, "limits": dict(amounts)}}
        container["env"] = [*plain["env"], {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"}]
        if head:
            ports = {"gcs": GCS, "dashboard": DASHBOARD}
            container["ports"] = [{"name": name, "containerPort": port} for name, port in ports.items()]
        spec = {key: value for key, value in pod.items() if key != "restartPolicy"} | {"containers": [container]}
        return {"metadata": {"labels": self.labels}, "spec": spec}


def _notes(made: _RayManifests, recipe: Config, folder: Path) -> str:
    paths = "".join(f"\n    {each}" for each in paths_in(recipe))
    lacking = f"\nThe recipe names these paths, which the pods must have (override them in another launch):{paths}\n"
    return _NOTES.format(
        name=made.name,
        image=made.image,
        run=made.run,
        processes=number(made.places.places, "process"),
        servers=number(made.servers, "table server"),
        only=" ".join(f"--only {each.partition('[')[0].removeprefix('pdl-')}" for each in needed(recipe)),
        wheels=shlex.quote(str(folder.resolve() / "wheels")),
        lacking=lacking if paths else "",
        restarts=made.restarts,
        version=made.version,
    )


_NOTES = """\
# {name} on KubeRay

{processes} in the pod of Ray's head, {servers} in pods of their own, Ray {version}. The cluster needs the KubeRay
operator, 1.5.1 or later (https://docs.ray.io/en/latest/cluster/kubernetes); commands are for this folder. The volume is
mounted by every pod: its class must allow ReadWriteMany (NFS, CephFS, ...).
{lacking}
## Build, push, start

Wheels that no index has go into wheels/ first; in a checkout of pdl: `python tools/build_wheels.py --no-deps {only}
--out {wheels}`.

    docker build -t {image} .
    docker push {image}
    kubectl apply -f runs.yaml -f training.yaml

## Look

    kubectl get rayjob {name}
    kubectl get pods -l app.kubernetes.io/name={name}
    kubectl logs -f -l app.kubernetes.io/name={name},ray.io/node-type=head

What the training prints is in the run folder, too (train.log, logs/).

## Stop, and go on

    kubectl patch rayjob {name} --type=merge -p '{{"spec": {{"suspend": true}}}}'    # back to the last checkpoint
    kubectl patch rayjob {name} --type=merge -p '{{"spec": {{"suspend": false}}}}'   # goes on from there

A job that has failed, or was deleted, goes on likewise, as its run folder is there:

    kubectl delete rayjob {name} --ignore-not-found && kubectl apply -f training.yaml

## Delete

    kubectl delete -f training.yaml
    kubectl delete -f runs.yaml        # the runs, too

## What happens when

- A table server's pod is lost: the operator makes another, Ray starts the server there from its snapshot in the run
  folder, and the processes push again what this lacks.
- The head's pod is lost: the job fails; {restarts} times at most it is begun anew, and goes on from the last checkpoint
  (train.checkpoint_seconds).
- The operator draws the cluster's token (authOptions); only pods of this job, and the operator, may reach one another,
  where the cluster's network knows NetworkPolicy. Ray's messages are pickles, and not encrypted.
"""
