"""The page of frameworks does what it says (tests/support/tutorials.py)."""

import json
import os
import unittest
from pathlib import Path

from ddprun_runs import free_endpoint
from tutorials import ROOT, PageTest

FRAMEWORKS, MORE, TORCHTITAN = (
    os.environ.get(name, "") for name in ("DDPRUN_FRAMEWORKS", "DDPRUN_MORE_FRAMEWORKS", "DDPRUN_TORCHTITAN"))


class Frameworks(PageTest):
    @unittest.skipUnless(FRAMEWORKS, "without accelerate, Lightning and transformers")
    def test_frameworks(self):
        self.environment["PYTHONPATH"] = FRAMEWORKS + ":" + os.path.join(ROOT, "launcher/python")
        self.assertEqual(self.play("frameworks.md", until="## DeepSpeed"), [0] * 4)

    @unittest.skipUnless(MORE, "without DeepSpeed, TorchX and torchft")
    def test_more_frameworks(self):
        self.environment["PATH"] = os.path.join(MORE, "bin") + ":" + self.environment["PATH"]
        self.environment["PYTHONPATH"] = f"{MORE}:{FRAMEWORKS}"
        lighthouse, rendezvous = free_endpoint(), free_endpoint()
        instead = [("localhost:29510", lighthouse), ("[::]:29510", lighthouse), (":29400", ":" + rendezvous.split(":")[1])]
        self.assertEqual(self.play("frameworks.md", since="## DeepSpeed", until="## torchtitan", instead=instead), [0] * 3)

    @unittest.skipUnless(TORCHTITAN, "without torchtitan")
    def test_torchtitan(self):
        self.limit = 240  # Both ranks compute on CPUs, beside other tests.
        self.environment.update(PYTHONPATH=f"{TORCHTITAN}:{MORE}:{FRAMEWORKS}", OMP_NUM_THREADS="1")
        assets = Path(self.folder, "tests/assets")  # As in a clone of torchtitan, but smaller.
        for folder in ("tokenizer", "c4_test"):
            (assets / folder).mkdir(parents=True)
        words = [f"word{number}" for number in range(100)]
        tokenizer = {"pre_tokenizer": {"type": "Whitespace"},
                     "model": {"type": "WordLevel", "unk_token": words[0], "vocab": {w: n for n, w in enumerate(words)}}}
        (assets / "tokenizer/tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
        text = "".join(json.dumps({"text": " ".join(words[:n])}) + "\n" for n in range(50, 100)) * 10
        (assets / "c4_test/data.json").write_text(text, encoding="utf-8")
        program = os.path.join(ROOT, "tests/torch/programs/torchtitan_on_cpu.py")
        small = f"{program} --training.seq_len=64 --training.local_batch_size=2"
        self.assertEqual(self.play("frameworks.md", since="## torchtitan", instead=[("-m torchtitan.train", small)]), [0])
