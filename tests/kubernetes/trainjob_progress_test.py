"""How far a TrainJob is, told to a server that stands for Kubeflow's: over TLS, with a token that changes."""

import http.server
import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from kubeflow_trainer_api.models import TrainerV1alpha1UpdateTrainJobStatusRequest  # noqa: E402

from certificates import Certificates  # noqa: E402
from ddprun_runs import FAKE_WORKER, HELLO, DdprunTest, read_text  # noqa: E402

PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/train/status"
SILENT = "does not hear how far this run is"
BETWEEN = 5  # Seconds between two posts, at least.


class Trainer:
    """Answers as told by `manner`; None: hears all, and says nothing."""

    def __init__(self, host, certificates, name):
        self.posts = []  # (token, path, host, type, body)
        self.manner = self.taken
        self.over = threading.Event()
        told = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                told.posts.append((self.headers["Authorization"], self.path,
                                   self.headers["Host"], self.headers["Content-Type"], body))
                told.manner(self)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # Who hangs up may.

        self.server = Server((host, 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.path(name + ".pem"), certificates.path(name + ".key"))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                 do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self):
        host, port = self.server.server_address
        return f"https://{host}:{port}{PATH}"

    def taken(self, handler):
        self.say(handler, 200, b"{}")

    def stands_still(self, _):
        self.over.wait(60)

    def refuses(self, handler):
        self.say(handler, 500, b'{"kind": "Status", "message": "no etcd \\u001b[31m today"}')

    def never_ends(self, handler):
        handler.send_response(503)
        handler.end_headers()
        while not self.over.is_set():
            handler.wfile.write(b"x" * 65536)

    def heads_never_end(self, handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not self.over.is_set():
            handler.wfile.write(b"X-More: " + b"x" * 1000 + b"\r\n")

    def redirects(self, handler):
        handler.send_response(307)
        handler.send_header("Location", self.url() + "/elsewhere")
        handler.end_headers()

    def say(self, handler, status, body):
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def statuses(self):
        """Each as the Trainer's own models read it."""
        return [TrainerV1alpha1UpdateTrainJobStatusRequest.from_json(body.decode()).trainer_status
                for *_, body in self.posts]

    def close(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


def metrics_of(status):
    return {metric.name: metric.value for metric in status.metrics}


class Progress(DdprunTest):
    def setUp(self):
        super().setUp()
        self.host = self.free_endpoint().rsplit(":", 1)[0]
        self.certificates = Certificates(self.path("."))
        self.certificates.authority("ca")
        self.certificates.certificate("trainer", "ca", f"IP:{self.host}")
        self.trainer = Trainer(self.host, self.certificates, "trainer")
        self.addCleanup(self.trainer.close)
        self.write_token("first")
        self.environment.update(
            KUBEFLOW_TRAINER_SERVER_URL=self.trainer.url(),
            KUBEFLOW_TRAINER_SERVER_CA_CERT=self.certificates.path("ca.pem"),
            KUBEFLOW_TRAINER_SERVER_TOKEN=self.path("token"))

    def write_token(self, text):
        """As kubelet does: another file of the same name."""
        with open(self.path("token.new"), "w") as file:
            file.write(text + "\n")
        os.rename(self.path("token.new"), self.path("token"))

    def begin(self, *flags, first="STEP=500\nSTEPS=2000\nLOSS=0.25\nSAMPLES_PER_S=128", then=()):
        return self.start("--nproc-per-node=2", *flags, FAKE_WORKER, HELLO, "--on-rank=0", f"--notify={first}",
                          f"--wait-file={self.path('then')}", *then, "--always",
                          f"--wait-file={self.path('go')}")

    def go(self, name="go"):
        open(self.path(name), "w").close()

    def posted(self, run, count):
        self.wait_for(lambda: len(self.trainer.posts) >= count, run, what=f"{count} posts")

    def hears(self, run, percentage, limit=30):
        """The first status with it; STEP and STEPS may come one after the other."""
        return self.wait_for(lambda: next((s for s in self.trainer.statuses()
                                           if s.progress_percentage == percentage), None),
                             run, limit=limit, what=f"{percentage} %")

    def end(self, run, expect=0):
        self.go("then")
        self.go()
        self.assertEqual(run.wait(), expect, run.all())

    def test_the_trainer_hears_how_far_the_run_is(self):
        run = self.begin(then=("--notify=STEP=1000\nLOSS=0.125",))
        first = self.hears(run, 25)
        token, path, host, kind, _ = self.trainer.posts[0]
        self.assertEqual((token, path, kind), ("Bearer first", PATH, "application/json"))
        self.assertEqual(f"https://{host}{path}", self.trainer.url())
        self.assertEqual(metrics_of(first), {
            "step": "500", "total_steps": "2000", "loss": "0.25", "samples_per_second": "128",
            "world_size": "2", "restarts": "0"})
        self.assertLess(abs(first.last_updated_time.timestamp() - time.time()), 60)
        self.write_token("second")
        self.go("then")
        second = self.hears(run, 50)
        apart = second.last_updated_time - first.last_updated_time
        self.assertGreaterEqual(apart.total_seconds(), BETWEEN - 1)  # Both are cut to seconds.
        self.assertIsInstance(second.estimated_remaining_seconds, int)
        self.end(run)
        last = self.trainer.statuses()[-1]
        self.assertEqual(self.trainer.posts[-1][0], "Bearer second")
        self.assertEqual((last.progress_percentage, last.estimated_remaining_seconds), (100, 0))
        self.assertEqual(metrics_of(last)["loss"], "0.125")
        told = [(s.progress_percentage, s.estimated_remaining_seconds, metrics_of(s))
                for s in self.trainer.statuses()]
        self.assertTrue(all(a != b for a, b in zip(told, told[1:])), told)
        self.assertNotIn(SILENT, run.err())

    def test_a_run_that_fails_is_never_at_100(self):
        run = self.begin(first="STEP=2000\nSTEPS=2000", then=("--exit=3",))
        self.hears(run, 99)
        self.end(run, expect=3)
        self.assertEqual(self.trainer.statuses()[-1].progress_percentage, 99)

    def test_a_restart_takes_no_step_back_that_none_has_told(self):
        run = self.start("--nproc-per-node=1", "--max-restarts=1", FAKE_WORKER, "--on-restart=0",
                         "--notify=STEP=500\nSTEPS=2000", f"--wait-file={self.path('then')}", "--exit=3", "--always",
                         f"--wait-file={self.path('go')}")
        self.hears(run, 25)
        self.go("then")
        self.wait_for(lambda: metrics_of(self.trainer.statuses()[-1])["restarts"] == "1", run)
        self.assertEqual(self.trainer.statuses()[-1].progress_percentage, 25)
        self.end(run)

    def test_who_tells_no_number_of_steps_may_tell_by_himself(self):
        run = self.begin(first="STEP=500\nLOSS=0.25", then=(f"--env-file={self.path('seen')}",))
        self.end(run)
        self.assertEqual(self.trainer.posts, [])
        self.assertIn("KUBEFLOW_TRAINER_SERVER_URL=", read_text(self.path("seen")))

    def test_on_tells_in_the_program_s_place(self):
        run = self.begin("--trainjob-progress=on", first="STEP=500\nLOSS=0.25",
                         then=(f"--env-file={self.path('seen')}",))
        # The first may be from before the first step.
        self.wait_for(lambda: any(metrics_of(s).get("step") == "500" for s in self.trainer.statuses()), run)
        self.assertEqual([s.progress_percentage for s in self.trainer.statuses()],
                         [None] * len(self.trainer.posts))
        self.end(run)
        self.assertNotIn("KUBEFLOW_", read_text(self.path("seen")))
        told = self.run_ddprun("--trainjob-progress=on", "--nproc-per-node=1", "--dry-run", FAKE_WORKER).out()
        self.assertRegex(told, r"without +KUBEFLOW_.* \(--trainjob-progress\)")
        self.assertEqual(self.trainer.statuses()[-1].progress_percentage, 100)

    def test_off_tells_nothing(self):
        run = self.begin("--trainjob-progress=off")
        self.end(run)
        self.assertEqual(self.trainer.posts, [])
        self.run_ddprun("--trainjob-progress=perhaps", FAKE_WORKER, expect=2)

    def said_once(self, run, why):
        """The reason, and the run goes on; a second failure is not said."""
        tried = self.wait_for_text(run, SILENT)
        self.assertIn(why, run.err())
        self.assertEqual(run.err().count(SILENT), 1, tried)
        self.assertIsNone(run.process.poll())

    def test_a_server_that_refuses_costs_a_line(self):
        self.trainer.manner = self.trainer.refuses
        run = self.begin()
        self.said_once(run, "answered 500: no etcd ")
        self.assertNotIn("\x1b", run.err())
        self.posted(run, 2)
        self.trainer.manner = self.trainer.taken
        self.end(run)
        self.assertEqual(run.err().count(SILENT), 1)
        self.assertEqual(self.trainer.statuses()[-1].progress_percentage, 100)

    def test_an_answer_without_end_is_not_read(self):
        self.trainer.manner = self.trainer.never_ends
        run = self.begin()
        self.said_once(run, "answered 503: xxx")
        self.end(run)

    def test_a_head_without_end_is_not_read(self):
        self.trainer.manner = self.trainer.heads_never_end
        run = self.begin()
        self.said_once(run, "header limit exceeded")
        self.end(run)

    def test_the_token_goes_nowhere_else(self):
        self.trainer.manner = self.trainer.redirects
        run = self.begin()
        self.said_once(run, "answered 307")
        self.end(run)
        self.assertEqual({path for _, path, *_ in self.trainer.posts}, {PATH})

    def test_a_server_that_stands_still_holds_nobody_up(self):
        self.trainer.manner = self.trainer.stands_still
        run = self.begin()
        self.posted(run, 1)
        self.end(run)  # The server still stands.

    def test_a_server_that_nobody_vouches_for_gets_no_token(self):
        self.certificates.authority("other")
        self.certificates.certificate("elsewhere", "ca", "DNS:elsewhere.example")
        for environment, server in (
                ({"KUBEFLOW_TRAINER_SERVER_CA_CERT": self.certificates.path("other.pem")}, self.trainer),
                ({}, Trainer(self.host, self.certificates, "elsewhere"))):
            self.environment.update(environment, KUBEFLOW_TRAINER_SERVER_URL=server.url())
            run = self.begin()
            self.said_once(run, "certificate verify failed")
            self.end(run)
            self.assertEqual(server.posts, [])
            if server is not self.trainer:
                server.close()
            for name in ("then", "go"):
                os.unlink(self.path(name))

    def test_what_cannot_be_used_is_said(self):
        self.certificates.authority("ca")
        open(self.path("empty"), "w").close()
        os.mkfifo(self.path("fifo"))
        closed = socket.socket()
        closed.bind((self.host, 0))
        mute = socket.create_server((self.host, 0))  # Connects, and that is all.
        url, mute_url = (f"https://{self.host}:{one.getsockname()[1]}/" for one in (closed, mute))
        for name, value, why in (
                ("URL", self.trainer.url().replace("https", "http"), "it must be https://<host>"),
                ("URL", url, "Connection refused"),
                ("URL", mute_url, "no answer in time"),
                ("TOKEN", "", "no file with a token is named"),
                ("TOKEN", self.path("nowhere"), "nowhere"),
                ("TOKEN", self.path("empty"), "the file has no token in it"),
                ("TOKEN", self.path("fifo"), "fifo"),
                ("CA_CERT", self.path("empty"), "empty")):
            with self.subTest(name=name, value=value):
                run = self.start("--nproc-per-node=1", FAKE_WORKER, "--notify=STEP=1\nSTEPS=2",
                                 f"--wait-file={self.path('go')}",
                                 environment={"KUBEFLOW_TRAINER_SERVER_" + name: value})
                self.said_once(run, why)
                self.end(run)
                os.unlink(self.path("go"))
        closed.close()
        mute.close()

    def test_one_node_tells_and_a_successor_after_it(self):
        endpoint = self.free_endpoint()
        nodes = [self.start("--nnodes=1:2", f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={endpoint}",
                            f"--run-dir={self.path('shared')}", "--rdzv-conf=last_call_timeout=1", FAKE_WORKER,
                            HELLO, "--on-rank=0", "--notify=STEP=1\nSTEPS=4", "--always", f"--wait-file={self.path('go')}")
                 for _ in range(2)]
        self.wait_for(lambda: self.trainer.posts and metrics_of(self.trainer.statuses()[-1])["world_size"] == "2",
                      *nodes)
        serving = [node for node in nodes if "serving the rendezvous" in node.err()]
        self.assertEqual(len(serving), 1, "\n".join(node.all() for node in nodes))
        [other] = [node for node in nodes if node not in serving]
        self.run_directory_stays = True
        serving[0].signal(signal.SIGKILL)
        self.wait_for(lambda: metrics_of(self.trainer.statuses()[-1])["world_size"] == "1", other, limit=60)
        self.go()
        self.assertEqual(other.wait(), 0, other.all())
        self.assertEqual(self.trainer.statuses()[-1].progress_percentage, 100)


if __name__ == "__main__":
    unittest.main(verbosity=2)
