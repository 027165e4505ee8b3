"""An open status page where the host of the server is lost: it continues at the successor's, in a
real browser (Debian's Chromium, headless)."""

import http.server
import re
import subprocess
import threading
import urllib.error
import urllib.request

from selenium.webdriver.common.by import By

from browser import BrowserTest
from ddprun_runs import DDPRUN, FAKE_WORKER, HELLO, LIMIT
from machines import MachinesTest

LISTEN = "--http-listen=127.0.0.1:0"
STEPS = ("--notify=READY=1\nPHASE=train", "--step-ms=100", "--steps=100000")


class OtherServer(http.server.BaseHTTPRequestHandler):
    """Answers where a page once was, and passes on what it is asked."""

    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append(self.path + " " + asked)
        question = urllib.request.Request(self.server.real + self.path, asked.encode(), {"Host": self.headers["Host"]})
        try:
            with urllib.request.urlopen(question, timeout=LIMIT) as answer:
                told = answer.read()
        except urllib.error.HTTPError as refused:
            told = b'{"look": "", "operate": "%d"}' % refused.code
        self.send_response(200)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_):
        pass


class PageTakeover(MachinesTest, BrowserTest):
    def setUp(self):
        super().setUp()
        self.network = None  # The browser's own machine.
        self.endpoint = self.free_endpoint()

    def link(self, *query):
        text = subprocess.run([DDPRUN, "status", "--url", *query], env=self.environment, capture_output=True,
                              text=True, timeout=LIMIT).stdout
        return dict(re.findall(r"(look|operate): +(\S+)", text)).get("operate")

    def start_run(self, count, *flags):
        for i in range(count):
            self.start_node(i, *flags, nnodes="1:3", program=[FAKE_WORKER, HELLO, *STEPS])
            if i == 0:
                self.wait_for_text(self.nodes[0], "serving the rendezvous at")
        self.world(count)
        (server,) = self.wait_for(self.servers, *self.nodes)
        return server

    def goes_on(self, old, size):
        """The page shows the world of the others, and operates it."""
        self.lose_host(old)
        self.shows("tiles", rf"(?m)^{size}\s+workers", limit=2 * LIMIT)
        self.shows("headline", r"training: step \d+")
        self.assertEqual(self.text("silence"), "")
        self.assertEqual(self.chrome.execute_script("return location.hash"), "")
        (server,) = self.servers()
        self.assertIn(self.chrome.execute_script("return location.host"), server.err())
        self.assertEqual(self.chrome.execute_async_script(
            "const done = arguments[0]; fetch('/api/stop', {method: 'POST', headers: {'X-Ddprun': '1'}})"
            ".then(a => done(a.status))"), 200)
        for node in self.nodes:
            self.assertNotEqual(node.wait(), 0, node.all())
        bad = [line for line in self.chrome.get_log("browser") if "Content Security" in line["message"]]
        self.assertEqual(bad, [])

    # Another node answers beside it all the time, and leads to the server once there is one.
    def test_an_open_page_follows_by_the_nodes_pages(self):
        self.flags = [f"--run-dir={self.path('shared')}"]
        old = self.start_run(2, LISTEN)
        key = self.link(f"--run-dir={self.path('shared')}").split("#")[1]
        (other,) = (node for node in self.nodes if node is not old)
        page = re.search(r"probes and metrics: http://([\d.:]+)/", other.err())[1]
        self.chrome.get(f"http://{page}/#{key}")  # A reader who wants to see that node does.
        self.shows("headline", f"the server of the run is at {self.endpoint}")
        self.chrome.find_element(By.ID, "go").click()
        self.shows("tiles", r"(?m)^2\s+workers")
        self.goes_on(old, 1)

    def test_another_server_where_a_page_once_was_is_not_shown_the_key(self):
        self.flags = [f"--run-dir={self.path('shared')}"]
        node = self.start_run(1)
        self.chrome.get(self.link(f"--run-dir={self.path('shared')}"))
        self.shows("state", "RUNNING")
        other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OtherServer)
        other.asked, other.real = [], self.chrome.execute_script("return location.origin")
        threading.Thread(target=other.serve_forever, daemon=True).start()
        self.addCleanup(other.server_close)
        self.addCleanup(other.shutdown)
        led = self.chrome.execute_async_script(
            "const done = arguments[1]; lead([arguments[0]]).then(done)", f"127.0.0.1:{other.server_port}")
        self.assertIs(led, False)
        self.assertEqual(len(other.asked), 1)
        self.assertRegex(other.asked[0], rf"^/api/proof\?run={self.run_id} [0-9a-f]{{32}}$")
        self.shows("state", "RUNNING")
        self.terminate(node)
