"""torchft trains on two groups, each under a ddprun of its own. In the first attempt rank 1 of group 1 dies by SIGKILL.

Group 0 ends when it has trained alone and then again together, group 1 when it is back: both after as many steps together.
"""

import os
import signal

import torch
import torchft
from report import digest, report

TOGETHER = 20  # Steps of both groups before each of them ends.
GROUP, RANK = os.environ["TORCHELASTIC_RUN_ID"], int(os.environ["RANK"])
IS_BACK = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"


def main():
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    healed = []

    def load(state):
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        healed.append(manager.current_step())

    manager = torchft.Manager(pg=torchft.ProcessGroupGloo(), load_state_dict=load, min_replica_size=1, replica_id=GROUP,
                              state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    averaged = torchft.DistributedDataParallel(manager, model)
    stepper = torchft.Optimizer(manager, optimizer)
    met, lost, together = False, IS_BACK, 0
    while not lost or together < TOGETHER:
        x = torch.randn(8, 4)
        stepper.zero_grad()
        torch.nn.functional.mse_loss(averaged(x), x.sum(dim=1, keepdim=True)).backward()
        stepper.step()
        both = manager.num_participants() == 2
        lost = lost or met and not both
        met = met or both
        together = together + 1 if both else 0
        if GROUP == "group-1" and RANK == 1 and not IS_BACK and together == TOGETHER:
            os.kill(os.getpid(), signal.SIGKILL)
    report(steps=manager.current_step(), healed=healed, parameters=digest(model))
    manager.shutdown()


if __name__ == "__main__":
    main()
