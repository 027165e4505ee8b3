"""Groups made and destroyed again and again, subgroups, barriers, Python objects between ranks."""

import datetime
import os

import torch
import torch.distributed as dist
from report import report


def main():
    torch.set_num_threads(1)
    sums = []
    launchers = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]),
                              is_master=False)
    for round_number in range(3):
        # A prefix for each: torch gives every first group the same keys, so that in one store a
        # rank may read where its peer listened the last time. It is so under torchrun, too.
        dist.init_process_group(
            "gloo", store=dist.PrefixStore(f"round {round_number}", launchers),
            rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]),
            timeout=datetime.timedelta(seconds=20))
        value = torch.tensor([dist.get_rank() + 10 * round_number])
        dist.all_reduce(value)
        sums.append(value.item())
        dist.destroy_process_group()

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
    rank, world = dist.get_rank(), dist.get_world_size()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=20))
    gathered = [None] * world
    dist.all_gather_object(gathered, {"rank": rank, "text": "ä" * rank})
    told = [{"from": 0} if rank == 0 else None]
    dist.broadcast_object_list(told, src=0)
    pairs = dist.new_group([0, world - 1])
    value = torch.tensor([1])
    if rank in (0, world - 1):
        dist.all_reduce(value, group=pairs)
    dist.barrier()
    report(sums=sums, gathered=gathered, told=told, pairs=value.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
