"""The tutorials do what they say (tests/support/tutorials.py)."""

import re
from pathlib import Path

from ddprun_runs import free_endpoint
from tutorials import ROOT, PageTest


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
