"""Mistakes of the user or the network: one message that names each, the exit code, no crash."""

import http.server
import os
import re
import socket
import threading

from ddprun_runs import DDPRUN, FAKE_WORKER, DdprunTest

USAGE, UNAVAILABLE = 2, 69

# Arguments (a worker that would succeed follows) and what the message must name.
REFUSED = [
    (["--nnodes=2", "--local-addr=192.0.2.1", "--rdzv-endpoint=127.0.0.1:0"], "'192.0.2.1' is not an address of this machine. Set --local-addr"),
    (["--nnodes=2", "--local-addr=no-such-host.invalid"], "'no-such-host.invalid'.*--local-addr"),
]


class TemporaryFolder(DdprunTest):
    """TMPDIR is the user's, and may be of another machine."""

    run_directory_stays = True

    def test_one_that_cannot_be_used_is_named_and_another_taken(self):
        open(self.path("file"), "w").close()
        for place, why in ((self.path("missing"), "No such file or directory"), (self.path("file"), "it is not a directory")):
            run = self.ask("--nproc-per-node=2", FAKE_WORKER, environment={"TMPDIR": place})
            self.assertRegex(run.err(), f"TMPDIR={place} cannot be used .{why}.: using /tmp\n")
        run = self.start(FAKE_WORKER, environment={"TMPDIR": ""})
        self.assertEqual((run.wait(), run.err()), (0, ""))


class WorkingDirectory(DdprunTest):
    def test_a_removed_one_keeps_no_program_from_running(self):
        folder = self.path("removed")
        os.mkdir(folder)
        run = self.ask("-c", 'cd "$1" && rmdir "$1" && exec "$0" "$2"', DDPRUN, folder, FAKE_WORKER,
                       executable="/bin/sh")
        self.assertEqual(run.err(), "")


class CommandLine(DdprunTest):
    def refused(self, *arguments, names, expect=USAGE, environment=None):
        run = self.run_ddprun(*arguments, expect=expect, environment=environment)
        self.assertRegex(run.err(), names)
        self.assertEqual(run.out(), "")
        return run

    def test_flags(self):
        for flags, names in REFUSED:
            with self.subTest(" ".join(flags)):
                self.refused(*flags, FAKE_WORKER, names=names)

    def test_an_empty_value_is_the_default_where_empty_means_something(self):
        self.run_ddprun("--role", "", "--rdzv-endpoint=", "--log-dir=", FAKE_WORKER)
        self.run_ddprun(FAKE_WORKER, environment={"PET_RDZV_ENDPOINT": "", "PET_STANDALONE": ""})

    def test_a_refusal_is_one_line_and_commands_no_terminal(self):
        for flag in ("--local-addr", "--interface", "--config", "--print-completion"):
            with self.subTest(flag):
                run = self.refused("--nnodes=2", "--rdzv-endpoint=127.0.0.1:1",
                                   f"{flag}=a\nb\x1b[31m\x07{'x' * 100_000}", FAKE_WORKER,
                                   names=r"a\\nb\\x1b\[31m\\x07x{100,} \.\.\. .*x{200}")
                self.assertEqual(run.err().count("\n"), 1, run.err())
                self.assertLess(len(run.err()), 4_000)

    def test_a_verb_takes_no_list_of_endpoints_any_more(self):
        self.refused("status", "--endpoint=a:1,b:1", names="was removed.*Set --run-dir=DIR")

    def test_help_can_be_had_whatever_the_settings_file_says(self):
        """It is what the refusal of the file names."""
        self.write("ddprun.toml", "nproc = 2\n")
        self.refused(FAKE_WORKER, names=r"ddprun.toml:1: unknown name 'nproc': .*\(ddprun --help\)")
        for flag in ("--help", "-h", "--version"):
            self.run_ddprun(flag, "--role=r")

    def test_a_settings_file_that_is_no_file_is_not_passed_over(self):
        os.symlink("away", self.path("ddprun.toml"))
        self.refused(FAKE_WORKER, names="cannot open 'ddprun.toml': No such file or directory")

    # Mistakes that need a look first: files, addresses, runs.
    def test_a_verb_that_finds_nothing_says_one_line_too(self):
        verbs = ("status", "logs", "stacks", "save", "drain n0", "stop", "stop --soon", "report")
        table = [(verb.split(), flag) for verb in verbs for flag in ("--endpoint", "--run-dir", "--rdzv-id")]
        table += [([*verb.split(), "--endpoint=127.0.0.1:1"], flag)
                  for verb in verbs for flag in ("--token-file", "--tls-ca")]
        table += [(("rendezvous", "--tls-cert=no", "--tls-key=no", "--listen=127.0.0.1:0"), flag)
                  for flag in ("--listen", "--state-dir", "--token-file", "--tls-cert")]
        table += [(("stacks", "--limit=100ms", "1"), "--into"), (("report", self.path("none")), "--report-file")]
        for words, flag in table:
            with self.subTest(words, flag=flag):
                run = self.start(*words, f"{flag}=/no/a\nb\x1b[31m{'x' * 100_000}")
                self.assertNotEqual(run.wait(), 0, run.all())
                self.assertRegex(run.err(), r"a\\nb\\x1b\[31mx{40}")
                self.assertEqual(run.err().count("\n"), 1, run.err())
                self.assertLess(len(run.err()), 4_000)

    def test_programs(self):
        script = self.path("not-executable")
        open(script, "w").close()
        table = [
            ("no-such-program", "'no-such-program' was not found in .* and PATH \\(/"),
            ("./missing", r"'\./missing' does not exist"),
            (script, "not-executable' is not executable .*python3 /"),
            ("not-executable", "'not-executable' was not found in .*python3 not-executable "),
            ("-", "'-' was not found in .*python3 - "),
            (self.directory, "is a directory. A program in Python is started as: python3 /"),
            (self.path("missing.py"), "missing.py.*No such file"),
        ]
        for program, names in table:
            with self.subTest(program):
                run = self.refused(program, names=names)
                self.assertEqual(run.err().count("\n"), 1, run.err())

    def test_a_program_of_a_wrong_format_fails_the_run(self):
        path = self.path("garbage")
        with open(path, "wb") as file:
            file.write(b"\x7fELF" + bytes(100))
        os.chmod(path, 0o755)
        run = self.run_ddprun("--nproc-per-node=2", path, expect=1)
        self.assertRegex(run.err(), "cannot execute '.*garbage': Exec format error .*python3 /.*garbage")

    def test_log_dir(self):
        path = self.path("file")
        open(path, "w").close()
        for bad in (path, os.path.join(path, "below"), "/proc/nowhere"):
            with self.subTest(bad):
                run = self.refused(f"--log-dir={bad}", "-r", "3", FAKE_WORKER, names="--log-dir")
                self.assertIn(bad, run.err())

    def test_rendezvous_verb(self):
        self.refused("rendezvous", "--listen=127.0.0.1:70000", names="'127.0.0.1:70000'")
        self.refused("rendezvous", "--listen=192.0.2.1:0", expect=UNAVAILABLE,
                     names="'192.0.2.1' is not an address of this machine")


class Http(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


class Network(DdprunTest):
    def start_node(self, endpoint, *flags, timeout=3):
        return self.start("--nnodes=2", f"--rdzv-id={self.run_id}", f"--rdzv-endpoint={endpoint}",
                          f"--rdzv-conf=join_timeout={timeout}", *flags, FAKE_WORKER)

    def ends(self, run, names, expect=UNAVAILABLE):
        self.assertEqual(run.wait(), expect, run.all())
        self.assertRegex(run.err(), names)

    def test_something_else_has_the_port(self):
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Http) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.addCleanup(server.shutdown)
            endpoint = f"127.0.0.1:{server.server_port}"
            for flags in (["--node-rank=0"], []):
                run = self.start_node(endpoint, *flags)
                self.ends(run, rf"port {server.server_port} is in use by .*{os.getpid()}")
                self.assertRegex(run.err(), "is not a ddprun rendezvous: it answered 'HTTP/1")
                self.assertIn("Choose another port in --rdzv-endpoint", run.err())
            run = self.start_node(endpoint, "--node-rank=1")  # It would only join.
            self.ends(run, f"the listener at {endpoint} is not a ddprun rendezvous")

    def test_another_rendezvous_has_the_port_that_is_derived_from_a_job(self):
        host = self.endpoint.split(":")[0]
        step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2",
                "SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NODELIST": f"{host},n1",
                "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURMD_NODENAME": host}
        port = re.search(rf"{host}:(\d+)", self.ask("--dry-run", FAKE_WORKER, environment=step).out())[1]
        other = self.start("rendezvous", f"--listen={host}:{port}")
        self.wait_for_text(other, "serving at")
        run = self.start(FAKE_WORKER, environment=step)
        self.ends(run, rf"port {port} is in use by process \d+ \(ddprun\); another ddprun rendezvous already runs there. The "
                       "port is derived from the job's id. Set --rdzv-endpoint=HOST:PORT and --nnodes=N")
        self.terminate(other)

    def test_a_port_that_gets_free_in_time_is_taken(self):
        # As when the server of an earlier run ends, or another agent does not listen yet.
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            endpoint = f"127.0.0.1:{bound.getsockname()[1]}"
            run = self.start_node(endpoint, "--nnodes=1:2", "--rdzv-conf=last_call_timeout=0")
            self.wait_for_text(run, "is in use by .*: trying again for up to 30")
        self.ends(run, f"serving the rendezvous at {endpoint}", expect=0)

    def test_many_nodes_that_try_in_vain_all_say_so(self):
        # gRPC's callback threads come and go with each attempt; 1.51 by itself aborts one in twenty.
        runs = [self.start_node(self.endpoint, "--node-rank=1") for _ in range(32)]
        for run in runs:
            self.ends(run, "Connection refused")

    def test_the_endpoints_host_has_no_address(self):
        for flags in (["--node-rank=0"], ["--node-rank=1"], []):
            run = self.start_node("no-such-host.invalid:29400", *flags)
            self.ends(run, "'no-such-host.invalid': .*Check --rdzv-endpoint")

    def test_rank_0_says_that_the_endpoint_is_not_its_own(self):
        run = self.start_node("192.0.2.1:29400", "--node-rank=0")
        self.ends(run, "'192.0.2.1' is not an address of this machine: .*rank 0, but does not host")

    def test_two_agents_of_the_same_rank(self):
        first = self.start_node(self.endpoint, "--node-rank=0", timeout=60)
        self.wait_for_text(first, "serving the rendezvous at")
        second = self.start_node(self.endpoint, "--node-rank=0", timeout=60)
        self.wait_for_text(second, "waiting until another agent of this name or --node-rank is gone with its workers")
        for run in (second, first):
            self.terminate(run)
