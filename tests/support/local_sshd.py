"""A real sshd of the current user, with keys and settings of its own: on loopback addresses, or on machines of a network."""

import getpass
import os
import shutil
import signal
import socket
import subprocess

from ddprun_runs import children_of, eventually, free_endpoint, read_text

# The program that scripts/setup.sh has fetched, or the machine's own; sshd wants to be called by a
# whole path.
SSHD = shutil.which(os.environ.get("SSHD", "")) or shutil.which(
    "sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def all_there():
    return bool(SSHD and shutil.which("ssh") and shutil.which("ssh-keygen"))


class LocalSshd:
    """`names` are the addresses on which it listens; `environment` is that of its sessions.

    With a BridgeNetwork each of its first machines has an sshd.
    """

    def __init__(self, directory, hosts, environment, network=None):
        self.directory = directory
        self.network = network
        host, self.port = free_endpoint().rsplit(":", 1)
        base = host.rsplit(".", 1)[0]
        self.names = [network.address(i) if network else f"{base}.{i + 1}" for i in range(hosts)]
        self.silent_name = f"{base}.250"  # No process listens there.
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self._path(key)], check=True)
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", 0o755, exist_ok=True)  # sshd wants it of root.
        self._write("sshd_config", "\n".join(
            [f"ListenAddress {name}:{self.port}" for name in self.names] +
            [f"HostKey {self._path('host')}", f"AuthorizedKeysFile {self._path('user')}.pub", "StrictModes no",
             "UsePAM no", "PidFile none", "PermitRootLogin yes", "PasswordAuthentication no", "MaxStartups 1000",
             "MaxSessions 1000", "SetEnv " + " ".join(f"{k}={v}" for k, v in environment.items())]))
        self._write("ssh_config", f"Port {self.port}\nIdentityFile {self._path('user')}\nIdentitiesOnly yes\n"
                                  f"StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nUser {getpass.getuser()}\n")
        command = [SSHD, "-D", "-e", "-f", self._path("sshd_config")]  # Listens on those addresses that are there.
        with open(self._path("sshd.log"), "wb") as log:
            self.processes = [subprocess.Popen(network.on_machine(i, command) if network else command, stderr=log)
                              for i in range(hosts if network else 1)]
        assert eventually(self._listens), read_text(self._path("sshd.log"))

    def _path(self, name):
        return os.path.join(self.directory, name)

    def _write(self, name, text):
        with open(self._path(name), "w", encoding="utf-8") as file:
            file.write(text + "\n")

    def _listens(self):
        if self.network:  # Its addresses are not this process's to reach.
            return read_text(self._path("sshd.log")).count("Server listening") == len(self.names)
        with socket.socket() as probe:
            return probe.connect_ex((self.names[-1], int(self.port))) == 0

    def agent(self):
        """For --launch-agent: ddprun's own, with this sshd's settings."""
        return (f"ssh -F {self._path('ssh_config')} -x -o BatchMode=yes -o ConnectTimeout=10 "
                "-o ServerAliveInterval=5 -o ServerAliveCountMax=2")

    def session_of(self, pid):
        """The sshd above a process."""
        for child in (child for process in self.processes for child in children_of(process.pid)):
            todo = [child]
            while todo:
                one = todo.pop()
                if one == pid:
                    return child
                todo += children_of(one)
        return None

    def close(self):
        for process in self.processes:
            for child in children_of(process.pid):
                try:
                    os.kill(child, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.kill()
            process.wait()
