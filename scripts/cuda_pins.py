"""Prints what compiling against the CUDA libraries of a torch needs, pinned by hash: cuda_pins.py VERSION

That torch, the wheels of NVIDIA whose headers it includes, and two wheels of headers that it does not name itself.
"""

import json
import subprocess
import sys

WHEELS = ("torch", "nvidia-cublas", "nvidia-cusparse", "nvidia-nccl-cu13", "nvidia-cuda-runtime", "nvidia-cuda-cupti")
HEADERS = ("nvidia-cuda-crt", "nvidia-cuda-cccl")
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_25", "manylinux_2_24", "manylinux_2_18", "manylinux_2_17",
             "manylinux2014")


def chosen(*requirements, more=()):
    """What pip would install: name -> (version, hash)."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run", "--ignore-installed",
               "--report=-", "--only-binary=:all:", "--python-version=312", "--target=/nowhere", *more,
               *(f"--platform={one}_x86_64" for one in PLATFORMS), *requirements]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return {item["metadata"]["name"].lower().replace("_", "-"):
            (item["metadata"]["version"], item["download_info"]["archive_info"]["hashes"]["sha256"])
            for item in json.loads(done.stdout)["install"]}


def main():
    found = chosen(f"torch=={sys.argv[1]}")
    missing = [name for name in WHEELS if name not in found]
    if missing:
        sys.exit(f"torch {sys.argv[1]} does not bring {', '.join(missing)}")
    major, minor = found["nvidia-cuda-runtime"][0].split(".")[:2]
    found.update(chosen(*(f"{name}=={major}.{minor}.*" for name in HEADERS), more=["--no-deps"]))
    print(f"# Of torch {sys.argv[1]}, by scripts/cuda_pins.py.")
    for name in (*WHEELS, *HEADERS):
        version, digest = found[name]
        print(f"{name}=={version} \\\n    --hash=sha256:{digest}")


if __name__ == "__main__":
    main()
