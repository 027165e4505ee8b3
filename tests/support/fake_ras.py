"""A worker that plays NCCL: says by files who it is, one of each node answers as NCCL's RAS does.

fake_ras.py BEHAVIOUR DIRECTORY: as a version of NCCL (2.29.7, 2.28.9: without a comma, 2.27.5: text alone), or as
nobody should (stalls, floods, garbage). Rank 1 has begun fewer collectives than the others; nobody any (zeros), or
everybody more at each look (moves). Everybody tells a STEP, where the behaviour does not begin with "silent-", and
then hangs.
"""

import glob
import json
import os
import signal
import socket
import sys
import threading
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TEXT = """NCCL version 2.27.5 compiled with CUDA 12.9

#0-0 (fa93daea854b060b) MISMATCH
  Communicator ranks have different AllReduce operation counts
"""


def begun(number, version):
    if version == "zeros":
        return 0
    return (640 if number == 1 else 641) + (int(time.monotonic() * 1000) if version == "moves" else 0)


def rank(number, pid, host, version):
    return {"rank": number, "host": host, "pid": pid, "cuda_dev": number, "nvml_dev": number,
            "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False,
                       "abort_flag": False},
            "collective_counts": {"Reduce": 0, "AllReduce": begun(number, version)}}


def answer(version):
    pids = {int(name.rpartition("-")[2]): int(open(name).read()) for name in glob.glob("pid-*")}
    ranks = [rank(number, pid, "127.0.0.1", version) for number, pid in sorted(pids.items())]
    missing = []
    if version == "2.28.9":
        gone = ranks.pop()
        del gone["collective_counts"]
        missing = [{**gone, "status": {"unresponsive": True, "considered_dead": False}}]
    if version == "hostile":
        ranks[2]["host"] = "\x1b[31m\n" + "n" * 9000
        ranks[1]["collective_counts"]["\x1b[31m\n" + "x" * 9000] = 1
    number = version if version[0].isdigit() else "2.29.7"
    text = json.dumps({"nccl_version": number, "communicators_count": 1, "communicators": [
        {"hash": "0x514e98cf4e44862b", "secondary_hash": "0x1:0x2", "size": WORLD, "ranks_count": len(ranks),
         "missing_ranks_count": len(missing), "ranks": ranks, "missing_ranks": missing}]}, indent=2)
    return text.replace('"nvml_dev": %d,\n          "status": {\n            "unresponsive"' % (WORLD - 1),
                        '"nvml_dev": %d\n          "status": {\n            "unresponsive"' % (WORLD - 1))


def serve(connection, behaviour):
    def say(text):
        connection.sendall(text.encode())
    for line in connection.makefile("r", newline="\n"):
        wish = line.strip().lower()
        if behaviour == "stalls":
            continue
        if wish.startswith("client protocol "):
            say("SERVER PROTOCOL 2\n")
        elif wish.startswith("timeout ") or (wish == "set format json" and behaviour != "2.27.5"):
            say("OK\n")
        elif wish.startswith("monitor ") and behaviour not in ("2.27.5", "2.28.9"):
            say("ERROR: Invalid event group '?'\n")
        elif wish == "status" and behaviour == "floods":
            for _ in range(100):
                say(" " * 2**20)
        elif wish == "status" and behaviour == "garbage":
            say('{"communicators": ' + "[" * 100_000 + "\0\x1b]0;owned\x07")
        elif wish in ("status", "verbose status"):
            say(TEXT if behaviour == "2.27.5" else answer(behaviour))
        else:
            say(f"ERROR: Unknown command {line.strip()}\n")
        if wish.endswith("status"):
            return


def serve_all(listener, behaviour):
    while True:
        connection, _ = listener.accept()
        with connection:
            try:
                serve(connection, behaviour)
            except OSError:
                pass  # It left.


behaviour = sys.argv[1]
os.chdir(sys.argv[2])
with open(f"pid-{RANK}.new", "w") as file:
    file.write(str(os.getpid()))
os.rename(f"pid-{RANK}.new", f"pid-{RANK}")
if os.environ["LOCAL_RANK"] == "0":
    host, port = os.environ["NCCL_RAS_ADDR"].split(":")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((host, int(port)))
    listener.listen()
    threading.Thread(target=serve_all, args=(listener, behaviour.removeprefix("silent-")), daemon=True).start()
if not behaviour.startswith("silent-"):
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    agent.sendto(b"STEP=%d" % (5 if RANK == 1 else 8), os.environ["DDPRUN_NOTIFY_SOCKET"])
while True:
    signal.pause()
