"""The machine itself, and ddprun's view of its GPUs."""

import json
import re
import sys

from kit import Failed, check


@check(25, gpu=False)
def facts(kit):
    told = {}
    for name, command in {
        "gpu": "nvidia-smi --query-gpu=name,uuid,memory.total,driver_version,pci.bus_id,clocks.sm,clocks.mem,power.draw,"
               "temperature.gpu,mig.mode.current,compute_mode,persistence_mode --format=csv,noheader",
        "kernel": "uname -a", "system": "head -n 3 /etc/os-release",
        "libc": "ldd --version | head -n 1", "cpus": "nproc; grep -m1 'model name' /proc/cpuinfo",
        "memory": "free -m; df -h / /dev/shm /tmp", "devices": "ls -l /dev/nvidia* 2>&1",
        "proc": "cat /proc/driver/nvidia/gpus/*/information 2>&1 | head -n 20",
        "driver": "ls -d /usr/local/nvidia/* 2>&1; ldconfig -p | grep -E 'libcuda.so|libnvidia-ml'",
        "tools": "which nvcc compute-sanitizer ncu cuda-gdb gdb py-spy unshare torchrun",
        "torch": f"{sys.executable} -c 'import torch as t; print(t.__version__, t.version.cuda, t.cuda.is_available() and t.cuda.nccl.version())'",
        "environment": "env | grep -E 'CUDA|NVIDIA_VIS|NCCL|LD_LIBRARY|^PATH|TORCH' | sort",
    }.items():
        ended = kit.run(["bash", "-c", command], 100)
        told[name] = (ended.out + ended.err).strip()[:600]
    kit.say(f"GPU: {told['gpu']}")
    return told


def gpus_counted(kit, visible):
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    ended = kit.run(kit.ddprun("--dry-run", "--nproc-per-node=gpu", "true"), 10, environment)
    count = re.search(r"count +(\d+ on this node)", ended.out)
    return [ended.code, count[1] if count else ended.tail()[:200]]


@check(10, gpu=False)
def ddprun_looks(kit):
    """ddprun env, ddprun check, GPU health, and what ddprun makes of CUDA_VISIBLE_DEVICES."""
    env = kit.run(kit.ddprun("env"), 15).expect()
    checked = kit.run(kit.ddprun("check"), 20)
    commanded = kit.run(kit.ddprun("check", "--node-check=nvidia-smi -L"), 20)
    as_json = kit.run(kit.ddprun("check", "-o", "json"), 20)
    told = {"env": env.out[:3000], "check": [checked.code, checked.out[:1500]], "node check": [commanded.code, commanded.out[-300:]],
            "check_json": json.loads(as_json.out or "{}")}
    if kit.pretend:
        return told
    uuid = re.search(r"GPU-[0-9a-f-]+", env.out)
    found = re.search(r"^GPUs\n\s+found\s+(\d+)", env.out, re.M)
    every = [0, f"{kit.gpus} on this node"]
    told["visible"] = {str(value): gpus_counted(kit, value) for value in (None, "0", "", "99", uuid[0] if uuid else "0")}
    wanted = {"None": every, "0": [0, "1 on this node"], uuid[0] if uuid else "0": [0, "1 on this node"]}
    wrong = [name for name, value in wanted.items() if told["visible"][name] != value]
    wrong += [name for name in ("", "99") if told["visible"][name][0] != 2]
    for flag, code in (("--gpus=0", 0), (f"--gpus={kit.gpus}", 2), ("--virtual-local-rank", 0), ("--numa-binding=node", 0)):
        ended = kit.run(kit.ddprun("--dry-run", flag, "true"), 10)
        told[flag] = [ended.code, "" if ended.code == 0 else ended.tail()[:200]]
        wrong += [flag] if ended.code != code else []
    if not found or int(found[1]) != kit.gpus:
        wrong.append("ddprun env counts other GPUs than nvidia-smi")
    if checked.code != 0 or not re.search(r" \d+ of \d+ well .* ok$", checked.out, re.M) or commanded.code != 0:
        wrong.append("ddprun check does not find the GPUs well")
    if "libtorch of unknown version" in env.out:
        wrong.append("ddprun env does not know libtorch's version")
    kit.say("  ddprun check: " + " | ".join(checked.out.splitlines()[:8])[:400])
    if wrong:
        raise Failed(f"{wrong}", told)
    return told
