"""What the Python package tells the agent: the datagrams that it sends, and the socket that it keeps for them."""

import importlib
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "launcher", "python"))

import ddprun  # noqa: E402
from ddprun import _notify  # noqa: E402


class Steps(unittest.TestCase):
    def setUp(self):
        self.addCleanup(importlib.reload, _notify)
        self.addCleanup(lambda: _notify._socket and _notify._socket.close())
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
            return self.agent.recv(4096).decode().split("\n")
        except BlockingIOError:
            return None

    def tell(self, *arguments, **named):
        ddprun.step(*arguments, **named)
        return self.heard()

    def waited(self):
        self.agent.settimeout(30)
        try:
            return self.agent.recv(4096).decode().split("\n")
        finally:
            self.agent.setblocking(False)

    def test_a_datagram_has_all_that_is_known_of_a_step(self):
        self.assertEqual(self.tell(1, of=50, work=0.25), ["STEP=1", "WORK_USEC=250000", "STEPS=50"])
        self.assertEqual(self.tell(2, "train", within=2.5), ["STEP=2", "PHASE=train", "EXTEND_TIMEOUT_USEC=2500000"])
        ddprun.phase("save", within=5)
        self.assertEqual(self.heard(), ["PHASE=save", "EXTEND_TIMEOUT_USEC=5000000"])
        self.assertEqual(self.tell(3, "train"), ["STEP=3", "PHASE=train"])

    def test_datagrams_of_other_calls(self):
        for lines, call, *arguments in ((["READY=1"], ddprun.ready), (["READY=1", "RESUME=7"], ddprun.resume, 7),
                                        (["FDSTOREREMOVE=1", "FDNAME=model"], ddprun.fdstore_remove, "model")):
            call(*arguments)
            self.assertEqual(self.heard(), lines)
        ddprun.resume(7, of=9)
        self.assertEqual(self.heard(), ["READY=1", "RESUME=7", "STEPS=9"])

    def test_a_socket_that_is_full_or_gone_disturbs_no_caller(self):
        self.addCleanup(setattr, _notify._steps, "_untold", None)
        for number in range(10_000):
            ddprun.step(number)
        os.environ["DDPRUN_NOTIFY_SOCKET"] = "/nowhere"
        ddprun.step(1)

    def test_without_ddprun_nothing_happens(self):
        del os.environ["DDPRUN_NOTIFY_SOCKET"]
        ddprun.step(1)
        memory = ddprun.fdstore("state", 8)
        memory[:] = b"12345678"
        self.assertIsNone(ddprun.fdstore("state"))

    def test_fast_steps_are_told_together_and_the_last_one_always(self):
        _notify._BETWEEN = 60.0
        self.assertEqual(self.tell(1), ["STEP=1"])
        for number, work in ((2, 0.5), (3, 0.25), (4, 0.75)):
            self.assertIsNone(self.tell(number, work=work))
        ddprun.phase("save")  # The step is sent before the phase.
        self.assertEqual((self.heard(), self.heard()), (["STEP=4", "WORK_USEC=250000"], ["PHASE=save"]))
        _notify._BETWEEN = 0.01
        _notify._begin()
        self.assertEqual(self.tell(5), ["STEP=5"])
        told = []
        for number in range(6, 1000):
            ddprun.step(number)
        while told != ["STEP=999"]:
            told = self.waited()

    # A program may then leave by os._exit.
    def test_the_last_step_of_all_is_told_at_once(self):
        _notify._BETWEEN = 60.0
        for begin in (lambda: ddprun.step(1, of=3), lambda: ddprun.resume(1, of=3)):
            _notify._begin()
            begin()
            ddprun.step(1)
            self.heard(), self.heard()
            self.assertEqual((self.tell(2), self.tell(3)), (None, ["STEP=3"]))

    def test_steps_are_told_at_once_where_no_thread_can_be_started(self):
        _notify._BETWEEN = 60.0
        for refused in (RuntimeError("can't start new thread"), MemoryError()):
            _notify._begin()
            with unittest.mock.patch("threading.Thread.start", side_effect=refused):
                self.assertEqual([self.tell(1), self.tell(2), self.tell(3)], [["STEP=1"], ["STEP=2"], ["STEP=3"]])

    def test_a_step_of_a_signal_handler_that_comes_while_one_is_told_is_told_too(self):
        _notify._BETWEEN = 0.01
        send = _notify._send

        def handled(lines, descriptor=None):
            _notify._send = send
            sent = send(lines, descriptor)
            _notify._steps._next = time.monotonic() + 60
            ddprun.step(2)
            return sent

        _notify._send = handled
        self.assertEqual(self.tell(1), ["STEP=1"])
        self.assertEqual(self.waited(), ["STEP=2"])

    # The agent may stand still for a while.
    def test_a_step_without_room_is_told_later(self):
        while _notify.send("READY=1"):
            pass
        _notify._BETWEEN = 0.01
        ddprun.step(7)
        heard = []
        while heard != ["STEP=7"]:
            heard = self.waited()

    def test_a_forked_process_tells_its_own_steps_and_the_end_of_a_program_the_last_one(self):
        subprocess.run([sys.executable, "-c", textwrap.dedent("""
            import os, ddprun
            from ddprun import _notify
            _notify._BETWEEN = 60.0
            ddprun.step(1)
            ddprun.step(2)
            if os.fork() == 0:
                ddprun.step(3)
                os._exit(0)
            os.wait()
            """)], env={**os.environ, "PYTHONPATH": sys.path[0]}, check=True, timeout=30)
        self.assertEqual([self.heard() for _ in range(4)], [["STEP=1"], ["STEP=3"], ["STEP=2"], None])

    def program(self, text):
        ended = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], env={**os.environ, "PYTHONPATH": sys.path[0]},
                               stdout=subprocess.PIPE, text=True, timeout=30)
        self.assertEqual(ended.returncode, 0)
        return ended.stdout

    def test_steps_at_the_end_of_a_program_are_told_at_once(self):
        self.program("""
            import atexit
            class Last:
                def __del__(self):
                    ddprun.step(5)
                    ddprun.step(6)
            atexit.register(lambda: [ddprun.step(number) for number in (3, 4)])
            import ddprun
            last = Last()
            ddprun.step(1)
            """)
        self.assertEqual([self.heard() for _ in range(6)], [[f"STEP={number}"] for number in (1, 3, 4, 5, 6)] + [None])

    # Blocked after the thread had begun, it ended the program.
    def test_a_signal_for_which_the_program_waits_comes_to_no_thread_of_the_package(self):
        said = self.program("""
            import os, signal, ddprun
            ddprun.step(1)
            ddprun.step(2)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
            os.kill(os.getpid(), signal.SIGUSR1)
            print(signal.sigwait({signal.SIGUSR1}) == signal.SIGUSR1)
            """)
        self.assertEqual(said, "True\n")

    def test_a_program_may_wait_for_the_end_of_all_threads(self):
        said = self.program("""
            import threading, ddprun
            ddprun.step(1)
            ddprun.step(2)
            for thread in set(threading.enumerate()) - {threading.current_thread()}:
                thread.join(20)
            print(threading.active_count())
            """)
        self.assertEqual(said, "1\n")

    def test_no_thread_stays_where_no_agent_hears_the_step(self):
        said = self.program("""
            import os, threading, ddprun
            ddprun.step(1)
            ddprun.step(2)
            os.environ["DDPRUN_NOTIFY_SOCKET"] += ".gone"
            for thread in set(threading.enumerate()) - {threading.current_thread()}:
                thread.join(20)
            print(threading.active_count())
            """)
        self.assertEqual(said, "1\n")

    def test_a_handler_that_raises_while_the_thread_begins_leaves_no_later_step_untold(self):
        _notify._BETWEEN = 0.01
        _notify._steps._next = time.monotonic() + 60
        with unittest.mock.patch("threading.Thread.start", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, ddprun.step, 1)
        ddprun.step(2)
        self.assertEqual(self.waited(), ["STEP=2"])

    # As a daemonizer closes what it does not know, and a library's connection has the number then.
    def test_a_socket_that_the_program_closed_is_made_anew(self):
        _notify._BETWEEN = 0.0
        self.tell(1)
        for again in range(3):
            number = _notify._socket.fileno()
            ours, theirs = socket.socketpair()
            os.dup2(ours.fileno(), number)
            ours.close()
            with self.subTest(again):
                self.assertEqual(self.tell(11 + again), [f"STEP={11 + again}"])
                theirs.setblocking(False)
                self.assertRaises(BlockingIOError, theirs.recv, 100)  # Nothing came, and it is open yet.
            theirs.close()
            os.close(number)

    def test_a_closed_number_is_not_used(self):
        _notify._BETWEEN = 0.0
        self.tell(1)
        os.close(_notify._socket.fileno())
        self.assertEqual(self.tell(2), ["STEP=2"])

    def test_the_end_of_the_program_closes_none_of_its_descriptors(self):
        ended = subprocess.run([sys.executable, "-c", textwrap.dedent("""
            import os, ddprun
            from ddprun import _notify
            class Last:
                def __del__(self): os.write(1, b"closed" if not os.path.exists(own) else b"open")
            ddprun.ready()
            own = f"/proc/self/fd/{_notify._socket.fileno()}"
            os.dup2(1, _notify._socket.fileno())
            _notify._last, last = Last(), _notify
            """)], env={**os.environ, "PYTHONPATH": sys.path[0]}, stdout=subprocess.PIPE, timeout=30)
        self.assertEqual((ended.returncode, ended.stdout), (0, b"open"))

    def test_an_impossible_call_sends_nothing(self):
        for bad in (lambda: ddprun.step(-1), lambda: ddprun.step(1 << 63), lambda: ddprun.step(11, ""),
                    lambda: ddprun.step(11, of=-1), lambda: ddprun.step(11, work=-1), lambda: ddprun.step(11, within=0),
                    lambda: ddprun.phase(""), lambda: ddprun.phase("a\nSTEP=9"), lambda: ddprun.phase("x" * 65),
                    lambda: ddprun.phase("x", within=0), lambda: ddprun.fdstore("a:b"), lambda: ddprun.fdstore("a", 0)):
            self.assertRaises(ValueError, bad)
        self.assertRaises(TypeError, ddprun.step, 1.5)
        self.assertIsNone(self.heard())
