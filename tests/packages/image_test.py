"""The image that scripts/package.sh makes, unpacked by its own manifest and run as kubelet runs a container: ddprun is
PID 1 and not root, nothing but /tmp can be written, /dev/shm is small.

Needs root, mmdebstrap, and the packages that apt-get of this machine may fetch.
"""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
import unittest

from made import ROOT, PackageCase, call, clean_environment, make_packages

# $1: the unpacked image; $2: USER:GROUP; then a command of the image.
CONTAINER = """
set -e
root=$1 user=$2
ip link set lo up
shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o size=1m none "$root/dev"
for one in null zero random urandom full tty; do touch "$root/dev/$one"; mount --bind /dev/$one "$root/dev/$one"; done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/shm"
mount -t tmpfs -o size=64k,mode=1777 none "$root/dev/shm"
mount -t tmpfs -o size=16m,mode=1777 none "$root/tmp"
mkdir "$root/tmp/given"
mount --bind "$GIVEN" "$root/tmp/given"
mount -o remount,bind,ro "$root"
cd "$root"
exec chroot --userspec="$user" --groups= "$root" /usr/bin/env -i $ENVIRONMENT "$@"
"""
PROGRAM = """
import os, pathlib, sys
try:
    pathlib.Path("/usr/written").touch()
except OSError as error:
    refused = error.errno
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
if os.environ["RANK"] == "0":
    first = pathlib.Path("/proc/1/comm").read_text().strip()
    shm = os.statvfs("/dev/shm")
    print(f"first={first} uid={os.getuid()} refused={refused} shm={shm.f_blocks * shm.f_frsize // 1024}", flush=True)
"""
WAITS = """
import signal, sys
def save(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("waits", flush=True)
while True:
    signal.pause()
"""


def digest_of(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


class Image:
    """An OCI archive, read as its specification says; each blob is what its digest says."""

    def __init__(self, path):
        with tarfile.open(path) as archive:
            self.files = {member.name: archive.extractfile(member).read() for member in archive}
        assert json.loads(self.files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
        (self.listed,) = json.loads(self.files["index.json"])["manifests"]
        self.manifest = json.loads(self.blob(self.listed))
        self.config = json.loads(self.blob(self.manifest["config"]))
        self.layers = []
        for layer, diff in zip(self.manifest["layers"], self.config["rootfs"]["diff_ids"], strict=True):
            assert layer["mediaType"] == "application/vnd.oci.image.layer.v1.tar+gzip"
            self.layers.append(gzip.decompress(self.blob(layer)))
            assert digest_of(self.layers[-1]) == diff, diff

    def blob(self, descriptor):
        content = self.files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert digest_of(content) == descriptor["digest"] and len(content) == descriptor["size"], descriptor
        return content

    def unpack(self, folder):
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as files:
                files.extractall(folder, numeric_owner=True)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("mmdebstrap"), "needs root and mmdebstrap")
class Container(PackageCase):
    kinds = ("image",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.path,) = cls.packages.values()
        cls.image = Image(cls.path)
        cls.root = cls.folder / "root"
        cls.image.unpack(cls.root)
        cls.given = cls.folder / "given"
        cls.given.mkdir()
        (cls.given / "train.py").write_text(PROGRAM)
        (cls.given / "waits.py").write_text(WAITS)

    def command(self, *words):
        config = self.image.config["config"]
        return ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child", "sh", "-c", CONTAINER, "sh",
                str(self.root), config["User"], *config["Entrypoint"], *words]

    def environment(self):
        return clean_environment(GIVEN=str(self.given), ENVIRONMENT=" ".join(
            [*self.image.config["config"]["Env"], "OMP_NUM_THREADS=1"]))

    def test_two_workers_run_in_it(self):
        said = call(*self.command("--nproc-per-node=2", "/tmp/given/train.py"), env=self.environment())
        self.assert_two_ranks(said)
        self.assertIn("first=ddprun uid=1000 refused=30 shm=64", said)  # 30: a read-only file system.

    def test_term_reaches_the_worker(self):
        run = subprocess.Popen(self.command("/tmp/given/waits.py"), env=self.environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.kill)
        self.assertEqual(next(line for line in run.stdout if "ddprun |" not in line).strip(), "waits")
        first = int(call("pgrep", "-P", run.pid).split()[0])
        os.kill(first, signal.SIGTERM)
        said = run.stdout.read()
        self.assertIn("saved", said)
        self.assertEqual(run.wait(60), 128 + signal.SIGTERM, said)

    def test_its_user_is_not_root_and_can_become_no_other(self):
        config = self.image.config["config"]
        self.assertEqual(config["User"], "1000:1000")
        self.assertEqual(config["Entrypoint"], ["/usr/bin/ddprun"])
        for layer in self.image.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as files:
                for member in files:
                    self.assertEqual(member.mode & 0o6000, 0, member.name)
                    self.assertFalse(member.isdev(), member.name)
                    self.assertLessEqual(member.mtime, time.time())
        self.assertIn("ddprun:x:1000:", (self.root / "etc/passwd").read_text())

    def test_nothing_of_the_machine_that_made_it_is_in_it(self):
        host = os.uname().nodename
        for name in ("etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/machine-id", "etc/apt/sources.list"):
            path = self.root / name
            self.assertFalse(path.is_file() and path.read_text().strip(), f"{name} is of this machine ({host})")

    def test_made_again_it_is_the_same(self):
        (path,) = make_packages(self.folder / "again", "image")
        self.assertEqual(Image(path).listed["digest"], self.image.listed["digest"])
        self.assertEqual(digest_of(path.read_bytes()), digest_of(self.path.read_bytes()))

    def test_the_dockerfile_is_of_the_same_list(self):
        text = (ROOT / "scripts/package/Dockerfile").read_text()
        config = self.image.config["config"]
        self.assertIn("COPY scripts/package/image.txt", text)
        self.assertEqual(json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.M)[1]), config["Entrypoint"])
        self.assertEqual(json.loads(re.search(r"^CMD (.*)$", text, re.M)[1]), config["Cmd"])
        self.assertEqual(re.search(r"^USER (.*)$", text, re.M)[1], config["User"])
        self.assertEqual(re.search(r"^WORKDIR (.*)$", text, re.M)[1], config["WorkingDir"])
        for word in re.search(r"^ENV (.*)$", text, re.M)[1].split():
            self.assertIn(word, config["Env"])
