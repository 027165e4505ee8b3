"""Uses of torch.distributed beside training. features.py stores: with stores of the program's own, too."""

import datetime
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from report import report

LIMIT = datetime.timedelta(seconds=20)
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def launchers_store():
    return dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), WORLD, False, LIMIT)


def groups_again_and_again():
    sums = []
    launchers = launchers_store()
    for round_number in range(3):
        # A prefix for each: torch gives every first group the same keys, so that in one store a
        # rank may read where its peer listened the last time. It is so under torchrun, too.
        dist.init_process_group("gloo", store=dist.PrefixStore(f"round {round_number}", launchers),
                                rank=RANK, world_size=WORLD, timeout=LIMIT)
        value = torch.tensor([dist.get_rank() + 10 * round_number])
        dist.all_reduce(value)
        sums.append(value.item())
        dist.destroy_process_group()
    return {"sums": sums}


def barriers_objects_and_subgroups():
    dist.monitored_barrier(timeout=LIMIT)
    gathered = [None] * WORLD
    dist.all_gather_object(gathered, {"rank": RANK, "text": "ä" * RANK})
    told = [{"from": 0} if RANK == 0 else None]
    dist.broadcast_object_list(told, src=0)
    pairs = dist.new_group([0, WORLD - 1])
    value = torch.tensor([1])
    if RANK in (0, WORLD - 1):
        dist.all_reduce(value, group=pairs)
    dist.barrier()
    return {"gathered": gathered, "told": told, "pairs": value.item()}


def own_stores():
    """Opened by the workers themselves, beside the launcher's: they must not meet it. Its end is that of the group."""
    # Rank 0 hosts a store of its own on a port that the system chose.
    own = dist.TCPStore("127.0.0.1", 0, WORLD, True, LIMIT, wait_for_workers=False) if RANK == 0 else None
    port = [own.port if own else None]
    dist.broadcast_object_list(port, src=0)
    store = own or dist.TCPStore("127.0.0.1", port[0], WORLD, False, LIMIT)
    store.set(f"from {RANK}", str(RANK))
    seen = [store.get(f"from {i}").decode() for i in range(WORLD)]

    # The launcher's store, opened once more by hand, knows nothing of those keys.
    mixed = launchers_store().check(["from 0"])
    dist.barrier()  # All ranks have read.
    del store, own
    dist.barrier()  # No rank connects to that port before its store has gone.
    dist.destroy_process_group()

    # tcp:// on a port of their own: rank 0 hosts there, whatever the launcher hosts elsewhere.
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port[0]}", rank=RANK, world_size=WORLD, timeout=LIMIT)
    value = torch.tensor([RANK + 1])
    dist.all_reduce(value)
    dist.barrier()
    return {"seen": seen, "mixed": mixed, "tcp": value.item()}


def all_call_all():
    rpc.init_rpc(f"worker{RANK}", rank=RANK, world_size=WORLD)
    answers = [rpc.rpc_sync(f"worker{i}", torch.add, args=(torch.ones(2) * i, RANK)).tolist() for i in range(WORLD)]
    rpc.shutdown()
    return {"answers": answers}


def main():
    torch.set_num_threads(1)
    found = groups_again_and_again()
    dist.init_process_group("gloo", timeout=LIMIT)
    found |= barriers_objects_and_subgroups()
    if "stores" in sys.argv:
        found |= own_stores()
    dist.destroy_process_group()
    report(**found, **all_call_all())


if __name__ == "__main__":
    main()
