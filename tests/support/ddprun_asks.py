"""Operators of a test: verbs that ask a run, and are ended with it."""

import json
import signal

from ddprun_runs import DdprunTest


class Asks(DdprunTest):
    def lines(self, *arguments, expect=0):
        return [json.loads(line) for line in self.ask("logs", "-o", "json", *arguments, expect=expect).out().splitlines()]

    def texts(self, *arguments, expect=0):
        return [line["text"] for line in self.lines(*arguments, expect=expect)]

    def start(self, *arguments, **more):
        run = super().start(*arguments, **more)
        self.addCleanup(self.end, run)
        return run

    def end(self, run):
        for _ in range(2):
            if run.process.poll() is None:
                run.signal(signal.SIGINT)
        try:
            run.wait()
        except AssertionError:
            pass  # The mark's kill is for it.
