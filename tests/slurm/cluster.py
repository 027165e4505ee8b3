"""A real Slurm on this machine: slurmctld and a slurmd per node, on loopback addresses alone.

Node names are addresses (127.0.2.1, ...), so that whatever a list of nodes names can be reached
without a line in /etc/hosts. Needs Debian's slurmctld, slurmd and slurm-client; neither root, nor
munge, nor systemd, nor an accounting database. Each cluster has its own directory, addresses and ports.
Up in under half a second.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile

from ddprun_runs import eventually, read_text

PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo", "scancel", "squeue")
SBIN = "/usr/sbin:/sbin"  # Not in every user's PATH.
# A job that is requeued waits for cred_expire and a second more; 5 is the least that Slurm takes.
CONF = """ClusterName=tests
SlurmctldHost={host}({address})
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool/%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=5
SlurmdTimeout={slurmd_timeout}
SlurmctldTimeout=10
MessageTimeout=5
TCPTimeout=2
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=3
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=4
PartitionName=high Nodes=ALL MaxTime=INFINITE PriorityTier=100 PreemptMode=off
"""


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":" + SBIN)


def missing():
    """The programs of Slurm that are not installed."""
    return [program for program in PROGRAMS if not find(program)]


def own_network(nodes):
    """A loopback network, and ports of it, that no other cluster has; and what keeps them so: job numbers, of which
    ddprun derives ports, begin with 1 in each."""
    for number in range(2, 255):
        first, *ports = range(10_000 + 32 * number, 10_000 + 32 * number + 2 + nodes)
        holder = socket.socket()
        try:
            holder.bind((f"127.0.{number}.254", first))
            for port in ports:
                with socket.socket() as probe:
                    probe.bind(("", port))
            return f"127.0.{number}", ports, holder
        except OSError:
            holder.close()
    raise RuntimeError("no loopback network is free")


class Cluster:
    slurmd_timeout = 10  # Seconds until Slurm itself takes a silent node for lost.

    def __init__(self, nodes):
        network, self.ports, self.holder = own_network(nodes)
        self.begin([f"{network}.{i + 1}" for i in range(nodes)])

    def begin(self, nodes):
        self.nodes = nodes
        self.directory = tempfile.mkdtemp(prefix="ddprun_slurm_")
        self.conf = os.path.join(self.directory, "slurm.conf")
        self.daemons = []

    def up(self):
        host = socket.gethostname().split(".")[0]
        user = subprocess.check_output(["id", "-un"], text=True).strip()
        controller, *ports = self.ports
        text = self.settings(host=host, address="127.0.0.1", user=user, port=controller)
        for node, port in zip(self.nodes, ports):
            os.makedirs(os.path.join(self.directory, "spool", node))
            text += f"NodeName={node} NodeHostname={host} Port={port} CPUs=4 RealMemory=1000\n"
        with open(self.conf, "w") as file:
            file.write(text)
        with open(os.path.join(self.directory, "cgroup.conf"), "w") as file:
            file.write("CgroupPlugin=autodetect\n")
        self.spawn("slurmctld", find("slurmctld"), "-D", "-f", self.conf)
        for node in self.nodes:
            self.spawn(node, find("slurmd"), "-D", "-N", node, "-f", self.conf)
        states = ["idle"] * len(self.nodes)
        if not eventually(lambda: self.run("sinfo", "-h", "-N", "-p", "low", "-o", "%T")
                          .stdout.split() == states):
            told = self.log()
            self.down()
            raise RuntimeError(f"Slurm did not come up:\n{told}")
        return self

    def settings(self, **words):
        os.makedirs(os.path.join(self.directory, "state"))
        return CONF.format(directory=self.directory, slurmd_timeout=self.slurmd_timeout, **words)

    def spawn(self, name, *command):
        with open(os.path.join(self.directory, name + ".log"), "ab") as log:
            self.daemons.append(subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                start_new_session=True, env=self.environment(clean=True)))
        return self.daemons[-1]

    def command(self, _, program, *arguments):
        """Words that run a program of Slurm, in a directory that is the caller's anyway."""
        return [find(program), *arguments]

    def environment(self, clean=False):
        environment = dict(os.environ, SLURM_CONF=self.conf)
        environment["PATH"] = environment.get("PATH", "") + ":" + SBIN
        if clean:  # Daemons of a test are none of its processes.
            environment.pop("DDPRUN_TEST_MARK", None)
        return environment

    def run(self, *command, limit=20):
        return subprocess.run(self.command("/", *command), env=self.environment(), text=True,
                              capture_output=True, timeout=limit, check=False)

    def is_empty(self):
        return not self.run("squeue", "-h").stdout.strip()

    def cancel_jobs(self):
        """False: they do not end."""
        for job in self.run("squeue", "-h", "-o", "%A").stdout.split():
            self.run("scancel", job)
        return eventually(self.is_empty, 20)

    def log(self):
        return "".join(f"--- {name}\n{read_text(os.path.join(self.directory, name))}"
                       for name in sorted(os.listdir(self.directory)) if name.endswith(".log"))

    def down(self):
        """Ends every job first, or their processes would be orphaned."""
        self.cancel_jobs()
        self.stop_daemons()
        shutil.rmtree(self.directory, ignore_errors=True)

    def stop_daemons(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for daemon in self.daemons:
                if daemon.poll() is None:
                    daemon.send_signal(number)
            eventually(lambda: all(d.poll() is not None for d in self.daemons), 5)


def lacking():
    """The reason why this machine cannot have a Slurm; empty: none."""
    lacks = " ".join(missing())
    return "Slurm is not installed (scripts/setup.sh does): lacks " + lacks if lacks else ""
