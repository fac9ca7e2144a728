"""What Kubernetes and KServe need to run `pdl serve`: a Deployment with what belongs to it, an InferenceService, and
the Dockerfile of their image, which has the models in it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pdl.errors import UsageError
from pdl.files import write_atomic
from pdl.runtime.bundle import read
from pdl.version import __version__
from pdl.workflow.launching.common import NAME, matched, write_files
from pdl.workflow.launching.kubernetes import IMAGE, SIZE, USER, to_text

PORT, GRPC = 8080, 8081
_SETTLE = 5  # seconds in which other machines learn that a pod ends


def to_kubernetes_serving(
    models: Mapping[tuple[str, str], Path],
    save: str | Path,
    *,
    image: str,
    name: str | None = None,
    memory: str = "1Gi",
    replicas: int = 2,
    options: Mapping[str, Any] | None = None,
    split: Sequence[str] = (),
    shadow: Sequence[str] = (),
    grpc: bool = False,
    force: bool = False,
) -> list[Path]:
    """Write Dockerfile, models/, deployment.yaml, inferenceservice.yaml and NOTES.md into the folder `save`.

    models    the bundle of each name and version
    image     what the Dockerfile's image is called, with the registry
    name      of Deployment and Service; by default that of the first model
    memory    of each pod
    options   of `pdl serve` by name; workers, threads and drain also say what a pod is given
    """
    name = name or next(iter(models))[0].lower().replace("_", "-").replace(".", "-")
    matched("--name", name, NAME, "a letter, then small letters, digits and dashes, 50 at most")
    matched("--image", image, IMAGE, "the name of a container image, such as registry.example/team/digits:1")
    matched("--memory", memory, SIZE, "a quantity such as 1Gi")
    folder, needs = Path(save), {"pdl-core[serve,train]" if not grpc else "pdl-core[grpc,serve,train]": __version__}
    for (model, number), path in models.items():
        bundle = read(path)
        needs |= {each: _version(each, path) for each in bundle.meta["requires"]}
        target = folder / "models" / model / number / "model.pdl"
        if target.exists() and not force and target.read_bytes() != path.read_bytes():
            raise UsageError(f"{target}: is there, and another one; name another folder (--save), or use --force")
    made = _Manifests(name, image, memory, replicas, dict(options or {}), [*split], [*shadow], grpc, list(models))
    files = {
        "Dockerfile": _DOCKERFILE.format(
            version=".".join(map(str, sys.version_info[:2])), user=USER,
            packages=" ".join(f'"{each}=={number}"' for each, number in sorted(needs.items())),
        ),
        "wheels/about.txt": "Wheels that pip does not find on an index go here (NOTES.md).\n",
        "deployment.yaml": to_text(made.policy(), made.service(), made.budget(), made.deployment()),
        "inferenceservice.yaml": to_text(made.inference_service()),
        "NOTES.md": _NOTES.format(
            name=name, image=image, port=PORT, replicas=replicas, drain=made.drain, first=next(iter(models))[0],
            models=", ".join(f"{model}:{number}" for model, number in models),
        ),
    }  # fmt: skip
    written = write_files(folder, files, force=force)
    for (model, number), path in models.items():
        target = folder / "models" / model / number / "model.pdl"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, path.read_bytes())
        written.append(target)
    return written


def _version(distribution: str, path: Path) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        raise UsageError(
            f"{path} needs {distribution}, which is not installed here; pip install {distribution}"
        ) from None


class _Manifests:
    def __init__(
        self, name: str, image: str, memory: str, replicas: int, options: dict[str, Any], split: list[str],
        shadow: list[str], grpc: bool, models: list[tuple[str, str]],
    ) -> None:  # fmt: skip
        self.name, self.image, self.memory, self.replicas, self.grpc = name, image, memory, replicas, grpc
        self.workers, self.threads = int(options.pop("workers", 1) or 1), int(options.pop("threads", 1) or 1)
        self.drain = int(options.get("drain", 30))
        self.words = [
            word for key, value in options.items() if value is not None for word in (f"--{key}", f"{value:g}")
        ]
        self.words += [
            word for flag, each in (("--split", split), ("--shadow", shadow)) for w in each for word in (flag, w)
        ]
        self.places = [f"{model}:{number}=/models/{model}/{number}/model.pdl" for model, number in models]
        self.labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "pdl"}

    def _meta(self) -> dict[str, Any]:
        return {"name": self.name, "labels": self.labels}

    def policy(self) -> dict[str, Any]:
        """Only its ports are open."""
        ports = [{"protocol": "TCP", "port": port} for port in (PORT, *([GRPC] if self.grpc else []))]
        spec = {
            "podSelector": {"matchLabels": self.labels}, "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": ports}], "egress": [],
        }  # fmt: skip
        return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": self._meta(), "spec": spec}

    def service(self) -> dict[str, Any]:
        """One name for all pods."""
        ports = [{"name": "http", "port": 80, "targetPort": "http"}]
        ports += [{"name": "grpc", "port": GRPC, "targetPort": "grpc"}] if self.grpc else []
        spec = {"selector": self.labels, "ports": ports}
        return {"apiVersion": "v1", "kind": "Service", "metadata": self._meta(), "spec": spec}

    def budget(self) -> dict[str, Any]:
        """One pod at a time is taken away."""
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": self.labels}}
        return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": self._meta(), "spec": spec}

    def deployment(self) -> dict[str, Any]:
        """The pods; a new one is ready before an old one ends."""
        spec = {
            "replicas": self.replicas,
            "selector": {"matchLabels": self.labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {"metadata": {"labels": self.labels}, "spec": self.pod(self.name)},
        }
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": self._meta(), "spec": spec}

    def inference_service(self) -> dict[str, Any]:
        """The same for KServe, which makes Deployment, Service and the way in from outside itself."""
        pod = self.pod("kserve-container")
        (container,) = pod["containers"]
        del container["lifecycle"]  # KServe's own: it waits for the way in to know
        container["ports"] = [{"containerPort": PORT, "protocol": "TCP"}]
        meta = {**self._meta(), "annotations": {"serving.kserve.io/deploymentMode": "RawDeployment"}}
        return {
            "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": meta,
            "spec": {"predictor": {"minReplicas": 1, "maxReplicas": self.replicas, **pod}},
        }  # fmt: skip

    def pod(self, container: str) -> dict[str, Any]:
        """A pod without rights, whose files cannot be changed."""
        secret = {"name": "token", "secret": {"secretName": f"{self.name}-token", "defaultMode": 0o440}}
        return {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": self.drain + 2 * _SETTLE,
            "securityContext": {
                "runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [self._container(container)],
            "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}, secret],
        }  # fmt: skip

    def _container(self, name: str) -> dict[str, Any]:
        amounts = {"cpu": str(self.workers * self.threads), "memory": self.memory}
        words = ["--host", "0.0.0.0", "--port", str(PORT), "--workers", str(self.workers),
                 "--threads", str(self.threads), "--token-file", "/etc/pdl/token/token", *self.words]  # fmt: skip
        ports = [{"name": "http", "containerPort": PORT}]
        if self.grpc:
            words += ["--grpc", str(GRPC)]
            ports.append({"name": "grpc", "containerPort": GRPC})
        ready = {"httpGet": {"path": "/v2/health/ready", "port": PORT}}
        return {
            "name": name,
            "image": self.image,
            "args": [*self.places, *words],
            "ports": ports,
            "resources": {"requests": amounts, "limits": dict(amounts)},
            "startupProbe": {**ready, "periodSeconds": 2, "failureThreshold": 150},
            "readinessProbe": {**ready, "periodSeconds": 5, "timeoutSeconds": 3},
            "livenessProbe": {
                "httpGet": {"path": "/v2/health/live", "port": PORT}, "periodSeconds": 10, "timeoutSeconds": 5,
                "failureThreshold": 6,
            },
            "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(_SETTLE)]}}},
            "securityContext": {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": "tmp", "mountPath": "/tmp"},
                {"name": "token", "mountPath": "/etc/pdl/token", "readOnly": True},
            ],
        }  # fmt: skip


_DOCKERFILE = """\
FROM python:{version}-slim
RUN groupadd --gid {user} pdl && useradd --uid {user} --gid pdl --no-create-home --home-dir /tmp --shell /bin/bash pdl
COPY wheels /wheels
RUN pip install --no-cache-dir --find-links /wheels {packages}
COPY models /models
ENV HOME=/tmp PYTHONUNBUFFERED=1 PDL_OFFLINE=1
USER {user}:{user}
WORKDIR /tmp
EXPOSE 8080
ENTRYPOINT ["pdl", "serve"]
"""

_NOTES = """\
# {name}: {models}

Commands are for this folder. Wheels that no index has go into wheels/ first.

    docker build -t {image} .
    docker run --rm --read-only --tmpfs /tmp -p 127.0.0.1:{port}:{port} {image} \\
      /models/{first} --host 0.0.0.0 --port {port}
    docker push {image}

Requests show a token, which is a Secret:

    kubectl create secret generic {name}-token --from-literal=token="$(openssl rand -hex 32)"

## Deployment

{replicas} pods behind the Service {name}; Kubernetes 1.27 or later.

    kubectl apply -f deployment.yaml
    kubectl rollout status deployment {name}
    kubectl port-forward service/{name} {port}:80 &
    curl -H "Authorization: Bearer $(kubectl get secret {name}-token -o jsonpath='{{.data.token}}' | base64 -d)" \\
      http://127.0.0.1:{port}/v2/models/{first}

## KServe

    kubectl apply -f inferenceservice.yaml
    kubectl get inferenceservice {name}

It speaks the Open Inference Protocol, so KServe's clients and tritonclient work as they are.

## What happens when

- A pod is told to end: others learn of it for some seconds, then it answers what it was asked, {drain} s at most.
- Another image: a new pod is ready before an old one ends (`kubectl set image deployment {name} {name}=IMAGE`).
- A model takes longer than --timeout: the request gets 504; more wait than --queue: 429, with Retry-After.
- Pods reach nothing and hold no rights; ports are all that is open, where the cluster's network knows NetworkPolicy.
- Prometheus reads /metrics with the same token (`authorization` of its scrape config).
"""
