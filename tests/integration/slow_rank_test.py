"""A rank that needs longer than most for each step is named: in status, in JSON, in metrics, in a line."""

import re
import signal
import sys
import textwrap

from ddprun_runs import DdprunTest

# Takes WORKS[rank] or 40 ms by itself (it says so: no test waits for it), and then stands.
WORKER = textwrap.dedent("""
    import os, random, signal, socket, sys, time
    rank, steps = int(os.environ["RANK"]), int(sys.argv[1])
    works = dict(pair.split(":") for pair in sys.argv[2:])
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    agent.connect(os.environ["DDPRUN_NOTIFY_SOCKET"])
    agent.send(b"READY=1")
    random.seed(rank)
    for step in range(1, steps + 1):
        if str(rank) in works:
            work = int(works[str(rank)])
        else:
            work = random.randint(30_000, 44_000) if step % 97 else 400_000  # Now and then it is held up.
        agent.send(f"STEP={step}\\nWORK_USEC={work}".encode())  # Waits where the agent has not read yet.
    print("told", rank, flush=True)
    signal.pause()
""")


class SlowRank(DdprunTest):
    def start_ranks(self, steps, *works):
        run = self.start(f"--rdzv-id={self.run_id}", "--nproc-per-node=8", "--http-listen=127.0.0.1:0",
                         sys.executable, "-c", WORKER, str(steps), *works)
        self.addCleanup(self.end, run)
        self.wait_for(lambda: run.out().count("told") == 8, run)
        self.wait_for(lambda: self.status()["step"] == steps, run)
        return run

    def end(self, run):
        if run.process.poll() is None:
            run.signal(signal.SIGTERM)
        run.wait()

    def test_it_is_named_within_twenty_steps(self):
        run = self.start_ranks(21, "5:60000")  # When the first step began is unknown.
        slow = self.wait_for(lambda: self.status()["slow_ranks"], run)
        self.assertEqual([(one["rank"], one["work_seconds"]) for one in slow], [(5, 0.06)])
        status = self.status()
        self.assertTrue(0.03 <= status["usual_work_seconds"] <= 0.044, status)
        self.assertEqual(status["nodes"][0]["ranks"]["work_seconds"][5], 0.06)
        self.wait_for(lambda: [e for e in self.status()["events"] if e["kind"] == "slow_rank"], run)
        line = r"rank 5 on \S+ is slow: each of its last 20 steps took it 60 ms or more by itself, most ranks 3\d ms"
        self.wait_for_text(run, line)
        self.assertEqual(len(re.findall(line, run.err())), 1, run.err())
        shown = self.ask("status")
        self.assertRegex(shown.out(), "(?m)^" + line + "$")
        told, _ = self.metrics(run)
        self.assertEqual(told["ddprun_slow_ranks"], "1")
        self.assertEqual(told["ddprun_slow_rank"], "5")
        self.assertEqual(told['ddprun_step_work_seconds{stat="max"}'], "0.06")
