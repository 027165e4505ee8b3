"""How much longer a Slurm step takes with ddprun on each node than with its programs alone.

    srun_start.py build/bin/ddprun [--runs=10]

A real Slurm on this machine, four nodes on loopback. In turn: srun starts one ddprun per node, of
two workers each, and srun starts two tasks per node itself; both run `true`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

from measuring import Table, milliseconds

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "slurm"))

from cluster import Cluster, lacking  # noqa: E402

NODES = 4
WORKERS = 2
BAR = 300  # Milliseconds more.


def step(cluster, directory, *words):
    """Milliseconds of one step, whose every task must succeed."""
    command = cluster.command(directory, "srun", f"-N{NODES}", "--overcommit", *words)
    environment = {k: v for k, v in cluster.environment().items() if not k.startswith("DDPRUN_")}
    begin = time.monotonic_ns()
    ended = subprocess.run(command, env=environment, cwd=directory, stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=60, check=False)
    took = milliseconds(begin)
    if ended.returncode != 0:
        sys.exit(f"{command} ended with {ended.returncode}: {ended.stderr}")
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ddprun", help="the binary, e.g. build/bin/ddprun")
    parser.add_argument("--runs", type=int, default=10, help="of each (10)")
    asked = parser.parse_args()
    if lacking():
        sys.exit(lacking())
    ours = [os.path.abspath(asked.ddprun), f"--nproc-per-node={WORKERS}", "true"]
    plain = [f"--ntasks-per-node={WORKERS}", "true"]
    cluster = Cluster(NODES).up()
    try:
        with tempfile.TemporaryDirectory(prefix="ddprun_bench_") as directory:
            for words in (ours, plain):
                step(cluster, directory, *words)  # Whatever is only slow at first.
            times = [(step(cluster, directory, *ours), step(cluster, directory, *plain))
                     for _ in range(asked.runs)]
    finally:
        cluster.down()
    table = Table()
    with_ddprun = table.row(f"srun -N{NODES} ddprun --nproc-per-node={WORKERS} true",
                            [ours for ours, _ in times])
    alone = table.row(f"srun -N{NODES} --ntasks-per-node={WORKERS} true",
                      [plain for _, plain in times])
    print(f"ddprun takes {with_ddprun - alone:+.0f} ms (bar {BAR:+d})")


if __name__ == "__main__":
    main()
