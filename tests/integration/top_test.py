"""`ddprun top` on a real terminal (a pty): its keys, and that the terminal is as before at every end."""

import os
import pty
import re
import signal
import sys
import termios
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, DdprunTest, children_of, eventually, read_text  # noqa: E402

STEPS = ("--notify=READY=1\nPHASE=train", "--step-ms=100", "--steps=100000")
LEFT = b"\x1b[?25h\x1b[?1049l"


def as_a_shell(command, environment):
    """In front of its terminal, with somebody who waits: else nothing stops it. SIGUSR1 puts it behind, as ^Z and
    `bg` do."""
    signal.signal(signal.SIGUSR1, lambda *_: os.tcsetpgrp(0, os.getpgrp()))
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execve(DDPRUN, command, environment)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    status = os.waitpid(pid, 0)[1]
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


class Top(DdprunTest):
    def setUp(self):
        super().setUp()
        self.run_of = self.start("--nproc-per-node=2", FAKE_WORKER, HELLO, *STEPS)
        self.wait_for_workers(self.run_of, 2)
        shell, self.terminal = pty.fork()
        if shell == 0:
            as_a_shell(["ddprun", "top"], {**self.environment, "TERM": "xterm"})
        self.shell = shell
        self.addCleanup(os.close, self.terminal)
        os.set_blocking(self.terminal, False)
        self.seen = b""
        self.cooked = termios.tcgetattr(self.terminal)[3]
        self.shows(r"training: step (?s:.)*q quit")
        (self.pid,) = children_of(shell)

    def tearDown(self):
        self.run_of.signal(signal.SIGTERM)
        self.run_of.wait()
        super().tearDown()

    def shows(self, pattern):
        """On what was drawn since the last such look."""
        def look():
            try:
                self.seen += os.read(self.terminal, 1 << 16)
            except (BlockingIOError, OSError):
                pass
            return re.search(pattern, self.seen.decode(errors="replace"))
        self.assertTrue(eventually(look), f"/{pattern}/ in {self.seen!r}")
        self.seen = b""

    def press(self, keys, pattern):
        os.write(self.terminal, keys)
        self.shows(pattern)

    def lines(self):
        return termios.tcgetattr(self.terminal)[3] & (termios.ICANON | termios.ECHO)

    def ends(self):
        code = eventually(lambda: (w := os.waitpid(self.shell, os.WNOHANG)) != (0, 0) and w)
        self.assertTrue(code, "it goes on")
        return os.WEXITSTATUS(code[1])

    def test_its_keys(self):
        self.assertEqual(self.lines(), 0)
        self.press(b"r", r"RANK +NODE")
        self.press(b"o", r"o by name")
        self.press(b"j", r">\s+1\s")
        self.press(b"s", r"stacks of rank 1:(?s:.)*thread \d+ \(fake_worker\)")
        self.press(b"\x1b", r"RANK +NODE")
        self.press(b"?", r"where the workers of the row stand")
        self.press(b"q", re.escape(LEFT.decode()))
        self.assertEqual(self.ends(), 0)
        self.assertEqual(termios.tcgetattr(self.terminal)[3], self.cooked)

    def stops(self):
        self.assertTrue(eventually(lambda: ") T " in read_text(f"/proc/{self.pid}/stat")), "it goes on")

    def goes_behind(self):
        os.kill(self.shell, signal.SIGUSR1)
        self.assertTrue(eventually(lambda: os.tcgetpgrp(self.terminal) == self.shell))

    def test_in_the_background_it_draws_without_keys_and_ends(self):
        self.goes_behind()
        modes = termios.tcgetattr(self.terminal)  # As who is in front has them.
        modes[3] = (modes[3] | termios.ICANON) & ~termios.ECHO
        termios.tcsetattr(self.terminal, termios.TCSANOW, modes)
        self.shows(r"\x1b\[Hrun (?:(?!q quit)(?s:.))*\x1b\[J")
        os.kill(self.pid, signal.SIGTERM)
        self.shows(re.escape(LEFT.decode()))
        self.assertEqual(self.ends(), 128 + signal.SIGTERM)
        self.assertEqual(termios.tcgetattr(self.terminal)[3], modes[3])

    def test_where_the_background_may_not_write_it_ends_too(self):
        modes = termios.tcgetattr(self.terminal)
        modes[3] |= termios.TOSTOP
        termios.tcsetattr(self.terminal, termios.TCSANOW, modes)
        self.goes_behind()
        self.stops()
        os.kill(self.pid, signal.SIGTERM)
        os.kill(self.pid, signal.SIGCONT)
        self.assertEqual(self.ends(), 128 + signal.SIGTERM)

    def test_a_signal_gives_the_terminal_back(self):
        os.kill(self.pid, signal.SIGTSTP)
        self.stops()
        self.assertEqual(termios.tcgetattr(self.terminal)[3], self.cooked)
        os.kill(self.pid, signal.SIGCONT)
        self.shows(r"\?1049h(?s:.)*q quit")
        self.assertEqual(self.lines(), 0)
        self.press(b"s", r"stacks of (?s:.)*thread \d+ \(fake_worker\)")  # The node's: a child that is to end, too.
        os.kill(self.pid, signal.SIGTERM)
        self.shows(re.escape(LEFT.decode()))
        self.assertEqual(self.ends(), 128 + signal.SIGTERM)
        self.assertEqual(termios.tcgetattr(self.terminal)[3], self.cooked)


if __name__ == "__main__":
    unittest.main()
