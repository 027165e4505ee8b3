"""The shared parts of the tests on hosts of their own: worlds by the host of each rank, and the
end of each."""

import os
import shlex
import unittest

from hosts import HostCluster, why_not
from slurm_runs import DDPRUN, LIMIT, SlurmTest, read_text

from ddprun_runs import FAKE_WORKER, eventually

HOSTS = 4
FOR_EVER = 3600  # Seconds after which Slurm notices a silent node, where it shall not.


class HostsTest(SlurmTest):
    slurmd_timeout = FOR_EVER

    @classmethod
    def begin(cls):
        if why_not():
            raise unittest.SkipTest(why_not())
        return HostCluster(HOSTS, cls.slurmd_timeout).up()

    def setUp(self):
        super().setUp()
        self.run_directory_stays = True  # A host that is off removes nothing.

    def _end_jobs(self):
        self.cluster.restore()

    def agent(self, *flags, program=None):
        """Words for srun: ddprun, of which each node keeps what it says and how it ends."""
        script = ('trap : TERM; "$@" 2> ' + self.path("words") + '.$SLURMD_NODENAME; code=$?; '
                  f'echo $code > {self.path("end")}.$SLURMD_NODENAME; exit $code')
        return ["bash", "-c", script, "agent", DDPRUN, "--rdzv-conf=last_call_timeout=0.2", *flags,
                *(program or [FAKE_WORKER, f"--env-file={self.path('env')}.%g.%r",
                              f"--wait-file={self.go}"])]

    @staticmethod
    def quoted(words):
        """For a script's line; $ means what it means to the shell that the words are for."""
        return " ".join(map(shlex.quote, words))

    def words(self, node=None):
        """The lines of a node's ddprun, or of all of them."""
        if node:
            return read_text(self.path(f"words.{node}"))
        return "".join(f"--- {node}\n{self.words(node)}" for node in self.cluster.nodes)

    def told(self, runs):
        """For a failure: of runs, and of files."""
        return "\n".join([self.words(), *(run.all() if hasattr(run, "all") else read_text(run)
                                          for run in runs)])

    def ends(self):
        """Node -> exit code of its ddprun, of those that have ended."""
        found = {node: read_text(self.path(f"end.{node}")).strip() for node in self.cluster.nodes}
        return {node: int(code) for node, code in found.items() if code}

    def worlds(self):
        """Generation -> rank -> node, of the generations of which every worker has begun."""
        found = {}
        for name in os.listdir(self.directory):
            if name.startswith("env.") and not name.endswith(".part"):
                env = self.environment_of(self.path(name))
                found.setdefault(int(env["DDPRUN_GENERATION"]), {})[int(env["RANK"])] = env
        return {generation: {rank: env["SLURMD_NODENAME"] for rank, env in ranks.items()}
                for generation, ranks in found.items()
                if len(ranks) == int(ranks[min(ranks)]["WORLD_SIZE"])}

    def world(self, size, *told, after=0):
        """The next generation of so many ranks, and their nodes; `told` is shown if none comes."""
        def look():
            return next(((g, ranks) for g, ranks in sorted(self.worlds().items())
                         if g > after and len(ranks) == size), None)
        found = eventually(look, LIMIT)
        self.assertTrue(found, f"no world of {size} but {self.worlds()}\n" + self.told(told))
        return found

    def release(self):
        open(self.go, "w").close()

    def wait_for_ends(self, expected, *told):
        found = eventually(lambda: self.ends() == expected, LIMIT)
        self.assertTrue(found, f"ended {self.ends()}, not {expected}\n" + self.told(told))


__all__ = ["DDPRUN", "FAKE_WORKER", "HOSTS", "LIMIT", "HostsTest", "eventually", "read_text"]
