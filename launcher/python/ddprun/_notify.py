"""What a worker tells its agent: datagrams as systemd's sd_notify sends them, of which a lost one costs nothing but
its say.

Steps that follow each other fast are told at most ten times a second, the last one always: a thread sends it."""

import array
import atexit
import errno
import operator
import os
import signal
import socket
import threading
import time
from typing import Iterable, Optional, SupportsIndex

_ADDRESS = "DDPRUN_NOTIFY_SOCKET"
_END = 1 << 63  # Of steps.
_BETWEEN = 0.1  # Seconds, at least, between two steps that are told.
_socket: "Optional[_Socket]" = None
_phase: Optional[str] = None  # As said last,
_total: Optional[SupportsIndex] = None  # and so the last step's number.
_steps: "_Steps"


class _Socket(socket.socket):
    """Kept for long, so that the program may close its descriptor and give the number to a file of its own."""

    def __init__(self) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._made = os.fstat(self.fileno())

    def is_still_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self.fileno()), self._made)
        except (OSError, AttributeError):  # Closed, or never made.
            return False

    def __del__(self) -> None:  # At the program's end too; a plain socket closes the number, whose it may be.
        if self.is_still_there():
            self.close()
        else:
            self.detach()


class _Steps:
    """The step that is not told yet, of one process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # A handler of a signal may come between.
        self._untold: "Optional[tuple[int, Optional[int], list[str]]]" = None  # Step, WORK_USEC, other lines.
        self._next = 0.0  # When a step may be told again.
        self._sends = False
        self._ends = False

    def add(self, number: int, took: Optional[int], more: "list[str]", at_once: bool) -> None:
        if _ADDRESS not in os.environ:
            return
        with self._lock:
            if self._untold is not None:
                before = self._untold[1]
                took = before if took is None else took if before is None else min(before, took)
                more = more or self._untold[2]
            self._untold = number, took, more
            if at_once or self._ends or time.monotonic() >= self._next:
                self._tell()
            if self._untold is not None and not self._sends and not self._ends:
                program = signal.pthread_sigmask(signal.SIG_BLOCK, [])
                self._sends = True
                try:
                    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # The thread takes none.
                    threading.Thread(target=self._send, name="ddprun steps", daemon=True).start()
                except (RuntimeError, MemoryError):  # A limit of threads, or the interpreter ends.
                    self._sends = False
                    self._tell()
                except BaseException:  # Of a handler of a signal. Two threads do no harm; without one, steps would be lost.
                    self._sends = False
                    raise
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, program)

    def tell(self) -> None:
        if self._untold is not None:
            with self._lock:
                self._tell()

    def _tell(self) -> None:
        untold = self._untold
        if untold is not None:
            number, took, more = untold
            error = _send([f"STEP={number}", *([] if took is None else [f"WORK_USEC={took}"]), *more])
            # Again only where room may come. A handler may have done a step.
            if error not in (errno.EAGAIN, errno.ENOBUFS) and self._untold is untold:
                self._untold = None
            self._next = time.monotonic() + _BETWEEN

    def end(self) -> None:
        """Steps that follow, of handlers of the program's end, are told at once: a thread cannot begin any more."""
        with self._lock:
            self._ends = True
            self._tell()

    def _send(self) -> None:
        """Ends once no step is left: a program may wait until it has no other thread."""
        while True:
            time.sleep(_BETWEEN)
            if self._ends:
                return
            with self._lock:
                self._sends = self._untold is not None
                if not self._sends:
                    return
                self._tell()


def _begin() -> None:  # A forked process has neither the thread nor its parent's step.
    global _steps
    _steps = _Steps()


_begin()
os.register_at_fork(after_in_child=_begin)
atexit.register(lambda: _steps.end())


def send(*lines: str, descriptor: Optional[int] = None) -> bool:
    """Sends one datagram; False: nobody listens, or there was no room for it. Never waits."""
    _steps.tell()
    return _send(lines, descriptor) == 0


def _send(lines: Iterable[str], descriptor: Optional[int] = None) -> int:
    """The number of the error (errno); 0: sent."""
    global _socket
    address = os.environ.get(_ADDRESS)
    if not address:
        return errno.ENOENT
    try:
        own = _socket
        if own is None or not own.is_still_there():
            own = _socket = _Socket()
        text = "\n".join(lines).encode()
        # Not socket.send_fds: it forgets flags and address.
        beside = [] if descriptor is None else [
            (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        own.sendmsg([text], beside, socket.MSG_DONTWAIT, address)
    except OSError as error:
        return error.errno or errno.EIO  # A full or vanished agent must not disturb training.
    return 0


def _number(value: SupportsIndex) -> int:
    number = operator.index(value)
    if not 0 <= number < _END:
        raise ValueError(f"a step must be a number from 0 to 2^63 - 1, not {number}")
    return number


def _progress(name: Optional[str], within: Optional[float]) -> "list[str]":
    lines = []
    if name is not None:
        if not 1 <= len(name) <= 64 or not (name.isascii() and name.isprintable()):
            raise ValueError(f"a phase must be 1 to 64 printable ASCII characters, not {name!r}")
        lines.append(f"PHASE={name}")
    if within is not None:
        if not 0 < within < 1e9:
            raise ValueError(f"within must be more than 0 seconds, not {within!r}")
        lines.append(f"EXTEND_TIMEOUT_USEC={max(1, int(within * 1e6))}")
    return lines


def save_signal(number: SupportsIndex) -> None:
    """Names the signal on which this worker saves and continues, for `ddprun save`. Install the handler first."""
    value = operator.index(number)
    if not 1 <= value <= 64 or value in (9, 19):
        raise ValueError(f"the save signal must be one that this program can handle, not {number!r}")
    send(f"SAVE_SIGNAL={value}")


def ready() -> None:
    """Says hello: this worker speaks ddprun's protocol. Call it before the first step.

    From then on `--hang-timeout` watches this worker, and its exit codes 75 ("restart me, a peer is gone") and 76 ("do
    not restart me") have their meaning. `resume` says hello too.
    """
    send("READY=1")


def _in_all(of: Optional[SupportsIndex]) -> "list[str]":
    return [] if of is None else [f"STEPS={_number(of)}"]


def resume(number: SupportsIndex, *, of: Optional[SupportsIndex] = None) -> None:
    """Says that the state is loaded and training continues from step `number`. Call it once, before the first step.

    `ddprun status` then separates the time for the state from that of the first step. `of`: the number of the last step.
    """
    global _total
    send("READY=1", f"RESUME={_number(number)}", *_in_all(of))
    _total = of


def step(
    number: SupportsIndex,
    phase: Optional[str] = None,
    *,
    of: Optional[SupportsIndex] = None,
    within: Optional[float] = None,
    work: Optional[float] = None,
) -> None:
    """Reports the step that this worker has done. Only a larger number than before is progress.

    Call it after every step, or after every n-th one by number, not by time: else ranks at the same step look as if one
    of them lagged. Fast steps are told ten times a second, the last one always.

    `of`: the number of the last step. `phase` and `within`: as of `phase()`. `work`: the seconds that the step took this
    rank by itself, before it waited for others (of several steps the quickest); slow ranks are found by it.
    """
    global _phase, _total
    step = number if type(number) is int and 0 <= number < _END else _number(number)
    took = None
    if work is not None:
        if not 0 <= work < 1e9:
            raise ValueError(f"work must be the seconds of a step, not {work!r}")
        took = max(1, int(work * 1e6))
    more = [*_in_all(of), *_progress(phase, within)]
    before = _phase, _total
    _phase, _total = phase or _phase, of or _total
    at_once = within is not None or (_phase, _total) != before or step == _total
    _steps.add(step, took, more, at_once)


def phase(name: str, *, within: Optional[float] = None) -> None:
    """Reports what this worker does now, in at most 64 printable ASCII characters. A change is progress.

    `within`: the next progress may take this many seconds, whatever `--hang-timeout` says.
    """
    global _phase
    send(*_progress(name, within))
    _phase = name
