"""--http-listen: probes and metrics of every agent, as Kubernetes and Prometheus ask for them."""

import os
import socket
import subprocess
import unittest

from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest

PROMTOOL = os.environ.get("PROMTOOL")  # Empty: it is not there, and nothing is shown by it.
# Time that is lost first counts, and time that is being lost.
LOSSES = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'ddprun_lost_seconds_total{{job="first", cause="worker"}}', values: '0x30 400x60'}}
      - {{series: 'ddprun_losing_seconds{{job="first"}}', values: '0x90'}}
      - {{series: 'ddprun_lost_seconds_total{{job="stands", cause="worker"}}', values: '0x90'}}
      - {{series: 'ddprun_losing_seconds{{job="stands"}}', values: '0x30 0+60x60'}}
      - {{series: 'ddprun_lost_seconds_total{{job="trains", cause="worker"}}', values: '0x30 20x60'}}
      - {{series: 'ddprun_losing_seconds{{job="trains"}}', values: '0x30 5 0x60'}}
    promql_expr_test:
      - {{expr: 'count by (job) (ALERTS{{alertname="DdprunTimeLost"}})', eval_time: 30m, exp_samples: []}}
      - expr: 'count by (job) (ALERTS{{alertname="DdprunTimeLost"}})'
        eval_time: 45m
        exp_samples: [{{labels: '{{job="first"}}', value: 1}}, {{labels: '{{job="stands"}}', value: 1}}]
"""
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
LISTEN = "--http-listen=127.0.0.1:0"


class Watching(DdprunTest):
    def test_a_node_tells_its_run(self):
        run = self.start("--nproc-per-node=2", LISTEN, FAKE_WORKER, HELLO, "--hang")
        self.wait_for(lambda: self.http_get(run, "/readyz") == (200, "running generation 1\n"), run)
        self.assertEqual(self.http_get(run, "/livez"), (200, "the control loop is running\n"))
        self.assertEqual(self.http_get(run, "/passwd")[0], 404)
        told, text = self.metrics(run)
        for name, value in {"ddprun_generation": "1", "ddprun_world_size": "2", "ddprun_workers_alive": "2",
                            "ddprun_worker_starts_total": "2", "ddprun_ready": "1",
                            'ddprun_run_state{state="running"}': "1",
                            'ddprun_nodes{state="running"}': "1",
                            'ddprun_worlds_ended_total{cause="worker"}': "0",
                            'ddprun_nodes_wanted{bound="max"}': "1"}.items():
            self.assertEqual(told.get(name), value, text)
        self.assertNotIn("ddprun_lost_seconds_total{", text, "no step is known")
        if PROMTOOL:
            self.promtool("check metrics", text=text)
        self.terminate(run)

    def promtool(self, what, *files, text=None):
        checked = subprocess.run([PROMTOOL, *what.split(), *files], input=text, text=True,
                                 capture_output=True, timeout=60)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.assertEqual(checked.stderr, "")

    @unittest.skipUnless(PROMTOOL, "without promtool")
    def test_the_alerts_are_prometheus_own(self):
        self.promtool("check rules", os.path.join(EXAMPLES, "metrics", "alerts.yml"))

    @unittest.skipUnless(PROMTOOL, "without promtool")
    def test_an_alert_tells_the_first_loss_and_a_standstill(self):
        self.write("losses.yml", LOSSES.format(rules=os.path.realpath(os.path.join(EXAMPLES, "metrics", "alerts.yml"))))
        self.promtool("test rules", self.path("losses.yml"))

    def test_a_node_that_waits_is_alive_and_not_ready(self):
        run = self.start("--nnodes=2", f"--rdzv-endpoint={self.endpoint}", LISTEN, FAKE_WORKER, "--exit=0")
        self.wait_for(lambda: "1 of 2 are here" in self.http_get(run, "/readyz")[1], run)
        self.assertEqual(self.http_get(run, "/readyz")[0], 503)
        self.assertEqual(self.http_get(run, "/livez")[0], 200)
        told, text = self.metrics(run)
        self.assertEqual(told['ddprun_nodes{state="ready"}'], "1", text)
        self.assertGreaterEqual(float(told["ddprun_wait_seconds"]), 0)
        self.terminate(run)

    def test_a_bad_place_is_said_before_anything_starts(self):
        for place in ("8080", "somewhere", "127.0.0.1:99999", "127.0.0.1:", ":x"):
            run = self.run_ddprun(f"--http-listen={place}", FAKE_WORKER, expect=2)
            self.assertIn("--http-listen must be HOST:PORT or :PORT", run.err())
        with socket.create_server(("127.0.0.1", 0)) as taken:
            run = self.start(f"--http-listen=127.0.0.1:{taken.getsockname()[1]}", FAKE_WORKER, "--exit=0")
            self.assertNotEqual(run.wait(), 0)
            self.assertRegex(run.err(), r"--http-listen.*in use by process \d+")
