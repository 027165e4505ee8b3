"""From a SIGKILL to the next step: ddprun-train, an ordinary PyTorch program with each kind of --preload, and torchrun."""

import json
import os
import signal
import subprocess
import sys
import time

from groups import over_nccl, start_pair, two_hosts
from kit import HERE, Failed, Skipped, check, eventually, json_lines, read_text, summary_of, workers_below

STEPS = os.path.join(HERE, "ddp_steps.py")
RESTARTS = ("--max-restarts=9", "--crash-loop-limit=0")


def status_of_run(kit):
    asked = subprocess.run([kit.ddprun_path, "status", "-o", "json"], env=kit.environment, capture_output=True, timeout=5, check=False)
    try:
        return json.loads(asked.stdout)["runs"][0]
    except (ValueError, LookupError):
        return {}


def preloaded(kit):
    """The words of `ddprun status` on the preload process of the only node."""
    return "".join(fact["value"] for node in status_of_run(kit).get("nodes", []) for fact in node["facts"] if fact["name"] == "preload")


def recover_trainer(kit, agents, *flags, kills):
    """Kills a worker several times: the time to the next line of metrics, which are written every 10 ms."""
    folder = kit.folder()
    metrics = os.path.join(folder, "metrics")
    command = [kit.train_path, "--epochs=100000", "--progress-every=0.01", f"--checkpoint-dir={folder}/c", f"--metrics={metrics}", *flags]
    processes = start_pair(kit, agents, command, folder)
    lines_ms = []
    try:
        for kill in range(kills):
            def generation_runs(kill=kill):
                points = json_lines(metrics)
                generation = points[-1]["gen"] if points else 0
                return generation > kill and sum(p["gen"] == generation for p in points) > 50 and points[-1]
            last = eventually(generation_runs, max(1, min(30, kit.left() - 8)))
            if not last:
                raise Failed(f"no world after {kill} kills")
            began = time.time()
            os.kill(workers_below(processes[-1].pid)[-1], signal.SIGKILL)
            line = eventually(lambda: next((p for p in json_lines(metrics)[-40:] if p["gen"] > last["gen"]), None),
                              max(1, min(30, kit.left() - 5)))
            if not line:
                raise Failed(f"no step after kill {kill + 1}: {lines_ms}")
            lines_ms.append(1e3 * (line["t"] - began))
    finally:
        ended = kit.stop_all(processes)
    return recovered(kit, ended, {"ms": summary_of(lines_ms)})


def recovered(kit, ended, told):
    told["cold"] = [line for one in ended for line in one.err.splitlines() if "--preload not used" in line][:2]
    kit.say(f"  {told}")
    if told["cold"]:
        raise Failed("workers were not forked", told)
    return told


def recover_python(kit, under, kills, environment=None, automatic=False):
    """The same of ddp_steps.py: to its first step, synchronized with the GPU. `automatic`: each kill waits until ddprun has loaded
    torch by itself."""
    folder = kit.folder()
    stamps = os.path.join(folder, "stamps")
    began = time.monotonic()
    process = kit.start([*under, STEPS, stamps], folder, environment)

    def seen(what, count):
        found = [line.split() for line in read_text(stamps).splitlines()]
        times = [int(words[3]) / 1e9 for words in found if words[2:3] == [what] and len(words) == 4]
        return len(times) >= count and times[count - 1]
    took, start = [], 0
    try:
        for kill in range(kills + 1):
            first = eventually(lambda kill=kill: seen("first", kill + 1), max(1, min(60, kit.left() - 5)))
            if not first:
                raise Failed(f"no step after {kill} kills: {took}")
            if kill == 0:
                start = first - began
            else:
                took.append(1e3 * (first - killed))
            if kill == kills or kit.left() < 15:
                break
            eventually(lambda kill=kill: seen("settled", kill + 1), 20)
            if automatic and not eventually(lambda: "has loaded torch" in preloaded(kit), max(1, min(40, kit.left() - 5))):
                raise Failed(f"nothing was loaded ahead: {preloaded(kit)}", took)
            victim = workers_below(process.pid)[-1]
            killed = time.monotonic()
            os.kill(victim, signal.SIGKILL)
    finally:
        ended = kit.stop(process)
    return recovered(kit, [ended], {"ms": summary_of(took), "start_to_first_step_s": round(start, 2)})


def python_only(kit):
    if not kit.has_torch:
        raise Skipped(f"{sys.executable} has no torch")


@check(25, gpu=False)
def recovery_trainer(kit):
    agent = (kit.ddprun("--nproc-per-node=1", *RESTARTS), None)
    return recover_trainer(kit, [agent], f"--device={kit.device}", kills=2 if kit.pretend else 5)


@check(20)
def recovery_trainer_cold(kit):
    agent = (kit.ddprun("--preload=none", "--nproc-per-node=1", *RESTARTS), None)
    return recover_trainer(kit, [agent], f"--device={kit.device}", kills=2)


@check(25, gpu=False)
def recovery_python_preload(kit):
    python_only(kit)
    return recover_python(kit, kit.ddprun("--preload=torch,torch._dynamo", "--nproc-per-node=1", *RESTARTS), 1 if kit.pretend else 3)


@check(30)
def recovery_python_no_flag(kit):
    """Where the CPUs have nothing else to do: loading gives way to them (preload_auto_test.py sees to the rest)."""
    python_only(kit)
    return recover_python(kit, kit.ddprun("--nproc-per-node=1", *RESTARTS), 3, automatic=True)


@check(25)
def recovery_python_cold(kit):
    python_only(kit)
    return recover_python(kit, kit.ddprun("--preload=none", "--nproc-per-node=1", *RESTARTS), 2)


@check(30)
def recovery_torchrun(kit):
    python_only(kit)
    return recover_python(kit, [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1", "--max-restarts=9",
                                "--monitor-interval=0.1"], 2, environment={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})


@check(20, gpu=False, after="nccl_two_ranks")
def recovery_nccl_two_ranks(kit):
    """A kill under NCCL, with a peer that the kill does not touch."""
    if not kit.two_nccl_ranks:
        raise Skipped("two ranks of NCCL do not run here (nccl_two_ranks)")
    return recover_trainer(kit, two_hosts(kit, *RESTARTS), *over_nccl(kit), kills=1 if kit.pretend else 2)
