"""Checks on a machine with a GPU what cannot be checked without one, most valuable first, and measures it. Standard library.

gpu_check.py --bin=DIR [--out=DIR] [--limit=470] [--seconds=1] [--only=WORD,...] [--skip=WORD,...] [--pretend]

Writes into --out, after every check: results.json, log.txt (what is printed) and raw.txt (the output of every program). A check
that fails stops no other one; a check for which too little of --limit is left is skipped. --only and --skip choose checks by
words in their names. --pretend takes the CPU in the GPU's place and leaves out what means nothing there, to test the checks
themselves. Exit codes: 0 no check failed, 1 one failed, 2 the command line is wrong.
"""

import argparse
import concurrent.futures
import glob
import importlib.util
import os
import sys
import threading
import time
import traceback

import exact
import groups
import hangs
import machine
import recovery
import training
from kit import CHECKS, Failed, Kit, Skipped

ORDER = [machine.facts, machine.ddprun_looks, training.first_training_under_ddprun, training.rates_mlp, exact.deterministic,
         exact.checkpoint_moves, groups.gloo_two_ranks_one_gpu, groups.nccl_two_ranks, groups.nccl_every_gpu,
         recovery.recovery_trainer, recovery.recovery_python_preload, recovery.recovery_python_no_flag,
         training.rates_vgg11, training.rates_transformer, recovery.recovery_nccl_two_ranks, groups.nccl_every_collective,
         hangs.hang_evidence, hangs.nccl_timeout, training.every_model, training.precisions_and_options,
         training.devices_and_launchers, recovery.recovery_torchrun, recovery.recovery_python_cold,
         recovery.recovery_trainer_cold, training.rates_mlp_compiled, training.rates_vgg11_compiled,
         training.rates_transformer_compiled, training.sanitizer]


def read_libraries_ahead(kit):
    """Reads torch's gigabytes of libraries once beside the first checks, so that later ones find them in memory."""
    spec = importlib.util.find_spec("torch")
    if spec is None:
        return
    site = os.path.dirname(spec.submodule_search_locations[0])
    files = sorted(glob.glob(f"{site}/torch/lib/*.so*") + glob.glob(f"{site}/nvidia/*/lib/*.so*"), key=os.path.getsize, reverse=True)

    def size_read(path):
        room, total = bytearray(1 << 22), 0
        with open(path, "rb", buffering=0) as file:
            while got := file.readinto(room):
                total += got
        return total

    def read_all():
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            total = sum(pool.map(size_read, files))
        kit.results["libraries_read"] = {"bytes": total, "seconds": round(time.monotonic() - began, 1)}
    threading.Thread(target=read_all, daemon=True).start()


def run_check(kit, seconds, gpu, function):
    """One check: its status, what it measured, and why it failed."""
    began = time.monotonic()
    if gpu and kit.pretend:
        return {"status": "skipped", "why": "there is no GPU"}
    if kit.left() < max(seconds, 5):
        return {"status": "skipped", "why": f"{max(0, kit.left()):.0f} s are left"}
    kit.say(function.__name__)
    result = {"status": "ok"}
    try:
        result["told"] = function(kit)
    except Failed as failure:
        result = {"status": "skipped" if kit.cut_off else "failed", "why": str(failure), "told": failure.told}
    except Skipped as reason:
        result = {"status": "skipped", "why": str(reason), "told": reason.told}
    except Exception as error:  # Of the check itself; the others continue.
        result = {"status": "failed", "why": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    if result["status"] != "ok":
        kit.say(f"  {result['status'].upper()}: {result['why'][:700]}")
    result["seconds"] = round(time.monotonic() - began, 1)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, help="the folder of ddprun, ddprun-train and ddprun-bench-comm")
    parser.add_argument("--out", default=os.environ.get("OUT") or "gpu-check")
    parser.add_argument("--limit", type=float, default=470, help="seconds for everything")
    parser.add_argument("--seconds", type=float, default=1, help="each rate is measured for so long")
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", default="")
    parser.add_argument("--pretend", action="store_true")
    asked = parser.parse_args()
    if not os.access(os.path.join(asked.bin, "ddprun-train"), os.X_OK):
        parser.error(f"there is no ddprun-train in {asked.bin}")
    checks = {name: (seconds, gpu, function) for name, seconds, gpu, _, function in CHECKS}
    builds_on = {name: after for name, _, _, after, _ in CHECKS if after}
    chosen = [function.__name__ for function in ORDER]
    assert set(chosen) == set(checks), "a check has no place in ORDER"
    only, skip = ([word for word in words.split(",") if word] for words in (asked.only, asked.skip))
    wanted = {name for name in chosen if (not only or any(word in name for word in only)) and not any(word in name for word in skip)}
    wanted |= {builds_on[name] for name in wanted & builds_on.keys()}
    chosen = [name for name in chosen if name in wanted]
    kit = Kit(asked)
    try:
        if not kit.pretend:
            read_libraries_ahead(kit)
        for name in chosen:
            kit.results["checks"][name] = run_check(kit, *checks[name])
            kit.results["seconds"] = round(kit.limit - kit.left(), 1)
            kit.write_results()
    finally:
        kit.close()
    states = [one["status"] for one in kit.results["checks"].values()]
    for state in ("failed", "skipped"):
        names = [name for name, one in kit.results["checks"].items() if one["status"] == state]
        if names:
            kit.say(f"{state}: {' '.join(names)}")
    kit.say(f"{states.count('ok')} ok, {states.count('failed')} failed, {states.count('skipped')} skipped, in {kit.limit - kit.left():.0f} s")
    return 1 if "failed" in states or "ok" not in states else 0


if __name__ == "__main__":
    sys.exit(main())
