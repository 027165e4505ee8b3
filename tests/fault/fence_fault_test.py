"""Workers of a world that others have left behind: killed by their own node where it was asked
to (--fence-after), and harmless where they continue."""

import os
import signal
import sys
import textwrap

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest, kill_all, lease, read_text
from tcp_proxy import TcpProxy

# Speaks to the store of its generation, says so, and once more when it is asked to.
STORE_CLIENT = textwrap.dedent("""
    import os, select, socket, struct, sys
    def text(value):
        return struct.pack("<Q", len(value)) + value
    print("worker", os.environ["RANK"], os.environ["DDPRUN_GENERATION"], os.getpid(), flush=True)
    where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    store = socket.create_connection(where, 30)
    store.sendall(b"\\0" + struct.pack("<I", 0x3C85F7CE) + b"\\1" + text(b"key") + text(b"value"))
    store.sendall(b"\\3" + text(b"key"))
    print("store says", store.recv(64), flush=True)
    go = sys.argv[1]
    while not os.path.exists(go):
        select.select([], [], [], 0.005)
    for name, attempt in (("old", lambda: store), ("new", lambda: socket.create_connection(where, 30))):
        try:
            one = attempt()
            one.sendall(b"\\1" + text(b"late") + text(b"x") + b"\\3" + text(b"late"))
            print(name, "connection:", "open" if one.recv(64) else "closed", flush=True)
        except OSError as error:
            print(name, "connection: closed", error, flush=True)
""")


class Fences(DdprunTest):
    def setUp(self):
        super().setUp()
        self.run_directory_stays = True  # A killed agent cannot remove its own.

    def start_node(self, endpoint, *arguments):
        return self.start("--nnodes=1:2", f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={endpoint}",
                          "--rdzv-conf=last_call_timeout=0.3", *arguments)

    def worker(self):
        return (FAKE_WORKER, HELLO, f"--wait-file={self.go}")

    def world_of_two(self, first, second, after=0):
        return self.wait_for_world([first, second], 2, after)

    @staticmethod
    def stat(pid):
        """From the state on; the last field is the wait status of a zombie."""
        return read_text(f"/proc/{pid}/stat").rsplit(") ", 1)[-1].split()

    def lives(self, pid):
        return pid in self.mark.living()

    def stop_node(self, node):
        """As a frozen machine: agent, guard and worker."""
        pids = [*node.workers().values(), node.agent(), node.process.pid]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        return pids

    def test_a_node_that_is_cut_off_kills_its_workers_before_others_take_their_place(self):
        seconds = 2 * lease("kLongLease")
        fence = f"--fence-after={seconds}"
        first = self.start_node(self.endpoint, "--node-rank=0", fence, *self.worker())
        self.wait_for_text(first, "serving the rendezvous at")
        proxy = TcpProxy(self.endpoint)
        self.addCleanup(proxy.close)
        second = self.start_node(proxy.endpoint, "--node-rank=1", fence, *self.worker())
        generation = self.world_of_two(first, second)
        (cut_off,) = second.workers(generation).values()
        proxy.set("stall")
        self.wait_for(lambda: max(first.generations()) > generation, first, second, what="the next world")
        self.assertFalse(self.lives(cut_off), first.all() + second.all())
        self.assertRegex(second.err(), rf"has not answered for {seconds} s \(--fence-after\): killing the workers")
        self.assertIn("will not be replaced for ", first.err())
        proxy.set("pass")
        self.world_of_two(first, second, after=generation)
        open(self.go, "w").close()
        self.assertEqual([first.wait(), second.wait()], [0, 0], first.all() + second.all())

    def next_generation(self, node, after):
        """Its only worker dies; the next one takes its place."""
        kill_all(node.workers().values())
        return self.wait_for(lambda: max((g for g in node.generations() if g > after), default=None), node,
                             what=f"a generation after {after}")

    def test_a_worker_that_slept_through_two_generations_reaches_no_store(self):
        program = self.write("client.py", STORE_CLIENT)
        python = ("--max-restarts=3", "--no-python", sys.executable, program, self.go)
        first = self.start_node(self.endpoint, *python)
        self.wait_for_text(first, "serving the rendezvous at")
        sleeper = self.start_node(self.endpoint, *python)
        generation = self.world_of_two(first, sleeper)
        self.wait_for(lambda: "store says" in sleeper.out(), sleeper, what="the store's answer")
        pids = self.stop_node(sleeper)
        after = self.wait_for(lambda: max(first.generations()) > generation and max(first.generations()),
                              first, what="a generation without the sleeper")
        self.next_generation(first, after)
        output = sleeper.paths["out"]
        open(self.go, "w").close()
        os.kill(pids[0], signal.SIGCONT)  # The worker alone: its agent would end it.
        # Its output goes through its agent, which sleeps on; all of it is there when it ends.
        self.wait_for(lambda: self.stat(pids[0])[0] == "Z", first, what="the sleeper's end")
        for pid in pids[1:]:
            os.kill(pid, signal.SIGCONT)
        said = self.wait_for(lambda: (t := read_text(output)) and "new connection" in t and t, sleeper,
                             what="the sleeper's words")
        self.assertIn("old connection: closed", said)
        self.assertIn("new connection: closed", said)
        self.assertEqual(first.wait(), 0, first.all() + sleeper.all())
        sleeper.signal(signal.SIGTERM)  # The server has gone, perhaps before it was back.
        sleeper.wait()
