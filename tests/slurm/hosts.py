"""A real Slurm on hosts of its own, which can be switched off and cut. Needs root.

Every host (n01, n02, ...) has its own network, hostname, processes and /etc/hosts; "ctl" carries
slurmctld and is where srun and sbatch are called. All users may use the files, as on a cluster's
shared disk. Nothing is added to the network of the machine itself.
"""

import os
import subprocess

from bridge_network import BridgeNetwork
from cluster import Cluster, find, lacking
from ddprun_runs import children_of, eventually
from networks import namespaces_work

OWN = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
# Its own /proc comes with the process ids; slurmd's orphans are the shell's, which waits for them.
BEGIN = """
hostname "$1"
mount --bind "$2" /etc/hosts
shift 2
"$@" &
wait $!
"""
BEGIN_LOGIN = 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'


def why_not():
    """The reason why this machine cannot have hosts; empty: none."""
    if lacking():
        return lacking()
    if os.geteuid() != 0:
        return "needs root: a network, hostname and process namespace per host"
    if not namespaces_work():
        return "needs network namespaces: ip, unshare, nsenter, and a kernel that lets root use them"
    probe = subprocess.run([*OWN, "true"], capture_output=True, text=True, check=False)
    return "" if probe.returncode == 0 else f"needs uts, mount and pid namespaces: {probe.stderr}"


class HostCluster(Cluster):
    def __init__(self, hosts, slurmd_timeout=Cluster.slurmd_timeout):
        self.slurmd_timeout = slurmd_timeout
        self.begin([f"n{i + 1:02}" for i in range(hosts)])
        self.power = {}  # Node -> the process whose end is that of all its processes.
        self.network = BridgeNetwork(1 + hosts)
        self.hosts_file = os.path.join(self.directory, "hosts")

    def address(self, node):
        return self.network.address(1 + self.nodes.index(node))

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def _configure(self):
        user = subprocess.check_output(["id", "-un"], text=True).strip()
        lines = ["127.0.0.1 localhost", f"{self.network.address(0)} ctl"]
        text = self.settings(host="ctl", address=self.network.address(0), user=user, port=6817)
        for node in self.nodes:
            os.makedirs(os.path.join(self.directory, "spool", node))
            lines.append(f"{self.address(node)} {node}")
            text += f"NodeName={node} NodeAddr={self.address(node)} CPUs=4 RealMemory=1000\n"
        self.write("slurm.conf", text)
        self.write("hosts", "\n".join(lines) + "\n")
        self.write("cgroup.conf", "CgroupPlugin=autodetect\n")

    def up(self):
        self._configure()
        self.spawn("slurmctld", *self.network.on_machine(0, [
            "unshare", "--uts", "--mount", "bash", "-c", BEGIN_LOGIN, "--", "ctl", self.hosts_file,
            find("slurmctld"), "-D", "-f", self.conf]))
        for node in self.nodes:
            self.on(node)
        self.wait_until_idle()
        return self

    def command(self, directory, program, *arguments):
        """On the login host."""
        login = str(self.daemons[0].pid)
        return ["nsenter", f"--target={login}", "--net", "--uts", "--mount", "--",
                "env", "-C", directory, find(program), *arguments]

    def on(self, node, hosts_file=None):
        """Switches a host on; its /etc/hosts may differ from the others'."""
        self.heal(node)
        self.power[node] = self.spawn(node, *self.network.on_machine(1 + self.nodes.index(node), [
            *OWN, "bash", "-c", BEGIN, "--", node, hosts_file or self.hosts_file,
            find("slurmd"), "-D", "-N", node, "-f", self.conf]))

    def off(self, node):
        """All at once: its link is dead before its processes are, so no other host hears of it."""
        self.cut(node)
        self._kill(self.power.pop(node))

    def _kill(self, unshare):
        for first in children_of(unshare.pid):
            os.kill(first, 9)  # The first process of a namespace takes all others along.
        unshare.kill()
        unshare.wait()

    def cut(self, node):
        self.network.cut(1 + self.nodes.index(node))

    def heal(self, node):
        self.network.heal(1 + self.nodes.index(node))

    def add_interface(self, node, name, address):
        """To a network that no other host is on; it goes when the cluster does."""
        host = self.network.machines[1 + self.nodes.index(node)]
        host.run("ip", "link", "add", "name", name, "type", "veth", "peer", "name", f"{name}-end")
        host.run("ip", "address", "add", f"{address}/24", "dev", name)
        host.run("ip", "link", "set", f"{name}-end", "up")
        host.run("ip", "link", "set", name, "up")

    def restore(self):
        """Every host on and linked, and no job left."""
        for node in self.nodes:
            if node not in self.power:
                self.on(node)
            self.heal(node)
        self.cancel_jobs()
        self.wait_until_idle()

    def wait_until_idle(self):
        looks = 0

        def look():
            nonlocal looks
            looks += 1
            lines = self.run("sinfo", "-h", "-N", "-p", "low", "-o", "%n %T").stdout.splitlines()
            found = dict(line.split() for line in lines)
            for node, state in found.items():
                if state.startswith("down"):
                    self.run("scontrol", "update", f"nodename={node}", "state=resume")
                elif state.endswith("*") and looks % 20 == 0:
                    self.run("scontrol", "reconfigure")  # Else slurmctld does not look for an hour.
            return found and set(found.values()) == {"idle"}
        if not eventually(look, 40):
            told = self.run("sinfo", "-N", "-l").stdout + self.run("squeue").stdout
            self.down()
            raise RuntimeError(f"Slurm's hosts do not get idle:\n{told}")

    def stop_daemons(self):
        for unshare in self.power.values():
            self._kill(unshare)
        super().stop_daemons()
        self.network.close()
