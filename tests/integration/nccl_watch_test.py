"""A hang of workers that tell nothing, by NCCL's RAS alone: a minute after their start at the earliest."""

import os
import sys
import unittest

SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")
sys.path.insert(0, SUPPORT)

from ddprun_runs import DdprunTest  # noqa: E402

PLAYS_NCCL = os.path.join(SUPPORT, "fake_ras.py")


class NcclWatch(DdprunTest):
    def test_who_has_begun_fewer_hangs_and_equal_or_moving_ranks_do_not(self):
        def begin(behaviour, *flags):
            os.makedirs(self.path(behaviour), exist_ok=True)
            return self.start("--hang-timeout=30s", "--preload=none", "--nproc-per-node=2", *flags, PLAYS_NCCL,
                              behaviour, self.path(behaviour))
        endpoint = self.free_endpoint()
        hung = [begin("silent-2.29.7", "--nnodes=2", f"--node-rank={rank}", f"--rdzv-id={self.run_id}",
                      f"--rdzv-endpoint={endpoint}") for rank in range(2)]
        others = [begin("silent-zeros"), begin("silent-moves"), begin("silent-stalls"), begin("silent-2.28.9")]
        for node in hung:
            self.assertEqual(node.wait(240), 124, "\n".join(n.all() for n in hung))
            self.assertRegex(node.err(), r"the run failed: rank 1 \(.*\) hung: no collective begun for 30\.0 s \(its peers "
                                         r"are at collective 641, it is at collective 640, past it; counts may be 1 s old\)")
        words = "of all ranks: 3 ranks: AllReduce 641; 1 rank: AllReduce 640: rank 1 on 127.0.0.1"
        self.assertIn("nobody begins a collective, says NCCL's RAS; " + words, hung[0].err())
        self.assertIn("NCCL's RAS: " + words, hung[0].err())
        for run in others:
            self.assertIsNone(run.process.poll(), run.all())
            self.assertNotIn("RAS", run.err())
            run.signal(15)
        for run in others:
            run.wait(60)


if __name__ == "__main__":
    unittest.main()
