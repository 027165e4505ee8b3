"""The status page in a real browser (Debian's Chromium, headless), as a reader looks at it.

PAGE_SHOTS=DIRECTORY keeps screenshots there (docs/pictures/page.png and page-dark.png are two of them).
"""

import os
import re
import signal
import subprocess

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import DARK, BrowserTest
from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, LIMIT

LISTEN = "--http-listen=127.0.0.1:0"
STEPS = ("--notify=READY=1\nPHASE=train", "--step-ms=100", "--steps=100000")


class Page(BrowserTest):
    def links(self, *query):
        text = self.run_verb("status", "--url", *query)
        return dict(re.findall(r"(look|operate): +(\S+)", text))

    def run_verb(self, *arguments):
        done = subprocess.run([DDPRUN, *arguments], env=self.environment, capture_output=True,
                              text=True, timeout=LIMIT)
        return done.stdout

    def open_alone(self, *arguments, link="operate"):
        run = self.start(LISTEN, *arguments)
        self.wait_for(lambda: self.links(), run)
        self.chrome.get(self.links()[link])
        return run

    def background(self):
        return self.chrome.execute_script("return getComputedStyle(document.body).backgroundColor")

    def test_a_failure_is_seen_as_it_happens(self):
        run = self.open_alone("--nproc-per-node=4", "--max-restarts=3", FAKE_WORKER, HELLO, *STEPS)
        self.shows("state", "RUNNING")
        self.shows("headline", r"training: step \d+")
        self.assertEqual(self.chrome.execute_script("return location.hash"), "")  # No key in sight.
        self.shows("legend", "train 4")
        os.kill(self.wait_for_workers(run, 4)[2], signal.SIGKILL)
        self.shows("starts", "rank 2 .* was killed by signal 9")
        self.shows("events", "restarting all workers")
        self.shows("tiles", r"(?s)running for.*1 of 3\s+restarts used")
        self.shows("headline", r"training: step \d+")
        self.chrome.find_element(By.ID, "grid").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        self.shows("rank", "rank 1 on ")
        self.shot("page.png")
        light = self.background()
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", DARK)
        self.assertNotEqual(self.background(), light)
        self.shot("page-dark.png")
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        self.nothing_foreign()
        self.terminate(run)

    def test_a_holder_of_the_stop_key_can_stop_a_run(self):
        run = self.open_alone(FAKE_WORKER, HELLO, *STEPS)
        stop = self.chrome.find_element(By.ID, "stop")
        self.wait_for(stop.is_displayed, run)
        stop.click()
        self.assertEqual(stop.text, "Really stop the run?")
        stop.click()
        self.assertNotEqual(run.wait(), 0, run.all())
        self.assertRegex(run.err(), "an operator")

    def test_a_holder_of_the_view_key_cannot(self):
        run = self.open_alone(FAKE_WORKER, HELLO, *STEPS, link="look")
        self.shows("state", "RUNNING")
        self.assertFalse(self.chrome.find_element(By.ID, "stop").is_displayed())
        said = self.chrome.execute_async_script(
            "const done = arguments[0]; fetch('/api/stop', {method: 'POST', headers: {'X-Ddprun': '1'}})"
            ".then(a => done(a.status))")
        self.assertEqual(said, 403)
        # Without a key the page asks for one, and takes it.
        link = self.links()["look"]
        self.chrome.delete_all_cookies()
        self.chrome.get(link.split("#")[0])
        self.shows("why", "needs a key")
        self.chrome.find_element(By.ID, "key").send_keys("something else", Keys.ENTER)
        self.shows("why", "not valid for this run")
        key = self.chrome.find_element(By.ID, "key")
        key.clear()
        key.send_keys(link.split("=")[1], Keys.ENTER)
        self.shows("state", "RUNNING")
        self.terminate(run)

    # A server alone, of two runs: the holder of the key of all chooses; the holder of one run's key
    # sees that one.
    def test_a_server_of_several_runs_lets_choose(self):
        token = self.private_file("token", "0123456789abcdef0123456789abcdef")
        access = f"--token-file={token}"
        server = self.start("rendezvous", f"--listen={self.endpoint}", LISTEN, access)
        self.wait_for_text(server, "probes and metrics: http://")
        usual = (f"--rdzv-endpoint={self.endpoint}", access, "--rdzv-conf=last_call_timeout=0")
        nodes = [self.start("--nnodes=1:2", *usual, "--rdzv-id=one", FAKE_WORKER, HELLO, *STEPS),
                 self.start("--nnodes=2", *usual, "--rdzv-id=b&?=%<two>", FAKE_WORKER)]
        text = self.wait_for(lambda: (t := self.run_verb("status", "--url", f"--endpoint={self.endpoint}", access)) and
                             t.count("operate:") == 3 and t, server, *nodes)
        links = re.findall(r"(look|operate): +(\S+)", text)
        self.chrome.get(links[1][1])  # To operate all.
        self.shows("choice", r"(?s)b&\?=%<two>\s+gathering.*one\s+running")
        self.assertFalse(self.chrome.find_element(By.ID, "stop").is_displayed())
        self.chrome.find_element(By.LINK_TEXT, "b&?=%<two>").click()
        self.shows("headline", "1 of 2 are here")
        self.chrome.back()
        self.shows("choice", "one")
        self.chrome.find_element(By.LINK_TEXT, "one").click()
        self.shows("headline", r"training: step \d+")
        # A run's own key, on the port of --http-listen; the other run is not its.
        page = re.search(r"probes and metrics: http://([\d.:]+)/", server.err())[1]
        self.chrome.delete_all_cookies()
        self.chrome.get(f"http://{page}/#" + links[4][1].split("#")[1])
        self.shows("run", "^one$")
        self.chrome.refresh()
        self.shows("headline", r"training: step \d+")
        self.assertFalse(self.chrome.find_element(By.ID, "stop").is_displayed())
        self.chrome.get(f"http://{page}/?run=b%26%3F%3D%25%3Ctwo%3E")
        self.shows("why", "needs a key")
        for name, answer in {"livez": "the control loop is running", "readyz": "serving 2 runs", "metrics": "ddprun_build_info"}.items():
            self.chrome.get(f"http://{page}/{name}")
            self.assertIn(answer, self.chrome.page_source)
        for run in (*nodes, server):
            self.terminate(run)
