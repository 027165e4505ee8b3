"""Pages do what they say: each command of a page is run in a terminal of its own, in the page's order.

A block of `output` must then be printed, line by line, by one of them; numbers of several digits and the machine's name
may differ. The only thing replaced is pkill, which here sees the page's own processes alone.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from ddprun_runs import eventually

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DDPRUN = os.environ["DDPRUN"]
HOST = socket.gethostname().split(".")[0]
INSTALLED = "pip install ddprun-*.whl"  # As it is here.
LAUNCH = re.compile(r"ddprun -(?!-dry-run)")
# A thread of Gloo may forget a collective only once the interpreter ends: it asks for the GIL, which ends the process by
# SIGABRT (pytorch/pytorch#179291). On a busy machine that befell 1 of 25 runs of examples/ddp.py.
TORCH_ABORTED = "terminate called without an active exception"
CONTINUES = re.compile(rf"{LAUNCH.pattern}|torchft_lighthouse |tail -F ")  # While the page continues.
PKILL = f"""#!{sys.executable}
import os, sys
found = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    read = lambda name, pid=pid: open(f"/proc/{{pid}}/{{name}}", "rb").read()
    stat = lambda pid=pid: read("stat", pid).rsplit(b")")[-1].split()
    exe = lambda pid: os.readlink(f"/proc/{{pid}}/exe")
    try:
        own = b"TUTORIAL=" + os.environb[b"TUTORIAL"] in read("environ").split(b"\\0")
        # A process that another one has just forked is not meant, as one without a program of its own. Asked before the name,
        # which it has from its parent until then. An agent has no other program than its guard.
        parent = int(stat()[1])
        forked = exe(pid) == exe(parent) and (sys.argv[3] == "-f" or exe(pid) == exe(int(stat(parent)[1])))
        name = read("comm").decode().strip() if sys.argv[3] == "-x" else read("cmdline").replace(b"\\0", b" ").decode()
        same = name == sys.argv[4] if sys.argv[3] == "-x" else sys.argv[4] in name
        if own and same and not forked and int(pid) not in (os.getpid(), os.getppid()):
            found.append((int(stat()[19]), int(pid)))
    except OSError:
        pass
assert sys.argv[1:3] == ["-KILL", "-n"] and found, (sys.argv, found)
os.kill(max(found)[1], 9)
"""


def blocks(text):
    """[("file", "commands" or "output", lines)] of a page, in their order. A file's first line has its name."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M)
    kinds = {"": "commands", "output": "output", "python": "file"}
    return [(kinds[language], text.splitlines()) for language, text in found if language in kinds]


def pattern(line):
    """A line of output as it looks elsewhere: ranks and generations, which have one digit, are the same."""
    parts = re.split(r"(\d[\d.]+|\bvm\b)", line)
    return "".join(re.escape(part) if number % 2 == 0 else re.escape(HOST) if part == "vm" else r"\d[\d.]*"
                   for number, part in enumerate(parts))


class Terminal:
    def __init__(self, command, folder, environment):
        self.command, self.lines, self.seen = command, [], 0
        self.process = subprocess.Popen(["bash", "-c", command], cwd=folder, env=environment, text=True, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        self.reader.start()

    def prints(self, wanted):
        """Whether it has printed them in this order, after what was found before."""
        at = self.seen
        for line in wanted:
            at = next((n for n in range(at, len(self.lines)) if re.search(pattern(line), self.lines[n])), None)
            if at is None:
                return False
            at += 1
        self.seen = at
        return True

    def wait(self, limit):
        code = self.process.wait(limit)
        self.reader.join(limit)
        self.process.stdout.close()
        return code


class PageTest(unittest.TestCase):
    limit = 120  # Seconds for a command, and for what a block prints.

    def setUp(self):
        super().setUp()
        home = tempfile.TemporaryDirectory(prefix="tutorial_")
        self.addCleanup(home.cleanup)
        self.folder, self.terminals = home.name, []
        with open(os.path.join(self.folder, "pkill"), "w", encoding="utf-8") as file:
            file.write(PKILL)
        os.chmod(file.name, 0o700)
        places = [self.folder, os.path.dirname(DDPRUN), os.path.dirname(sys.executable), os.environ["PATH"]]
        self.environment = {"PATH": ":".join(places), "HOME": self.folder, "XDG_RUNTIME_DIR": self.folder, "LANG": "C.UTF-8",
                            "TUTORIAL": os.path.basename(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        self.addCleanup(self.end)

    def end(self):
        for terminal in self.terminals:
            if terminal.process.poll() is None:
                terminal.process.send_signal(signal.SIGTERM)
                terminal.wait(self.limit)

    def run_command(self, line):
        line = re.sub(r"\bvm\b", HOST, line)
        terminal = Terminal(line, self.folder, self.environment)
        self.terminals.append(terminal)
        if CONTINUES.match(line):
            return
        code, terminal = self.finish(terminal)
        self.assertEqual(code, 0, f"{line}\n{''.join(terminal.lines)}")
        self.assertTrue(terminal.lines or not line.startswith("ddprun ") or ">" in line, f"{line} printed nothing")

    def finish(self, terminal):
        """Its exit code, and the terminal that it is of: another one, where torch aborted a worker that was done."""
        code = terminal.wait(self.limit)
        if code in (1, 128 + signal.SIGABRT) and TORCH_ABORTED in "".join(terminal.lines):  # torchrun's code, and ddprun's.
            terminal = Terminal(terminal.command, self.folder, self.environment)
            self.terminals.append(terminal)
            code = terminal.wait(self.limit)
        return code, terminal

    def expect(self, lines):
        found = eventually(lambda: any(terminal.prints(lines) for terminal in reversed(self.terminals)), self.limit)
        self.assertTrue(found, "not printed: " + "\n".join(lines) + "\n" + self.transcript())

    def transcript(self):
        return "\n".join(f"--- {terminal.command}\n{''.join(terminal.lines)}" for terminal in self.terminals)

    def play(self, page, since="", until="", instead=()):
        """`since`, `until`: headings. `instead`: (address of the page, one that no other test uses). Exit codes of its
        launches."""
        with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
            text = file.read()
        text = text[text.index(since):text.index(until) if until else None]
        for address, free in instead:
            self.assertIn(address, text)
            text = text.replace(address, free)
        for kind, lines in blocks(text):
            if kind == "output":
                self.expect(lines)
            elif kind == "file":
                with open(os.path.join(self.folder, lines[0].removeprefix("# ")), "w", encoding="utf-8") as file:
                    file.write("\n".join(lines) + "\n")
            else:
                for line in lines:
                    if line != INSTALLED:
                        self.run_command(line)
        return [self.finish(terminal)[0] for terminal in list(self.terminals) if LAUNCH.match(terminal.command)]
