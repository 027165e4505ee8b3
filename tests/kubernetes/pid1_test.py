"""ddprun as PID 1 of a container whose root cannot be written and whose /dev/shm is small."""

import unittest

from kubelet import GO, KubeletTest

from ddprun_runs import FAKE_WORKER, HELLO, children_of, command_of, read_text
from networks import namespaces_work

WAITING = f"{FAKE_WORKER} --exit-on-term=75 --notify=READY=1 '{HELLO}' --wait-file={GO}"


def zombies_of(pid):
    """Below this process."""
    found = []
    for child in children_of(pid):
        stat = read_text(f"/proc/{child}/stat")
        if stat and stat.rsplit(")", 1)[1].split()[0] == "Z":
            found.append(stat)
        found += zombies_of(child)
    return found


@unittest.skipUnless(namespaces_work(), "no namespaces without root")
class FirstProcess(KubeletTest):
    addresses = 1

    def start_pod(self, script):
        self.apply("--nodes=1", worker=("sh", "-c", script))
        return self.create(0)

    def test_orphans_are_reaped_while_it_runs(self):
        pod = self.start_pod("for i in 1 2 3; do (setsid sh -c 'echo up >> /ckpt/up; exec sleep 0.1' &); "
                             f"done; exec {WAITING}")
        self.wait_for(lambda: read_text(self.path("ckpt", "up")).count("up") == 3, pod.run)
        self.wait_for_workers(pod.run, 1)
        first = pod.first()
        # Its own command line has the word too.
        self.wait_for(lambda: not [pid for pid in self.mark.living("sleep 0.1")
                                   if command_of(pid).startswith("sleep")], pod.run, what="orphans end")
        self.wait_for(lambda: not zombies_of(first), pod.run, what="no zombie")
        self.end()

    def test_a_process_that_a_worker_leaves_ends_with_it(self):
        pod = self.start_pod("(setsid sleep 1000 &); (setsid sh -c 'trap \"\" TERM; sleep 1001' &); exit 0")
        self.assertEqual(pod.run.wait(), 0, pod.run.all())
        self.assertEqual(self.mark.living("sleep 100"), [])

    def test_term_reaches_the_workers_and_its_code_comes_back(self):
        pod = self.start_pod(f"exec {WAITING}")
        self.wait_for_workers(pod.run, 1)
        pod.term()
        self.assertEqual(pod.run.wait(), 75, pod.run.all())

    def test_given_up_is_the_code_that_fails_the_job(self):
        pod = self.start_pod("exit 3")
        self.assertEqual(pod.run.wait(60), 93, pod.run.all())
        [rules] = [thing["spec"]["podFailurePolicy"]["rules"] for thing in self.things
                   if thing["kind"] == "Job"]
        self.assertIn(93, rules[1]["onExitCodes"]["values"])
