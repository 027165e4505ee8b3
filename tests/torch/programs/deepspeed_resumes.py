"""DeepSpeed with ZeRO-2 trains from its own checkpoint on. In the first attempt rank 1 dies by SIGKILL."""

import os
import signal

import deepspeed
import torch
import torch.distributed as dist
from report import digest, report

CHECKPOINTS = os.path.join(os.environ["REPORTS"], "checkpoints")
STEPS, SAVED_EVERY, BAD_STEP = 20, 5, 12


def main():
    torch.set_num_threads(1)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # Else it is compiled, for a minute.
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=torch.optim.Adam(model.parameters(), lr=0.05),
        config={"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 2}})
    engine.load_checkpoint(CHECKPOINTS)
    start = engine.global_steps
    while engine.global_steps < STEPS:
        if start == 0 and engine.global_steps == BAD_STEP and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        x = torch.randn(8, 4)
        loss = torch.nn.functional.mse_loss(engine(x), x.sum(dim=1, keepdim=True))
        engine.backward(loss)
        engine.step()
        if engine.global_steps % SAVED_EVERY == 0:
            engine.save_checkpoint(CHECKPOINTS)
    report(world=dist.get_world_size(), start=start, stage=engine.zero_optimization_stage(), parameters=digest(model))
    engine.destroy()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
