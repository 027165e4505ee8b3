"""Ten lines that leave memory with ddprun, where the next worker of this local rank finds it. Without
ddprun it is ordinary memory."""
import fcntl
import mmap
import os
import socket


def find(name):
    """What the last process left under this name, or None."""
    own = os.environ.get("LISTEN_PID") == str(os.getpid())
    names = os.environ["LISTEN_FDNAMES"].split(":") if own else []
    return mmap.mmap(3 + names.index(name), 0) if name in names else None


def leave(name, size):
    """New memory, which outlives this process and replaces earlier memory of this name."""
    file = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, size)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        if agent.connect_ex(os.environ.get("DDPRUN_NOTIFY_SOCKET", "")) == 0:
            socket.send_fds(agent, [f"FDSTORE=1\nFDNAME={name}".encode()], [file])
    return mmap.mmap(file, size)


if __name__ == "__main__":
    memory = find("counter") or leave("counter", 8)
    count = int.from_bytes(memory[:], "little") + 1
    memory[:] = count.to_bytes(8, "little")
    print("run", count, flush=True)
    os._exit(0 if count >= int(os.environ.get("RUNS", "3")) else 1)
