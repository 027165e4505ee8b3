"""Runs the programs below programs/ under the real ddprun, or torchrun, with a Python that has torch.

Usage of every test here: PYTHON_WITH_TORCH tests/support/run.py some_test.py, with DDPRUN set as in the other trees.
"""

import json
import os
import re
import sys

from ddprun_runs import DDPRUN, DdprunTest, read_text  # noqa: F401

HERE = os.path.dirname(os.path.abspath(__file__))
TORCHRUN = os.path.join(os.path.dirname(sys.executable), "torchrun")
LIMIT = 150  # Seconds; the first import of torch on a busy machine takes dozens.
# One import, and one of what DDP loads late, for all workers of a node and for all attempts.
FORKED = "--preload=torch,torch._dynamo"


def program(name):
    return os.path.join(HERE, "programs", name)


class TorchTest(DdprunTest):
    def setUp(self):
        super().setUp()
        self.environment.update(PYTHON_EXEC=sys.executable, OMP_NUM_THREADS="1",
                                TORCHINDUCTOR_CACHE_DIR=self.path("inductor"))  # Not in TMPDIR.
        self.new_reports()

    def new_reports(self):
        self.reports_made = getattr(self, "reports_made", 0) + 1
        self.reports_folder = self.path(f"reports{self.reports_made}")
        os.mkdir(self.reports_folder)
        self.environment["REPORTS"] = self.reports_folder

    def reports(self, attempt=0):
        """The reports of one attempt's ranks, in their order."""
        found = {}
        for name in os.listdir(self.reports_folder):
            if parts := re.fullmatch(rf"(\d+)\.{attempt}\.json", name):
                found[int(parts[1])] = json.loads(read_text(os.path.join(self.reports_folder, name)))
        return [found[rank] for rank in sorted(found)]

    def told(self):
        """The reports of dump.py, in the order of ranks."""
        names = [n for n in os.listdir(self.reports_folder) if re.fullmatch(r"\d+\.json", n)]
        return [json.loads(read_text(os.path.join(self.reports_folder, name)))
                for name in sorted(names, key=lambda n: int(n.split(".")[0]))]

    def run_program(self, workers, name, *arguments, flags=(), expect=0):
        """Under ddprun, to its end; its earlier output is forgotten."""
        self.new_reports()
        return self.run_ddprun(f"--nproc-per-node={workers}", *flags, program(name), *arguments,
                               expect=expect, limit=LIMIT)

    def ask_torchrun(self, workers, name, *arguments):
        """The same program's reports under torchrun."""
        self.new_reports()
        os.makedirs(self.path("torchrun"), exist_ok=True)  # It leaves its log folders there.
        run = self.start("--standalone", f"--nproc-per-node={workers}", program(name), *arguments,
                         executable=TORCHRUN, environment={"TMPDIR": self.path("torchrun")})
        self.assertEqual(run.wait(LIMIT), 0, run.all())
        return self.reports()

    def start_nodes(self, nodes, workers, name, *arguments, flags=(), expected="{n}"):
        """One ddprun per node, all on this machine; ranks are fixed where `expected` is not elastic. `workers`: of each
        node, or a list."""
        self.new_reports()
        counts = [workers] * nodes if isinstance(workers, int) else workers
        endpoint = self.free_endpoint()
        elastic = ":" in expected
        return [
            self.start(f"--nnodes={expected.format(n=nodes)}", f"--nproc-per-node={counts[node]}",
                       *([] if elastic else [f"--node-rank={node}"]), f"--rdzv-id={self.run_id}",
                       f"--rdzv-endpoint={endpoint}", *flags, program(name), *arguments)
            for node in range(nodes)
        ]

    def run_on_nodes(self, nodes, workers, name, *arguments, flags=()):
        runs = self.start_nodes(nodes, workers, name, *arguments, flags=flags)
        self.all_end(runs, limit=LIMIT)
        return runs
