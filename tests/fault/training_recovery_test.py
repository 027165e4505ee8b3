"""The real trainer under the real launcher: killed again and again, it ends where it would have."""

import os
import random
import re
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import TRAIN, DdprunTest, read_bytes  # noqa: E402

SEED = 20  # Of the steps and ranks that are hit.
KILLS = 10
STEPS_PER_EPOCH, EPOCHS, BATCH, RANKS = 150, 6, 64, 2
LIMIT = 120


class TrainingRecovery(DdprunTest):
    def training(self, name):
        return [
            TRAIN, f"--epochs={EPOCHS}", f"--batch={BATCH}",
            f"--limit-train={STEPS_PER_EPOCH * BATCH * RANKS}", "--checkpoint-every=10", "--threads=1",
            f"--checkpoint-dir={self.path(name)}", f"--dump-parameters={self.path(name + '.parameters')}",
        ]

    def parameters(self, name):
        data = read_bytes(self.path(name + ".parameters"))
        self.assertGreater(len(data), 1000)
        return data

    def undisturbed(self):
        self.run_ddprun(f"--nproc-per-node={RANKS}", *self.training("calm"), limit=LIMIT)
        return self.parameters("calm")

    def step_of(self, name):
        """The newest checkpoint's, as the folder shows it."""
        steps = [int(m[1]) for entry in os.listdir(self.path(name))
                 if (m := re.match(r"step-(\d+)-", entry))] if os.path.isdir(self.path(name)) else []
        return max(steps, default=0)

    def worker(self, rank):
        """(generation, pid) of the newest worker with that rank; None between generations."""
        return max(((generation, pid) for pid, (generation, its) in self.trainers().items() if its == rank), default=None)

    def hunted(self, name, skew):
        """The run after all kills; None: its training had ended before."""
        chance = random.Random(SEED)
        targets = sorted(chance.sample(range(10, STEPS_PER_EPOCH * EPOCHS * 7 // 10), KILLS))
        # One commit may lie beyond several targets: then kills follow each other without a step between them.
        run = self.start(f"--nproc-per-node={RANKS}", "--max-restarts=20", "--crash-loop-limit=0",
                         *self.training(name), f"--skew=0:{skew}")
        hit = set()

        def over():
            return run.process.poll() is not None

        for target in targets:
            rank = chance.randrange(RANKS)
            self.wait_for(lambda t=target: over() or self.step_of(name) >= t, run, limit=LIMIT,
                          what=f"step {target}")
            self.wait_for(lambda r=rank: over() or ((w := self.worker(r)) and w[0] not in hit), run,
                          limit=LIMIT, what=f"rank {rank} of a new generation")
            found = self.worker(rank)
            try:
                os.kill(found[1], signal.SIGKILL)
            except (TypeError, ProcessLookupError):
                self.assertEqual(run.wait(LIMIT), 0, run.all())
                return None
            hit.add(found[0])
        self.assertEqual(run.wait(LIMIT), 0, run.all())
        return run

    def test_ten_kills_leave_no_trace_in_the_parameters(self):
        calm = self.undisturbed()
        for skew in (5, 20, 80):  # Milliseconds a step: a slow disk may commit too late for the targets.
            name = f"hunted{skew}"
            run = self.hunted(name, skew)
            if run:
                break
        else:
            self.fail("each training ended before all kills")
        self.assertEqual(len(re.findall(r"restarting all workers \(\d+ of 20\)", run.err())), KILLS, run.err())
        self.assertTrue(self.parameters(name) == calm, f"parameters differ (seed {SEED})")

    def test_a_node_that_dies_costs_nothing_but_time(self):
        # One worker on each of two nodes, the second one taken away and put back: same global batch.
        calm = self.undisturbed()
        endpoint = self.free_endpoint()

        def start_node(rank):
            return self.start("--nnodes=2", f"--node-rank={rank}", f"--rdzv-id={self.run_id}",
                              f"--rdzv-endpoint={endpoint}", *self.training("nodes"), "--skew=0:15")

        nodes = [start_node(rank) for rank in range(2)]
        self.wait_for(lambda: self.step_of("nodes") >= STEPS_PER_EPOCH, *nodes, limit=LIMIT)
        os.kill(nodes[1].agent(), signal.SIGKILL)
        self.run_directory_stays = True
        self.assertEqual(nodes[1].wait(), 137)
        nodes[1] = start_node(1)
        self.all_end(nodes, limit=LIMIT)
        self.assertTrue(self.parameters("nodes") == calm, "parameters differ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
