"""Events of pods are events of a run: the manifests' own words, in namespaces that are as pods are."""

import os
import subprocess
import sys
import unittest

from kubelet import GO, KubeletTest

from ddprun_runs import FAKE_WORKER, HELLO
from networks import namespaces_work


@unittest.skipUnless(namespaces_work(), "no network namespaces without root")
class Pods(KubeletTest):
    def told(self):
        return "\n".join(run.all() for run in self.runs())

    def grown(self, count, *flags):
        """A world of `count` pods of an elastic Job."""
        self.apply(*flags)
        for index in range(count):
            self.create(index, nnodes=4)
        return self.world(count)

    # The workers do not end, ddprun waits for them, kubelet does not wait for ddprun.
    def test_the_grace_is_exceeded(self):
        self.apply("--nodes=2:4", "--grace=8", worker=(
            FAKE_WORKER, "--ignore-term", "--notify=READY=1", HELLO, f"--wait-file={GO}"))
        for index in range(3):
            self.create(index)
        first = self.world(3)
        lost, others = self.pods[2], self.pods[:2]
        lost.term()
        self.wait_for_text(lost.run, "got SIGTERM from the scheduler")
        lost.kill()
        self.world(2, after=first, pods=others)
        lost.run.process.wait()
        self.gone(lost)
        self.create(2)
        self.world(3, after=first)
        self.end()

    # The Job is deleted, or suspended by a queue: each pod hears of it by itself.
    def test_all_are_evicted_and_come_again(self):
        for flags in (("--nodes=2:3",), ("--nodes=3",)):
            with self.subTest(flags):
                self.uid = str(flags)
                self.grown(3, *flags)
                for pod in self.pods:  # Of a fixed number the first one's leave ends all.
                    pod.term()
                for pod in self.pods:
                    self.assertEqual(pod.run.wait(), 75, self.told())
                for pod in list(self.pods):
                    self.gone(pod)
                for index in range(3):
                    self.create(index)
                self.world(3)
                self.end()
                os.remove(self.path("ckpt", "go"))
                for pod in list(self.pods):
                    self.gone(pod)

    # Static by its variables, elastic and with a server that moves by its command.
    def test_a_trainjob_outlives_its_first_pod(self):
        first = self.grown(4, "--trainjob", "--nodes=3:4")
        evicted, others = self.pods[0], self.pods[1:]
        evicted.term()
        second = self.world(3, after=first, pods=others)
        self.assertEqual(evicted.run.wait(), 75, evicted.run.all())
        self.gone(evicted)
        self.create(0, nnodes=4)
        third = self.world(4, after=second)
        for pod in others:
            self.assertEqual(pod.run.generations(), [first, second, third], self.told())
        self.end()

    # Of a JobSet pods are named otherwise, and found all the same; probes say ready.
    def test_a_jobset_is_found_and_ready(self):
        self.grown(3, "--jobset", "--nodes=3")
        for pod in self.pods:
            for probe in ("readinessProbe", "livenessProbe"):
                asked = self.container[probe]["httpGet"]
                url = f"http://{self.network.address(pod.machine)}:{asked['port']}{asked['path']}"
                get = f"import urllib.request as u; print(u.urlopen('{url}', timeout=10).status)"
                told = subprocess.run(self.network.on_machine(0, [sys.executable, "-c", get]),
                                      capture_output=True, text=True, check=False)
                self.assertEqual(told.stdout, "200\n", told.stderr)
        self.end()
