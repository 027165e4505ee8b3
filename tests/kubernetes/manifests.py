"""Manifests as a cluster reads them, and what kubelet makes of a container's command."""

import os
import re
import subprocess

import yaml

from ddprun_runs import DDPRUN

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "kubernetes")


def printed(*arguments):
    return subprocess.run([DDPRUN, "k8s-manifest", *arguments], check=True, capture_output=True,
                          text=True).stdout


def objects(text):
    return list(yaml.safe_load_all(text))


def expanded(word, environment):
    """As kubelet does: $(NAME) of what is set, $$ is one $, all else stays."""
    def one(match):
        if match[0] == "$$":
            return "$"
        return environment.get(match[1], match[0])
    return re.sub(r"\$\$|\$\(([^)]*)\)", one, word)


def container_of(things):
    """The last object's: of a Job, a JobSet, or a TrainJob's trainer."""
    spec = things[-1]["spec"]
    if "trainer" in spec:
        return spec["trainer"]
    if "replicatedJobs" in spec:
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    return spec["template"]["spec"]["containers"][0]
