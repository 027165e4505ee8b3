"""Trainings of one process on the GPU: that they work, how fast they are, and how fast plain PyTorch is in turn with them."""

import contextlib
import os
import re
import shutil
import subprocess
import sys

from kit import HERE, Failed, Skipped, check, eventually, json_lines, summary_of

MODELS = ("mlp", "linear", "toy", "cnn", "vgg11", "transformer")
# Small sets for a whole epoch; large ones so that an epoch, after which ddprun-train saves, takes long.
SMALL = {"toy": ["--data-arg=train=4000,test=40"], "vgg11": ["--limit-train=5000"],
         "transformer": ["--data-arg=train=640,test=32"]}
LARGE = {"toy": ["--data-arg=train=1048576,test=40"], "transformer": ["--data-arg=train=262144,test=32"]}
GRAPH = ["--cuda-graph"]
COMPILED = ["compile:host", "overhead:host"]


@check(15, gpu=False)
def first_training_under_ddprun(kit):
    """Forked from the preload process, which ddprun-train is by default, and started from its file."""
    forked = kit.train("--epochs=1", "--limit-train=6400", under=kit.ddprun("--nproc-per-node=1"), limit=100)
    cold = kit.train("--epochs=1", "--limit-train=6400", under=kit.ddprun("--preload=none", "--nproc-per-node=1"), limit=30)
    told = {"forked": [forked.code, round(forked.seconds, 2)], "from its file": [cold.code, round(cold.seconds, 2)]}
    if forked.code != 0 or cold.code != 0:
        raise Failed(f"{forked.tail()} {cold.tail()}", told)
    return told


@check(20)
def every_model(kit):
    """Each model for an epoch, eager and replayed from a CUDA graph."""
    return an_epoch_each(kit, {f"{model} {name}": [f"--model={model}", *SMALL.get(model, []), *flags]
                               for model in MODELS for name, flags in {"eager": [], "graph": GRAPH}.items()})


def an_epoch_each(kit, trainings):
    """Trains an epoch with the flags of each name."""
    told, failures, left_out = {}, [], []
    for name, flags in trainings.items():
        if kit.left() < 12:
            left_out.append(name)
            continue
        ended = kit.train("--epochs=1", *flags, limit=40)
        told[name] = [ended.code, round(ended.seconds, 2), ended.out.strip().splitlines()[-1:]]
        wanted = ["replayed from a CUDA graph"] if "--cuda-graph" in flags else []
        wanted += ["on GPU 0"] if not any(flag.startswith("--split-devices") for flag in flags) else []
        if ended.code != 0 or not all(text in ended.err for text in wanted):
            failures.append(f"{name}: {ended.tail()}")
    return judged(told, failures, left_out)


def judged(told, failures, left_out=()):
    """The result of a check of several parts."""
    if failures:
        raise Failed("; ".join(failures), told)
    if left_out:
        raise Skipped(f"no time for {', '.join(left_out)}", told)
    return told


def rate_of(kit, model, *flags):
    """Trains for some seconds, then stops: samples a second between the first report and the last one."""
    folder = kit.folder()
    metrics = os.path.join(folder, "metrics")
    process = kit.start([kit.train_path, f"--device={kit.device}", f"--model={model}", "--epochs=100000", "--progress-every=0.1",
                         "--checkpoint-every=1000000000", f"--checkpoint-dir={folder}/c", f"--metrics={metrics}",
                         *LARGE.get(model, []), *flags], folder)

    def long_enough():
        points = json_lines(metrics)
        return process.poll() is not None or len(points) > 2 and points[-1]["t"] - points[2]["t"] >= kit.seconds
    eventually(long_enough, max(1, min(40, kit.left() - 5)))
    early = process.poll() is not None
    ended = kit.stop(process, 20)
    points = json_lines(metrics)[2:]  # By then a graph is recorded.
    shutil.rmtree(os.path.join(folder, "c"), ignore_errors=True)  # Up to half a gigabyte, perhaps in memory.
    if early or len(points) < 2:
        raise Failed(f"{model} {flags}: {len(points)} reports, ended with {ended.code}: {ended.tail()}")
    if "--cuda-graph" in flags and "replayed from a CUDA graph" not in ended.err:
        raise Failed(f"{model} {flags}: nothing was replayed: {ended.tail()}")
    batch = int(re.search(r"global batch (\d+)", ended.err)[1])
    return batch * (points[-1]["step"] - points[0]["step"]) / (points[-1]["t"] - points[0]["t"])


class Peer:
    """peer.py, which trains one way at a time when it is asked to."""

    def __init__(self, kit, model):
        self.kit, self.folder = kit, kit.folder()
        self.process = kit.start([sys.executable, os.path.join(HERE, "peer.py"), model, f"--device={kit.device}", f"--mnist={kit.mnist}",
                                  f"--seconds={kit.seconds}"], self.folder, stdin=subprocess.PIPE)
        self.asked = 0

    def measure(self, way, limit=120):  # The first time torch.compile has its work.
        self.asked += 1
        try:
            self.process.stdin.write(f"{way}\n".encode())
            self.process.stdin.flush()
        except (OSError, ValueError):  # It has ended.
            raise Failed(f"{way}: peer.py has ended") from None
        output = os.path.join(self.folder, "run.out")
        eventually(lambda: len(json_lines(output)) >= self.asked or self.process.poll() is not None,
                   max(1, min(limit, self.kit.left() - 4)))
        lines = json_lines(output)
        if len(lines) < self.asked or "error" in lines[-1]:
            raise Failed(f"{way}: {lines[-1].get('error') if len(lines) == self.asked else self.close().tail()}")
        return lines[-1]

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        return self.kit.finish(self.process, 10)


def in_rounds(kit, model, rounds, ours, theirs):
    """Both sides alternately, all ways in each round: median, least and most samples a second of each."""
    rates = {**{f"ddprun-train {name}": [] for name in ours}, **{f"torch {way}": [] for way in theirs}}
    peer = Peer(kit, model) if theirs and kit.has_torch else None
    told, failures = {}, set()
    try:
        for way in theirs if peer else ():  # Compiles, records and warms: not counted.
            try:
                told[f"first {way}"] = peer.measure(way)
            except Failed as failure:
                failures.add(str(failure))
        for _ in range(rounds):
            for name, flags in ours.items():
                if kit.left() > 8:
                    rates[f"ddprun-train {name}"].append(rate_of(kit, model, *flags))
            for way in theirs if peer else ():
                if kit.left() > 8 and f"first {way}" in told:
                    try:
                        rates[f"torch {way}"].append(peer.measure(way)["samples_per_s"])
                    except Failed as failure:
                        failures.add(str(failure))
    finally:
        if peer:
            peer.close()
    told["samples_per_s"] = {name: summary_of(found) for name, found in rates.items() if found}
    for name, found in told["samples_per_s"].items():
        kit.say(f"  {model:12} {name:26} {found['median']:>12,.0f} samples/s ({found['least']:,.0f} to {found['most']:,.0f})")
    return judged(told, failures, [name for name, found in rates.items() if len(found) < rounds and (peer or "torch" not in name)])


def both(kit):
    return {"eager": []} if kit.pretend else {"eager": [], "graph": GRAPH}


@check(20, gpu=False)
def rates_mlp(kit):
    return in_rounds(kit, "mlp", 1 if kit.pretend else 5, both(kit),
                   ["eager:host"] if kit.pretend else ["eager:host", "eager:gpu", "graph:host", "graph:gpu"])


@check(20)
def rates_vgg11(kit):
    return in_rounds(kit, "vgg11", 3, both(kit), ["eager:host", "graph:host"])


@check(20)
def rates_transformer(kit):
    return in_rounds(kit, "transformer", 3, both(kit), ["eager:host", "graph:host"])


@check(25)
def rates_mlp_compiled(kit):
    return in_rounds(kit, "mlp", 2, {"graph": GRAPH}, COMPILED)


@check(25)
def rates_vgg11_compiled(kit):
    return in_rounds(kit, "vgg11", 1, {"graph": GRAPH}, COMPILED)


@check(25)
def rates_transformer_compiled(kit):
    return in_rounds(kit, "transformer", 1, {"graph": GRAPH}, COMPILED)


@check(10)
def precisions_and_options(kit):
    return an_epoch_each(kit, {
        "fp16": ["--model=vgg11", "--limit-train=5000", "--autocast=fp16"],
        "fp16 graph": ["--model=vgg11", "--limit-train=5000", "--autocast=fp16", *GRAPH],
        "bf16 graph": ["--model=vgg11", "--limit-train=5000", "--autocast=bf16", *GRAPH],
        "graph while saving": [*GRAPH, "--limit-train=20000", "--checkpoint-every=1"],
        "clip over cuda and cpu": ["--model=toy", "--split-devices=cuda:0,cpu", "--clip-norm=0.1"],
        "clip and norm from a graph": [*GRAPH, "--clip-norm=0.1", "--grad-norm"],
    })


@check(10)
def devices_and_launchers(kit):
    """More ranks than GPUs, no GPU visible, --nproc-per-node=gpu, and torchrun as the launcher."""
    told, failures = {}, []
    many = kit.train("--epochs=1", under=kit.ddprun(f"--nproc-per-node={kit.gpus + 1}"))
    told["more ranks than GPUs"] = many.code
    if many.code == 0 or "each rank needs its own" not in many.err:
        failures.append(f"more ranks than GPUs were not refused: {many.tail()}")
    alone = kit.train("--epochs=1", "--limit-train=6400", under=kit.ddprun("--nproc-per-node=gpu", "--virtual-local-rank"))
    hidden = kit.train("--epochs=1", environment={"CUDA_VISIBLE_DEVICES": ""})
    automatic = kit.train("--epochs=1", "--limit-train=640", device="auto", environment={"CUDA_VISIBLE_DEVICES": ""})
    told.update({"--nproc-per-node=gpu --virtual-local-rank": alone.code, "no GPU visible": [hidden.code, hidden.tail()[-300:]],
                 "auto, no GPU visible": [automatic.code, [line for line in automatic.err.splitlines() if "CPU although" in line]]})
    if (alone.code, hidden.code, automatic.code) != (0, 2, 0):
        failures.append(f"visible devices: {told}")
    if kit.has_torch:
        torchrun = kit.train("--epochs=1", "--limit-train=6400", limit=60, under=[
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1", "--no-python"])
        told["under torchrun"] = [torchrun.code, round(torchrun.seconds, 2)]
        if torchrun.code != 0:
            failures.append(f"under torchrun: {torchrun.tail()}")
    return judged(told, failures)


@check(40)
def sanitizer(kit):
    """NVIDIA's memory checker over 50 steps, eager and from a graph."""
    tool = shutil.which("compute-sanitizer")
    if not tool:
        raise Skipped("there is no compute-sanitizer")
    told, left_out = {}, []
    for name, flags in {"eager": [], "graph": GRAPH}.items():
        if kit.left() < 30:
            left_out.append(name)
            continue
        ended = kit.train("--epochs=1", "--limit-train=3200", *flags, limit=90,
                          under=[tool, "--tool", "memcheck", "--error-exitcode", "9"])
        told[name] = [ended.code, round(ended.seconds, 1), re.findall(r"ERROR SUMMARY.*", ended.out + ended.err)]
        if "evice not supported" in ended.out + ended.err:
            raise Skipped(f"compute-sanitizer: device not supported: {told}")
        if ended.code != 0:
            raise Failed(ended.tail(), told)
    return judged(told, [], left_out)
