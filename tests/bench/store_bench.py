"""Our store server against torch's libuv server, asked in turn, so that the machine's moods meet
both alike: set+get round trips of one client, large values, many clients and their barrier.

    PYTHON_WITH_TORCH store_bench.py build/tests/store_host [--rounds=9] [--clients=1000]
"""

import argparse
import resource
import socket
import statistics
import struct
import subprocess
import sys
import time

import torch.distributed as dist

VALIDATE = b"\x00" + struct.pack("<I", 0x3C85F7CE)
ADD, WAIT = b"\x04", b"\x06"
TORCH_SERVER = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print("listening", store.port, flush=True)
sys.stdin.read()
"""


class Server:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().split()[1])
        self.store = dist.TCPStore("127.0.0.1", self.port, is_master=False)
        self.barriers = 0

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=10)

    def trips_per_second(self, value, trips):
        begin = time.perf_counter()
        for _ in range(trips):
            self.store.set("key", value)
            self.store.get("key")
        return trips / (time.perf_counter() - begin)

    def connect_and_barrier(self, count):
        """Milliseconds until `count` clients are connected and known, and until all have passed a
        barrier: each adds 1, the last one sets the key that all wait for.

        Plain sockets, since that many of torch's clients are that many seconds of Python."""
        self.barriers += 1
        counter, gate = (sized(f"/{name} {self.barriers}") for name in ("arrived", "gate"))
        begin = time.perf_counter()
        clients = []
        for _ in range(count):
            clients.append(socket.create_connection(("127.0.0.1", self.port)))
            clients[-1].sendall(VALIDATE + ADD + counter + struct.pack("<q", 1))
        arrived = [struct.unpack("<q", exactly(client, 8))[0] for client in clients]
        connected = time.perf_counter()
        assert sorted(arrived) == list(range(1, count + 1)), "a client was not counted once"
        for client in clients:
            client.sendall(WAIT + struct.pack("<Q", 1) + gate)
        self.store.set(gate[8 + 1:].decode(), "open")
        for client in clients:
            assert exactly(client, 1) == b"\x00", "the wait did not end well"
        passed = time.perf_counter()
        for client in clients:
            client.close()
        return 1000 * (connected - begin), 1000 * (passed - connected)


def sized(text):
    return struct.pack("<Q", len(text)) + text.encode()


def exactly(client, count):
    got = b""
    while len(got) < count:
        more = client.recv(count - len(got))
        assert more, "the server closed the connection"
        got += more
    return got


def told(name, what, seen, unit):
    print(f"{name:12} {what:34} median {statistics.median(seen):9.1f} {unit} "
          f"(min {min(seen):.1f}, max {max(seen):.1f}, {len(seen)} times)", flush=True)


def bench_values(servers, rounds):
    # Torch takes values of up to 8 MiB, the frame's head not counted.
    for size, trips in ((16, 2000), (64 * 1024, 2000), (8 * 1000 * 1000, 5)):
        value = "x" * size
        rates = {name: [] for name in servers}
        for server in servers.values():
            server.trips_per_second(value, trips)  # Warm up.
        for _ in range(rounds):
            for name, server in servers.items():
                rates[name].append(server.trips_per_second(value, trips))
        for name, seen in rates.items():
            told(name, f"value of {size} B", seen, "set+get/s")


def bench_clients(servers, rounds, count):
    for name, server in servers.items():
        # Torch's stalls for seconds at every few dozen clients: a few of them, once, must do.
        asked, times = (count, rounds) if name == "ddprun" else (min(count, 100), 1)
        seen = [server.connect_and_barrier(asked) for _ in range(times)]
        told(name, f"{asked} clients connected and counted", [c for c, _ in seen], "ms")
        told(name, f"{asked} clients through a barrier", [b for _, b in seen], "ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store_host", help="the binary, e.g. build/tests/store_host")
    parser.add_argument("--rounds", type=int, default=9, help="of each (9)")
    parser.add_argument("--clients", type=int, default=1000, help="at once (1000)")
    asked = parser.parse_args()
    wanted, (soft, hard) = asked.clients + 100, resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:  # The servers inherit it.
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    servers = {
        "ddprun": Server([asked.store_host, "--listen=127.0.0.1:0"]),
        "torch libuv": Server([sys.executable, "-c", TORCH_SERVER]),
    }
    bench_values(servers, asked.rounds)
    bench_clients(servers, min(asked.rounds, 5), asked.clients)
    for server in servers.values():
        server.end()


if __name__ == "__main__":
    main()
