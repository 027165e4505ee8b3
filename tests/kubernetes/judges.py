"""Manifests judged by the schemas and models of their own APIs, whose import takes a second."""

import contextlib
import io

import kubeflow_trainer_api.models as models
import kubernetes_validate

VERSIONS = ("1.31", "1.37")  # podFailurePolicy is stable since the first; the newest that is known.


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
