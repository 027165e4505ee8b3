"""--hosts with a real ssh and sshd, on loopback addresses or in network namespaces."""

import os
import re
import signal
import sys
import time

from bridge_network import BridgeNetwork
from ddprun_runs import FAKE_WORKER, HELLO, children_of, command_of, eventually, read_bytes
from local_sshd import SshdTest, all_there
from networks import namespaces_work


class HostsTest(SshdTest):
    def launch(self, names, *arguments):
        return self.start(f"--hosts={','.join(names)}", f"--launch-agent={self.sshd.agent()}", *arguments,
                          machine=self.network and (self.network, self.hosts))

    def ranks(self, run):
        """(generation, rank) -> (host, pid) of the newest generation."""
        found = re.findall(r"\[([\w.]+)\] worker (\d+) (\d+) (\d+)\n", run.out())
        newest = max((int(g) for _, _, g, _ in found), default=0)
        return {(newest, int(rank)): (host, int(pid)) for host, rank, g, pid in found if int(g) == newest}

    def begin(self, count, *flags, worker=()):
        run = self.launch(self.sshd.names[:count], *flags, FAKE_WORKER, HELLO, *worker,
                          f"--wait-file={self.path('go')}")
        self.wait_for(lambda: len(self.ranks(run)) == count, run, what=f"{count} workers")
        return run

    def ends(self, run):
        self.write("go", "")
        self.assertEqual(run.wait(), 0, run.all())
        self.assertTrue(eventually(lambda: not self.mark.living()), run.all())


class SshdHosts(HostsTest):
    def test_three_hosts_and_odd_arguments(self):
        odd = ["a b", "$(id)", "'\"\\", "x\ny", "", "!"]
        script = self.write("show.py", "import os, sys\nprint(os.environ['RANK'], sys.argv[1:])\n")
        first, second, third = self.sshd.names
        run = self.launch([first, f"{second}:2", third], script, *odd)
        self.assertEqual(run.wait(), 0, run.all())
        self.assertEqual(sorted(run.out().splitlines()),
                         [f"[{host}] {rank} {odd}" for rank, host in enumerate((first, second, second, third))])

    def test_sshs_own_words(self):
        run = self.launch([self.sshd.names[0], self.sshd.silent_name], FAKE_WORKER, "--hang")
        self.assertEqual(run.wait(), 69, run.all())
        self.assertIn(f"cannot reach host {self.sshd.silent_name}: ssh: connect to host {self.sshd.silent_name} port "
                      f"{self.sshd.port}: Connection refused (the launch agent ended: exit code 255)", run.err())

    # As when its cable is pulled.
    def test_a_host_is_silent(self):
        run = self.begin(2, "--nnodes=1:2", "--rdzv-conf=last_call_timeout=0")
        generation = max(g for g, _ in self.ranks(run))
        host, pid = self.ranks(run)[generation, 1]
        session = self.sshd.session_of(pid)
        began = time.monotonic()
        stopped = [session, *children_of(session)] if os.geteuid() == 0 else [session]
        for one in stopped:
            if "sshd" in command_of(one):
                os.kill(one, signal.SIGSTOP)
        self.assertTrue(eventually(lambda: not read_bytes(f"/proc/{pid}/environ"), 15), run.all())
        print(f"host silent: its worker was gone after {time.monotonic() - began:.2f} s")
        self.wait_for_text(run, f"lost the connection to host {host}: Timeout, server {host} not responding")
        self.wait_for(lambda: len(r := self.ranks(run)) == 2 and min(r)[0] > generation, run)
        self.ends(run)
        self.run_directory_stays = True


class LauncherOnAMachine(HostsTest):
    def setUp(self):
        if not namespaces_work():
            self.skipTest("needs root, for network namespaces")
        self.network = BridgeNetwork(self.hosts + 1)  # The launcher's is the last one.
        super().setUp()
        self.addCleanup(self.network.close)

    # As when its plug is pulled.
    def test_the_launchers_host_is_silent(self):
        run = self.begin(3, worker=("--ignore-term", "--grandchild-setsid"))
        self.run_directory_stays = True
        workers = [pid for _, pid in self.ranks(run).values()]
        began = time.monotonic()
        self.network.cut(self.hosts)
        self.assertTrue(eventually(lambda: not any(read_bytes(f"/proc/{pid}/environ") for pid in workers), 20), run.all())
        print(f"launcher silent: no worker was left after {time.monotonic() - began:.2f} s")
        run.kill_at_once()


if __name__ == "__main__":
    if not all_there():
        print("skipped: there is no sshd here (Debian: openssh-server)")
        sys.exit(77)
