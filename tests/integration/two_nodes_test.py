"""Two nodes with fixed ranks, a rendezvous server alone, and the network that Gloo gets."""

import os
import re
import signal
import unittest

from bridge_network import BridgeNetwork
from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest, read_text
from networks import namespaces_work


class FewestAndMost(DdprunTest):
    def test_two_at_once_form_one_world(self):
        nodes = [self.start("--nnodes=1:3", f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={self.endpoint}",
                            "--local-addr=127.0.0.1", "--rdzv-conf=last_call_timeout=0.3", FAKE_WORKER, HELLO,
                            f"--wait-file={self.go}") for _ in range(2)]
        self.wait_for_world(nodes, 2)
        open(self.go, "w").close()
        self.all_end(nodes)
        carriers = [n for n in nodes if "serving the rendezvous at" in n.err()]
        self.assertEqual(len(carriers), 1, "\n".join(n.all() for n in nodes))

    # The first node ended at once with the server, and the other one looked for it for ten minutes.
    def test_a_node_that_stands_still_as_too_few_came_hears_of_it(self):
        other, first = [self.start("--nnodes=3", f"--node-rank={rank}", f"--rdzv-endpoint={self.endpoint}",
                                   "--rdzv-conf=join_timeout=2", FAKE_WORKER) for rank in (1, 0)]
        self.wait_for_text(other, "waiting for nodes: 2 of 3")
        agent = other.agent()
        os.kill(agent, signal.SIGSTOP)  # For less than the lease of a run's first minute.
        self.wait_for_text(first, "2 of 3 nodes came within")
        os.kill(agent, signal.SIGCONT)
        self.all_end([first, other], 69)
        self.assertIn("2 of 3 nodes came within", other.err())

    def test_a_node_without_the_program_leaves_the_others_to_train(self):
        missing = self.path("not-here")

        def start(program):
            return self.start("--nnodes=1:2", f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={self.endpoint}",
                              "--rdzv-conf=last_call_timeout=3", program)
        good = start(FAKE_WORKER)
        self.wait_for_text(good, "waiting for more nodes")
        bad = start(missing)
        self.assertEqual(bad.wait(), 2, bad.all())
        self.assertEqual(good.wait(), 0, good.all())
        why = f"cannot start its workers: program '{missing}' does not exist"
        self.assertRegex(bad.err(), f"this node {why}")
        self.assertRegex(good.err(), f"waiting for more nodes: .*; kept out: .* .{why}")


class FixedRanks(DdprunTest):
    def start_node(self, rank, *arguments, flags=("--nproc-per-node=2",)):
        return self.start("--nnodes=2", f"--node-rank={rank}", f"--rdzv-id={self.run_id}",
                          f"--rdzv-endpoint={self.endpoint}", *flags, FAKE_WORKER, *arguments)

    def end(self, nodes, expect, limit=30):
        for rank, node in enumerate(nodes):
            self.assertEqual(node.wait(limit), expect,
                             f"node {rank}\n" + "\n".join(n.all() for n in nodes))
        self.assertEqual(self.mark.living(), [])

    def test_both_finish_and_every_worker_has_its_place(self):
        for first in (0, 1):  # Either may come first.
            with self.subTest(first=first):
                self.endpoint = self.free_endpoint()
                path = self.path(f"env{first}.%r")
                nodes = {r: self.start_node(r, f"--env-file={path}") for r in (first, 1 - first)}
                self.end([nodes[0], nodes[1]], 0)
                envs = [self.environment_of(path.replace("%r", str(r))) for r in range(4)]
                for rank, env in enumerate(envs):
                    self.assertEqual(env["RANK"], str(rank))
                    self.assertEqual(env["GROUP_RANK"], str(rank // 2))
                    self.assertEqual(env["LOCAL_RANK"], str(rank % 2))
                    self.assertEqual((env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]), ("4", "2"))
                    for name in ("MASTER_ADDR", "MASTER_PORT", "DDPRUN_WORLD_ID"):
                        self.assertEqual(env[name], envs[0][name])

    def test_a_lack_on_one_machine_ends_the_run_and_all_hear_why(self):
        open(self.path("file"), "w").close()
        missing = self.path("not-here")
        program = f"program '{missing}' does not exist"
        table = (
            (0, [missing], program),  # Node 0 hosts the server.
            (1, [missing], program),
            (0, ["--nproc-per-node=gpu"], "--nproc-per-node=gpu: no GPU is visible"),
            (1, [f"--log-dir={self.path('file')}/logs", "--redirects=3"], "Not a directory.*--log-dir"),
            (1, ["--module"], "no Python was found in PATH|Set PYTHON_EXEC to one|PYTHON_EXEC names it"),
        )
        for bad, flags, why in table:
            for first in (0, 1):  # Either may come first.
                with self.subTest(flags, bad=bad, first=first):
                    self.endpoint = self.free_endpoint()
                    lacks = lambda: self.start(
                        "--nnodes=2", f"--node-rank={bad}", f"--rdzv-id={self.run_id}",
                        f"--rdzv-endpoint={self.endpoint}", *flags, FAKE_WORKER,
                        environment={"CUDA_VISIBLE_DEVICES": "", "PYTHON_EXEC": "/no/python"})
                    nodes = {}
                    for rank in (first, 1 - first):
                        nodes[rank] = lacks() if rank == bad else self.start_node(rank)
                        self.wait_for_text(nodes[rank], "cannot start its workers" if rank == bad
                                           else "waiting for nodes|cannot reach|cannot start its workers")
                    self.end([nodes[0], nodes[1]], 2)
                    for node in nodes.values():
                        self.assertRegex(node.err(), f"the run failed: node .* cannot start its workers: .*({why})")

    def test_an_endpoint_with_port_0_is_reported(self):
        self.endpoint = "127.0.0.1:0"
        first = self.start_node(0)
        self.endpoint = self.wait_for_text(first, r"serving the rendezvous at (\S+)")[1]
        self.end([first, self.start_node(1)], 0)


class ServerAlone(DdprunTest):
    def start_server(self):
        server = self.start("rendezvous", "--listen=127.0.0.1:0")
        self.endpoint = self.wait_for_text(server, r"serving at (\S+:\d+)")[1]
        return server

    def start_node(self, run_id, *arguments, nodes=2):
        return self.start(f"--nnodes={nodes}", f"--rdzv-id={run_id}",
                          f"--rdzv-endpoint={self.endpoint}", FAKE_WORKER, *arguments)

    def test_two_runs_do_not_see_each_other(self):
        server = self.start_server()
        path = self.path("env.%p")
        good = [self.start_node(self.run_id + "-good", f"--env-file={path}") for _ in range(2)]
        bad = [self.start_node(self.run_id + "-bad", "--exit=7") for _ in range(2)]
        self.assertEqual([n.wait() for n in good], [0, 0], "\n".join(n.all() for n in good))
        self.assertEqual([n.wait() for n in bad], [7, 7], "\n".join(n.all() for n in bad))
        envs = [self.environment_of(self.path(name)) for name in os.listdir(self.directory)
                if re.fullmatch(r"env\.\d+", name)]
        self.assertEqual([env["WORLD_SIZE"] for env in envs], ["2", "2"])
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(), 130)


class GloosInterface(DdprunTest):
    def on_two_nodes(self, endpoint, network=None, extra=None):
        paths = [self.path(f"env.{len(os.listdir(self.directory))}.{i}") for i in range(2)]
        self.all_end([self.start(
            "--nnodes=2", f"--node-rank={i}", f"--rdzv-endpoint={endpoint}", "--rdzv-id=two", "--nproc-per-node=gpu",
            f"--gpus={'2' if i else '0,1'}", FAKE_WORKER, "--on-local-rank=0", f"--env-file={paths[i]}",
            machine=network and (network, i), environment={
                "DDPRUN_TOKEN": "0123456789abcdef0123456789abcdef", "CUDA_VISIBLE_DEVICES": "0,1,2,3", **(extra or {})})
            for i in range(2)])
        environments = [self.environment_of(path) for path in paths]
        self.assertEqual([e["WORLD_SIZE"] for e in environments], ["3", "3"])  # Two GPUs here, one there.
        return [e.get("GLOO_SOCKET_IFNAME") for e in environments]

    @unittest.skipUnless(namespaces_work(), "no network namespaces without root")
    def test_is_that_of_the_route(self):
        network = BridgeNetwork(2)
        self.addCleanup(network.close)
        endpoint = network.address(0) + ":29400"
        self.assertEqual(self.on_two_nodes(endpoint, network), ["eth0", "eth0"])
        self.assertEqual(self.on_two_nodes(endpoint, network, {"GLOO_SOCKET_IFNAME": "mine"}), ["mine", "mine"])

    def test_is_not_reported_on_loopback_or_of_one_node(self):
        self.assertEqual(self.on_two_nodes(self.free_endpoint()), [None, None])
        path = self.path("one")
        self.run_ddprun(FAKE_WORKER, f"--env-file={path}")
        self.assertIsNone(re.search("^GLOO_SOCKET_IFNAME=", read_text(path), re.M))
