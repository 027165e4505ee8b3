"""A training script for `accelerate launch`: Accelerator() finds the world by itself."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from report import digest, report


def main():
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    set_seed(7)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs = torch.randn(64, 4)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for _ in range(10):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
    seen = accelerator.gather(torch.tensor([accelerator.process_index])).tolist()
    report(world=accelerator.num_processes, batches=len(loader), seen=seen, first=losses[0],
           last=losses[-1], parameters=digest(model))
    accelerator.end_training()


if __name__ == "__main__":
    main()
