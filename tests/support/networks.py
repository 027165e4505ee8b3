"""A machine of a test, as root: a network namespace of its own."""

import os
import shutil
import subprocess

from ddprun_runs import eventually


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
