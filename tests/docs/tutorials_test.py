"""The tutorials and the page of frameworks do what they say (tests/support/tutorials.py)."""

import json
import os
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import side_by_side  # noqa: E402
from ddprun_runs import free_endpoint  # noqa: E402
from tutorials import ROOT, PageTest  # noqa: E402


class Tutorials(PageTest):
    def test_every_tutorial_is_played(self):
        tab = re.search(r"- Tutorials:\n(.*?)- How-to:", Path(ROOT, "scripts/docs/mkdocs.yml").read_text(encoding="utf-8"), re.S)[1]
        tests = "".join(path.read_text(encoding="utf-8") for path in Path(ROOT, "tests").glob("*/*_test.py"))
        played = re.findall(r'self\.play\("([\w-]+\.md)"', tests)
        self.assertEqual(set(re.findall(r"\S+\.md", tab)) - set(played), {"index.md"})

    def test_first_run(self):
        self.assertEqual(self.play("first-run.md"), [130])

    def test_move_from_torchrun(self):
        self.assertEqual(self.play("move-from-torchrun.md"), [0, 7])

    def test_elastic_run(self):
        self.environment["DDPRUN_RDZV_ENDPOINT"] = free_endpoint()  # Else other tests may have the default port.
        self.assertEqual(self.play("elastic-run.md"), [130, 143, 137])

    @unittest.skipUnless(os.environ.get("DDPRUN_FRAMEWORKS"), "without accelerate, Lightning and transformers")
    def test_frameworks(self):
        self.environment["PYTHONPATH"] = os.environ["DDPRUN_FRAMEWORKS"] + ":" + os.path.join(ROOT, "launcher/python")
        self.assertEqual(self.play("frameworks.md", until="## DeepSpeed"), [0] * 4)

    @unittest.skipUnless(os.environ.get("DDPRUN_MORE_FRAMEWORKS"), "without DeepSpeed, TorchX and torchft")
    def test_more_frameworks(self):
        folders = [os.environ["DDPRUN_MORE_FRAMEWORKS"], os.environ["DDPRUN_FRAMEWORKS"]]
        self.environment["PATH"] = os.path.join(folders[0], "bin") + ":" + self.environment["PATH"]
        self.environment["PYTHONPATH"] = ":".join(folders)
        lighthouse, rendezvous = free_endpoint(), free_endpoint()
        instead = [("localhost:29510", lighthouse), ("[::]:29510", lighthouse), (":29400", ":" + rendezvous.split(":")[1])]
        self.assertEqual(self.play("frameworks.md", since="## DeepSpeed", until="## torchtitan", instead=instead), [0] * 3)

    @unittest.skipUnless(os.environ.get("DDPRUN_TORCHTITAN"), "without torchtitan")
    def test_torchtitan(self):
        names = ("DDPRUN_TORCHTITAN", "DDPRUN_MORE_FRAMEWORKS", "DDPRUN_FRAMEWORKS")
        self.environment.update(PYTHONPATH=":".join(os.environ[name] for name in names), OMP_NUM_THREADS="1")
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


if __name__ == "__main__":
    side_by_side.main(at_once=3)
