"""Does a program on the trainer's library learn what PyTorch would? examples/cpp/charlm on a text of more than a megabyte."""

import glob
import json
import os
import subprocess
import sysconfig
import tempfile
import unittest

import torch
from charlm_model import Transformer
from safetensors.torch import load_file, save_file
from torch import nn

DDPRUN, CHARLM = os.environ["DDPRUN"], os.environ["CHARLM"]
CONTEXT, WIDTH, LAYERS, HEADS, BATCH = 64, 32, 1, 2, 64


def windows(text):
    count = (len(text) - 1) // CONTEXT
    return text[:count * CONTEXT].view(count, CONTEXT), text[1:count * CONTEXT + 1].view(count, CONTEXT)


def loss_of(model, data, targets):
    return nn.functional.cross_entropy(model(data).view(-1, 256), targets.reshape(-1))


class Library(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        torch.manual_seed(3)
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="ddprun_library_"))
        text = b""  # Python's own library: Debian's package, or whatever Python this is.
        for path in sorted(glob.glob(os.path.join(sysconfig.get_path("stdlib"), "*.py"))):
            with open(path, "rb") as file:
                text += file.read()
            if len(text) > 1_300_000:
                break
        self.text = self.path("text")
        with open(self.text, "wb") as file:
            file.write(text)
        every = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        self.learned, self.held_out = every[:len(every) - len(every) // 10], every[-(len(every) // 10):]

    def path(self, name):
        return os.path.join(self.folder, name)

    def charlm(self):
        """Its validation loss, its parameters, and the samples of each step."""
        done = subprocess.run(
            [DDPRUN, "--nproc-per-node=2", CHARLM, "--data=" + self.text, f"--context={CONTEXT}", f"--width={WIDTH}",
             f"--layers={LAYERS}", f"--heads={HEADS}", "--dropout=0", f"--batch={BATCH // 2}", "--epochs=1", "--validate-every=100",
             "--init-from=" + self.path("start"), "--sample-log=" + self.path("log"), "--result=" + self.path("result"),
             "--dump-parameters=" + self.path("end")],
            cwd=self.folder, env=dict(os.environ, OMP_NUM_THREADS="1"), capture_output=True, text=True, errors="replace", timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "(?m)^The ")  # It writes on from there.
        steps = []
        for name in os.listdir(self.path("log")):
            with open(os.path.join(self.path("log"), name), encoding="utf-8") as file:
                steps.append([json.loads(line)["samples"] for line in file])
        with open(self.path("result"), encoding="utf-8") as file:
            loss = json.load(file)["metrics"]["validation_loss"]
        return loss, load_file(self.path("end")), [sum(shares, []) for shares in zip(*steps, strict=True)]

    def test_its_loss_is_that_of_the_same_model_in_pytorch(self):
        model = Transformer(CONTEXT, WIDTH, LAYERS, HEADS)
        save_file(model.state_dict(), self.path("start"))
        loss, parameters, steps = self.charlm()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        data, targets = windows(self.learned)
        self.assertEqual(sorted(sum(steps, [])), list(range(len(data))))  # An epoch: each window once.
        for samples in steps:
            optimizer.zero_grad()
            loss_of(model, data[samples], targets[samples]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        with torch.no_grad():
            own = loss_of(model, *windows(self.held_out)).item()
        print(f"{len(steps)} steps on {len(self.learned)} bytes: validation loss {loss:.4f}, PyTorch's {own:.4f}", flush=True)
        self.assertLess(own, 3)  # It has learned: 5.5 knows nothing.
        self.assertLess(abs(loss - own), 0.01 * own)
        self.assertEqual(parameters.keys(), model.state_dict().keys())
