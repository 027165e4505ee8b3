"""The tutorial of Slurm does what it says, in a cluster of two nodes (tests/support/tutorials.py)."""

import os

from cluster import Cluster
from slurm_runs import skip_without_slurm

from ddprun_runs import TRAIN
from tutorials import PageTest


class SlurmTutorial(PageTest):
    def test_first_slurm_job(self):
        skip_without_slurm()
        cluster = Cluster(2).up()
        self.addCleanup(cluster.down)
        self.environment["SLURM_CONF"] = cluster.conf
        self.environment["PATH"] = ":".join((os.path.dirname(TRAIN), self.environment["PATH"], cluster.environment()["PATH"]))
        first = cluster.nodes[0]
        self.play("first-slurm-job.md", instead=[("ddprun n1 |", f"ddprun {first} |"), ("node 0 of 2, n1", f"node 0 of 2, {first}")])
