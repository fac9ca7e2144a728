"""The same training on several machines: over ssh from here, or as files for Slurm, Kubernetes and KubeRay.

on_hosts("cv/digits_lenet", ["node1:2", "node2:2"])              # the command line of mpirun
to_slurm(recipe, "job", Layout(4, 2, threads=4), time="2:00:00")    # files
to_kubernetes(recipe, "job", Layout(4), image="registry.example/digits:1")
to_ray(recipe, "job", Layout(1, 2), image="registry.example/clicks:1")
"""

from pdl.workflow.launching.common import Layout, layout
from pdl.workflow.launching.hosts import on_hosts
from pdl.workflow.launching.kubernetes import to_kubernetes
from pdl.workflow.launching.ray import to_ray
from pdl.workflow.launching.serving import to_kubernetes_serving
from pdl.workflow.launching.slurm import to_slurm

__all__ = ["Layout", "layout", "on_hosts", "to_kubernetes", "to_kubernetes_serving", "to_ray", "to_slurm"]
