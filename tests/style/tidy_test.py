"""clang-tidy finds nothing in what changed: tidy_test.py ROOT BUILD [--all | FILE...]

What changed: the working tree against DDPRUN_CHANGED_SINCE, or against the commit before the newest
one; of many files as many as are read in the time of a test, others with each commit. --all: every
file of ours that this build compiles, but for tests. The checks that are kept stand in .clang-tidy.
"""

import concurrent.futures
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile

MOST = 5  # Files of a change that a test reads; each takes about 10 s of a core.
OURS = ("agent/", "common/", "launcher/", "proto/", "rendezvous/", "trainer/")
UNREADABLE = {
    "trainer/group/combine.cc",  # GCC's _Float16 and "f16c", which clang 14 has not.
    "rendezvous/grpc_proof.cc",  # A verifier that gRPC's header gives to its core is taken for lost.
}
INCLUDE = re.compile(r'#include "(\S+)"')


def output(*command, cwd):
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def compile_commands(root, build):
    """How each file of ours is compiled; one of a batch like the batch."""
    commands = {}
    for entry in json.loads(output("ninja", "-t", "compdb", cwd=build)):
        source = pathlib.Path(build, entry["file"]).resolve()
        words = shlex.split(entry["command"])
        if not entry["output"].endswith(".o") or source.suffix != ".cc":
            continue
        members = [source]
        if source.parent == build / "generated/batches":
            members = [root / name for name in INCLUDE.findall(source.read_text())]
        for member in members:
            if not member.is_relative_to(root) or member.is_relative_to(build):
                continue
            name = member.relative_to(root).as_posix()
            if name.startswith(OURS) and not name.endswith("_test.cc"):
                compiler = next(i for i, word in enumerate(words) if re.search(r"(\+\+|clang)$", word))
                commands[name] = [str(member) if word == entry["file"] else word
                                  for word in words[compiler:]]
    return commands


def changed(root):
    since = os.environ.get("DDPRUN_CHANGED_SINCE", "HEAD~1")
    try:
        names = output("git", "diff", "--name-only", "--diff-filter=d", since, "--", "*.cc", "*.h",
                       cwd=root).splitlines()
        commit = output("git", "rev-parse", "HEAD", cwd=root)
    except subprocess.CalledProcessError as error:
        print(f"cannot tell what changed since {since}: {error.stderr.strip()}")
        sys.exit(77)  # Not a clone, or one of a single commit.
    # A header is read with the file of its name.
    names = sorted({name.removesuffix(".h").removesuffix(".cc") + ".cc" for name in names})
    names = [name for name in names if (root / name).exists() and name.startswith(OURS)]
    random.Random(commit).shuffle(names)
    if len(names) > MOST:
        print(f"{MOST} of the {len(names)} files that changed since {since}")
    return names[:MOST]


def main():
    root, build = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    commands = compile_commands(root, build)
    wanted = sys.argv[3:]
    names = sorted(commands) if wanted == ["--all"] else wanted or changed(root)
    names = [name for name in names if name in commands and name not in UNREADABLE]
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "compile_commands.json").write_text(json.dumps(
            [{"directory": str(build), "file": str(root / name), "arguments": commands[name]}
             for name in names]))

        def read(name):
            return subprocess.run(
                ["clang-tidy", "-p", folder, "--quiet", "--warnings-as-errors=*",
                 "--extra-arg=-Wno-unknown-warning-option", str(root / name)],
                capture_output=True, text=True, check=False)

        failed = 0
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            for name, result in zip(names, pool.map(read, names)):
                print(("not " if result.returncode else "") + f"clean: {name}", flush=True)
                if result.returncode:
                    failed += 1
                    print(result.stdout + result.stderr, flush=True)
    print(f"{len(names)} files read, {failed} with findings")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
