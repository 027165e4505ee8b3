"""Makes a package for --eval-package of one of the models here, with the code of docs/own-model.md.

    export_package.py mlp|charlm FILE [CONTEXT WIDTH LAYERS HEADS]
"""

import os
import re
import sys
import zipfile

import torch
from charlm_model import Transformer
from torch import nn

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Mlp(nn.Module):
    """ddprun-train's, on MNIST."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(784, 50), nn.Linear(50, 10)

    def forward(self, images):
        return self.fc2(torch.relu(self.fc1(images.flatten(1))))


def shown():
    with open(os.path.join(ROOT, "docs/own-model.md"), encoding="utf-8") as file:
        return re.search(r"^```python\n(.*?)^```", file.read(), re.S | re.M)[1]


def export(model, inputs, path):
    exec(shown().replace('"model.pt2"', repr(path)), {"model": model, "inputs": inputs})  # noqa: S102
    with zipfile.ZipFile(path) as package:
        texts = [package.read(name).decode() for name in package.namelist() if name.endswith("wrapper_metadata.json")]
    if not texts or "INVALID" in texts[0]:
        raise RuntimeError(f"the package has no vector instructions: {texts}")


def main(name, path, *sizes):
    torch.set_num_threads(1)
    if name == "mlp":
        export(Mlp(), (torch.zeros(64, 1, 28, 28),), path)
    else:
        context, width, layers, heads = map(int, sizes) if sizes else (128, 128, 4, 4)
        export(Transformer(context, width, layers, heads), (torch.zeros(16, context, dtype=torch.long),), path)


if __name__ == "__main__":
    main(*sys.argv[1:])
