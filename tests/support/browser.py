"""A real browser for tests (Debian's Chromium, headless), and what they look at with it.

PAGE_SHOTS=DIRECTORY keeps screenshots there.
"""

import os
import re
import tempfile

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from ddprun_runs import LIMIT, DdprunTest, eventually

SHOTS = os.environ.get("PAGE_SHOTS")
FLAGS = ("--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
         "--disable-background-networking --disable-component-update --disable-dev-shm-usage "
         "--window-size=1280,1000")
DARK = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}  # Of Emulation.setEmulatedMedia.


def browser(directory):
    options = Options()
    for flag in (*FLAGS.split(), f"--user-data-dir={tempfile.mkdtemp(dir=directory)}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


class BrowserTest(DdprunTest):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory(prefix="ddprun_page_test_")
        cls.addClassCleanup(cls.home.cleanup)
        cls.chrome = browser(cls.home.name)
        cls.addClassCleanup(cls.chrome.quit)

    def setUp(self):
        super().setUp()
        self.chrome.get("about:blank")
        self.chrome.get_log("browser")

    def text(self, name):
        """ "" while the page is being left for another one."""
        try:
            return self.chrome.find_element(By.ID, name).text
        except (NoSuchElementException, StaleElementReferenceException):
            return ""

    def shows(self, name, pattern, limit=LIMIT):
        found = eventually(lambda: re.search(pattern, self.text(name)), limit)
        self.assertTrue(found, f"/{pattern}/ in #{name}: {self.text(name)!r}\n{self.chrome.get_log('browser')}")

    def nothing_foreign(self):
        origin = self.chrome.execute_script("return location.origin")
        asked = self.chrome.execute_script(
            "return performance.getEntriesByType('resource').map(e => e.name)")
        self.assertEqual([a for a in asked if not a.startswith(origin)], [])
        bad = [line for line in self.chrome.get_log("browser") if line["level"] == "SEVERE"]
        self.assertEqual(bad, [])

    def shot(self, name):
        if SHOTS:
            self.chrome.save_screenshot(os.path.join(SHOTS, name))
