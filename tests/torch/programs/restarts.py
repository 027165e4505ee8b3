"""Rank 1 dies in the first attempt; in the second nothing of the first may be seen in the store."""

import os
import signal

import torch
import torch.distributed as dist
from report import report


def main():
    torch.set_num_threads(1)
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    dist.init_process_group("gloo")
    store = dist.distributed_c10d._get_default_store()
    rank = dist.get_rank()
    left = store.check([f"left by attempt {attempt - 1}"])
    counted = store.add("counter", 1)
    store.set(f"left by attempt {attempt}", "x")
    dist.barrier()
    total = torch.ones(1)
    dist.all_reduce(total)
    report(left=left, counted=counted, total=total.item())
    dist.barrier()  # Both have reported.
    if attempt == 0 and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
