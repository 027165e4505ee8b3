"""torch.distributed.checkpoint: saves with `save`, loads with `load`, at any number of workers."""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from report import digest, report


def main(what, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(7 if what == "save" else 8)
    model = torch.nn.Linear(50, 20)
    before = digest(model)
    state = model.state_dict()
    if what == "save":
        checkpoint.save(state, checkpoint_id=folder)
    else:
        checkpoint.load(state, checkpoint_id=folder)
        model.load_state_dict(state)
    report(before=before, after=digest(model))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
