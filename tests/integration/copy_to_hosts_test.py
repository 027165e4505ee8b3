"""--hosts --copy: ddprun and the program go to hosts that lack them, by a stand-in for ssh."""

import contextlib
import glob
import os
import re
import shlex
import shutil

from ddprun_runs import DDPRUN, read_bytes
from fake_hosts import HostsTest

SCRIPT = "import os, sys\nprint('rank', os.environ['RANK'], __file__, sys.argv[1:], oct(os.umask(0o22)), os.getcwd())\n"


class CopyToHosts(HostsTest):
    """The launcher's directory, with ddprun and the script, is not there for the hosts: it is moved away first."""

    def setUp(self):
        super().setUp()
        for name in ("own", "home"):
            os.mkdir(self.path(name))
        self.hosts.environment = {**self.environment, "HOME": self.path("home")}
        self.hosts.behave = self.begin
        shutil.copy2(DDPRUN, self.path("own/ddprun"))
        self.write("own/train.py", SCRIPT)

    def begin(self, _, command):
        with contextlib.suppress(FileNotFoundError):  # Another host has begun before.
            os.rename(self.path("own"), self.path("away"))
        return f"cd {self.path('home')}; {command}"

    def launch_copied(self, *arguments, hosts=2, program="train.py", expect=0):
        if os.path.exists(self.path("away")):
            os.rename(self.path("away"), self.path("own"))
        run = self.ask("-c", f'cd {self.path("own")} && exec ./ddprun "$@"', "sh", "--copy",
                       f"--hosts={','.join(self.names(hosts))}", f"--launch-agent={self.agent}", *arguments, program, "a b",
                       executable="/bin/sh", expect=expect)
        return run

    def copies(self):
        return sorted(glob.glob(self.path("home/.cache/ddprun/copies/*/*")))

    def test_files_that_a_host_lacks_are_sent_once(self):
        run = self.launch_copied()
        copied = self.copies()
        self.assertEqual([os.path.basename(copy) for copy in copied].count("ddprun"), 1, copied)
        script, = (copy for copy in copied if copy.endswith("/train.py"))
        ranks = sorted(line.split(" ", 1)[1] for line in run.out().splitlines())
        self.assertEqual(ranks, [f"rank {rank} {script} ['a b'] {oct(os.umask(0o22))} {self.path('home')}" for rank in (0, 1)])
        self.assertRegex(run.err(), r"host \S+ lacks ddprun \(\d+ MB\): sending it")
        self.assertRegex(run.err(), r"host \S+ lacks train.py \(1 kB\): sending it")
        self.assertIn(f"cannot enter the launcher's directory '{self.path('own')}': No such file or directory on this "
                      f"host; its workers start in '{self.path('home')}' (--copy)", run.err())
        again = self.launch_copied()
        self.assertNotIn("lacks", again.err())
        self.assertEqual(sorted(line.split(" ", 1)[1] for line in again.out().splitlines()), ranks)
        self.assertEqual(self.copies(), copied)

    def test_only_a_changed_file_is_sent(self):
        self.launch_copied(hosts=1)
        self.write("away/train.py", SCRIPT + "print('new')\n")
        with open(next(copy for copy in self.copies() if copy.endswith("/ddprun")), "r+b") as ddprun:
            ddprun.truncate(1000)  # A copy that is not whole is none.
        run = self.launch_copied(hosts=1)
        self.assertIn("new", run.out())
        self.assertRegex(run.err(), "lacks train.py")
        self.assertRegex(run.err(), "lacks ddprun")
        self.assertEqual(read_bytes(next(copy for copy in self.copies() if copy.endswith("/ddprun"))), read_bytes(DDPRUN))

    def test_files_that_are_there_are_used_where_they_are(self):
        self.hosts.behave = lambda _, command: f"cd {self.path('home')}; {command}"
        run = self.launch_copied(hosts=1)
        self.assertIn(f"rank 0 {self.path('own/train.py')} ['a b'] {oct(os.umask(0o22))} {self.path('own')}", run.out())
        self.assertEqual((self.copies(), "lacks" in run.err()), ([], False))

    # Of two hosts that share the home directory the other one is done first, and runs its copy.
    def test_a_copy_that_is_there_is_not_replaced(self):
        self.write("bin/head", f"""#!/bin/sh
PATH={os.environ["PATH"]}; head "$@"
for kept in {self.path("home")}/.cache/ddprun/copies/*; do cp -n {self.path("away")}/ddprun {self.path("away")}/train.py $kept; done
""", 0o755)
        self.write("bin/mv", "#!/bin/sh\necho replaced: mv \"$@\" >&2; exit 1\n", 0o755)
        self.hosts.environment["PATH"] = f'{self.path("bin")}:{os.environ["PATH"]}'
        self.launch_copied(hosts=1)

    def test_a_wrong_file_in_the_place_of_a_copy(self):
        self.launch_copied(hosts=1)
        copied = self.copies()
        for wrong in (lambda path: self.write(path, "print('wrong')\n"), os.mkfifo, lambda path: os.symlink("/nowhere", path)):
            for copy in copied:
                os.remove(copy)
                wrong(copy)
            self.assertIn("rank 0", self.launch_copied(hosts=1).out())
        for copy in copied:
            os.remove(copy)
            os.mkdir(copy)
        self.assertIn("cannot keep a copy of", self.launch_copied(hosts=1, expect=69).err())

    # csh and fish read two signs otherwise than sh where they are quoted.
    def test_names_that_shells_read_otherwise(self):
        for name in ("a'b\\\\c\\'!$(id) \".py", "n" * 252 + ".py"):
            for shell in filter(shutil.which, ("sh", "csh", "fish")):
                with self.subTest(name=name, shell=shell):
                    shutil.rmtree(self.path("home/.cache"), ignore_errors=True)
                    self.write(f"{'away' if os.path.exists(self.path('away')) else 'own'}/{name}", SCRIPT)
                    self.hosts.behave = lambda host, command, shell=shell: self.begin(host, f"{shell} -c {shlex.quote(command)}")
                    self.assertIn(f"/{name} ['a b']", self.launch_copied(hosts=1, program=name).out())
                    quoted = re.findall(r"\\.|'([^']*)'", self.hosts.started[-1]["command"])
                    self.assertNotRegex("".join(quoted), r"[\\!]")

    def test_a_host_without_the_tools(self):
        os.mkdir(self.path("bin"))
        for tool in ("sh", "cat", "mkdir"):
            os.symlink(shutil.which(tool), self.path("bin", tool))
        self.hosts.environment["PATH"] = self.path("bin")
        run = self.launch_copied(hosts=1, expect=69)
        self.assertRegex(run.err(), r"cannot reach host \S+: ddprun: .*mktemp: (command )?not found")

    def test_no_copy_can_be_kept(self):
        self.write("home/.cache", "a file\n")
        run = self.launch_copied(hosts=1, expect=69)
        self.assertRegex(run.err(), r"cannot reach host \S+: mkdir: cannot create directory .*/home/.cache.*: Not a directory")

    def test_the_connection_is_lost_meanwhile(self):
        self.hosts.behave = lambda host, command: self.begin(host, f"head -c 100000 | ({command})")
        run = self.launch_copied(hosts=1, expect=69)
        self.assertRegex(run.err(), r"cannot keep a copy of \S+/ddprun as \S+/home/\.cache/ddprun/copies/\w+/ddprun \(--copy\)")
        self.assertEqual(self.copies(), [])

    def test_the_program_is_not_here(self):
        for program, why in (("nothing.py", "cannot open '{}': No such file or directory (--copy)"),
                             ("/dev", "this is not an ordinary file: '{}' (--copy)"),
                             ("large.py", "the file is larger than 268435456 bytes: '{}' (--copy)")):
            with open(self.path("own/large.py"), "w") as large:
                large.truncate(256 * 2**20 + 1)
            self.assertIn(why.format(self.path("own", program)), self.launch_copied(program=program, expect=2).err())
