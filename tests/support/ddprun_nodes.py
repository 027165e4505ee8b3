"""Nodes that meet in one run of a test: a launch each, whose workers end when a file is there."""

from ddprun_asks import Asks
from ddprun_runs import FAKE_WORKER, HELLO


class MeetingNodes(Asks):
    # The variables of node i.
    def around(self, i):
        raise NotImplementedError

    def join(self, i, *flags, nnodes="2:2"):
        return self.start(
            f"--nnodes={nnodes}", f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={self.endpoint}",
            "--max-restarts=3", *flags, FAKE_WORKER, HELLO, f"--wait-file={self.go}",
            environment=self.around(i))

    def serve(self, *flags, **how):
        first = self.join(0, *flags, **how)
        self.wait_for_text(first, "serving the rendezvous")
        return first

    # Two that train and a spare.
    def three(self):
        runs = [self.serve()]
        runs.append(self.join(1))
        for run in runs:
            self.wait_for_workers(run, 1, 1)
        runs.append(self.join(2))
        self.wait_for(lambda: self.node("spare"), *runs)
        return runs

    def nodes(self):
        told = self.status(self.endpoint)
        return told["nodes"] if told else []

    # One that is in this state.
    def node(self, state):
        return next((node for node in self.nodes() if node["state"] == state), None)

    # Texts of events of these kinds.
    def told(self, *kinds):
        return [event["text"] for event in self.status(self.endpoint)["events"] if event["kind"] in kinds]

    def finish(self, *runs):
        open(self.go, "w").close()
        self.all_end(runs)
