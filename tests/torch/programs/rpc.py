"""torch.distributed.rpc over env://: everybody calls everybody."""

import os

import torch
import torch.distributed.rpc as rpc
from report import report


def main():
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world)
    answers = [rpc.rpc_sync(f"worker{i}", torch.add, args=(torch.ones(2) * i, rank)).tolist()
               for i in range(world)]
    rpc.shutdown()
    report(answers=answers)


if __name__ == "__main__":
    main()
