"""Set+get round trips per second of one client: our store server against torch's libuv server.

Both are asked in turn, so that the machine's moods meet both alike.
Usage: PYTHON_WITH_TORCH store_bench.py PATH_OF_store_host [rounds]
"""

import statistics
import subprocess
import sys
import time

import torch.distributed as dist

TRIPS = 2000
TORCH_SERVER = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print("listening", store.port, flush=True)
sys.stdin.read()
"""


def start(command):
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    port = int(process.stdout.readline().split()[1])
    return process, dist.TCPStore("127.0.0.1", port, is_master=False)


def trips_per_second(store, value):
    begin = time.perf_counter()
    for i in range(TRIPS):
        store.set("key", value)
        store.get("key")
    return TRIPS / (time.perf_counter() - begin)


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    servers = {
        "ddprun": start([sys.argv[1], "--listen=127.0.0.1:0"]),
        "torch libuv": start([sys.executable, "-c", TORCH_SERVER]),
    }
    for size in (16, 64 * 1024):
        value = "x" * size
        rates = {name: [] for name in servers}
        for _, store in servers.values():
            trips_per_second(store, value)  # Warm up.
        for _ in range(rounds):
            for name, (_, store) in servers.items():
                rates[name].append(trips_per_second(store, value))
        for name, seen in rates.items():
            print(f"{name:12} value {size:6} B: median {statistics.median(seen):8.0f} set+get/s "
                  f"(min {min(seen):.0f}, max {max(seen):.0f}, {rounds} x {TRIPS})")
    for process, _ in servers.values():
        process.stdin.close()
        process.wait(timeout=10)


if __name__ == "__main__":
    main()
