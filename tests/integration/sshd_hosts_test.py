"""--hosts with a real ssh and sshd, on loopback addresses."""

import os
import re
import signal
import sys
import time

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest, children_of, command_of, eventually, read_bytes
from local_sshd import LocalSshd, all_there


class SshdHosts(DdprunTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("sshd"), 0o700)
        names = ("DDPRUN_TEST_MARK", "XDG_RUNTIME_DIR", "TMPDIR", "OMP_NUM_THREADS")
        self.sshd = LocalSshd(self.path("sshd"), 3, {name: self.environment[name] for name in names})
        self.addCleanup(self.sshd.close)

    def launch(self, names, *arguments):
        return self.start(f"--hosts={','.join(names)}", f"--launch-agent={self.sshd.agent()}", *arguments)

    def ranks(self, run):
        """(generation, rank) -> (host, pid) of the newest generation."""
        found = re.findall(r"\[([\w.]+)\] worker (\d+) (\d+) (\d+)\n", run.out())
        newest = max((int(g) for _, _, g, _ in found), default=0)
        return {(newest, int(rank)): (host, int(pid)) for host, rank, g, pid in found if int(g) == newest}

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
        run = self.launch(self.sshd.names[:2], "--nnodes=1:2", "--rdzv-conf=last_call_timeout=0", FAKE_WORKER, HELLO,
                          f"--wait-file={self.go}")
        self.wait_for(lambda: len(self.ranks(run)) == 2, run, what="2 workers")
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
        self.write("go", "")
        self.assertEqual(run.wait(), 0, run.all())
        self.run_directory_stays = True


if __name__ == "__main__":
    if not all_there():
        print("skipped: there is no sshd here (Debian: openssh-server)")
        sys.exit(77)
