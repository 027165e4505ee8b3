"""The reports of ddprun's callbacks on a training of Lightning, transformers and accelerate, one after the
other."""

import os
import socket
import tempfile
import threading

import accelerate
import pytorch_lightning as pl
import torch
import transformers
from report import report

import ddprun.accelerate
import ddprun.lightning
import ddprun.transformers
from ddprun import _notify


def heard(train):
    """The lines that an agent hears while it trains."""
    lines = []

    def listen(agent):
        while (text := agent.recv(4096)) != b"":
            lines.extend(text.decode().split("\n"))

    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        real = os.environ["DDPRUN_NOTIFY_SOCKET"]
        os.environ["DDPRUN_NOTIFY_SOCKET"] = os.path.join(folder, "notify")
        agent.bind(os.environ["DDPRUN_NOTIFY_SOCKET"])
        thread = threading.Thread(target=listen, args=[agent])
        thread.start()
        try:
            train(folder)
        finally:
            agent.shutdown(socket.SHUT_RD)
            thread.join()
            os.environ["DDPRUN_NOTIFY_SOCKET"] = real
    return lines


def data(count):
    inputs = torch.randn(count, 4)
    return torch.utils.data.TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))


class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.training_step(batch, _)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def with_lightning(folder):
    trainer = pl.Trainer(accelerator="cpu", devices=1, max_epochs=1, logger=False, enable_progress_bar=False,
                         enable_model_summary=False, num_sanity_val_steps=0, default_root_dir=folder,
                         callbacks=[ddprun.lightning.Steps()])
    loader = torch.utils.data.DataLoader(data(24), batch_size=8)
    trainer.fit(Module(), loader, loader)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels):
        out = self.layer(x)
        return {"loss": torch.nn.functional.mse_loss(out, labels), "logits": out}


def with_transformers(folder):
    rows = [{"x": x, "labels": y} for x, y in data(24)]
    arguments = transformers.TrainingArguments(
        output_dir=folder, use_cpu=True, max_steps=3, per_device_train_batch_size=8, report_to="none",
        disable_tqdm=True, save_strategy="no", eval_strategy="steps", eval_steps=3)
    transformers.Trainer(Model(), arguments, train_dataset=rows, eval_dataset=rows,
                         callbacks=[ddprun.transformers.Steps()]).train()


def with_accelerate(_):
    accelerator = accelerate.Accelerator(cpu=True, log_with=[ddprun.accelerate.Steps()])
    accelerator.init_trackers("test", config={"rate": 0.1})
    for number in range(1, 4):
        accelerator.log({"loss": 1.0 / number}, step=number)
    accelerator.log({"nothing": 0})
    accelerator.end_training()


if __name__ == "__main__":
    torch.set_num_threads(1)
    _notify._BETWEEN = 0.0  # Else fast steps are told together.
    report(lightning=heard(with_lightning), transformers=heard(with_transformers),
           accelerate=heard(with_accelerate))
