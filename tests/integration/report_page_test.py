"""The page that a run leaves, opened from its file in a real browser, as who comes afterwards does.

PAGE_SHOTS=DIRECTORY keeps screenshots there.
"""

import os
import re
import subprocess
import time

from selenium.webdriver.common.by import By

from browser import DARK, BrowserTest
from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, LIMIT, eventually, page_data

HOSTILE = "</script><script>document.title='taken'</script><!--<script>"
LOOK = 1.0  # Seconds between two looks of the server at the ranks, for the report (kPeriod of launcher/evidence/report_file.h).
STEPS = ("--notify=READY=1\nPHASE=<img src=x onerror=alert(1)>", "--step-ms=10")


class Report(BrowserTest):
    def run_directory(self):
        (name,) = os.listdir(self.path("logs"))
        return self.path("logs", name)

    def open(self, path):
        self.chrome.get("file://" + path)
        self.assertEqual(self.chrome.find_elements(By.TAG_NAME, "img"), [])
        self.assertNotEqual(self.chrome.title, "taken")
        # Nothing asks, and nothing operates.
        self.assertEqual([b.text for b in self.chrome.find_elements(By.TAG_NAME, "button") if b.is_displayed()], [])
        self.assertEqual(self.chrome.find_elements(By.ID, "stop"), [])
        self.assertEqual(self.chrome.execute_script(
            "return performance.getEntriesByType('resource').map(e => e.name)"), [])
        self.assertEqual([line for line in self.chrome.get_log("browser") if line["level"] == "SEVERE"], [])
        policy = self.chrome.find_element(By.CSS_SELECTOR, "meta[http-equiv=Content-Security-Policy]")
        self.assertRegex(policy.get_attribute("content"), "^default-src 'none';.* script-src 'sha256-")
        self.assertNotIn("unsafe", policy.get_attribute("content"))

    def wait_for_a_look(self, run, generation):
        """The report shows ranks as the server saw them last; a world that is shorter than its period may go unseen."""
        known = []

        def looked():
            if re.search(rf'"generation": {generation},.*onerror', self.status("-o", "json"), re.S):
                known.append(time.monotonic())
            return known and known[-1] > known[0] + LOOK
        self.wait_for(looked, run, what="ranks of which the server has known the phase for a while")

    def test_of_a_run_that_failed(self):
        run = self.start(f"--log-dir={self.path('logs')}", f"--rdzv-id={self.run_id}", "--nproc-per-node=4",
                         "--max-restarts=1", "-r", "3", FAKE_WORKER, HELLO, *STEPS, "--steps=150", "--on-rank=2",
                         f"--wait-file={self.go}.%g", "--print-err=" + HOSTILE, "--exit=3", "--always", "--hang")
        for generation in (1, 2):
            self.wait_for_a_look(run, generation)
            self.write(f"go.{generation}", "")
        self.assertEqual(run.wait(), 3, run.all())
        self.open(os.path.join(self.run_directory(), "report.html"))
        self.shows("run", self.run_id)
        self.shows("state", "FAILED")
        self.shows("headline", "rank 2 .*exit code 3")
        self.shows("tiles", r"(?s)1 of 1\s+restarts used.*3\s+exit code")
        self.shows("starts", r"(?s)rank 2 .*first step")
        self.shows("events", r"(?s)restarting all workers.*formed generation 1")
        self.shows("told", "as of")
        self.shows("legend", "<img src=x onerror=alert.1.>")  # As they were seen last.
        self.shot("report-failed.png")

    # A run's own description may be any text: the page shows it as words.
    def test_hostile_words_in_a_page_are_words(self):
        self.start(f"--log-dir={self.path('logs')}", f"--rdzv-id={self.run_id}", FAKE_WORKER, "--exit=0").wait()
        page = os.path.join(self.run_directory(), "report.html")
        shown, page_with = page_data(page)
        run = shown["state"]["run"]
        run.update(run_id=HOSTILE, headline=HOSTILE, phase=HOSTILE)
        shown["events"][0]["text"] = HOSTILE + "\u2028\u2029</SCRIPT\n>"
        run["nodes"][0].update(node=HOSTILE, host=HOSTILE, phase=HOSTILE, state=HOSTILE)
        self.write(page, page_with(shown))
        self.open(page)
        self.shows("run", re.escape(HOSTILE))
        self.shows("headline", re.escape(HOSTILE))
        self.shows("events", re.escape(HOSTILE))

    def status(self, *flags):
        return subprocess.run([DDPRUN, "status", *flags], env=self.environment, capture_output=True, text=True, timeout=LIMIT).stdout

    def test_a_thousand_ranks_fit_and_it_is_dark_where_the_system_is(self):
        self.ask(f"--log-dir={self.path('logs')}", FAKE_WORKER, "--notify=READY=1", "--exit=0")
        page = os.path.join(self.run_directory(), "report.html")
        shown, page_with = page_data(page)
        state = shown["state"]["run"]
        one = state["nodes"][0]
        per_node, nodes = 8, 128
        state["nodes"] = [{**one, "node": f"n{i}", "workers": per_node, "first_rank": i * per_node, "in_world": True,
                           "ranks": {"state": ["running"] * per_node, "step": [1200] * per_node, "phase": ["train"] * per_node,
                                     "since_seconds": [0.1] * per_node, "step_seconds": [0.5] * per_node}}
                          for i in range(nodes)]
        # One of them is slow; states of an earlier ddprun know of no such thing.
        state["nodes"][2]["ranks"]["work_seconds"] = [0.2] * 7 + [0.45]
        state["slow_ranks"] = [{"rank": 23, "node": "n2", "work_seconds": 0.45}]
        state["usual_work_seconds"] = 0.2
        self.write(page, page_with(shown))
        self.open(page)
        eventually(lambda: len(self.chrome.find_elements(By.CSS_SELECTOR, "#grid i")) == nodes * per_node)
        self.assertEqual(len(self.chrome.find_elements(By.CSS_SELECTOR, "#grid i")), nodes * per_node)
        self.assertEqual([cell.get_attribute("title").split(",")[0]
                          for cell in self.chrome.find_elements(By.CSS_SELECTOR, "#grid i.slow")], ["rank 23 on n2"])
        self.shows("rank", "rank 23 on n2, .*450 ms of it without waiting, SLOW: most ranks need 200 ms")
        self.assertLess(self.chrome.find_element(By.ID, "grid").size["height"], 200)
        wide = self.chrome.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        self.assertTrue(wide, "it scrolls sideways")
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", DARK)
        color = self.chrome.execute_script("return getComputedStyle(document.body).backgroundColor")
        self.assertLess(max(int(n) for n in re.findall(r"\d+", color)[:3]), 60, color)
        self.shot("report-dark.png")
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
