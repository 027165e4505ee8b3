"""Worlds that grow and shrink while machines, agents and links fail: nobody waits without a reason."""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest  # noqa: E402
from networks import LoopbackNetwork, NamespaceNetwork, namespaces_work  # noqa: E402

# Why a node is lost whose agent was killed; how fast is measured by tests/bench/recovery.py.
NO_LEASE = r"is lost: its connection closed and it did not come back within 200 ms"


class Membership(DdprunTest):
    """A server of its own, and machines that reach it over links of their own."""

    MACHINES = 3
    LINKS = True  # Some test cuts them.

    def setUp(self):
        super().setUp()
        self.go = self.path("go")
        self.nodes = {}  # Machine -> its run.
        in_namespaces = namespaces_work()
        if in_namespaces:
            self.network = NamespaceNetwork(self.MACHINES)
        else:
            self.network = LoopbackNetwork(self.MACHINES, self.free_endpoint())
        self.addCleanup(self.network.close)
        command = self.network.on_server([DDPRUN, "rendezvous", f"--listen={self.network.listen}",
                                          "--insecure"])
        self.server = self.start(*command[1:], executable=command[0])
        self.wait_for_text(self.server, "serving at")
        if not in_namespaces and self.LINKS:
            self.network.started()

    def tearDown(self):
        self.terminate(self.server)

    def join(self, machine, *flags, nnodes="1:3"):
        command = [DDPRUN, f"--nnodes={nnodes}", f"--rdzv-id={self.run_id}",
                   f"--rdzv-endpoint={self.network.endpoint(machine)}",
                   "--rdzv-conf=last_call_timeout=0.1", "--max-restarts=0", *flags]
        if self.LINKS and not self.network.silent:
            command.append(f"--node-rank={machine}")  # Slots are locked per endpoint.
        command += [FAKE_WORKER, HELLO, f"--env-file={self.path('env.%r.%g')}", f"--wait-file={self.go}"]
        command = self.network.on_machine(machine, command)
        run = self.start(*command[1:], executable=command[0])
        self.nodes[machine] = run
        return run

    def world(self, machines, after=0, sizes=None):
        """The first generation above `after` that is just these machines."""
        sizes = sizes or [1] * len(machines)
        runs = [self.nodes[m] for m in machines]
        generation = self.wait_for_world(runs, sum(sizes), after, others=self.nodes.values())
        self.assertEqual([len(run.workers(generation)) for run in runs], sizes)
        return generation

    def restart_count(self, generation):
        return int(self.environment_of(self.path(f"env.0.{generation}"))["TORCHELASTIC_RESTART_COUNT"])

    def world_size(self, generation):
        return int(self.environment_of(self.path(f"env.0.{generation}"))["WORLD_SIZE"])

    def kill_agent(self, machine):
        self.run_directory_stays = True
        os.kill(self.nodes[machine].agent(), signal.SIGKILL)

    def end(self, machines):
        open(self.go, "w").close()
        told = "\n".join(run.all() for run in self.nodes.values())
        for machine in machines:
            self.assertEqual(self.nodes[machine].wait(), 0, told)


class Losses(Membership):
    def two(self):
        self.join(0, nnodes="1:2")
        self.join(1, nnodes="1:2")
        return self.world([0, 1])

    def test_a_machine_that_is_switched_off_costs_a_lease(self):
        first = self.two()
        self.run_directory_stays = True
        self.network.cut(1)  # Its link is dead before its processes are.
        self.nodes[1].kill_at_once()
        second = self.world([0], first)
        self.assertRegex(self.server.err(), r"is lost: nothing heard for its lease of [123]\.\d s")
        self.assertEqual((self.world_size(second), self.restart_count(second)), (1, 0))
        self.end([0])

    def test_a_node_that_hears_nothing_is_lost_and_comes_back(self):
        first = self.two()
        self.network.deafen(1)
        second = self.world([0], first)
        self.network.heal(1)
        self.world([0, 1], second)
        self.end([0, 1])

    def test_below_min_the_run_waits_and_says_until_when(self):
        self.join(0, nnodes="2:3")
        self.join(1, nnodes="2:3")
        first = self.world([0, 1])
        self.kill_agent(1)
        self.wait_for_text(self.nodes[0], r"waiting for nodes: 1 of 2 are here; missing \S+; "
                                          r"giving up in \d+ min")
        self.nodes[1].wait()
        self.join(2, nnodes="2:3")
        second = self.world([0, 2], first)
        self.assertEqual(self.restart_count(second), 0)
        self.end([0, 2])


class Growth(Membership):
    LINKS = False

    def test_a_spare_replaces_a_lost_node_at_once(self):
        self.join(0, nnodes="2")
        self.join(1, nnodes="2")
        first = self.world([0, 1])
        self.join(2, nnodes="2")
        self.wait_for_text(self.nodes[2], "standing by as a spare")
        self.kill_agent(1)
        second = self.world([0, 2], first)
        self.assertRegex(self.server.err(), NO_LEASE)
        self.assertEqual(self.restart_count(second), 0)
        self.nodes[1].wait()
        self.end([0, 2])

    def test_nodes_with_different_numbers_of_workers(self):
        self.join(0, "--nproc-per-node=2")
        self.join(1, "--nproc-per-node=3", "--role=reader")
        first = self.world([0, 1], sizes=[2, 3])
        self.join(2)
        second = self.world([0, 1, 2], first, sizes=[2, 3, 1])
        self.kill_agent(1)
        third = self.world([0, 2], second, sizes=[2, 1])
        self.assertEqual(self.world_size(third), 3)
        self.nodes[1].wait()
        self.end([0, 2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
