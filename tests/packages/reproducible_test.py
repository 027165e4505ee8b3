"""Two builds of the same sources are the same bytes: another folder, another user's umask, nothing cached."""

import hashlib
import os
import shutil

from made import BUILD, ROOT, TRAIN, PackageCase, call

KINDS = ("wheel", "deb", "tar")


def digests(packages):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in packages}


class Reproducible(PackageCase):
    kinds = KINDS
    maxDiff = None

    def test_the_same_bytes_from_another_folder(self):
        self.assertEqual(len(self.made), 5 if TRAIN else 3)
        other = self.folder / "elsewhere" / "clone"
        shutil.copytree(ROOT, other, symlinks=True, ignore=lambda folder, names: [
            n for n in names if folder == str(ROOT) and (n.startswith("build") or n in (".git", "dist"))])
        epoch = call("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()
        gpu = (BUILD / "lib/ddprun/libddprun_cuda.so").exists()
        call("bash", "-c", 'umask 077; exec "$@"', "bash", other / "scripts/package.sh", "-DDDPRUN_TESTS=OFF",
             *([] if TRAIN else ["--no-trainer"]), *(["--cuda"] if gpu else []), *KINDS, limit=5000,
             env={**os.environ, "DDPRUN_BUILD_DIR": "build", "CCACHE_RECACHE": "1", "SOURCE_DATE_EPOCH": epoch})
        mine, theirs = digests(self.made), digests((other / "dist").iterdir())
        self.assertEqual(mine, theirs)
