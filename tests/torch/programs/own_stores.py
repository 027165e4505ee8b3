"""Stores that the workers open themselves, beside the launcher's: they must not meet it."""

import datetime
import os

import torch
import torch.distributed as dist
from report import report

LIMIT = datetime.timedelta(seconds=20)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=LIMIT)
    rank, world = dist.get_rank(), dist.get_world_size()

    # Rank 0 hosts a store of its own on a port that the system chose.
    own = dist.TCPStore("127.0.0.1", 0, world, True, LIMIT, wait_for_workers=False) if rank == 0 else None
    port = [own.port if own else None]
    dist.broadcast_object_list(port, src=0)
    store = own or dist.TCPStore("127.0.0.1", port[0], world, False, LIMIT)
    store.set(f"from {rank}", str(rank))
    seen = [store.get(f"from {i}").decode() for i in range(world)]

    # The launcher's store, opened once more by hand, knows nothing of those keys.
    launchers = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world,
                              False, LIMIT)
    mixed = launchers.check(["from 0"])
    dist.barrier()  # Everybody has read.
    del store, own
    dist.barrier()  # Nobody comes to that port before its store has gone.
    dist.destroy_process_group()

    # tcp:// on a port of their own: rank 0 hosts there, whatever the launcher hosts elsewhere.
    address = f"tcp://127.0.0.1:{port[0]}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world, timeout=LIMIT)
    value = torch.tensor([rank + 1])
    dist.all_reduce(value)
    dist.barrier()
    report(seen=seen, mixed=mixed, tcp=value.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
