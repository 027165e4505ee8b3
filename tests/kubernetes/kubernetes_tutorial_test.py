"""The tutorial of Kubernetes does what it says of ddprun (tests/support/tutorials.py): pods are made of its manifest, and
kubectl is replaced by what kubelet and the Job's controller then do."""

import os
import re
import unittest

from judges import judge
from kubelet import KubeletTest
from manifests import container_of, objects

from networks import namespaces_work
from tutorials import PageTest


@unittest.skipUnless(namespaces_work(), "no network namespaces without root")
class KubernetesTutorial(PageTest, KubeletTest):
    def pod(self, index):
        return next(pod for pod in self.pods if pod.index == index)

    def run_command(self, line):
        verb = re.match(r"kubectl (\w+ \S+)|", line)[1]
        if verb in ("delete pod", "delete job"):  # A reader takes longer than a pod, which has nothing to save as it starts.
            self.wait_for(self.all_train, *self.runs(), what="steps of all pods")
        if verb == "apply -f":
            with open(os.path.join(self.folder, line.split()[-1]), encoding="utf-8") as file:
                self.things = objects(file.read())
            for thing in self.things:
                judge(thing)
            self.container, self.kind = container_of(self.things), self.things[-1]["kind"]
            for index in range(self.things[-1]["spec"]["completions"]):
                self.create(index)
        elif verb == "logs -f":
            paths = self.pod(self.index_of(line)).run.paths.values()
            super().run_command("tail -F --lines=+1 " + " ".join(paths))
        elif verb == "patch job":
            for index in range(len(self.pods), int(re.search(r'"completions": (\d+)', line)[1])):
                self.create(index)
        elif verb == "delete pod":
            evicted = self.pod(self.index_of(line))
            evicted.term()
            self.assertEqual(evicted.run.wait(), 75, evicted.run.all())
            self.gone(evicted)
            self.create(evicted.index)
        elif verb == "delete job":
            for pod in self.pods:
                pod.term()
            self.all_end([pod.run for pod in self.pods], 75)
        else:
            super().run_command(line)

    def all_train(self):
        newest = self.pod(0).run.err().rpartition("started rank 0 of ")[2]
        return newest.startswith(f"{len(self.pods)} ") and "\nepoch " in newest

    def index_of(self, line):
        """Of a pod that is chosen by its labels; its name has a random end."""
        return int(re.search(r" -l job-name=train,batch\.kubernetes\.io/job-completion-index=(\d+)$", line)[1])

    def test_first_kubernetes_job(self):
        self.play("first-kubernetes-job.md")
