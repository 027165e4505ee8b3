"""Pods without a cluster: what kubelet and the Job's controller give a container, and do to it.

A pod is a network namespace with an address of its own, a host name, its own process ids, in which
the container's command is PID 1, a root file system that cannot be written, a small /dev/shm, and /ckpt, which all
pods share. Its names come from a DNS server, as a headless service has it; a pod that comes instead
of another one has another address. Needs root.
"""

import contextlib
import os
import signal
import sys
import uuid

from manifests import container_of, expanded, objects, printed

from bridge_network import BridgeNetwork
from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest, children_of, eventually

HERE = os.path.dirname(os.path.abspath(__file__))
ZONE = "default.svc.cluster.local"
GO = "/ckpt/go"
WORKER = (FAKE_WORKER, "--exit-on-term=75", "--notify=READY=1", HELLO, f"--wait-file={GO}")

# Of the image: what was built, with the trainer's data, and the libraries that scripts/setup.sh has loaded.
IMAGE = (os.path.dirname(os.path.dirname(DDPRUN)), os.path.dirname(FAKE_WORKER), os.path.expanduser("~/.cache"))

# $1: an empty directory; $2: the pod's files; $3: /ckpt's; $4: host name. The rest is executed.
CONTAINER = f"IMAGE='{' '.join(IMAGE)}'" + r"""
set -e
root=$1 files=$2 ckpt=$3
hostname "$4"
shift 4
mount -t tmpfs -o size=1m none "$root"
for one in /*; do
  name=${one#/}
  case $name in proc | dev | tmp | ckpt) continue ;; esac
  if [ -L "$one" ]; then cp -P "$one" "$root/$name"
  elif [ -d "$one" ]; then mkdir "$root/$name"; mount --rbind "$one" "$root/$name"; fi
done
mkdir "$root/proc" "$root/dev" "$root/tmp" "$root/ckpt"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o size=64k none "$root/dev/shm"
mount -t tmpfs -o size=16m none "$root/tmp"
for one in $IMAGE; do  # These folders may lie below /tmp, of which a pod has its own.
  [ -d "$root$one" ] || [ ! -d "$one" ] || { mkdir -p "$root$one"; mount --bind "$one" "$root$one"; }
done
mount --bind "$ckpt" "$root/ckpt"
mount --bind "$files/hosts" "$root/etc/hosts"
mount --bind "$files/resolv.conf" "$root/etc/resolv.conf"
mount -o remount,ro "$root"
cd "$root"
exec chroot "$root" "$@"
"""


class Pod:
    def __init__(self, run, index, machine):
        self.run, self.index, self.machine = run, index, machine

    def first(self):
        """The container's PID 1; ProcessLookupError: it has ended."""
        process = self.run.process
        found = eventually(lambda: next(iter(children_of(process.pid)), 0) or process.poll() is not None)
        assert found, self.run.all()
        if found is True:
            raise ProcessLookupError
        return found

    def term(self):
        """Unless it has ended by itself meanwhile."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.first(), signal.SIGTERM)

    def kill(self):
        """When the grace is over, or memory is."""
        os.kill(self.first(), signal.SIGKILL)


class KubeletTest(DdprunTest):
    addresses = 12  # Pods that may ever be, and the one that answers for names.

    def setUp(self):
        super().setUp()
        self.network = BridgeNetwork(self.addresses + 1)
        self.addCleanup(self.network.close)
        self.uid = str(uuid.uuid4())
        self.used = 0
        self.pods = []
        self.names = {}
        for name in ("ckpt", "roots"):
            os.mkdir(self.path(name))
        self._tell_names()
        dns = self.start("-B", os.path.join(HERE, "dns.py"), self.network.address(0), self.path("names"),
                         executable=sys.executable, machine=(self.network, 0))
        self.wait_for_text(dns, "serving")
        self.run_directory_stays = True

    def apply(self, *flags, worker=WORKER):
        """The pods are made of the words that k8s-manifest prints for it."""
        self.things = objects(printed(*flags, "--nproc-per-node=1", "--", *worker))
        self.container = container_of(self.things)
        self.kind = self.things[-1]["kind"]

    def _tell_names(self):
        path = self.path("names")
        with open(path + ".new", "w") as file:
            file.writelines(f"{name} {address}\n" for name, address in self.names.items())
        os.rename(path + ".new", path)

    def _host(self, index):
        return f"train-{index}" if self.kind == "Job" else f"train-node-0-{index}"

    def _environment(self, index, nnodes):
        own = {"JOB_COMPLETION_INDEX": str(index), "HOSTNAME": self._host(index), "JOB_UID": self.uid,
               "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        if self.kind == "TrainJob":
            own.update(PET_NNODES=str(nnodes), PET_NPROC_PER_NODE="1", PET_NODE_RANK=str(index),
                       PET_MASTER_ADDR=f"{self._host(0)}.train", PET_MASTER_PORT="29500")
        return own

    def create(self, index, nnodes=0, address=None, extra=None):
        """Another address each time, unless the container is started again in its pod."""
        if address is None:
            self.used += 1
            address = self.used
        host, ip = self._host(index), self.network.address(address)
        self.names[f"{host}.train.{ZONE}"] = ip
        self._tell_names()
        files = self.path(f"pod{self.started}")
        os.mkdir(files)
        root = self.path("roots", str(self.started))
        os.mkdir(root)
        self.write(os.path.join(files, "hosts"), f"127.0.0.1 localhost\n{ip} {host}.train.{ZONE} {host}\n")
        self.write(os.path.join(files, "resolv.conf"), f"nameserver {self.network.address(0)}\n"
                                                       f"search {ZONE} svc.cluster.local cluster.local\noptions ndots:5\n")
        environment = {"PATH": os.path.dirname(os.environ["DDPRUN"]) + ":/usr/bin:/bin",
                       "DDPRUN_TEST_MARK": self.mark.value, "DDPRUN_RESTART_BACKOFF": "0", **self._environment(index, nnodes),
                       **(extra or {})}
        command = [expanded(word, environment)
                   for word in self.container["command"] + self.container["args"]]
        started = self.start("--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                             "sh", "-c", CONTAINER, "sh", root, files, self.path("ckpt"), host,
                             "env", "-i", *(f"{k}={v}" for k, v in environment.items()), *command,
                             executable="unshare", machine=(self.network, address))
        pod = Pod(started, index, address)
        self.pods.append(pod)
        return pod

    def gone(self, pod):
        """Its name goes with it."""
        self.names.pop(f"{self._host(pod.index)}.train.{ZONE}", None)
        self._tell_names()
        self.pods.remove(pod)

    def runs(self):
        return [pod.run for pod in self.pods]

    def world(self, size, after=0, pods=None, limit=30):
        """The first generation above `after` in which these pods' workers are a world of `size`."""
        return self.wait_for_world([pod.run for pod in pods or self.pods], size, after, limit, others=self.runs())

    def end(self):
        open(self.path("ckpt", "go"), "w").close()
        for pod in self.pods:
            self.assertEqual(pod.run.wait(), 0, "\n".join(r.all() for r in self.runs()))
