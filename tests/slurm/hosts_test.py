"""Hosts of a step that are switched off, cut, or misled about addresses.

Slurm itself notices nothing here, for it takes a silent node for lost only after an hour: each
run continues by ddprun alone. lost_hosts_test has Slurm's part.
"""

from host_runs import DDPRUN, FAKE_WORKER, HostsTest

STEP = ("--ntasks-per-node=1", "--no-kill", "--kill-on-bad-exit=0")


class Hosts(HostsTest):
    # With --no-kill Slurm leaves the step alone, and a node too many is a spare.
    def test_a_spare_replaces_a_host_that_is_off(self):
        run = self.srun("-N3", *STEP, *self.agent("--nnodes=2:2"))
        first, ranks = self.world(2, run)
        victim = next(node for node in sorted(ranks.values()) if node != "n01")
        self.cluster.off(victim)
        _, after = self.world(2, run, after=first)
        stay = sorted({"n01", "n02", "n03"} - {victim})
        self.assertEqual(sorted(after.values()), stay)
        self.assertIn(f"node {victim} is lost: nothing heard for its lease", self.words("n01"))
        self.release()
        self.wait_for_ends(dict.fromkeys(stay, 0), run)

    def test_a_host_whose_link_was_cut_comes_back(self):
        run = self.srun("-N3", *STEP, *self.agent("--nnodes=1:3"))
        first, _ = self.world(3, run)
        self.cluster.cut("n02")
        second, ranks = self.world(2, run, after=first)
        self.assertEqual(sorted(ranks.values()), ["n01", "n03"])
        self.cluster.heal("n02")
        _, ranks = self.world(3, run, after=second)
        self.assertEqual(sorted(ranks.values()), ["n01", "n02", "n03"])
        self.release()
        self.assertEqual(run.wait(), 0, self.told([run]))


class Addresses(HostsTest):
    def with_hosts(self, lines):
        """Switches each host on again; `lines` are those of its /etc/hosts about nodes."""
        for node in list(self.cluster.power):
            self.cluster.off(node)
        self.addCleanup(self.switch_off)
        head = f"127.0.0.1 localhost\n{self.cluster.network.address(0)} ctl\n"
        for node in self.cluster.nodes:
            text = head + "".join(f"{lines(node, other)} {other}\n" for other in self.cluster.nodes)
            self.cluster.on(node, self.cluster.write(f"hosts.{node}", text))
        self.cluster.wait_until_idle()

    def switch_off(self):
        """So that the next test's hosts have an /etc/hosts as they should."""
        self.cluster.restore()
        for node in self.cluster.nodes:
            self.cluster.off(node)

    # Debian's installer writes such a line.
    def test_a_name_that_is_a_loopback_address_at_home(self):
        address = self.cluster.address
        self.with_hosts(lambda at, node: "127.0.1.1" if at == node else address(node))
        run = self.srun("-N3", *STEP, *self.agent())
        self.world(3, run)
        self.release()
        self.assertEqual(run.wait(), 0, self.told([run]))
        self.assertIn(f"serving the rendezvous at {address('n01')}:", self.words("n01"))
        self.assertIn(f"store {address('n01')}:", self.words("n02"))

    # One file for all, copied from the first node: the others would look for it at home.
    def test_a_name_that_is_a_loopback_address_elsewhere_is_explained(self):
        address = self.cluster.address
        self.with_hosts(lambda _, node: "127.0.1.1" if node == "n01" else address(node))
        run = self.srun("-N2", *STEP, *self.agent())
        self.wait_for(lambda: self.ends().get("n02") == 2, run, what="refusal")
        self.assertIn("the first node's name 'n01' is a loopback address here (/etc/hosts?), so this "
                      "node cannot reach it", self.words("n02"))
        again = self.step("-N2", *STEP, DDPRUN, f"--rdzv-endpoint={address('n01')}:29400",
                          "--nnodes=2", FAKE_WORKER, "--print=well")
        self.assertEqual(again.out().count("well"), 2, again.all())

    # n01 has an address of a network that n02 is not on: workers would try it for minutes.
    def test_a_store_on_a_network_that_others_are_not_on_is_explained(self):
        self.with_hosts(lambda at, node: self.cluster.address(node))
        self.cluster.add_interface("n01", "eth1", "10.66.0.1")
        choice = '[ $SLURM_NODEID = 0 ] && set -- "$@" --local-addr=10.66.0.1; exec "$@" '
        run = self.srun("-N2", *STEP, "bash", "-c", f"{choice} {FAKE_WORKER} --wait-file={self.go}",
                        "choice", DDPRUN, "-v")
        self.wait_for_text(run, r"ddprun n02 \| warning: cannot connect to 10\.66\.0\.1:\d+ \(.*\), the workers'")
        self.release()
        self.assertEqual(run.wait(), 0, run.all())
        self.assertNotRegex(run.err(), r"n01 \| (?:warning: )?cannot connect")

    def test_the_interface_that_is_asked_for_is_used(self):
        self.with_hosts(lambda at, node: self.cluster.address(node))
        self.cluster.add_interface("n01", "eth2", "10.67.0.1")
        run = self.srun("-N2", *STEP, *self.agent("--interface=eth2"))
        self.wait_for(lambda: self.ends().get("n02") == 2, run, what="refusal")
        self.assertIn("this machine has no such interface. It has lo, eth0", self.words("n02"))
        self.cluster.restore()
        run = self.srun("-N2", *STEP, *self.agent("--interface=eth0"))
        self.world(2, run)
        self.release()
        self.assertEqual(run.wait(), 0, self.told([run]))
