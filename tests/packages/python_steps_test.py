"""The steps of the Python package: what it writes to its page of memory, and when it sends datagrams beside it."""

import fcntl
import importlib
import mmap
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "launcher", "python"))

import ddprun  # noqa: E402
from ddprun import _notify, _page  # noqa: E402


class StepPage(unittest.TestCase):
    def setUp(self):
        self.addCleanup(importlib.reload, _notify)
        self.addCleanup(lambda: _notify._socket and _notify._socket.close())
        self.addCleanup(importlib.reload, _page)
        os.environ["DDPRUN_STEP_PAGE"] = "1"
        self.addCleanup(os.environ.pop, "DDPRUN_STEP_PAGE", None)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.agent.close)
        self.agent.setblocking(False)
        os.environ["DDPRUN_NOTIFY_SOCKET"] = os.path.join(folder.name, "notify")
        self.addCleanup(os.environ.pop, "DDPRUN_NOTIFY_SOCKET", None)
        self.agent.bind(os.environ["DDPRUN_NOTIFY_SOCKET"])

    def heard(self):
        try:
            text, self.files, _, _ = socket.recv_fds(self.agent, 4096, 2)
        except BlockingIOError:
            return None
        for file in self.files:
            self.addCleanup(os.close, file)
        return text.decode().split("\n")

    def tell(self, *arguments, **named):
        ddprun.step(*arguments, **named)
        return self.heard()

    def read(self):
        """As the agent."""
        memory = mmap.mmap(self.files[0], 4096)
        self.words = memoryview(memory).cast("Q")
        self.words[2] = 1

    def entry(self, number):
        at = 8 + 3 * (number % 128)
        return self.words[at], self.words[at + 2]

    def to_the_page(self):
        self.tell(1)
        self.read()
        for number in range(2, 11):
            self.tell(number)

    def test_it_is_sealed_and_comes_with_the_first_step(self):
        before = time.monotonic_ns()
        self.assertEqual(self.tell(1, of=50, work=0.25), ["STEP=1", "WORK_USEC=250000", "STEPS=50", "STEP_PAGE=1"])
        self.assertEqual(fcntl.fcntl(self.files[0], 1034), 7)  # F_GET_SEALS: SEAL, SHRINK and GROW.
        self.assertEqual(os.fstat(self.files[0]).st_size, 4096)
        self.read()
        self.assertEqual((self.words[0], self.words[1]), (0x3165676170707473, 1))
        self.assertEqual(self.entry(0), (1, 250_000))
        self.assertTrue(before <= self.words[9] <= time.monotonic_ns())

    def test_ten_steps_go_both_ways_and_then_none(self):
        self.tell(1)
        self.read()
        for number in range(2, 11):
            self.assertEqual(self.tell(number), [f"STEP={number}", f"STEP_PAGE={number}"])
            self.assertEqual(self.files, [])
        for number in range(11, 1_000):
            self.assertIsNone(self.tell(number, work=0.041))
            self.assertEqual((self.words[1], self.entry(number - 1)), (number, (number, 41_000)))

    def test_until_it_is_read_each_step_is_a_datagram(self):
        for number in range(1, 200):
            self.assertEqual(self.tell(number), [f"STEP={number}", f"STEP_PAGE={number}"])

    def test_a_change_is_reported_once(self):
        self.to_the_page()
        self.assertEqual(self.tell(11, "train", of=50), ["STEP=11", "STEPS=50", "PHASE=train", "STEP_PAGE=11"])
        self.assertIsNone(self.tell(12, "train", of=50))
        self.assertEqual(self.tell(13, of=60), ["STEP=13", "STEPS=60", "STEP_PAGE=13"])
        self.assertIsNone(self.tell(14))
        ddprun.phase("save", within=5)
        self.assertEqual(self.heard(), ["PHASE=save", "EXTEND_TIMEOUT_USEC=5000000", "STEP_PAGE=14"])
        self.assertEqual(self.tell(15, "train"), ["STEP=15", "PHASE=train", "STEP_PAGE=15"])
        self.assertEqual(self.tell(16, within=1), ["STEP=16", "EXTEND_TIMEOUT_USEC=1000000", "STEP_PAGE=16"])
        self.assertEqual(self.tell(17, within=1), ["STEP=17", "EXTEND_TIMEOUT_USEC=1000000", "STEP_PAGE=17"])
        self.assertEqual(self.words[1], 17)

    def test_a_possible_change_by_another_process_is_reported_again_after_a_second(self):
        self.to_the_page()
        self.assertEqual(self.tell(11, "train"), ["STEP=11", "PHASE=train", "STEP_PAGE=11"])
        _notify._told -= 2_000_000_000
        self.assertEqual(self.tell(12, "train"), ["STEP=12", "PHASE=train", "STEP_PAGE=12"])
        self.assertIsNone(self.tell(13, "train"))

    def test_threads_that_begin_together_make_one_page(self):
        sent, send = [], _notify.send

        def meanwhile(*lines, **named):
            if not sent:
                sent.append(threading.Thread(target=ddprun.step, args=(2,)))
                sent[0].start()
                sent[0].join()
            return send(*lines, **named)
        with unittest.mock.patch.object(_notify, "send", side_effect=meanwhile):
            ddprun.step(1)
        self.assertEqual(self.heard(), ["STEP=2"])
        self.assertEqual(self.files, [])
        self.assertEqual(self.heard(), ["STEP=1", "STEP_PAGE=1"])
        self.assertEqual(len(self.files), 1)

    # Python's mmap keeps a descriptor, whose number a program may close and give to a file of its own.
    def test_no_descriptor_of_the_programs_is_ever_closed(self):
        before = set(os.listdir("/proc/self/fd"))
        ddprun.step(1)
        (kept,) = [int(fd) for fd in set(os.listdir("/proc/self/fd")) - before
                   if "memfd:" in os.path.realpath(f"/proc/self/fd/{fd}")]
        self.heard()
        self.read()
        own = os.open(os.devnull, os.O_RDONLY)
        os.dup2(own, kept)
        child = os.fork()
        if child == 0:
            try:
                ddprun.step(70)
                os.fstat(kept)
            except OSError:
                os._exit(1)
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.words[2] = 2
        self.tell(11)
        self.assertTrue(os.path.samestat(os.fstat(kept), os.fstat(own)))
        os.close(own)

    # As a daemonizer closes what it does not know, and a library's connection has the number then.
    def test_a_socket_that_the_program_closed_is_made_anew(self):
        self.to_the_page()
        for again in range(3):
            number = _notify._socket.fileno()
            ours, theirs = socket.socketpair()
            os.dup2(ours.fileno(), number)
            ours.close()
            with self.subTest(again):
                self.assertIsNone(self.tell(11 + 2 * again))
                self.assertEqual(self.tell(12 + 2 * again, f"p{again}"),
                                 [f"STEP={12 + 2 * again}", f"PHASE=p{again}", f"STEP_PAGE={12 + 2 * again}"])
                theirs.setblocking(False)
                self.assertRaises(BlockingIOError, theirs.recv, 100)  # Nothing came, and it is open yet.
            theirs.close()
            os.close(number)

    def test_a_closed_number_is_not_used(self):
        self.tell(1)
        os.close(_notify._socket.fileno())
        self.assertEqual(self.tell(2), ["STEP=2", "STEP_PAGE=2"])

    def test_the_end_of_the_program_closes_none_of_its_descriptors(self):
        ended = subprocess.run([sys.executable, "-c", textwrap.dedent("""
            import os, ddprun
            from ddprun import _notify
            class Last:
                def __del__(self): os.write(1, b"closed" if not os.path.exists(own) else b"open")
            ddprun.ready()
            own = f"/proc/self/fd/{_notify._socket.fileno()}"
            os.dup2(1, _notify._socket.fileno())
            _notify._phase, last = Last(), _notify
            """)], env={**os.environ, "PYTHONPATH": sys.path[0]}, stdout=subprocess.PIPE, timeout=30)
        self.assertEqual((ended.returncode, ended.stdout), (0, b"open"))

    def test_a_step_by_the_page_asks_the_system_nothing(self):
        self.to_the_page()
        asked = []
        for name in ("fstat", "getpid", "memfd_create"):
            patch = unittest.mock.patch.object(os, name, side_effect=asked.append)
            patch.start()
            self.addCleanup(patch.stop)
        for number in range(11, 100):
            ddprun.step(number, work=0.1)
        self.assertEqual(asked, [])

    def test_a_lost_report_is_sent_again(self):
        self.to_the_page()
        while _notify.send("READY=1"):
            pass
        self.assertEqual(self.tell(11, "train"), ["READY=1"])
        while self.heard():
            pass
        self.assertEqual(self.tell(12, "train"), ["STEP=12", "PHASE=train", "STEP_PAGE=12"])

    def test_a_page_that_was_lost_is_made_again(self):
        while _notify.send("READY=1"):
            pass
        ddprun.step(1)
        while self.heard():
            pass
        self.assertEqual(self.tell(2), ["STEP=2", "STEP_PAGE=1"])
        self.read()
        self.assertEqual(self.entry(0), (2, 0))

    def test_one_that_is_read_no_more_ends(self):
        self.to_the_page()
        self.assertIsNone(self.tell(11))
        self.words[2] = 2
        self.assertEqual(self.tell(12), ["STEP=12"])
        for number in range(13, 30):
            self.assertEqual(self.tell(number, "train", of=50), [f"STEP={number}", "STEPS=50", "PHASE=train"])
        self.assertEqual(self.files, [])

    def test_a_child_writes_no_page(self):
        self.to_the_page()
        child = os.fork()
        if child == 0:
            ddprun.step(70)
            ddprun.phase("data")
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.heard(), ["STEP=70"])
        self.assertEqual(self.heard(), ["PHASE=data"])
        self.assertEqual(self.words[1], 10)
        self.assertIsNone(self.tell(11))
        self.assertEqual(self.words[1], 11)

    def test_a_child_of_a_process_without_one_makes_its_own(self):
        child = os.fork()  # As a preload process's workers are made.
        if child == 0:
            ddprun.step(70)
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.heard(), ["STEP=70", "STEP_PAGE=1"])
        self.assertEqual(len(self.files), 1)

    def test_an_impossible_call_writes_nothing(self):
        self.to_the_page()
        for bad in (lambda: ddprun.step(-1), lambda: ddprun.step(1 << 63), lambda: ddprun.step(11, ""),
                    lambda: ddprun.step(11, of=-1), lambda: ddprun.step(11, work=-1), lambda: ddprun.step(11, within=0)):
            self.assertRaises(ValueError, bad)
        self.assertEqual(self.words[1], 10)

    def test_a_system_without_it_has_datagrams(self):
        with unittest.mock.patch.object(os, "memfd_create", side_effect=OSError("not here")) as asked:
            for number in range(1, 20):
                self.assertEqual(self.tell(number), [f"STEP={number}"])
        asked.assert_called_once()

    def test_an_agent_without_it_has_datagrams(self):
        os.environ.pop("DDPRUN_STEP_PAGE")
        for number in range(1, 20):
            self.assertEqual(self.tell(number, "train"), [f"STEP={number}", "PHASE=train"])
