"""A page of memory on which this process's steps stand for its agent to look at: proto/step_page.h.

None of it is there where the agent says nothing of such pages (DDPRUN_STEP_PAGE), and in children of fork, whose
parent has it.
"""

import _thread
import fcntl
import mmap
import os
from time import monotonic_ns
from typing import Callable, List, Optional

_BYTES = 4096
_MAGIC = 0x3165676170707473
_COUNT, _READER, _FIRST, _LAST = 1, 2, 8, 389  # Where they and the entries are, in words of 8 bytes.
_READ, _READ_NO_MORE = 1, 2
_TWICE = 10  # So many steps are told by datagrams too: the end of a recovery is known at once.
# Of linux/fcntl.h; Python names them in some of its builds only.
_F_ADD_SEALS, _F_SEAL_SEAL, _F_SEAL_SHRINK, _F_SEAL_GROW = 1033, 0x1, 0x2, 0x4


class Page:
    __slots__ = ("_words", "_at", "count", "time")

    def __init__(self, file: int) -> None:
        # One item is stored by one instruction, as the agent must find the count. Struct and ctypes do as well, but
        # between two steps of a training all of this leaves the caches, and a step costs what must come back.
        self._words = memoryview(mmap.mmap(file, _BYTES)).cast("Q")
        _kept.append(self._words)
        self._words[0] = _MAGIC
        self.count = self.time = 0
        self._at = _FIRST

    def write(self, number: int, work: int) -> bool:
        """True: the agent finds it there, and needs no datagram."""
        words, at, count = self._words, self._at, self.count
        words[at] = number
        words[at + 1] = self.time = monotonic_ns()
        words[at + 2] = work
        self._at = at + 3 if at < _LAST else _FIRST
        self.count = words[_COUNT] = count + 1
        return words[_READER] == _READ and count >= _TWICE

    def is_read_no_more(self) -> bool:
        return self._words[_READER] == _READ_NO_MORE


# Never unmapped: Python's mmap closes a descriptor of its own then, whose number may be the program's by now.
_kept: List[memoryview] = []
page: Optional[Page] = None
_may_offer = True
_offers = 0
_offering = _thread.allocate_lock()


def mark() -> List[str]:
    """For datagrams: after how many steps of the page they come."""
    return [] if page is None else [f"STEP_PAGE={page.count}"]


def _forget() -> None:
    global page, _may_offer
    if page is not None:  # Forked workers have it yet to make.
        page, _may_offer = None, False


os.register_at_fork(after_in_child=_forget)


def offer(number: int, work: int, send: Callable[[int], bool]) -> bool:
    """Makes the page where there is none yet, and sends it with its first step; False: nothing was sent."""
    global _offers
    if page is not None and page.is_read_no_more():
        _forget()  # Another process of this worker has a page of its own.
    if (page is not None or not _may_offer or os.environ.get("DDPRUN_STEP_PAGE") != "1"
            or not os.environ.get("DDPRUN_NOTIFY_SOCKET")):
        return False
    if not _offering.acquire(False):
        return False  # Another thread does.
    try:
        _offers += 1
        if page is not None or _offers & (_offers - 1):
            return False  # The agent's socket was full: again after as many steps.
        return _make(number, work, send)
    finally:
        _offering.release()


def _make(number: int, work: int, send: Callable[[int], bool]) -> bool:
    global page, _may_offer
    try:
        file = os.memfd_create("ddprun-steps", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(file, _BYTES)
            fcntl.fcntl(file, _F_ADD_SEALS, _F_SEAL_SEAL | _F_SEAL_SHRINK | _F_SEAL_GROW)
            made = Page(file)
            made.write(number, work)
            if not send(file):
                _kept.pop()  # Nobody has it, and its number is still its own.
                return False
        finally:
            os.close(file)
    except (AttributeError, OSError, ValueError):  # A system without any of it: steps are datagrams there.
        _may_offer = False
        return False
    page = made
    return True
