"""Programs as people write them for torchrun: they train the same numbers under ddprun."""

import os

from torch_runs import TorchTest

# Torch 2.9 and older make a client of each process that calls init_process_group("tcp://...") under an agent that hosts
# the store, under torchrun too. TORCHELASTIC_USE_AGENT_STORE=True must not do that.
OLD_TORCH = "OLD_TORCH" in os.environ


class Programs(TorchTest):
    def test_the_tutorial_trains_on_two_nodes_the_same_bits_as_under_torchrun(self):
        self.run_on_nodes(2, 1, "tutorial.py")
        ours = self.reports()
        self.assertEqual([(r["rank"], r["world"]) for r in ours], [(0, 2), (1, 2)])
        self.assertEqual(len({r["parameters"] for r in ours}), 1, ours)
        self.assertEqual(ours, self.ask_torchrun(2, "tutorial.py"))

    def test_groups_again_and_again_barriers_objects_own_stores_and_rpc(self):
        self.run_program(2, "features.py", *([] if OLD_TORCH else ["stores"]))
        gathered = [{"rank": 0, "text": ""}, {"rank": 1, "text": "ä"}]
        stores = {} if OLD_TORCH else {"seen": ["0", "1"], "mixed": False, "tcp": 3}
        for rank, told in enumerate(self.reports()):
            self.assertEqual(told, {"sums": [1, 21, 41], "told": [{"from": 0}], "pairs": 2, "gathered": gathered, **stores,
                                    "answers": [[rank, rank], [rank + 1, rank + 1]]})
        self.assertEqual(len(self.reports()), 2)
