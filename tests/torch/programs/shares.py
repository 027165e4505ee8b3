"""Shares tensors with a helper process by a sharing strategy, then ends as its attempt is to end."""

import os
import signal
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def hold(tensor, there):
    there.put(float(tensor.sum()))
    signal.pause()


if __name__ == "__main__":
    strategy, *ends = sys.argv[1:]
    rank, attempt = os.environ["RANK"], int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    processes.set_sharing_strategy(strategy)
    context = processes.get_context("fork")
    there = context.Queue()
    shared = torch.ones(1 << 18).share_memory_()
    loader = torch.utils.data.DataLoader(range(64), num_workers=2)
    seen = sum(1 for batch in loader)
    context.Process(target=hold, args=(shared, there), daemon=True).start()
    assert there.get() == 1 << 18 and seen == 64
    # A torch_shm_manager whose client is killed before it read the manager's address ends by SIGPIPE and
    # leaves its directory, under any launcher. So no rank ends before every rank has its manager.
    dist.init_process_group("gloo")
    dist.barrier()
    print(f"shares {rank} {attempt} {os.getpid()}", flush=True)
    end = ends[min(attempt, len(ends) - 1)]
    if end == "kill":
        if rank == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()
    if end != "well":
        os._exit(int(end))
