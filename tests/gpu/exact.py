"""The trainings that must be equal bit for bit: resumed, replayed and moved."""

import shutil

from kit import Failed, Skipped, check, same_bytes


@check(25, gpu=False)
def deterministic(kit):
    """A run in two halves and one from a graph have the bits of the whole run, and so it is through NCCL.

    The last batch of an epoch is a part of one, so steps without the graph stand between those from it; the learning rate changes
    at every step, gradients are clipped, and the second half is also resumed from a graph.

    NCCL's bits are those of a run alone only where nothing is clipped: DDP's gradients lie one behind the other in a bucket, so not
    all are aligned to 16 bytes, and CUDA adds up the norm of those in another order.
    """
    told, different, left_out = {}, [], []
    for model, small in (("mlp", ["--limit-train=6410", "--clip-norm=0.5", "--schedule=step", "--decay-every=7",
                                  "--decay-factor=0.9", "--warmup-steps=20"]), ("vgg11", ["--limit-train=2600"]),
                         ("transformer", ["--data-arg=train=450,test=32"])):
        if kit.pretend and model != "mlp":
            continue
        if kit.left() < 25:
            left_out.append(model)
            continue
        folder = kit.folder()

        def train(name, *flags, checkpoints=None, model=model, small=small, folder=folder):
            return kit.train(f"--model={model}", *small, "--deterministic", f"--dump-parameters={folder}/{name}",
                             f"--checkpoint-dir={folder}/{checkpoints or name}.d", *flags, limit=40).expect()
        train("whole", "--epochs=2")
        train("half", "--epochs=1")
        train("resumed", "--epochs=2", "--resume=must", checkpoints="half")
        same = {"resumed": same_bytes(f"{folder}/whole", f"{folder}/resumed")}
        if not kit.pretend:
            train("graph", "--epochs=2", "--cuda-graph").expect("replayed from a CUDA graph")
            same["graph"] = same_bytes(f"{folder}/whole", f"{folder}/graph")
            train("first", "--epochs=1")
            train("second", "--epochs=2", "--resume=must", "--cuda-graph", checkpoints="first").expect("resumed at step")
            same["resumed graph"] = same_bytes(f"{folder}/whole", f"{folder}/second")
            train("nccl", "--epochs=2", "--backend=nccl").expect("through NCCL")
            train("nccl-graph", "--epochs=2", "--backend=nccl", "--cuda-graph").expect("replayed from a CUDA graph")
            same["nccl graph"] = same_bytes(f"{folder}/nccl", f"{folder}/nccl-graph")
            same["nccl"] = model == "mlp" or same_bytes(f"{folder}/whole", f"{folder}/nccl")
        told[model] = same
        different += [f"{model}: {name}" for name, equal in same.items() if not equal]
        shutil.rmtree(folder)
    if different:
        raise Failed(f"other bits than the whole run's: {different}", told)
    if left_out:
        raise Skipped(f"no time for {left_out}", told)
    return told


@check(8, gpu=False)
def checkpoint_moves(kit):
    """One training on the GPU, then on the CPU, then on the GPU; the CPU reads the bits that the GPU wrote."""
    folder = kit.folder()
    flags = ["--limit-train=6400", f"--checkpoint-dir={folder}/c"]
    kit.train("--epochs=1", f"--dump-parameters={folder}/gpu", *flags).expect()
    kit.train("--epochs=1", f"--dump-parameters={folder}/cpu", *flags, device="cpu").expect()
    same = same_bytes(f"{folder}/gpu", f"{folder}/cpu")
    kit.train("--epochs=2", "--resume=must", *flags, device="cpu").expect("resumed at step")
    ended = kit.train("--epochs=3", "--resume=must", *flags).expect("resumed at step", "test accuracy")
    if not same:
        raise Failed("the CPU did not read what the GPU wrote")
    return {"same": same, "result": ended.out.strip().splitlines()[-1:]}
