"""ddprun's own facts of each node's GPUs (--host-check): with a driver that is made up."""

import os

from ddprun_nodes import MeetingNodes
from ddprun_runs import FAKE_WORKER, HELLO, read_text

DRIVER = os.environ.get("FAKE_NVML_LIBRARY", "")
WELL = "count 2"
LOST = "count 2\ngpu 1 answer 15"
WHY = "GPU 1 (GPU-1000): has fallen off the bus (host check; leave it out with --gpu-ids)"
NEVER_SEEN = "GPU 1: has fallen off the bus (host check; leave it out with --gpu-ids)"


class Machines(MeetingNodes):
    def replace(self, *names_and_text):
        *names, text = names_and_text
        os.makedirs(os.path.dirname(self.path(*names)), exist_ok=True)
        with open(self.path(*names) + ".new", "w") as file:
            file.write(text + "\n")
        os.rename(self.path(*names) + ".new", self.path(*names))

    def gpus(self, i, state):
        self.replace("host", str(i), "gpus", state)
        self.replace("host", str(i), "dev/nvidiactl", "")

    def around(self, i):
        return {"DDPRUN_HOST_ROOT": self.path("host", str(i)), "LD_LIBRARY_PATH": DRIVER,
                "FAKE_NVML": self.path("host", str(i), "gpus")}


class Nodes(Machines):
    def three(self):
        for i in range(3):
            self.gpus(i, WELL)
        return super().three()

    def test_the_users_own_check_is_asked_where_the_facts_refuse_no_node(self):
        self.gpus(0, WELL)
        self.gpus(1, LOST)
        asked = self.path("asked")
        check = f"--node-check=echo $FAKE_NVML >> {asked}; echo no disk; false"
        runs = [self.serve(check, "--rdzv-conf=join_timeout=2"),
                self.join(1, check, "--rdzv-conf=join_timeout=2")]
        self.all_end(runs, 69)
        self.assertIn("(node check: no disk), ", runs[0].err())
        self.assertIn(f"(node check: {NEVER_SEEN})", runs[0].err())
        self.assertEqual(set(read_text(asked).split()), {self.path("host/0/gpus")})

    # All that takes the pace of looks, in one test.
    def test_a_fact_that_turns_bad_or_well_while_all_run_is_reported(self):
        first, second, spare = self.three()
        self.wait_for(lambda: all(node["facts"] for node in self.nodes()), first, second, spare)
        self.assertIn("clock", [f["name"] for n in self.nodes() for f in n["facts"]])
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        self.gpus(0, WELL + "\nxid 1 74")
        self.gpus(1, f"hang {fifo}")
        self.gpus(2, LOST)
        wanted = ("gpu1 Xid 74", "gpus their driver has not answered")
        self.wait_for(lambda: all(any(w in text for text in self.told("host_bad")) for w in wanted),
                      first, second, spare)
        self.wait_for(lambda: self.node("unfit"), first, second, spare)  # The spare, before a world has it.
        self.assertEqual(self.node("unfit")["reason"], WHY)
        self.assertRegex(self.ask("status", f"--endpoint={self.endpoint}").out(),
                         r" running .*gpu1 Xid 74")
        self.gpus(1, WELL)
        answers = os.open(fifo, os.O_RDWR)  # Which waits for no reader.
        self.addCleanup(os.close, answers)
        os.write(answers, b"now")
        self.wait_for(lambda: any("gpus is well again" in text for text in self.told("host_good")),
                      first, second, spare)
        self.assertEqual(first.generations(), [1])
        self.finish(first, second, spare)


class OneNode(Machines):
    def alone(self, *flags, expect=0):
        return self.ask(*flags, FAKE_WORKER, HELLO, environment=self.around(0), expect=expect)

    def test_observe_and_off_refuse_no_node(self):
        self.gpus(0, LOST)
        self.assertEqual(len(self.alone("--host-check=observe").workers()), 1)
        self.assertEqual(len(self.alone("--host-check=off").workers()), 1)
        run = self.ask("--host-check=no", FAKE_WORKER, expect=2)
        self.assertIn("--host-check must be on, observe or off: 'no'", run.err())

    # Seconds, not for ever; and the end waits for no process.
    def test_a_driver_that_hangs_delays_the_start_and_is_left_behind(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        self.gpus(0, f"hang {fifo}")
        self.assertEqual(len(self.alone().workers()), 1)
