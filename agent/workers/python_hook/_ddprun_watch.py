"""Tells ddprun's agent how far a worker is that tells no step itself, and where it stands when asked.

ddprun carries this file, and puts it into the Python workers that it starts (agent/workers/python_hook.h). It acts in
workers that load torch.distributed, and there it is one thread that

- in worlds of two or more looks at torch's own counters once a second (some 50 us) and sends a datagram
  when they have changed (COLLECTIVES, docs/writing-a-worker.md), and more often for the first one; before the first collective it says
  for how long nothing of the worker has moved (STILL_USEC) and for how long it has hardly used a CPU (IDLE_USEC);
- answers on a socket beside the worker's notify socket, in a directory that only this user may enter:
  `stacks` with the stacks of all Python threads, `collectives` with what torch recorded of the last ones.

torch's own server (_WorkerServer) would tell of collectives while the interpreter is held, too; but it has nine threads
and says on stderr that it is there. It touches neither tensors nor groups, starts nothing in the worker's children, and ends before the
interpreter does. DDPRUN_WATCH=0 turns it off.
"""

import os
import sys

_EACH = 1.0  # Seconds.
_POINT_TO_POINT = ("send", "recv", "isend", "irecv", "batch_isend_irecv")  # NCCL counts none of these.
_BUSY = 0.03  # Of a CPU. A loop that sleeps for 0.1 s and looks for a lock file uses 0.001.
_MOST_THREADS = 512  # Looked at, of a worker and its children.


def _tellers(module):
    tellers = [getattr(module, "_dump_fr_trace_json", None)]
    cuda = getattr(sys.modules["torch"], "cuda", None)
    if cuda is not None and cuda.is_initialized():
        tellers.append(getattr(module, "_dump_nccl_trace_json", None))
    return [tell for tell in tellers if tell is not None]


def _status(module):
    """The state of torch's process groups, as its recorders tell it without their entries."""
    import json
    for tell in _tellers(module):
        yield from json.loads(tell(includeCollectives=False)).get("pg_status", {}).items()


def _operations():
    """What the groups themselves count: Gloo's sends and receives too, at once."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(module, "_world", None)
    count = 0
    for group in list(getattr(world, "pg_map", ())):
        try:
            count += group._get_sequence_number_for_group()
        except RuntimeError:
            pass  # A group whose backend counts nothing.
    return count


def _look(module):
    """How many collectives were begun, how many of these in the group of all ranks, the first one, and whether
    one of them has not ended."""
    begun, of_all, open_ones = 0, 0, False
    for name, group in _status(module):
        enqueued = int(group.get("last_enqueued_collective", -1))
        begun += max(0, enqueued)
        of_all += max(0, enqueued) if name == "0" else 0
        open_ones |= enqueued > int(group.get("last_completed_collective", -1))
    return max(begun, _operations()), of_all, open_ones


def _place():
    """Where the main thread stands, and in which of torch.distributed's own waits: "send", "join" or ""."""
    frame = sys._current_frames().get(_main_thread())
    at = frame and (frame.f_code, frame.f_lasti)
    while frame is not None:
        if frame.f_code.co_filename.endswith("distributed_c10d.py"):
            if frame.f_code.co_name in _POINT_TO_POINT:
                return at, "send"
            if frame.f_code.co_name == "init_process_group":
                return at, "join"
        frame = frame.f_back
    return at, ""


def _main_thread():
    import threading
    return threading.main_thread().ident


def _children(pid, most=64):
    found = []
    todo = [str(pid)]
    while todo and len(found) < most:
        pid = todo.pop()
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children", encoding="utf-8") as children:
                    todo += (below := children.read().split())
                    found += below
        except OSError:
            continue
    return found[:most]


def _life():
    """A value that changes where any thread of this process or its children runs, this one apart; None: there are more
    than can be looked at each second."""
    import threading
    own = str(threading.get_native_id())
    seen = {}
    for pid in [str(os.getpid())] + _children(os.getpid()):
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for task in tasks:
            if len(seen) > _MOST_THREADS:
                return None
            if task != own:
                seen[task] = _runs(f"/proc/{pid}/task/{task}")
    return seen


def _runs(task):
    """The time for which it has run, and how often: a line where the kernel counts that, else a page."""
    for name in ("schedstat", "status"):
        try:
            with open(f"{task}/{name}", encoding="utf-8", errors="replace") as file:
                return [line for line in file if name == "schedstat" or "ctxt_switches" in line]
        except OSError:
            continue
    return []


def _worked(before, now, seconds):
    """Whether the threads used more of a CPU meanwhile than waiting costs; so they did where that is not known."""
    if before is None or now is None:
        return True
    ran = 0
    for task, told in now.items():
        if told != before.get(task):
            if len(told) != 1:
                return True  # The kernel counts how often they ran, not for how long.
            ran += int(told[0].split()[0]) - int(before.get(task, ["0"])[0].split()[0])
    return ran > _BUSY * 1e9 * seconds


def _stacks():
    """As py-spy prints them: of each Python thread the innermost frame first."""
    import threading
    me, main = threading.get_ident(), _main_thread()
    threads = dict(getattr(threading, "_active", {}))  # Not enumerate(): whoever hangs may hold its lock.
    lines = []
    for ident, frame in sorted(sys._current_frames().items(), key=lambda one: one[0] != main):
        if ident == me:
            continue
        thread = threads.get(ident)
        name = "MainThread" if ident == main else str(getattr(thread, "name", "")).replace("\n", " ")
        lines.append(f'Thread {getattr(thread, "native_id", None) or ident}: "{name[:100]}"')
        for _ in range(100):
            if frame is None:
                break
            lines.append(f"    {frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})")
            frame = frame.f_back
        lines.append("")
    return "\n".join(lines)


def _recorded():
    """What torch's recorders have of the last collectives: JSON, a line each."""
    module = sys.modules.get("torch._C._distributed_c10d")
    told = [tell() for tell in _tellers(module)] if module is not None else []
    return "\n".join(one.decode(errors="replace") if isinstance(one, bytes) else one for one in told)


def _answer(listener):
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(2)  # Who asks and does not read holds up nothing but this thread.
        try:
            asked = connection.recv(32)
            if asked == b"stacks":
                connection.sendall(_stacks().encode(errors="replace"))
            elif asked == b"collectives":
                connection.sendall(_recorded().encode(errors="replace"))
        except Exception:
            pass  # Who asked is told nothing, or not all.


def _is_ours(sock, inode):
    """A program may close what it does not know, and give the number to a file of its own."""
    try:
        return os.fstat(sock.fileno()).st_ino == inode
    except OSError:
        return False


def _listen(path):
    """None: the path is too long for a socket, or nothing can be made there."""
    import socket
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if os.path.exists(path):
            os.unlink(path)  # Of the program that this process was before: it has its number.
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(4)
        return listener
    except OSError:
        listener.close()
        return None


class _Watcher:
    """What its one thread knows."""

    def __init__(self, address):
        import socket
        self.counts = os.environ.get("WORLD_SIZE", "1") != "1"
        self.told, self.place, self.life, self.looked, self.moved, self.worked = None, None, None, 0.0, 0.0, 0.0
        self.agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.agent.connect(address)  # Now: later the program may be another user, who may not enter there.

    def look(self):
        import time
        module = sys.modules.get("torch._C._distributed_c10d")
        if not self.counts:
            return
        begun, of_all, open_ones = _look(module) if module is not None else (0, 0, False)
        place, within = _place()
        # Who moves on while a collective of its own is under way does not wait for it.
        seen = (0, 0, False) if within == "send" else (begun, of_all, open_ones and place == self.place)
        text = b"COLLECTIVES=%d\nWORLD_COLLECTIVES=%d\nIN_COLLECTIVE=%d"
        if begun == 0 and within != "send":
            # Whoever waits for the others in torch's store wakes up now and then.
            now, before, self.life = time.monotonic(), self.life, _life()
            if place != self.place or (within != "join" and (self.life is None or self.life != before)):
                self.moved = now
            if _worked(before, self.life, now - self.looked):
                self.worked = now
            self.looked = now
            seen = (0, 0, within == "join" and place == self.place, (now - self.moved) * 1e6, (now - self.worked) * 1e6)
            text += b"\nSTILL_USEC=%d\nIDLE_USEC=%d"
        self.place = place
        if seen != self.told and self.tell(text % seen):
            self.told = seen
            self.counts = within != "send"  # From there on its collectives say too little of it.

    def waits_for_the_first(self):
        return self.counts and self.told is not None and self.told[0] == 0

    def has_the_first(self):
        try:
            return self.waits_for_the_first() and _operations() > 0
        except Exception:
            return False  # look() sees why.

    def tell(self, text):
        import socket
        try:
            self.agent.send(text, socket.MSG_DONTWAIT)
            return True
        except OSError:
            return False  # A full or vanished agent must not disturb training.


def _watch(address, stop):
    import select
    import time
    watcher = _Watcher(address)
    listener = _listen(f"{address}.{os.getpid()}")
    poll = select.poll()
    poll.register(stop, select.POLLIN)
    if listener is not None:
        poll.register(listener, select.POLLIN)
    ours = [(sock, os.fstat(sock.fileno()).st_ino) for sock in (stop, watcher.agent, listener) if sock]
    due = soon = start = time.monotonic()  # At once: whoever is stopped in its first second was heard of.
    while True:
        ready = [fd for fd, _ in poll.poll(max(0.0, min(due, soon) - time.monotonic()) * 1000 + 1)]
        if not all(_is_ours(*one) for one in ours):
            return _close(ours)
        over = stop.fileno() in ready  # Ending may last, and what was told before is old by then.
        if listener is not None and listener.fileno() in ready:
            _answer(listener)
        now = time.monotonic()
        if over or now >= due or watcher.has_the_first():
            due = now + _EACH
            try:
                watcher.look()
            except Exception:
                watcher.counts = False  # Another torch than those that this knows: no say, and no harm.
        # A recovery ends with the first collective: its time is to be known to a tenth.
        soon = now + max(0.02, (now - start) / 10) if watcher.waits_for_the_first() else due
        if over:
            return _close(ours)


def _close(ours):
    """Python would warn of a socket that is left open, where the program shows such warnings."""
    for sock, inode in ours:
        if _is_ours(sock, inode):
            sock.close()
        else:
            sock.detach()  # The number is the program's.


def _set_recorder(address):
    """Where torch's recorder of NCCL's collectives listens and writes: a thread of torch's, which needs no
    interpreter (DumpPipe). Names as its versions have them; what the user has set stays."""
    version = getattr(sys.modules.get("torch.version"), "__version__", "0").split(".")
    new = (int(version[0]), int(version[1])) >= (2, 8)
    beside = os.path.join(os.path.dirname(address), "fr_")
    os.mkfifo(f"{beside}{os.getpid()}.try")  # Where torch cannot make its pipe it ends the worker: not that.
    os.unlink(f"{beside}{os.getpid()}.try")
    for value, names in (("2000", ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")),
                         (beside, ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")),
                         (beside, ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE",) * 2)):
        if not any(name in os.environ for name in names):
            os.environ[names[0 if new else 1]] = value


def _start(address):
    import _thread
    import atexit
    import signal
    import socket
    import threading  # Here: the thread that loads it first is the main one to it.
    try:
        _set_recorder(address)
    except Exception:
        pass  # A version that is no number; no directory to make a pipe in.
    stop, ours = socket.socketpair()
    pid, inode = os.getpid(), os.fstat(ours.fileno()).st_ino
    runs = _thread.allocate_lock()

    def watch():
        try:
            _watch(address, stop)
        except Exception:
            pass
        finally:
            runs.release()

    def end():
        if not _is_ours(ours, inode):
            ours.detach()
        else:
            if os.getpid() == pid and runs.locked():  # A child that ends must not end its parent's.
                ours.send(b".")  # Closing it would not do: children hold it too.
                runs.acquire(timeout=1)
            ours.close()
    runs.acquire()
    program = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # The thread takes none.
        _thread.start_new_thread(watch, ())  # Not threading's: a program may wait for the end of all of those.
        atexit.register(end)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, program)


def start():
    """In a worker that is about to load torch.distributed. An error here is not the program's."""
    address = os.environ.get("DDPRUN_NOTIFY_SOCKET")
    try:
        if address and os.environ.get("DDPRUN_WATCH") != "0":
            _start(address)
    except Exception:
        pass
