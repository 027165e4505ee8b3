"""Lightning's Trainer under ddprun, which starts the processes in its place.

    ddprun --nproc-per-node=2 lightning_trainer.py

devices and num_nodes must say what ddprun started. Needs the package lightning or pytorch-lightning.
"""
import os

import torch

try:
    import lightning.pytorch as lightning
except ImportError:
    import pytorch_lightning as lightning


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)

    def training_step(self, batch, index):
        (x,) = batch
        return torch.nn.functional.mse_loss(self.layer(x), x.sum(dim=1, keepdim=True))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main():
    data = torch.utils.data.TensorDataset(torch.randn(2048, 16, generator=torch.Generator().manual_seed(0)))
    workers = int(os.environ["LOCAL_WORLD_SIZE"])
    trainer = lightning.Trainer(
        accelerator="auto" if torch.cuda.is_available() else "cpu", devices=workers,
        num_nodes=int(os.environ["WORLD_SIZE"]) // workers, strategy="ddp", max_epochs=2, logger=False,
        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Line(), torch.utils.data.DataLoader(data, batch_size=64))
    if trainer.is_global_zero:
        print(f"trained {trainer.global_step} steps on {trainer.world_size} ranks", flush=True)


if __name__ == "__main__":
    main()
