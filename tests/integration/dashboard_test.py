"""examples/metrics/dashboard.json: of metrics that there are, in Prometheus' language, and each panel shows a real run."""

import json
import os
import re
import subprocess
import unittest

from ddprun_runs import FAKE_WORKER, DdprunTest
from watching_test import PROMTOOL

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# Grafana's own settings.
GIVEN = {"__range": "5m"}


def read(name):
    with open(os.path.join(ROOT, name)) as file:
        return file.read()


def known_metrics():
    """name -> its labels, by the product's own table."""
    table = subprocess.run([os.environ["DDPRUN_REFERENCE"], "metrics"], check=True, capture_output=True, text=True).stdout
    return {name: set(labels.replace(" ", "").split(",")) - {""}
            for name, labels in re.findall(r"^\| `(\w+)` \| \w+ \| ([\w, ]*) \|", table, re.M)}


class Dashboard(unittest.TestCase):
    board = json.loads(read("examples/metrics/dashboard.json"))

    def targets(self):
        """(name, expression, legend) of each."""
        return [(f"panel_{panel['id']}_{target['refId']}", target["expr"], target["legendFormat"])
                for panel in self.board["panels"] for target in panel["targets"]]

    def test_it_names_only_metrics_and_labels_that_there_are(self):
        known = known_metrics()
        self.assertGreater(len(known), 20)
        for name, expression, legend in self.targets():
            metrics = set(re.findall(r"\bddprun_\w+", expression))
            self.assertTrue(metrics, name)
            self.assertEqual(metrics - known.keys(), set(), name)
            labels = set().union(*(known[metric] for metric in metrics)) | {"job", "instance"}
            asked = {word.strip() for group in re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)|\{\{(\w+)\}\}",
                                                          expression + legend) for word in ",".join(group).split(",")}
            self.assertEqual(asked - labels - {""}, set(), name)

    def test_each_expression_is_of_the_chosen_run(self):
        variables = {variable["name"] for variable in self.board["templating"]["list"]}
        self.assertEqual(variables, {"datasource", "run"})
        for name, expression, _ in self.targets():
            self.assertIn('ddprun_run_info{run="$run"}', expression, name)
            self.assertEqual(set(re.findall(r"\$\{?(\w+)", expression)) - {"run", *GIVEN}, set(), name)
        source = {"type": "prometheus", "uid": "${datasource}"}
        for panel in self.board["panels"]:
            self.assertEqual([source] * (1 + len(panel["targets"])),
                             [panel["datasource"], *(target["datasource"] for target in panel["targets"])])


def chosen(expression, run):
    for name, value in {**GIVEN, "run": run}.items():
        expression = expression.replace("$" + name, value)
    return expression


@unittest.skipUnless(PROMTOOL, "without promtool")
class Shown(DdprunTest):
    def promtool(self, *arguments):
        told = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)

    # And nothing of a run that is not chosen.
    def test_each_panel_shows_a_run_that_has_recovered(self):
        run = self.start("--nproc-per-node=2", "--max-restarts=3", "--rdzv-id=demo", "--http-listen=127.0.0.1:0",
                         FAKE_WORKER, "--steps=2", "--on-restart=0", "--on-rank=1", "--exit=3", "--always", "--hang")
        def recovered():
            _, text = self.metrics(run)
            return text if 'phase="first_step"' in text and 'ddprun_worlds_ended_total{cause="worker"} 1' in text and \
                "ddprun_last_step 2" in text and "ddprun_node_step{" in text else ""
        text = self.wait_for(recovered, run)
        self.terminate(run)
        # The metrics of a scheduler alone.
        series = re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text + "ddprun_job_seconds_left 100\n", re.M)
        known = known_metrics()
        self.assertEqual({name for name, _, _ in series} - known.keys(), set())
        tests = []
        for name, expression, _ in Dashboard("targets").targets():
            for of, shown in (("demo", 1), ("another", 0)):
                count = f"(count({chosen(expression, of)}) or vector(0)) > bool 0"
                tests.append({"expr": count, "eval_time": "10m", "exp_samples": [{"labels": "{}", "value": shown}]})
        self.promtool("test", "rules", self.write("shown.yml", json.dumps({  # JSON is YAML.
            "evaluation_interval": "15s",
            "tests": [{
                "interval": "15s",
                "input_series": [{"series": f'{name}{{{labels + "," if labels else ""}job="j",instance="i"}}',
                                  "values": f"{value}+0x60"} for name, labels, value in series],
                "promql_expr_test": tests}]})))
