"""Does ddprun-train train what PyTorch would?

A file of torch's own modules gives the same outputs in the trainer, whose files have the same names and shapes;
and torch's own optimizers, from the same start, arrive at the same parameters.
"""

import gzip
import json
import math
import os
import subprocess
import tempfile
import unittest

import numpy as np
import torch
from export_package import Mlp
from safetensors.torch import load_file, save_file
from torch import nn

TRAIN = os.environ["DDPRUN_TRAIN"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MNIST = os.path.join(ROOT, "trainer", "data", "mnist")
MASK = np.uint64(0xFFFFFFFFFFFFFFFF)


def mix(value):
    """trainer/random.h, on arrays."""
    value = np.asarray(value, dtype=np.uint64)
    with np.errstate(over="ignore"):
        value = value + np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def uniform(draw):
    return (draw >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


def key(part, seed=1):
    return mix(mix(seed) ^ np.uint64(part))


def toy(part, indices):
    draws = mix(key(part) ^ np.asarray(indices, dtype=np.uint64))[:, None]
    inputs = 2 * uniform(mix(draws ^ np.arange(10, dtype=np.uint64))) - 1
    weights = 2 * uniform(mix(key(2) ^ np.arange(50, dtype=np.uint64))).reshape(5, 10) - 1
    return torch.from_numpy(inputs), torch.from_numpy(inputs @ weights.T)


def sequences(part, indices, source, target, width):
    draws = mix(key(part) ^ np.asarray(indices, dtype=np.uint64))[:, None]
    one = uniform(mix(draws ^ np.arange(source * width, dtype=np.uint64)))
    two = uniform(mix((draws ^ MASK) ^ np.arange(target * width, dtype=np.uint64)))
    count = len(indices)
    return (torch.from_numpy(one).reshape(count, source, width),
            torch.from_numpy(two).reshape(count, target, width))


def mnist_test():
    def read(name, skip):
        with gzip.open(os.path.join(MNIST, name)) as file:
            return np.frombuffer(file.read()[skip:], dtype=np.uint8)
    images = read("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).astype(np.float32)
    images = (torch.from_numpy(images) / 255 - 0.1307) / 0.3081
    return images, torch.from_numpy(read("t10k-labels-idx1-ubyte.gz", 8).astype(np.int64))


def mnist32_training(samples, seed=1, epoch=0):
    """Cropped as the trainer crops it, trainer/data/images.cc."""
    with gzip.open(os.path.join(MNIST, "train-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read()[16:], dtype=np.uint8).reshape(-1, 28, 28)
    cropped = np.empty((len(samples), 3, 32, 32), dtype=np.float32)
    for out, sample in zip(cropped, samples):
        draw = int(mix(mix(mix(seed) ^ np.uint64(epoch)) ^ np.uint64(sample)))
        row, column = (draw & 0xFFFFFF) % 9, (draw >> 24 & 0xFFFFFF) % 9
        out[:] = np.pad(images[sample], 6)[row:row + 32, column:column + 32]
    return (torch.from_numpy(cropped) / 255 - 0.1307) / 0.3081


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1, self.net2 = nn.Linear(10, 10), nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(torch.relu(self.net1(x)))


class Vgg11(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        layers, channels = [], 3
        for factor in (1, 0, 2, 0, 4, 4, 0, 8, 8, 0, 8, 8, 0):  # torchvision's configuration A
            if factor == 0:
                layers.append(nn.MaxPool2d(2, 2))
                continue
            layers += [nn.Conv2d(channels, width * factor, 3, padding=1),
                       nn.BatchNorm2d(width * factor), nn.ReLU(inplace=True)]
            channels = width * factor
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, 10)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Torch(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        directory = tempfile.TemporaryDirectory(prefix="ddprun_models_")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def train(self, arguments, name):
        """The parameters as torch tensors, and the result."""
        path = os.path.join(self.directory, name)
        subprocess.run([TRAIN, *arguments, f"--checkpoint-dir={path}.ckpt", f"--result={path}.json",
                        f"--dump-parameters={path}.st"], check=True, timeout=240,
                       capture_output=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
        with open(path + ".json") as file:
            return load_file(path + ".st"), json.load(file)["metrics"]

    def given(self, module, arguments, name):
        """The trainer's version of a state_dict that Python wrote, in one step that moves nothing."""
        generator = torch.Generator().manual_seed(7)
        for key, tensor in module.state_dict().items():
            if key.endswith("running_var"):
                tensor.uniform_(0.5, 2, generator=generator)
            elif tensor.is_floating_point():  # No zero, which a tiny step would move.
                tensor.add_(torch.empty_like(tensor).uniform_(0.001, 0.01, generator=generator))
        file = os.path.join(self.directory, name + ".given")
        save_file(module.state_dict(), file)
        state, metrics = self.train(
            [*arguments, "--init-from=" + file, "--lr=1e-30", "--epochs=1", "--batch=8",
             f"--sample-log={self.directory}/{name}.log"], name)
        self.assertEqual(state.keys(), module.state_dict().keys())
        for key, _ in module.named_parameters():
            self.assertTrue(torch.equal(state[key], module.state_dict()[key]), key)
        return state, metrics

    @torch.no_grad()
    def test_a_state_dict_of_python_gives_the_same_outputs_in_the_trainer(self):
        images, labels = mnist_test()
        cnn = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(16 * 7 * 7, 10))
        for module, model in ((Mlp(), "mlp"), (cnn, "cnn")):
            _, metrics = self.given(module, ["--model=" + model, "--limit-train=8"], model)
            outputs = module(images)
            own = nn.functional.cross_entropy(outputs, labels).item()
            self.assertAlmostEqual(metrics["test_loss"], own, delta=1e-5 * own, msg=model)
            correct = (outputs.argmax(1) == labels).double().mean().item()
            self.assertAlmostEqual(metrics["test_accuracy"], correct, delta=2e-4, msg=model)
        module = Toy()
        _, metrics = self.given(module, ["--model=toy"], "toy")
        inputs, targets = toy(1, range(200))
        own = nn.functional.mse_loss(module(inputs), targets).item()
        self.assertAlmostEqual(metrics["test_loss"], own, delta=1e-5 * own)
        module = nn.Transformer(16, 2, 2, 2, 32, batch_first=True)
        _, metrics = self.given(
            module, ["--model=transformer", "--model-arg=heads=2,layers=2,ff=32",
                     "--data-arg=train=8,test=30,d_model=16,source=2,target=5"], "transformer")
        source, target = sequences(1, range(30), 2, 5, 16)
        own = nn.functional.mse_loss(module.eval()(source, target), target).item()
        self.assertAlmostEqual(metrics["test_loss"], own, delta=1e-5 * own)

    @torch.no_grad()
    def test_batch_norms_buffers_of_python_go_on_in_the_trainer(self):
        module = Vgg11(4)
        state, metrics = self.given(
            module, ["--model=vgg11", "--model-arg=width=4", "--limit-train=8"], "vgg11")
        (log,) = os.listdir(os.path.join(self.directory, "vgg11.log"))
        with open(os.path.join(self.directory, "vgg11.log", log)) as file:
            (samples,) = [json.loads(line)["samples"] for line in file]
        module.train()(mnist32_training(samples))  # The effect of the one step on the running statistics.
        for key, own in module.named_buffers():
            self.assertTrue(torch.allclose(state[key], own, rtol=1e-4, atol=1e-5), key)
        images, labels = mnist_test()
        padded = nn.functional.pad(images, (2, 2, 2, 2), value=-0.1307 / 0.3081).expand(-1, 3, -1, -1)
        own = nn.functional.cross_entropy(module.eval()(padded), labels).item()
        self.assertAlmostEqual(metrics["test_loss"], own, delta=1e-4 * own)

    def test_the_full_sizes_have_torchs_names_and_shapes(self):
        few = ["--epochs=1", "--batch=2", "--optimizer=sgd"]  # Which has no state to save: a third of the bytes.
        for arguments, module in (
                (["--model=vgg11", "--dataset=synthetic", "--data-arg=train=2,test=1"], Vgg11()),
                (["--model=transformer", "--data-arg=train=2,test=1"], nn.Transformer())):
            state, _ = self.train(arguments + few, type(module).__name__)
            self.assertEqual({name: tuple(tensor.shape) for name, tensor in state.items()},
                             {name: tuple(t.shape) for name, t in module.state_dict().items()})

    @torch.no_grad()
    def forget_key_biases(self, state):
        """A softmax does not see them: their gradient is rounding, which Adam blows up."""
        for name, tensor in state.items():
            if name.endswith("in_proj_bias"):
                tensor[len(tensor) // 3:2 * len(tensor) // 3] = 0

    def same_training(self, arguments, module, make_optimizer, data, schedule, clip):
        """Both train from the trainer's own start on the samples that it logged."""
        name = type(module).__name__
        # A step of next to nothing leaves the initial parameters.
        start, _ = self.train(arguments + ["--lr=1e-30", "--weight-decay=0"], name + "start")
        log = os.path.join(self.directory, name + ".log")
        trained, _ = self.train(arguments + [f"--sample-log={log}"], name)
        module.load_state_dict(start)
        optimizer = make_optimizer(module.parameters())
        (file,) = os.listdir(log)
        with open(os.path.join(log, file)) as lines:
            batches = [json.loads(line)["samples"] for line in lines]
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: schedule(step, len(batches)))
        for samples in batches:
            optimizer.zero_grad()
            *inputs, targets = data(samples)
            nn.functional.mse_loss(module(*inputs), targets).backward()
            nn.utils.clip_grad_norm_(module.parameters(), clip)
            optimizer.step()
            scheduler.step()
        for state in (start, trained, module.state_dict()):
            self.forget_key_biases(state)
        moved = max((trained[k] - start[k]).abs().max().item() for k in trained)
        apart = max((trained[k] - v).abs().max().item() for k, v in module.state_dict().items())
        print(f"{name}: {len(batches)} steps move parameters by {moved:.2g}; torch's differ by "
              f"{apart:.2g}", flush=True)
        self.assertGreater(moved, 1e-2)
        self.assertLess(apart, 1e-4 * moved + 1e-6)

    def test_sgd_with_everything_is_torchs(self):
        self.same_training(
            ["--model=toy", "--epochs=2", "--data-arg=train=400,test=1", "--momentum=0.9",
             "--nesterov", "--weight-decay=0.01", "--clip-norm=0.5", "--schedule=step",
             "--decay-every=10", "--decay-factor=0.5", "--micro-batch=7"],
            Toy(), lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True,
                                             weight_decay=0.01),
            lambda samples: toy(0, samples), lambda step, steps: 0.5 ** (step // 10), 0.5)

    def test_adamw_with_a_warm_up_and_a_cosine_is_torchs(self):
        def cosine(step, steps):
            if step < 4:
                return (step + 1) / 4
            return 0.5 * (1 + math.cos(math.pi * min(1, (step - 4) / (steps - 4))))
        def data(samples):
            source, target = sequences(0, samples, 3, 3, 8)
            return source, target, target
        self.same_training(
            ["--model=transformer", "--model-arg=heads=2,layers=1,ff=16,dropout=0", "--epochs=2",
             "--data-arg=train=160,test=1,d_model=8,source=3,target=3", "--batch=16",
             "--optimizer=adamw", "--lr=0.003", "--schedule=cosine", "--warmup-steps=4", "--clip-norm=1"],
            nn.Transformer(8, 2, 1, 1, 16, dropout=0, batch_first=True),
            lambda p: torch.optim.AdamW(p, lr=0.003, weight_decay=0.01), data, cosine, 1)
