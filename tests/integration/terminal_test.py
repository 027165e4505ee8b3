"""Workers on a terminal: each has one of its own, and what the user sees of them on the user's (a pty)."""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

from ddprun_runs import DDPRUN, FAKE_WORKER, DdprunTest, eventually, read_text

TWO = "--nproc-per-node=2"
ESCAPE = "\x1b"
COLUMNS, ROWS = 71, 23

# Says what it finds, then follows orders in files.
ABOUT = """
import os, sys, termios
rank = os.environ["RANK"]
size = os.get_terminal_size(1) if sys.stdout.isatty() else None
size = f"{size.columns}x{size.lines}" if size else None
def controlling():
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY) >= 0
    except OSError:
        return False
def names():
    for fd in os.listdir("/proc/self/fd"):
        if int(fd) > 2 and os.path.exists(f"/proc/self/fd/{fd}"):  # Not that of the list itself.
            yield os.readlink(f"/proc/self/fd/{fd}")
left = [name for name in names() if "/pt" in name]
print(f"rank {rank} {sys.stdin.isatty()} {sys.stdout.isatty()} {sys.stderr.isatty()} {size} {controlling()} {left}")
"""

# Prints one line more for each file, and the width.
WIDTH = """
import os, signal
rank = os.environ["RANK"]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print(f"rank {rank} began")
for step in range(2):
    while os.get_terminal_size(1).columns != 100 + step:
        signal.sigwait([signal.SIGWINCH])  # As a program that redraws on the signal alone.
    print(f"rank {rank} sees {100 + step} columns")
"""


class Screen:
    """The view of a person: rows, with those that have scrolled away."""

    def __init__(self, columns):
        self.columns, self.rows, self.row, self.column, self.wraps = columns, [""], 0, 0, True

    def feed(self, text):
        for part in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|[^\x1b]|\x1b", text):
            if part.startswith("\x1b["):
                self.obey(part[2:-1], part[-1])
            elif part == "\r":
                self.column = 0
            elif part == "\n":
                self.down()
            else:
                self.put(part)
        return self

    def obey(self, number, what):
        if what in "hl" and number == "?7":
            self.wraps = what == "h"
        elif what == "A":
            self.row = max(0, self.row - int(number or 1))
        elif what in "JK":
            assert number == "" or (number, what) == ("2", "K")
            self.rows[self.row] = self.rows[self.row][:0 if number else self.column]
            if what == "J":
                del self.rows[self.row + 1:]
        else:
            assert what == "m" or number.startswith("?"), (number, what)

    def down(self):
        self.row += 1
        self.rows += [""] * (self.row + 1 - len(self.rows))

    def put(self, character):
        if self.column == self.columns:
            if self.wraps:
                self.down()
                self.column = 0
            else:
                self.column -= 1
        row = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = row[:self.column] + character + row[self.column + 1:]
        self.column += 1

    def lines(self):
        return [row.rstrip() for row in self.rows if row.strip()]


class OnTerminal(DdprunTest):
    def launch(self, *arguments, err_to=None, out_to=None, term="xterm", executable=DDPRUN):
        """ddprun in the foreground of a terminal, which is its controlling one."""
        self.main, side = pty.openpty()
        self.addCleanup(os.close, self.main)
        self.resize(COLUMNS, ROWS)
        self.text = ""
        environment = {k: v for k, v in self.environment.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
        # Not os.login_tty, which Python before 3.11 lacks.
        self.process = subprocess.Popen(
            [executable, *arguments], env={**environment, "TERM": term}, cwd=self.directory, stdin=side,
            stdout=side if out_to is None else out_to, stderr=side if err_to is None else err_to,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(side)
        self.addCleanup(self.stop)

    def stop(self):
        if self.process.poll() is None:
            self.mark.kill()
            self.process.wait()

    def resize(self, columns, rows):
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_some(self, limit):
        if not select.select([self.main], [], [], limit)[0]:
            return False
        try:
            self.text += os.read(self.main, 65536).decode(errors="replace")
        except OSError:  # All that had the terminal have gone.
            return False
        return True

    def read_until(self, found):
        """`found`: a text, or what says of all that was read whether it is there."""
        there = found if callable(found) else lambda text: found in text
        end = time.monotonic() + 30
        while not there(self.text):
            self.assertTrue(self.read_some(end - time.monotonic()), repr(self.text))

    def finish(self, expect=0):
        while self.read_some(30):
            pass
        self.assertEqual(self.process.wait(), expect, self.text)
        return Screen(COLUMNS).feed(self.text).lines()

    def touch(self, name):
        open(self.path(name), "w").close()


class WhatWorkersFind(OnTerminal):
    def about(self, *flags, **places):
        self.launch(*flags, self.write("train.py", ABOUT), **places)
        return sorted(line for line in self.finish() if line.startswith("rank "))

    def test_a_terminal_each(self):
        for flags in ([], ["--preload=json"], ["--merge-output"], ["--prefix=rank"], ["--progress-from=auto"],
                      [f"--log-dir={self.path('logs')}"]):
            with self.subTest(flags):
                found = [re.sub(r"^\[.*?\]:? ?", "", line) for line in self.shown(*flags)]
                self.assertEqual(sorted(found),
                                 [f"rank {rank} False True True {COLUMNS}x{ROWS} False []" for rank in (0, 1)], self.text)
                self.assertNotIn("--preload not used", self.text)

    def shown(self, *flags):
        self.launch(TWO, *flags, self.write("train.py", ABOUT))
        return [line for line in self.finish() if "rank " in line and "True" in line]

    def test_one_worker(self):
        for flags in ([], ["--progress-from=auto"], [f"--log-dir={self.path('logs')}"]):
            with self.subTest(flags):
                self.assertEqual(self.about("--nproc-per-node=1", *flags),
                                 [f"rank 0 True True True {COLUMNS}x{ROWS} False []"])

    def test_each_stream_by_itself(self):
        with open(self.path("err"), "wb") as err:
            found = self.about(TWO, err_to=err)
        self.assertEqual(found, [f"rank {rank} False True False {COLUMNS}x{ROWS} False []" for rank in (0, 1)])
        self.assertNotIn(ESCAPE, read_text(self.path("err")))
        with open(self.path("out"), "wb") as out:
            self.about(TWO, out_to=out)
        self.assertEqual(sorted(read_text(self.path("out")).splitlines()),
                         [f"rank {rank} False False True None False []" for rank in (0, 1)])

    def test_files_stay_files(self):
        for flag in ("-r", "-t"):
            with self.subTest(flag):
                shutil.rmtree(self.path("logs"), ignore_errors=True)
                self.launch(TWO, flag, "3", f"--log-dir={self.path('logs')}", self.write("train.py", ABOUT))
                self.finish()
                (run,) = os.listdir(self.path("logs"))
                for rank in "01":
                    self.assertEqual(read_text(self.path("logs", run, "attempt_0", rank, "stdout.log")),
                                     f"rank {rank} False False False None False []\n")

    def test_a_new_size_is_passed_on(self):
        self.launch(TWO, self.write("train.py", WIDTH))
        self.read_until(lambda text: text.count("began") == 2)
        for columns in (100, 101):
            self.resize(columns, ROWS)  # The kernel tells ddprun, as it does when a window is drawn larger.
            self.read_until(lambda text, columns=columns: text.count(f"sees {columns} columns") == 2)
        self.finish()

    def test_without_terminals_there_are_pipes(self):
        if os.geteuid() != 0 or not shutil.which("unshare"):
            self.skipTest("needs root and unshare")
        # None is left in a mount of its own; its first one is the user's.
        script = 'mount --make-rprivate / && mount --bind /dev/null /dev/ptmx && exec "$@"'
        self.launch("-m", "sh", "-c", script, "sh", DDPRUN, TWO, "-v", self.write("train.py", ABOUT),
                    executable=shutil.which("unshare"))
        lines = self.finish()
        self.assertEqual(sorted(line for line in lines if line.startswith("rank ") and "None" in line),
                         [f"rank {rank} False False False None False []" for rank in (0, 1)], self.text)
        self.assertEqual(self.text.count("workers have pipes and no terminals"), 1, self.text)


BAR = """
import os, select, sys
rank = int(os.environ["RANK"])
def wait(name):
    while not os.path.exists(name):
        select.select([], [], [], 0.01)
for percent in range(0, 101):
    sys.stderr.write(f"\\r{percent:3}%|" + "#" * 20 + "|")
    sys.stderr.flush()
    if percent == 40:
        wait("go")
    if percent == 60:
        wait("on")
        if rank == 0:
            print("a line between")
        wait("end")
sys.stderr.write("\\n")
"""


class Bars(OnTerminal):
    def bars(self, **places):
        self.launch(TWO, self.write("train.py", BAR), **places)

    def test_in_place_with_their_ranks(self):
        self.bars()
        for percent, name in ((40, "go"), (60, "on")):
            self.read_until(lambda text, percent=percent: all(
                any(line.startswith(f"[rank {rank}]  {percent}%") for line in Screen(COLUMNS).feed(text).lines())
                for rank in (0, 1)))
            self.touch(name)
        self.read_until("a line between")
        self.touch("end")
        lines = self.finish()
        full = "100%|" + "#" * 20 + "|"
        self.assertEqual(sorted(lines), sorted([f"[rank 0] {full}", f"[rank 1] {full}", "a line between"]), self.text)

    def test_a_dumb_terminal_has_lines(self):
        self.bars(term="dumb")
        self.touch("go"), self.touch("on"), self.touch("end")
        lines = self.finish()
        self.assertNotIn(ESCAPE, self.text)
        self.assertEqual(sum(line.startswith("100%") for line in lines), 2, self.text)

    # ddprun's words come from another thread: each is a line of its own, above the rows.
    def test_the_state_of_a_killed_worker_stays(self):
        self.launch(TWO, FAKE_WORKER, "--on-rank=1", "--print-raw=\\r12%|#|", f"--wait-file={self.path('go')}",
                    "--signal=9", "--always", "--hang")
        self.read_until("[rank 1] 12%|#|")
        self.touch("go")
        lines = self.finish(expect=137)
        self.assertEqual(sum("12%" in line for line in lines), 1, lines)
        self.assertIn("[rank 1] 12%|#|", lines)
        for line in lines:
            self.assertFalse("ddprun |" in line and not line.startswith("ddprun |"), lines)

    def test_one_workers_bytes_are_as_they_are(self):
        for flags in ([], ["--progress-from=auto"]):
            self.launch(*flags, FAKE_WORKER, "--print-raw=\\r10%\\r20%\\n\\rend\\n")
            self.finish()
            self.assertEqual(self.text, "\r10%\r20%\r\n\rend\r\n")


class Keys(OnTerminal):
    # The terminal signals its whole foreground group; only the guard is in it.
    def test_ctrl_c_counts_once(self):
        self.launch(TWO, FAKE_WORKER, "--print=worker %r", "--hang")
        self.read_until(lambda text: text.count("worker") == 2)
        os.write(self.main, b"\x03")
        self.finish(expect=130)
        self.assertEqual(self.text.count("got SIGINT"), 1, self.text)
        self.assertEqual(self.mark.living(), [])

    # breakpoint() in a lone worker: it is in another session, so the terminal does not stop it.
    def test_a_lone_worker_reads_them(self):
        self.launch(FAKE_WORKER, "--print=asks", "--echo-stdin")
        self.read_until("asks")
        os.write(self.main, b"continue\n")
        self.read_until("read: continue")
        self.finish()


# Has a debugger at rank 1.
DEBUGGED = """
import os, sys
rank = os.environ["RANK"]
terminals = [stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)]
print(f"rank {rank} terminals {terminals}")
answer = 42
if rank == "1":
    breakpoint()
print(f"rank {rank} has {answer}")
"""


class AttachedRank(OnTerminal):
    def test_a_debugger_asks_and_is_answered(self):
        for flags in ([], ["--preload=json"]):
            with self.subTest(flags):
                self.launch(TWO, "--attach-rank=1", *flags, self.write("train.py", DEBUGGED))
                for count, words in ((1, b"answer = 6 * 9\n"), (2, b"c\n")):
                    self.read_until(lambda text, count=count: text.count("(Pdb) ") == count)
                    os.write(self.main, words)
                self.finish()
                # python -u writes a line's end by itself: another's words may come before.
                for words in ("rank 1 terminals [True, True, True]", "rank 0 terminals [False, True, True]",
                              "rank 1 has 54", "rank 0 has 42"):
                    self.assertIn(words, self.text)

    def test_where_there_is_no_terminal(self):
        run = self.run_ddprun(TWO, "--attach-rank=1", FAKE_WORKER, expect=2)
        self.assertRegex(run.err(), r"\A[^\n]*ddprun has none[^\n]*\n\Z")


class Lasting(OnTerminal):
    # A helper of the worker's keeps the terminal open: the run ends all the same, and nothing is lost.
    def test_output_before_a_kill(self):
        self.launch(TWO, FAKE_WORKER, "--on-rank=1", "--grandchild", "--lines=2000", "--print-raw=half", "--signal=9",
                    "--always", "--hang")
        lines = self.finish(expect=137)
        found = {int(number) for number in re.findall(r"rank 1 line (\d+) ", self.text)}
        self.assertEqual(len(found), 2000)
        self.assertIn("half", lines)

    def test_a_stopped_terminal_holds_the_workers_alone(self):
        self.launch(TWO, FAKE_WORKER, "--on-rank=0", "--spew=8", "--always", "--print=done", f"--touch={self.path('d.%r')}",
                    "--hang")
        self.wait_until(lambda: os.path.exists(self.path("d.1")))
        self.process.send_signal(signal.SIGTERM)  # Nothing was read so far.
        self.assertEqual(self.process.wait(30), 143)

    def wait_until(self, condition):
        self.assertTrue(eventually(condition))
