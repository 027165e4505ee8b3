"""ddprun-bench-comm between two ranks: of one node, and of two, each in a network namespace (root).

comm.py DDPRUN BENCH_COMM [flags of ddprun-bench-comm...]
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import networks  # noqa: E402

LIMIT = 600


def finished(processes):
    for process in processes:
        if process.wait(LIMIT) != 0:
            sys.exit(f"{process.args} ended with {process.returncode}")


def same_node(ddprun, command):
    print("two ranks of one node:", flush=True)
    finished([subprocess.Popen([ddprun, "--nproc-per-node=2", *command])])


def across_namespaces(ddprun, command):
    """The two nodes are linked through a third machine, which routes between them."""
    print("two nodes in network namespaces:", flush=True)
    network = networks.NamespaceNetwork(2)
    try:
        network.server.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        finished([subprocess.Popen(network.on_machine(rank, [
            ddprun, "--nnodes=2", f"--node-rank={rank}", "--rdzv-endpoint=10.99.0.2:29400",
            "--nproc-per-node=1", *command])) for rank in range(2)])
    finally:
        network.close()


def main():
    ddprun, command = os.path.abspath(sys.argv[1]), [os.path.abspath(sys.argv[2]), *sys.argv[3:]]
    same_node(ddprun, command)
    if networks.namespaces_work():
        across_namespaces(ddprun, command)
    else:
        print("network namespaces need root: left out")


if __name__ == "__main__":
    main()
