"""Several ranks: NCCL with two ranks that share a GPU, with all GPUs, and Gloo on one GPU."""

import os

from kit import Failed, Skipped, check, free_port

TWO_HOSTS = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_MNNVL_ENABLE": "0"}
OTHER_BOOT_ID = ["unshare", "-m", "sh", "-c", 'mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"', "sh"]


def over_nccl(kit):
    return [f"--device={kit.device}", "--backend=gloo" if kit.pretend else "--backend=nccl"]


def two_hosts(kit, *flags):
    """Two agents of one run whose ranks take each other for ranks of two hosts, so that both may use the one GPU.

    NCCL tells hosts apart by NCCL_HOSTID, ddprun-train by the kernel's boot id: the second agent sees another one, in a mount
    namespace of its own. Their data goes through sockets of the loopback interface: this tests behaviour, not speed.
    """
    if not kit.pretend and kit.run(["unshare", "-m", "true"], 5).code != 0:
        raise Skipped("two ranks cannot share a GPU here: unshare -m is refused")
    port = free_port()
    other = os.path.join(kit.scratch, "boot_id")
    with open(other, "w") as file:
        file.write("11111111-2222-3333-4444-555555555555\n")
    agents = []
    for node in (0, 1):
        command = kit.ddprun("--nnodes=2", f"--node-rank={node}", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=pair",
                             "--nproc-per-node=1", *flags)
        if node == 1 and not kit.pretend:
            command = [*OTHER_BOOT_ID, other, *command]
        agents.append((command, {**TWO_HOSTS, "NCCL_HOSTID": f"host{node}"}))
    return agents


def start_pair(kit, agents, command, folder):
    return [kit.start([*agent, *command], folder, environment, f"node{n}") for n, (agent, environment) in enumerate(agents)]


@check(8, gpu=False)
def gloo_two_ranks_one_gpu(kit):
    device = "cpu" if kit.pretend else "cuda:0"
    ended = kit.train("--backend=gloo", "--epochs=1", "--limit-train=6400", under=kit.ddprun("--nproc-per-node=2"),
                      device=device).expect("test accuracy")
    return {"seconds": ended.seconds, "result": ended.out.strip().splitlines()[-1:]}


@check(25, gpu=False)
def nccl_two_ranks(kit):
    """Two ranks of NCCL on one GPU, as two hosts; also from a graph."""
    told = {}
    for name, flags in {"eager": [], **({} if kit.pretend else {"graph": ["--cuda-graph"]})}.items():
        folder = kit.folder()
        command = [kit.train_path, *over_nccl(kit), "--epochs=1", "--limit-train=12800", f"--checkpoint-dir={folder}/c", *flags]
        ended = kit.finish_all(start_pair(kit, two_hosts(kit), command, folder), 25)
        told[name] = [[one.code for one in ended], round(ended[0].seconds, 2)]
        wanted = "Gloo" if kit.pretend else "replayed from a CUDA graph" if flags else "through NCCL"
        if any(one.code != 0 for one in ended) or wanted not in ended[0].err + ended[1].err:
            raise Failed(f"{name}: {ended[0].tail()} {ended[1].tail()}", told)
    kit.two_nccl_ranks = True
    return told


@check(25, after="nccl_two_ranks")
def nccl_every_collective(kit):
    if not kit.two_nccl_ranks:
        raise Skipped("two ranks of NCCL do not run here (nccl_two_ranks)")
    command = [kit.bench_path, f"--device={kit.device}", "--check"]
    ended = kit.finish_all(start_pair(kit, two_hosts(kit), command, kit.folder()), 30)
    told = {"codes": [one.code for one in ended], "seconds": ended[0].seconds, "rows": ended[0].out.splitlines()[:40]}
    if any(one.code != 0 for one in ended):
        raise Failed(f"{ended[0].tail()} {ended[1].tail()}", told)
    return told


@check(40)
def nccl_every_gpu(kit):
    """One rank for each GPU of the machine: training, uneven shares from a graph, every collective."""
    if kit.gpus < 2:
        raise Skipped("there is one GPU")
    folder = kit.folder()
    under = kit.ddprun("--nproc-per-node=gpu")
    told, failures = {}, []
    uneven = ["--batch=21", "--limit-train=6300", f"--checkpoint-dir={folder}/uneven"]  # 63 samples a step: 32 and 31 for two.
    for name, command in {
        "vgg11": [*under, kit.train_path, "--device=cuda", "--model=vgg11", "--epochs=1", "--limit-train=20000",
                  f"--checkpoint-dir={folder}/all"],
        "three ranks on the CPU": [*kit.ddprun("--nproc-per-node=3"), kit.train_path, "--device=cpu", "--epochs=1", *uneven],
        "go on as two on GPUs, from a graph": [*kit.ddprun("--nproc-per-node=2"), kit.train_path, "--device=cuda", "--cuda-graph",
                                               "--resume=must", "--epochs=4", *uneven],
        "every collective": [*under, kit.bench_path, "--device=cuda", "--check"],
    }.items():
        ended = kit.run(command, 60, folder=folder)
        told[name] = [ended.code, round(ended.seconds, 2), ended.out.splitlines()[-40:]]
        if ended.code != 0:
            failures.append(f"{name}: {ended.tail()}")
    if failures:
        raise Failed("; ".join(failures), told)
    return told
