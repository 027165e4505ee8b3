"""What happens to pods happens to a run: the manifests' own words, in namespaces that are as pods are."""

import os
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from kubelet import KubeletTest  # noqa: E402

from networks import namespaces_work  # noqa: E402

SLACK = 2.0  # Of a bar: the machine is shared with other tests.


@unittest.skipUnless(namespaces_work(), "no network namespaces without root")
class Pods(KubeletTest):
    def told(self):
        return "\n".join(run.all() for run in self.runs())

    def grown(self, count, *flags):
        """A world of `count` pods of an elastic Job."""
        self.apply(*(flags or ("--nodes=2:4",)))
        for index in range(count):
            self.create(index, nnodes=4)
        return self.world(count)

    def test_a_pod_is_evicted_and_comes_again(self):
        first = self.grown(4)
        evicted = self.pods[1]
        others = [pod for pod in self.pods if pod is not evicted]
        begin = time.monotonic()
        evicted.term()
        second = self.world(3, after=first, pods=others)
        took = time.monotonic() - begin
        print(f"the others trained on after {took:.2f} s", file=sys.stderr)
        self.assertLess(took, 1.0 * SLACK, self.told())
        self.assertEqual(evicted.run.wait(), 75, evicted.run.all())
        self.gone(evicted)
        self.create(1)
        self.world(4, after=second)
        self.assertNotIn("charged: 1", self.told())
        for pod in others:
            self.assertRegex(pod.run.err(), "not charged|a node leaves")
        self.end()

    def test_pod_0_is_replaced_with_another_address(self):
        first = self.grown(4)
        evicted, others = self.pods[0], self.pods[1:]
        begin = time.monotonic()
        evicted.term()
        second = self.world(3, after=first, pods=others)
        took = time.monotonic() - begin
        print(f"went on without pod 0 after {took:.2f} s", file=sys.stderr)
        self.assertLess(took, 5.0 * SLACK, self.told())
        self.assertEqual(evicted.run.wait(), 75, evicted.run.all())
        self.gone(evicted)
        self.create(0)
        third = self.world(4, after=second)
        for pod in others:  # Once without it, once with it again; never twice for one of these.
            self.assertEqual(pod.run.generations(), [first, second, third], self.told())
        self.end()

    def test_a_patch_makes_it_grow(self):
        self.addresses = 8
        first = self.grown(2, "--nodes=2:4")
        for index in (2, 3):
            self.create(index)
        self.world(4, after=first)
        self.end()

    def test_the_grace_is_exceeded(self):
        worker_ignores = ("--nodes=2:4", "--grace=100")
        first = self.grown(3, *worker_ignores)
        lost, others = self.pods[2], self.pods[:2]
        lost.kill()
        self.world(2, after=first, pods=others)
        lost.run.process.wait()
        self.gone(lost)
        self.create(2)
        self.world(3, after=first)
        self.end()

    def test_a_container_is_started_again_in_its_pod(self):
        first = self.grown(3)
        lost = self.pods[2]
        lost.kill()
        lost.run.process.wait()
        self.pods.remove(lost)
        self.create(2, address=lost.machine)
        self.world(3, after=first)
        self.end()


if __name__ == "__main__":
    unittest.main(verbosity=2)
