"""Hosts for `ddprun --hosts` without ssh: a stand-in that is called as ssh is.

The stand-in hands its three streams to the test, which starts the command as sshd would: no process
of it is the launcher's descendant, and it notices the launcher's end only by the end of its input.
"""

import array
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest, free_endpoint

STAND_IN = """
import array, json, os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    connection.sendmsg([json.dumps({"host": sys.argv[-2], "command": sys.argv[-1], "pid": os.getpid()}).encode()],
                       [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
    for fd in (0, 1, 2):
        os.close(fd)
    os._exit(int(connection.recv(16) or b"255"))
"""


class FakeHosts:
    """All hosts of a test. `behave(host)` may name another command for a host; `started` has a list of what
    the launcher called, in order."""

    def __init__(self, path, environment):
        self.path = path
        self.environment = environment
        self.behave = lambda host, command: command
        self.started = []
        self.connections = {}  # host -> (stand-in's pid, what copies its input)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1024)
        self.accepting = threading.Thread(target=self._accept, daemon=True)
        self.accepting.start()

    def agent(self, script):
        return f"{sys.executable} -S -E {script} {self.path}"

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            fds = array.array("i")
            text, ancillary, _, _ = connection.recvmsg(65536, socket.CMSG_SPACE(12))
            if not text:
                return  # The launcher has killed it.
            for _, _, data in ancillary:
                fds.frombytes(data)
            call = json.loads(text)
            self.started.append(call)
            command = self.behave(call["host"], call["command"])
            # Its input ends with the connection, whoever else has the pipe.
            copy = subprocess.Popen(["cat"], stdin=fds[0], stdout=subprocess.PIPE)
            process = subprocess.Popen(["sh", "-c", command], stdin=copy.stdout, stdout=fds[1], stderr=fds[2],
                                       env=self.environment, start_new_session=True, cwd="/")
            copy.stdout.close()
            self.connections[call["host"]] = (call["pid"], copy)
            for fd in fds:
                os.close(fd)
            code = process.wait()
            copy.kill()
            copy.wait()
            try:
                connection.send(str(code if code >= 0 else 255).encode())
            except OSError:
                pass  # The launcher has ended it.

    def cut(self, host):
        """The connection breaks: ssh ends, and the host's side sees the end of its input."""
        pid, copy = self.connections[host]
        os.kill(pid, signal.SIGKILL)
        copy.kill()

    def silence(self, host):
        """Nothing comes through any more, and nothing ends."""
        os.kill(self.connections[host][1].pid, signal.SIGSTOP)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # Its thread must not wait on the number of the next one.
        self.accepting.join()
        self.listener.close()


class HostsTest(DdprunTest):
    def setUp(self):
        super().setUp()
        self.hosts = FakeHosts(self.path("hosts.socket"), self.environment)
        self.addCleanup(self.hosts.close)
        self.agent = self.hosts.agent(self.write("stand_in.py", STAND_IN))

    def names(self, count):
        """Loopback addresses that no other test uses."""
        base = free_endpoint().split(":")[0].rsplit(".", 1)[0]
        return [f"{base}.{i}" for i in range(1, count + 1)]

    def launch(self, names, *arguments, **how):
        return self.start(f"--hosts={','.join(names)}", f"--launch-agent={self.agent}", *arguments, **how)

    def ranks(self, run, generation=None):
        """rank -> (host, pid)"""
        found = re.findall(r"\[([\w.]+)\] worker (\d+) (\d+) (\d+)\n", run.out())
        newest = generation or max((int(g) for _, _, g, _ in found), default=0)
        return {int(rank): (host, int(pid)) for host, rank, g, pid in found if int(g) == newest}

    def wait_for_ranks(self, run, count, generation=None):
        return self.wait_for(lambda: (r := self.ranks(run, generation)) and len(r) == count and r, run,
                             what=f"{count} workers")

    def waiting_worker(self):
        return (FAKE_WORKER, HELLO, f"--wait-file={self.path('go')}")
