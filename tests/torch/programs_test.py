"""Programs as people write them for torchrun: they train the same numbers under ddprun."""

import re
import unittest

from torch_runs import LIMIT, TorchTest


class Training(TorchTest):
    def test_the_tutorial_trains_the_same_bits_as_under_torchrun_with_one_agent_or_two(self):
        self.run_program(2, "tutorial.py")
        ours = self.reports()
        self.assertEqual([(r["rank"], r["world"]) for r in ours], [(0, 2), (1, 2)])
        self.assertEqual(len({r["parameters"] for r in ours}), 1, ours)
        self.assertEqual(ours, self.ask_torchrun(2, "tutorial.py"))
        self.run_on_nodes(2, 1, "tutorial.py")
        self.assertEqual(self.reports(), ours)


class Torch(TorchTest):
    def test_groups_again_and_again_barriers_and_objects(self):
        self.run_program(2, "collectives.py")
        for told in self.reports():
            self.assertEqual(told, {
                "sums": [1, 21, 41], "told": [{"from": 0}], "pairs": 2,
                "gathered": [{"rank": 0, "text": ""}, {"rank": 1, "text": "ä"}]})

    # TORCHELASTIC_USE_AGENT_STORE=True must not make clients of those who want to host.
    def test_stores_that_workers_open_themselves(self):
        self.run_program(2, "own_stores.py")
        for told in self.reports():
            self.assertEqual(told, {"seen": ["0", "1"], "mixed": False, "tcp": 3})

    def test_rpc(self):
        self.run_program(2, "rpc.py")
        self.assertEqual([r["answers"] for r in self.reports()],
                         [[[0, 0], [1, 1]], [[1, 1], [2, 2]]])


class Examples(TorchTest):
    """What `ddprun example` prints."""

    def example(self, name):
        path = self.write(f"{name}_example.py", self.run_ddprun("example", name).out())
        return path

    def test_ddp_learns(self):
        run = self.run_ddprun("--nproc-per-node=2", self.example("ddp"), limit=LIMIT)
        losses = [float(text) for text in re.findall(r"on 2 ranks: loss (\S+)", run.out())]
        self.assertEqual(len(losses), 5, run.all())
        self.assertLess(losses[-1], 0.05)


if __name__ == "__main__":
    unittest.main()
