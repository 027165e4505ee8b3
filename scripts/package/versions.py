"""The wheels' versions, which scripts/package.sh has from the build: a provider of dynamic metadata."""

import os


def dynamic_metadata(settings, _project):
    version, torch = os.environ["DDPRUN_PACKAGE_VERSION"], os.environ["DDPRUN_PACKAGE_TORCH"]
    known = {"version": version, "dependencies": [f"ddprun=={version}", f"torch=={torch}"]}
    return {field: known[field] for field in settings["fields"]}
