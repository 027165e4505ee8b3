"""What a worker tells its agent: datagrams as systemd's sd_notify sends them, of which a lost one costs nothing but
its say, and steps on a page of memory (_page.py) once the agent reads it."""

import array
import operator
import os
import socket
from typing import Optional, SupportsIndex

from ddprun import _page

_END = 1 << 63  # Of steps.
_socket: "Optional[_Socket]" = None
_phase: Optional[str] = None  # As told last; a step on the page has none of them.
_total: Optional[SupportsIndex] = None
_told = 0  # When that was, by the page's clock,
_AGAIN = 1_000_000_000  # and told again after so many nanoseconds: another process may have said otherwise.


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


def send(*lines: str, descriptor: Optional[int] = None) -> bool:
    """Sends one datagram; False: nobody listens, or there was no room for it. Never waits."""
    global _socket
    address = os.environ.get("DDPRUN_NOTIFY_SOCKET")
    if not address:
        return False
    try:
        own = _socket
        if own is None or not own.is_still_there():
            own = _socket = _Socket()
        text = "\n".join(lines).encode()
        # Not socket.send_fds: it forgets flags and address.
        beside = [] if descriptor is None else [
            (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        own.sendmsg([text], beside, socket.MSG_DONTWAIT, address)
    except OSError:
        return False  # A full or vanished agent must not disturb training.
    return True


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
    if send("READY=1", f"RESUME={_number(number)}", *_in_all(of), *_page.mark()) and of is not None:
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
    of them lagged.

    `of`: the number of the last step. `phase` and `within`: as of `phase()`. `work`: the seconds that the step took this
    rank by itself, before it waited for others (of several steps the quickest); slow ranks are found by it.
    """
    global _phase, _total, _told
    if type(number) is not int or not 0 <= number < _END:
        number = _number(number)
    took = 0  # Not known.
    if work is not None:
        if not 0 <= work < 1e9:
            raise ValueError(f"work must be the seconds of a step, not {work!r}")
        took = max(1, int(work * 1e6))
    page = _page.page
    known = within is None and (phase is None or phase == _phase) and (of is None or of == _total)
    if known and page is not None and page.time > _told + _AGAIN and (phase is not None or of is not None):
        known = False
    more = [] if known and page is not None else [*_in_all(of), *_progress(phase, within)]
    if page is not None and page.write(number, took) and known:
        return
    if took:
        more.insert(0, f"WORK_USEC={took}")
    lines = [f"STEP={number}", *more]
    if (_page.offer(number, took, lambda file: send(*lines, "STEP_PAGE=1", descriptor=file))
            or send(*lines, *_page.mark())):
        _phase = _phase if phase is None else phase
        _total = _total if of is None else of
        _told = 0 if _page.page is None else _page.page.time


def phase(name: str, *, within: Optional[float] = None) -> None:
    """Reports what this worker does now, in at most 64 printable ASCII characters. A change is progress.

    `within`: the next progress may take this many seconds, whatever `--hang-timeout` says.
    """
    global _phase
    if send(*_progress(name, within), *_page.mark()):
        _phase = name
