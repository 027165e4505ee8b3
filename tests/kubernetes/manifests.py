"""Manifests as a cluster sees them: read, judged by the schemas and models of their own APIs, and what
kubelet makes of a container's command."""

import contextlib
import io
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import kubeflow_trainer_api.models as models  # noqa: E402
import kubernetes_validate  # noqa: E402
import yaml  # noqa: E402

from ddprun_runs import DDPRUN  # noqa: E402

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "kubernetes")
VERSIONS = ("1.31", "1.37")  # podFailurePolicy is stable since the first; the newest that is known.


def printed(*arguments):
    return subprocess.run([DDPRUN, "k8s-manifest", *arguments], check=True, capture_output=True,
                          text=True).stdout


def objects(text):
    return list(yaml.safe_load_all(text))


def judge_built_in(thing):
    """Raises for what an API server would refuse, unknown fields too."""
    for version in VERSIONS:
        with contextlib.redirect_stdout(io.StringIO()):
            kubernetes_validate.validate(thing, version, strict=True)


def judge_by_model(thing, model):
    """A field that the model lacks is lost on the way, one of another type raises."""
    back = model.from_dict(thing).to_dict()
    assert back == thing, f"{thing}\nbecomes\n{back}"


def judge(thing):
    kind = thing["kind"]
    if kind == "TrainJob":
        judge_by_model(thing, models.TrainerV1alpha1TrainJob)
    elif kind == "JobSet":
        judge_by_model(thing, models.JobsetV1alpha2JobSet)
        for job in thing["spec"]["replicatedJobs"]:
            judge_built_in({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]},
                            **job["template"]})
    else:
        judge_built_in(thing)


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
