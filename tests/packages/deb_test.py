"""The Debian packages, installed, used and removed in a bare Debian; and the archive, unpacked and used.

Needs root, debootstrap, and the packages that apt-get of this machine may fetch.
"""

import os
import pathlib
import shutil
import tarfile
import unittest

from made import BUILD, TRAIN, PackageCase, call, clean_environment

RELEASE = "bookworm"


def mirror():
    """Where this machine has its Debian packages from."""
    said = call("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)")
    for line in said.splitlines():
        uri, *rest = line.split()
        if rest == [RELEASE, "main"]:
            return uri
    raise unittest.SkipTest(f"apt-get of this machine knows no {RELEASE}: {said}")


def libtorch():
    for line in (BUILD / "CMakeCache.txt").read_text().splitlines():
        if line.startswith("Libtorch_PREFIX:"):
            return line.split("=", 1)[1]
    return ""


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("debootstrap"), "needs root and debootstrap")
class Debian(PackageCase):
    kinds = ("deb",)

    @classmethod
    def setUpClass(cls):
        source = mirror()
        super().setUpClass()
        cls.root = cls.folder / "debian"
        call("debootstrap", "--variant=minbase", "--include=python3-minimal,libstdc++6,zlib1g", RELEASE, cls.root, source,
             limit=1000, env=clean_environment())
        for path in [*cls.packages.values(), cls.folder / "train.py"]:
            shutil.copy(path, cls.root / "tmp")

    def inside(self, text, expect=0):
        """Runs bash in there; its mounts end with it."""
        outside = f"""
            set -e
            mount --bind /dev {self.root}/dev
            if [[ -n '{libtorch()}' ]]; then
              mkdir -p {self.root}/run/libtorch && mount --bind '{libtorch()}' {self.root}/run/libtorch
            fi
            exec chroot {self.root} bash -c "$1"
            """
        return call("unshare", "--mount", "--pid", "--fork", f"--mount-proc={self.root}/proc", "bash", "-c", outside, "bash",
                    "cd /tmp && " + text, expect=expect, env=clean_environment(OMP_NUM_THREADS="1", HOME="/root"))

    def left(self):
        """Files that name ddprun, but for what dpkg remembers and what was put there to be installed."""
        said = self.inside("find / -xdev -iname '*ddprun*' -not -path '/tmp/*' -not -path '/var/log/*' -not -path '/run/*'")
        return said.split()

    def test_installed_used_and_removed(self):
        self.assertEqual(self.left(), [])
        self.inside("dpkg -i ./ddprun_*.deb")
        self.assert_two_ranks(self.inside("ddprun --nproc-per-node=2 train.py"))
        self.inside("source /usr/share/bash-completion/completions/ddprun && complete -p ddprun")
        self.inside("gzip -dc /usr/share/man/man1/ddprun.1.gz | grep -q '^.TH DDPRUN 1'")
        self.inside("gzip -dc /usr/share/man/man1/ddprun-status.1.gz | grep -q '^.TH DDPRUN'")
        self.inside("python3 /usr/share/doc/ddprun/examples/heartbeat.py")
        self.inside("test -f /lib/systemd/system/ddprun-daemon@.service && ! ls /etc/systemd/system/*/ddprun* 2>&1")  # Disabled.
        if TRAIN:
            self.inside("dpkg -i ./ddprun-train_*.deb")
            self.assertIn("libtorch_cpu.so", self.inside("ddprun-train --version", expect=127))
            self.inside("mkdir /usr/lib/ddprun && ln -s /run/libtorch/torch /run/libtorch/nvidia /usr/lib/ddprun/")
            said = self.inside("ddprun --nproc-per-node=2 ddprun-train --dataset=mnist --model=mlp --epochs=1")
            self.assertIn("test accuracy", said)
            self.inside("test -f /usr/lib/libddprun_trainer.a && test -f /usr/lib/cmake/ddprun/ddprunConfig.cmake")
            self.inside("rm -r /usr/lib/ddprun checkpoints && dpkg -P ddprun-train")
        self.inside("dpkg -i ./ddprun_*.deb")  # Again, as an upgrade is.
        self.assert_two_ranks(self.inside("ddprun --nproc-per-node=2 train.py"))
        self.inside("dpkg -P ddprun")
        self.assertEqual(self.left(), [])


class Archive(PackageCase):
    kinds = ("tar",)

    def test_unpacked_anywhere(self):
        (archive,) = self.packages.values()
        place = self.folder / "some where"
        with tarfile.open(archive) as file:
            self.assertEqual({(member.uid, member.gid) for member in file}, {(0, 0)})
            file.extractall(place)
        (top,) = pathlib.Path(place).iterdir()
        self.assertEqual(sorted(path.name for path in top.iterdir()), ["bin", *(["include", "lib"] if TRAIN else []), "share"])
        environment = clean_environment(OMP_NUM_THREADS="1")
        self.assert_two_ranks(call(top / "bin/ddprun", "--nproc-per-node=2", "train.py", cwd=self.folder, env=environment))
        for name in ("docs/design.md", "examples/heartbeat.py", "third-party.txt", "LICENSE", "README.md"):
            self.assertTrue((top / "share/doc/ddprun" / name).is_file(), name)
        if TRAIN:
            (top / "lib/ddprun").mkdir(parents=True)
            for name in ("torch", "nvidia"):
                (top / "lib/ddprun" / name).symlink_to(pathlib.Path(libtorch()) / name)
            said = call(top / "bin/ddprun", "ddprun-train", "--dataset=mnist", "--model=mlp", "--epochs=1", cwd=self.folder,
                        env=environment)
            self.assertIn("test accuracy", said)
            # Its version stands behind the link.
            self.assertNotIn("unknown version", call(top / "bin/ddprun", "env", cwd=self.folder, env=environment))
