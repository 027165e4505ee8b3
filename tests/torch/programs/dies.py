"""Rank 1 has no memory left while the others wait for it in a collective."""

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    dist.barrier()
    if dist.get_rank() == 1:
        torch.ones(1 << 34, dtype=torch.uint8)  # 16 GiB; the test allows 2.
    dist.all_reduce(torch.ones(1))


if __name__ == "__main__":
    main()
