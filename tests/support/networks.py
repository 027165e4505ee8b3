"""Machines of a test, as root: each is a network namespace of its own, linked to the server's by a veth pair."""

import os
import shutil
import subprocess

from ddprun_runs import eventually

PORT = 29400


class Namespace:
    """Lives as long as its holder, a process that only waits for the end of its input."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
        own = os.readlink("/proc/self/ns/net")
        assert eventually(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != own)
        self.run("ip", "link", "set", "lo", "up")

    def command(self, *command):
        return ["nsenter", f"--target={self.holder.pid}", "--net", "--", *command]

    def run(self, *command):
        subprocess.run(self.command(*command), check=True, stdout=subprocess.DEVNULL)

    def close(self):
        self.holder.stdin.close()
        self.holder.wait()


def namespaces_work():
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "unshare", "nsenter"))):
        return False
    return subprocess.run(["unshare", "--net", "ip", "link", "add", "name", "m0", "type", "veth",
                           "peer", "name", "eth0"], stderr=subprocess.DEVNULL, check=False).returncode == 0


class NamespaceNetwork:
    def __init__(self, machines):
        self.server = Namespace()
        self.machines = [Namespace() for _ in range(machines)]
        for i, machine in enumerate(self.machines):
            self.server.run("ip", "link", "add", "name", f"m{i}", "type", "veth", "peer", "name",
                            "eth0", "netns", str(machine.holder.pid))
            self.server.run("ip", "address", "add", f"10.99.{i}.1/30", "dev", f"m{i}")
            self.server.run("ip", "link", "set", f"m{i}", "up")
            machine.run("ip", "address", "add", f"10.99.{i}.2/30", "dev", "eth0")
            machine.run("ip", "link", "set", "eth0", "up")
            machine.run("ip", "route", "add", "default", "via", f"10.99.{i}.1")

    def endpoint(self, _):
        return f"10.99.0.1:{PORT}"  # Of the server, by whatever link.

    def on_server(self, command):
        return self.server.command(*command)

    def on_machine(self, i, command):
        return self.machines[i].command(*command)

    def close(self):
        for namespace in (*self.machines, self.server):
            namespace.close()
