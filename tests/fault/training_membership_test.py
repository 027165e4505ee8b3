"""The real trainer while nodes come and go: a planned change costs no step and no sample."""

import os
import signal

from ddprun_runs import TRAIN, DdprunTest
from sample_audit import audit_samples

SAMPLES, EPOCHS, BATCH = 60000, 4, 32
LIMIT = 120


class TrainingMembership(DdprunTest):
    def start_node(self, endpoint):
        return self.start(
            "--nnodes=1:2", f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={endpoint}",
            "--rdzv-conf=last_call_timeout=0.2", TRAIN, f"--epochs={EPOCHS}", f"--batch={BATCH}",
            "--checkpoint-every=1000000", "--threads=1", f"--checkpoint-dir={self.path('ckpt')}",
            f"--sample-log={self.path('samples')}",
            "--skew=0:1")  # Else a fast machine may have trained all before the second node is there.

    def trains(self, generation, rank):
        """That rank of that generation has finished some steps."""
        log = self.path("samples", f"generation-{generation}.rank-{rank}.jsonl")
        return os.path.exists(log) and os.path.getsize(log) > 10_000

    def test_a_node_joins_and_leaves_again(self):
        first = self.start_node(self.endpoint)
        self.wait_for(lambda: self.trains(1, 0), first, limit=LIMIT)
        second = self.start_node(self.endpoint)
        self.wait_for(lambda: self.trains(2, 1), first, second, limit=LIMIT)
        second.signal(signal.SIGTERM)
        self.assertEqual(second.wait(LIMIT), 143, second.all())
        self.assertEqual(first.wait(LIMIT), 0, first.all() + second.all())
        audit = audit_samples(self.path("samples"))
        self.assertEqual(audit.generations, [1, 2, 3])
        self.assertEqual(audit.steps_taken, EPOCHS * SAMPLES // BATCH, "a step was taken twice")
        for epoch in range(EPOCHS):
            self.assertEqual(sorted(audit.epochs[epoch]), list(range(SAMPLES)), f"epoch {epoch}")
