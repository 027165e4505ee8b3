"""The documentation site: built strictly, whole, and it requests nothing from anywhere else."""

import functools
import glob
import html.parser
import http.server
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(ROOT, "scripts/docs"))

import references  # noqa: E402
from browser import DARK, browser  # noqa: E402
from ddprun_runs import LIMIT, eventually  # noqa: E402

PYTHON = os.environ.get("DDPRUN_DOCS_PYTHON", "")
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "form": "action"}
TABS = ["Tutorials", "How-to", "Reference", "Explanation"]


class Page(html.parser.HTMLParser):
    """The files that a page loads, and the text of its article outside of code and headings."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.words, self.article, self.other = [], [], 0, 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.count(tag, 1)
        address = dict(attrs).get(LOADED.get(tag, ""))
        if address:
            self.loaded.append(address)

    def handle_endtag(self, tag):
        self.count(tag, -1)

    def count(self, tag, by):
        self.article += by * (tag == "article")
        self.other += by * (tag in ("code", "pre", "script", "style", "h1", "h2", "h3"))

    def handle_data(self, data):
        if self.article and not self.other:
            self.words.append(data)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        home = tempfile.TemporaryDirectory(prefix="ddprun_site_test_")
        cls.addClassCleanup(home.cleanup)
        cls.home, cls.site = home.name, os.path.join(home.name, "site")
        cls.built = subprocess.run(
            [PYTHON, "-m", "mkdocs", "build", "--strict", "-f", os.path.join(ROOT, "scripts/docs/mkdocs.yml"), "-d", cls.site],
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
        cls.pages = {}
        for name in glob.glob(os.path.join(cls.site, "**/*.html"), recursive=True):
            with open(name, encoding="utf-8") as file:
                cls.pages[os.path.relpath(name, cls.site)] = file.read()

    def test_it_is_built_without_a_warning(self):
        self.assertEqual(self.built.returncode, 0, self.built.stderr)
        self.assertNotIn("WARNING", self.built.stderr)

    def test_every_page_of_the_folder_is_there_below_one_of_four_tabs(self):
        for page in glob.glob(os.path.join(ROOT, "docs/*.md")):
            self.assertIn(os.path.basename(page)[:-3] + ".html", self.pages)
        tabs = re.findall(r'md-tabs__link">\s*(.*?)\s*</a>', self.pages["index.html"], re.S)
        self.assertEqual(tabs, TABS)

    def test_every_list_that_is_made_is_on_one_page(self):
        marks = re.findall(references.MARK, "".join(references.read(f"docs/{os.path.basename(page)}")
                                                    for page in glob.glob(os.path.join(ROOT, "docs/*.md"))))
        self.assertEqual(sorted(marks), sorted(references.MADE))
        self.assertNotIn("<!-- made:", "".join(self.pages.values()))
        for page, wanted in (("command-line", ["--max-restarts", *(f"ddprun {verb}" for verb in references.helps())]),
                             ("python", [name for _, name, _ in references.exported()]),
                             ("watching", ["ddprun_run_info", "node_lost"]), ("troubleshooting", ["124"]),
                             ("training-flags", ["--micro-batch"])):
            for word in wanted:
                self.assertIn(word, self.pages[f"{page}.html"])
        self.assertNotIn("<em>", self.pages["command-line.html"] + self.pages["output.html"])  # Of a * or _ that is meant.

    def test_no_page_loads_anything_from_elsewhere(self):
        for name, text in self.pages.items():
            for address in Page(text).loaded:
                self.assertNotRegex(address, r"^(\w+:)?//", name)
        for name in glob.glob(os.path.join(self.site, "**/*.css"), recursive=True):
            with open(name, encoding="utf-8") as file:
                self.assertNotRegex(file.read(), r"(url\(|@import)\s*[\"']?(\w+:)?//", name)

    def test_markdown_of_the_pages_is_understood(self):
        """A list or a table that a code host shows is none here where it shows as text."""
        for name, text in self.pages.items():
            if not name.startswith("source"):
                wrong = re.search(r".*(\n(- |\d+\. |\|)|\*\*|\]\().*", "".join(Page(text).words))
                self.assertIsNone(wrong, name)
                self.assertNotIn("\\|", re.sub(r"<pre>.*?</pre>", "", text, flags=re.S), name)
                self.assertNotRegex(text, r">(docs/)?[a-z-]+\.md</a>", name)  # A page is called by its title.

    def test_a_browser_asks_only_the_site(self):
        handler = functools.partial(Quiet, directory=self.site)
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            chrome = browser(self.home)
            try:
                host, port = server.server_address
                origin = f"http://{host}:{port}"
                for page in ("index", "troubleshooting", "design", "source/examples/heartbeat.py"):
                    chrome.get(f"{origin}/{page}.html")
                    asked = chrome.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
                    self.assertEqual([a for a in asked if not a.startswith(origin)], [])
                    self.assertTrue(asked)
                    self.assertEqual(chrome.get_log("browser"), [])
                self.pictures_follow_the_scheme(chrome, origin)
                self.pages_are_found(chrome, origin)
            finally:
                chrome.quit()
                server.shutdown()

    def pictures_follow_the_scheme(self, chrome, origin):
        """That of the system, until the reader chooses the other one."""
        images = ("return [...document.querySelectorAll('article img')].filter(image => image.offsetWidth)"
                  ".map(image => [image.src, getComputedStyle(image).colorScheme])")
        shown = lambda: chrome.execute_script(images)
        other = "[...document.querySelectorAll('[data-md-component=palette] label')].find(label => !label.hidden).click()"
        light, dark = ["pictures/page.png#only-light", "light"], ["pictures/page-dark.png#only-dark", "dark"]
        for media, before, after in (({"features": []}, light, dark), (DARK, dark, light)):
            chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            chrome.get(f"{origin}/watching.html")
            self.assertEqual(eventually(shown), [[f"{origin}/{before[0]}", before[1]]])
            chrome.execute_script(other)
            self.assertEqual(eventually(shown), [[f"{origin}/{after[0]}", after[1]]])
            chrome.execute_script("localStorage.clear()")
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def pages_are_found(self, chrome, origin):
        """The words of all pages are not loaded before the search is used."""
        chrome.get(f"{origin}/index.html")
        loaded = chrome.execute_script("return performance.getEntries().map(e => [e.name, e.decodedBodySize || 0])")
        self.assertLess(sum(size for _, size in loaded), 500_000)
        self.assertNotIn("search_index", str(loaded))
        chrome.execute_script("document.querySelector('[data-md-component=search-query]').focus()")
        chrome.switch_to.active_element.send_keys("fence-after")
        found = "return [...document.querySelectorAll('.md-search-result__link')].map(link => link.href)"
        link = eventually(lambda: next((link for link in chrome.execute_script(found) if "?h=fence" in link), None), LIMIT)
        self.assertTrue(link)
        chrome.get(link)  # There the word is marked.
        self.assertTrue(eventually(lambda: chrome.execute_script("return document.querySelector('article mark')"), LIMIT))
