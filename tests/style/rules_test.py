"""Each rule finds its offence and leaves the lawful neighbour alone."""

import sys
import unittest

import rules
from source import File, functions_of

HEADER = "// Decides a thing; never does another.\n#pragma once\n"
ENTRY = "**Cause:** a.\n**Confirm:** b.\n**Do:** c.\n"

# rule, path, text that breaks it, text that does not.
SAMPLES = [
    (rules.layers, "common/a.cc", '#include "proto/b.h"\n', '#include "common/b.h"\n'),
    (rules.layers, "common/a.h", '#include "common/loop.h"\n', '#include "common/time.h"\n'),
    (rules.layers, "rendezvous/core/a.cc", '#include "rendezvous/driver.h"\n',
     '#include "rendezvous/core/b.h"\n'),
    (rules.layers, "launcher/a.cc", '#include "trainer/b.h"\n', '#include "agent/b.h"\n'),
    (rules.layers, "agent/a.cc", '#include "b.h"\n', "#include <vector>\n"),
    (rules.foreign_headers, "rendezvous/driver.cc", "#include <grpcpp/grpcpp.h>\n", "#include <map>\n"),
    (rules.foreign_headers, "rendezvous/core/service.cc", '#include "proto/rendezvous.pb.h"\n', ""),
    (rules.foreign_headers, "agent/a.cc", "#include <google/protobuf/message.h>\n", ""),
    (rules.foreign_headers, "launcher/a.cc", "#include <torch/torch.h>\n", "#include <CLI/CLI.hpp>\n"),
    (rules.foreign_headers, "proto/a.h", "#include <c10/util/Exception.h>\n", ""),
    (rules.pure_cores, "agent/core/a.cc", "void F() { std::this_thread::yield(); }\n", "// thread\n"),
    (rules.pure_cores, "agent/core/a.cc", "auto t = std::chrono::steady_clock::now();\n",
     "Time now = at;\n"),
    (rules.pure_cores, "agent/core/a.cc", "auto v = getenv(x);\n", 'const char* k = "getenv";\n'),
    (rules.pure_cores, "agent/core/a.h", "#include <fstream>\n", "#include <ostream>\n"),
    (rules.pure_cores, "agent/core/a.cc", "std::mt19937_64 r(1);\n", "int operand = 1;\n"),
    (rules.pure_cores, "rendezvous/core/a.cc", "std::mutex m;\n", "int x;\n"),
    (rules.pure_cores, "rendezvous/core/a.cc", "spdlog::info(x);\n", "notices.push_back(x);\n"),
    (rules.pure_cores, "rendezvous/core/a.cc", "usleep(3);\n", "/* it sleeps (not) */\n"),
    (rules.no_sleep_in_tests, "agent/a_test.cc", "std::this_thread::sleep_for(1s);\n", "// usleep(1)\n"),
    (rules.no_sleep_in_tests, "tests/fault/a.py", "import time\ntime.sleep(1)\n",
     "select.select([], [], [], 0.1)\n"),
    (rules.no_sleep_in_tests, "tests/fault/a.sh", "run &\nsleep 3\n", "run | grep sleep\n"),
    (rules.no_sleep_in_tests, "tests/fault/a.sh", "while x; do sleep .1; done\n", "read -t 3 -u 4\n"),
    (rules.no_sleep_in_tests, "tests/fault/a.cc", "::usleep(1);\n", "Eventually(f, 5s);\n"),
    (rules.sizes, "agent/a.cc", "int F(int a) {\n" + "  a++;\n" * 69 + "}\n",
     "int F(int a) {\n" + "  a++;\n" * 68 + "}\n"),
    (rules.sizes, "tests/a.py", "def f():\n" + "    g()\n" * 70, "def f():\n" + "    g()\n" * 69),
    (rules.common_stays_common, "common/a.h", "int WorkerCount();\n", "int homework_count();\n"),
    (rules.common_stays_common, "common/a.h", "int store_port;\n", "flag.store(true);\n"),
    (rules.common_stays_common, "common/a.h", "using AgentId = int;\n", "// the agent's id\n"),
    (rules.json_is_parsed_in_one_place, "agent/a.cc", "json::parse(text, nullptr, false);\n",
     "ParseJson(text);\njson::parse_event_t event;\n"),
    (rules.headers_open_well, "agent/a.h", "#pragma once\n", HEADER),
    (rules.headers_open_well, "agent/a.h", "// A thing.\n#ifndef A\n", HEADER),
    (rules.headers_open_well, "agent/README.md", "#agent : a thing\n", "# agent: a thing\n"),
    (rules.tests_are_registered, "agent/a_test.cc", "", None),
    (rules.no_bare_todo, "agent/a.cc", "// TODO: later\n", "// TODO(gRPC 1.60 is out): drop it\n"),
    (rules.no_bare_todo, "scripts/a.sh", "# FIXME\n", "mktemp -d x-XXXXXX\n"),
    (rules.no_place_but_this, "scripts/a.sh", "cd /home/me/ddprun\n", 'cd "$HOME/work/x"\n'),
    (rules.no_place_but_this, "docs/a.md", "see ../shared/notes\n", "see ../docs/design.md\n"),
    (rules.no_place_but_this, "scripts/a.sh", "pip download https://wheels.host.org/simple\n",
     "curl http://127.0.0.1:8265/healthz\n"),
    (rules.no_place_but_this, "scripts/a.sh", "pip download --index-url=x torch\n",
     "pip download torch\n"),
    (rules.reading_order, "agent/README.md", "1. `gone`: nothing.\n", "No list here.\n"),
    (rules.folder_table, "CONTRIBUTING.md", "| `gone/` | nothing |\n", "No table here.\n"),
    (rules.docs_name_what_is_there, "docs/a.md", "see `docs/gone.md`\n", "see `docs/a.md`\n"),
    (rules.sizes, "docs/a.md", "a line\n" * 251, "a line\n" * 250),
    (rules.files_are_written, "docs/a.md", "see `gone.json`\n", "see `a.md`, `my/gone.json` and `gone.json.old`\n"),
    (rules.links_lead_somewhere, "docs/a.md", "[a](gone.md)\n", "[a](a.md) [b](https://a.org/b.md) `[c](gone.md)`\n"),
    (rules.links_lead_somewhere, "docs/a.md", "# One\n[a](#two)\n", "# One, `--two`\n[a](a.md#one---two)\n"),
    (rules.messages_are_said, "docs/troubleshooting.md", "### not-said\n`nobody says that`\n" + ENTRY, "No entries.\n"),
    (rules.messages_are_said, "docs/messages-of-a.md", "### not-said\n`nobody says that`\n" + ENTRY, "No entries.\n"),
    (rules.plain_words, "agent/a.cc", "// It waits for nobody.\nint a;\n" * 21, "// It waits for nobody.\nint a;\n" * 20),
    (rules.plain_words, "agent/a.cc", "// Waits. Who asks\n// is answered.\nint a;\n" * 21, "// Waits, who asks? Who?\nint a;\n" * 21),
    (rules.plain_words, "agent/a.cc", 'Log("it was told " "nothing");\n' * 21, 'Log("x"); tests_are_told();\n' * 21),
    (rules.plain_words, "agent/a.cc", "// It goes on.\nint a;\n" * 21, "// It turns that on.\nint a;\n" * 21),
    (rules.plain_words, "agent/a.cc", "// Is kept; what\n// is new goes.\nint a;\n" * 21, "// Why; and what.\nint a;\n" * 21),
    (rules.plain_words, "agent/a_test.cc", "// It waits for nobody.\nint a;\n" * 21, "// It waits for nobody.\nint a;\n" * 20),
    (rules.plain_words, "tests/sim/a.py", "# It was told.\na = 1\n" * 21, "# It was told.\na = 1\n" * 20),
    (rules.plain_words, "agent/a.py", 'def a():\n    """It waits for\n    nobody."""\n' * 21, 'a = "nobody"\n' * 21),
    (rules.plain_words, "scripts/a.sh", "true  # Nobody\n" * 21, "echo nobody '#nobody'\n" * 21),
    (rules.plain_words, "launcher/a.html", "<p>told</p>" * 21, "<script>told();</script><p id='told'></p>" * 21),
    (rules.plain_words, "agent/a.cc", "Closeup closeup;\n", "Closed closed;\n"),
    (rules.plain_words, "agent/a.h", "// Started from a template.\n", "template <class T>\nvoid ExpandTemplate(T prefix_template);\n"),
    (rules.plain_words, "agent/a.h", "class WorkerTemplate;\n", "using Of = typename Io::template Of<T>;\n"),
    (rules.plain_words, "agent/a.h", "struct PoolWish;\n", "// Washes.\n"),
    (rules.plain_words, "agent/a.h", "PeersTurn turn_;\n", "// Turns it off, each in turn.\nint turnaround = kTurnarounds;\n"),
    (rules.plain_words, "agent/a.h", "// One piece per loop turn.\n", "// It may turn out to be so; return_turned_off.\n"),
    (rules.plain_words, "scripts/a.txt", "MNIST comes along.\n", "MNIST is bundled.\n"),
    (rules.plain_words, "docs/a.md", "The door of a run.\n", "Indoors, each in turn.\n"),
    (rules.plain_words, "launcher/a.py", "def next_turn(): pass\n", "def every_request_in_turn(): pass\n"),
    (rules.plain_words, "proto/a.proto", "// A stranger asks.\n", "// A strange one.\n"),
    (rules.plain_words, "tests/sim/a_test.cc", "TEST(A, AStrangerIsRefused) {}\n", "TEST(A, AClientIsRefused) {}\n"),
]


class Samples(unittest.TestCase):
    def test_each_rule_finds_its_offence(self):
        for rule, path, bad, _ in SAMPLES:
            with self.subTest(rule=rule.__name__, path=path, bad=bad[:60]):
                self.assertNotEqual(list(rule([File(path, bad)])), [])

    def test_each_rule_leaves_the_lawful_alone(self):
        for rule, path, _, good in SAMPLES:
            if good is not None:
                with self.subTest(rule=rule.__name__, path=path, good=good[:60]):
                    self.assertEqual(list(rule([File(path, good)])), [])

    def test_every_rule_has_a_sample(self):
        self.assertEqual({rule.__name__ for rule, *_ in SAMPLES},
                         {rule.__name__ for rule in rules.RULES})


class WholeTrees(unittest.TestCase):
    def test_registered_by_its_own_or_a_higher_list(self):
        test = File("agent/sub/a_test.cc", "")
        for path, text in (("agent/sub/CMakeLists.txt", "ddprun_test(a SOURCES a_test.cc)"),
                           ("agent/CMakeLists.txt", "ddprun_test(a SOURCES sub/a_test.cc)")):
            self.assertEqual(list(rules.tests_are_registered([test, File(path, text)])), [])
        other = File("agent/sub/CMakeLists.txt", "ddprun_test(a SOURCES extra_test.cc aa_test.cc)")
        self.assertEqual(len(list(rules.tests_are_registered([test, other]))), 1)

    def test_includes_point_down_the_reading_order(self):
        readme = File("agent/README.md", "1. `low`: first.\n2. `high`: then.\n3. `room/`: last.\n")
        low, high = File("agent/low.h", HEADER), File("agent/high.cc", '#include "agent/low.h"\n')
        room = File("agent/room/a.cc", '#include "agent/high.h"\n#include "agent/room/b.h"\n')
        lawful = [readme, low, high, room, File("agent/high_test.cc", '#include "agent/room/b.h"\n')]
        self.assertEqual(list(rules.reading_order(lawful)), [])
        for more in (File("agent/low.cc", '#include "agent/high.h"\n'),
                     File("agent/high.h", '#include "agent/room/b.h"\n'), File("agent/new.h", HEADER)):
            self.assertEqual(len(list(rules.reading_order([*lawful, more]))), 1)
        both = File("agent/README.md", "1. `low`, `high`: one.\n2. `room/`: last.\n")
        upward = File("agent/low.cc", '#include "agent/high.h"\n')
        self.assertEqual(list(rules.reading_order([both, low, high, upward, room])), [])

    def test_the_table_of_folders_is_the_tree(self):
        page = File("CONTRIBUTING.md", "| `common/` | values |\n")
        common, agent = File("common/a.h", HEADER), File("agent/a.h", HEADER)
        self.assertEqual(list(rules.folder_table([page, common])), [])
        self.assertEqual(len(list(rules.folder_table([page, common, agent]))), 1)

    def test_messages_stand_in_the_sources(self):
        source = File("agent/a.cc", '''
            Say("node " + node + " is lost: its connection closed "  // Why.
                "and stays so for " + FormatDuration(grace) + " (said \\"once\\") [node-lost]");
            ''')
        def offences(keys, text=ENTRY, file=source, slug="node-lost"):
            return list(rules.messages_are_said([file, File("docs/troubleshooting.md", f"### {slug}\n{keys}\n{text}")]))
        for lawful in ("`node NAME is lost: its connection closed and stays so for TIME`", "`its connection closed and stays`",
                       '`for TIME (said "once")`', "`node NAME is lost` `NAME is lost: its connection`"):
            self.assertEqual(offences(lawful), [])
        for false in ("`node n1 is lost: its connection`", "`its connection NAME closed and stays`", "`is lost: it is gone`",
                      "`stays so for TIME, node NAME is lost`", "`is lost: N`", "`node NAME is lost: its` `nobody says this`"):
            self.assertEqual(len(offences(false)), 1, false)
        key = "`its connection closed and stays`"
        self.assertEqual(len(offences(key, "**Cause:** a.\n**Do:** c.\n")), 1)
        self.assertEqual(len(offences(key, file=File("tests/a.cc", source.text))), 1)
        self.assertEqual(len(offences(key, file=File("agent/a.cc", "// its connection closed and stays\n"))), 1)

    def test_messages_end_in_the_slug_that_is_their_heading(self):
        source = File("agent/a.cc", 'Say("the node is lost: " + why + " [node-lost]");\n'
                                    'Say("the disk is full: " + (a ? " [disk-full]" : " [disk-gone]"));\n'
                                    'Say("usage: ddprun [options]");\n')
        waits = File("rendezvous/messages/describe.cc", 'return "it waits for the node";\n')
        def offences(*entries, files=(source, waits)):
            page = "".join(f"### {slug}\n{quoted}\n{ENTRY}" for slug, quoted in entries)
            return len(list(rules.messages_are_said([*files, File("docs/troubleshooting.md", page)])))
        whole = [("node-lost", "`the node is lost: WHY`, after `it waits for the node`"),
                 ("disk-full", "`the disk is full: WHY`"), ("disk-gone", "`the disk is full: WHY`")]
        self.assertEqual(offences(*whole), 0)
        self.assertEqual(offences(*whole, ("no-node", "`it waits for the node`")), 0)
        self.assertEqual(offences(*whole[:2]), 1)  # [disk-gone] is explained nowhere.
        self.assertEqual(offences(*whole, ("node-lost", "`the node is lost: WHY`")), 1)  # Twice.
        self.assertEqual(offences(*whole, ("node-gone", "`the node is lost: WHY`")), 1)  # Ends in another slug.
        self.assertEqual(offences(*whole, ("disk-lost", "text alone")), 1)

    def test_files_that_pages_name_are_written(self):
        source = File("agent/a.cc", 'Write(dir / "events.jsonl"); Write("rank-" + rank + ".lines.txt");\n// "old.log"\n')
        page = lambda name: [source, File("docs/a.md", f"see `{name}`\n")]
        for lawful in ("events.jsonl", "rank-R.lines.txt", "rank-RANK.lines.txt", "a.cc"):
            self.assertEqual(list(rules.files_are_written(page(lawful))), [])
        for gone in ("event.json", "rank-R.other.txt", "old.log"):
            self.assertEqual(len(list(rules.files_are_written(page(gone)))), 1, gone)

    def test_pages_name_what_is_there(self):
        header = File("agent/core/a.h", HEADER)
        lawful = ("`agent/core/a.h` `agent/core/a` `agent/core/` `agent/core/*.h` `agent/core/NAME_test.cc`\n"
                  "```\nagent/gone.h\n```\n"
                  "`build/tests/agent_test` `x/agent/gone.h` `$X/agent/gone` `other/gone.h` `exit/agent`\n")
        for path in ("docs/a.md", "README.md", "agent/core/README.md"):
            self.assertEqual(list(rules.docs_name_what_is_there([header, File(path, lawful)])), [])
            for gone in ("`agent/core/b.h`", "`ninja x && agent/b_test.py -h`", "`agent/room/`", "`agent/core/*.cc`",
                         "`agent/README.md`"):
                page = File(path, "a line\n" + gone + "\n")
                found = list(rules.docs_name_what_is_there([header, page]))
                self.assertEqual(len(found), 1, gone)
                self.assertIn(f"{path}:2: ", found[0])
        man = File("docs/man/a.md", "`agent/gone.h`\n")
        self.assertEqual(list(rules.docs_name_what_is_there([header, man])), [])


class Functions(unittest.TestCase):
    def names(self, text):
        return [(name, length) for name, _, length in functions_of(File("a.cc", text))]

    def test_finds_functions_and_their_length(self):
        text = ("namespace a {\nstruct S {\n  int F() const { return 1; }\n  int x{2};\n};\n"
                "void G(int a,\n       int b) {\n  if (a) {\n    b++;\n  }\n}\n"
                "const int kTable[] = {1, 2};\nTEST(T, U) {\n}\n}  // namespace a\n")
        self.assertEqual(self.names(text), [("F", 1), ("G", 6), ("TEST", 2)])

    def test_braces_in_literals_comments_and_macros_are_ignored(self):
        text = "#define M(x) { \\\n  x\nvoid F() {\n  g(\"}\", '}');  // }\n  R\"(})\";\n}\n"
        self.assertEqual(self.names(text), [("F", 4)])


if __name__ == "__main__":
    sys.exit(unittest.main())
