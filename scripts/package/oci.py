"""Puts an OCI image together from a tar of Debian and the files of ddprun: an archive for podman load, docker load
and skopeo copy oci-archive:. No registry, no daemon, no root; the same input gives the same bytes.

oci.py --base=TAR --tree=DIR --version=V --epoch=SECONDS --out=FILE
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import tarfile
import time

USER = 1000  # Not root, and what most clusters let pods be.
LINES = {  # Where Debian has its users.
    "etc/passwd": f"ddprun:x:{USER}:{USER}:ddprun:/tmp:/usr/sbin/nologin\n",
    "etc/group": f"ddprun:x:{USER}:\n",
}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Layer:
    """A tar that is told its members in order; times are never later than the commit's."""

    def __init__(self, epoch):
        self.epoch = epoch
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w", format=tarfile.PAX_FORMAT)

    def add(self, member, content=None):
        member.mtime = min(int(member.mtime), self.epoch)
        member.mode &= ~0o6000  # Nobody becomes another user in a container.
        member.pax_headers = {}
        member.uname = member.gname = ""
        self.tar.addfile(member, content)

    def done(self):
        self.tar.close()
        plain = self.bytes.getvalue()
        return plain, gzip.compress(plain, 9, mtime=0)


def debian(path, epoch):
    """The base as it is, without devices, which a container has of its own, and with one more user."""
    layer = Layer(epoch)
    with tarfile.open(path) as base:
        for member in base:
            name = os.path.normpath(member.name)
            if member.isdev() or name.startswith("dev/"):
                continue
            member.name = name
            if not member.isfile():
                layer.add(member)
                continue
            content = base.extractfile(member)
            if name in LINES:
                text = content.read() + LINES[name].encode()
                member.size, content = len(text), io.BytesIO(text)
            layer.add(member, content)
    return layer.done()


def tree(folder, epoch):
    layer = Layer(epoch)
    for where, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(folders + files):
            path = os.path.join(where, name)
            member = layer.tar.gettarinfo(path, os.path.relpath(path, folder))
            member.uid = member.gid = 0
            if member.isfile():
                with open(path, "rb") as content:
                    layer.add(member, content)
            else:
                layer.add(member)
    return layer.done()


class Archive:
    """The blobs by their digests, and what leads to them."""

    def __init__(self, path, epoch):
        self.tar = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)
        self.epoch = epoch

    def put(self, name, content):
        member = tarfile.TarInfo(name)
        member.size, member.mtime, member.mode = len(content), self.epoch, 0o644
        self.tar.addfile(member, io.BytesIO(content))

    def blob(self, kind, content, **more):
        digest = hashlib.sha256(content).hexdigest()
        self.put(f"blobs/sha256/{digest}", content)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}",
                "size": len(content), **more}

    def close(self):
        self.tar.close()


def as_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def main():
    parser = argparse.ArgumentParser()
    for name in ("base", "tree", "version", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    options = parser.parse_args()
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(options.epoch))
    layers = [debian(options.base, options.epoch), tree(options.tree, options.epoch)]
    config = {
        "created": created, "os": "linux",
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "config": {"User": f"{USER}:{USER}", "Entrypoint": ["/usr/bin/ddprun"], "Cmd": ["--help"], "WorkingDir": "/tmp",
                   "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"], "StopSignal": "SIGTERM",
                   "Labels": {"org.opencontainers.image.version": options.version, "org.opencontainers.image.licenses": "Apache-2.0"}},
        "rootfs": {"type": "layers",
                   "diff_ids": ["sha256:" + hashlib.sha256(plain).hexdigest() for plain, _ in layers]},
        "history": [{"created": created, "created_by": what} for what in ("Debian", f"ddprun {options.version}")],
    }
    archive = Archive(options.out, options.epoch)
    archive.put("oci-layout", as_json({"imageLayoutVersion": "1.0.0"}))
    packed = [archive.blob("layer.v1.tar+gzip", small) for _, small in layers]
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": archive.blob("config.v1+json", as_json(config)), "layers": packed}
    name = {"org.opencontainers.image.ref.name": options.version,
            "io.containerd.image.name": f"localhost/ddprun:{options.version}"}
    listed = archive.blob("manifest.v1+json", as_json(manifest), annotations=name)
    archive.put("index.json", as_json({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                                       "manifests": [listed]}))
    archive.close()
    print(listed["digest"])


if __name__ == "__main__":
    main()
