"""Flags and variables that the pages cite are there, and signatures are whole. tests/style sees files and links."""

import ast
import glob
import os
import pathlib
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [os.path.join(ROOT, "scripts/docs"), os.path.join(ROOT, "tests/style")]

import references  # noqa: E402
import source  # noqa: E402

CODE = re.compile(r"^```.*?^```|`[^`]+`", re.S | re.M)
FLAG = re.compile(r"(?<![\w-])--[a-zA-Z][\w-]*\w(?![\w-])")
# Of other programs, and of torchrun where its flag is not ddprun's.
FOREIGN = {
    "sbatch, srun, squeue": ["account", "cpus-per-task", "gpus-per-node", "kill-on-bad-exit", "me", "mem", "no-kill",
                             "ntasks-per-node", "pty", "requeue", "signal", "wait"],
    "pip, podman, apt, cmake, venv": ["allow-downgrades", "build-arg", "component", "dest", "find-links", "from", "install",
                                      "no-index", "system-site-packages", "target"],
    "kubectl": ["from-literal"],
    "torchft_lighthouse, torchtitan": ["bind", "checkpoint", "config", "min-replicas", "training"],
    "the reader's own program, examples": ["data", "local-rank", "out"],
    "a beginning of several": ["nproc"],
}


def pages():
    for path in [os.path.join(ROOT, "README.md"), *glob.glob(os.path.join(ROOT, "docs/*.md"))]:
        yield os.path.relpath(path, ROOT), references.read(os.path.relpath(path, ROOT))


def cited(pattern):
    """(page:line, match) of what stands in code."""
    for name, text in pages():
        for code in CODE.finditer(text):
            for found in pattern.findall(code[0]):
                yield f"{name}:{text.count(chr(10), 0, code.start()) + 1}", found


def flags_of_ddprun():
    tables = [references.output(references.FLAG_REFERENCE, "markdown"), *references.helps().values()]
    tables += [references.read(f"docs/man/{page}.1").replace("\\-", "-") for page in ("ddprun-train", "ddprun-bench-comm")]
    return {flag for text in tables for flag in FLAG.findall(re.sub(r"\\f[BIR]", " ", text))}


class Cited(unittest.TestCase):
    def test_flags(self):
        scripts = "".join(references.read(os.path.relpath(path, ROOT)) for path in glob.glob(os.path.join(ROOT, "scripts/*.sh")))
        known = flags_of_ddprun() | set(FLAG.findall(scripts)) | {f"--{flag}" for flags in FOREIGN.values() for flag in flags}
        unknown = [f"{where}: {flag}" for where, flag in cited(FLAG) if flag.replace("_", "-") not in known]
        self.assertEqual(unknown, [])

    def test_variables(self):
        text = "".join(file.text for file in source.tree(pathlib.Path(ROOT)) if file.is_code or file.folder == "docs/man")
        listed = re.findall(r"DDPRUN_[A-Z_]+[A-Z]", text)
        known = set(listed) | {"DDPRUN_" + flag[2:].upper().replace("-", "_") for flag in flags_of_ddprun()}
        unknown = [f"{where}: {name}" for where, name in cited(re.compile(r"\bDDPRUN_[A-Z_]+[A-Z]\b")) if name not in known]
        self.assertEqual(unknown, [])

    def test_the_life_of_a_world_is_that_of_its_transcript_and_its_functions_are_there(self):
        life = re.search(r"^## The life of a world\n.*?^```\n(.*?)^```", references.read("rendezvous/README.md"), re.S | re.M)[1]
        transcript = references.read("tests/golden/life_of_a_world.txt")
        for time, node, way in re.findall(r"^ *(\d+\.\d{3}) (n\d|  ) ([<>]?)", life, re.M):
            line = {"": node.strip() or "server", ">": f"{node} +send report", "<": f"server +tells {node}"}[way]
            self.assertRegex(transcript, rf"(?m)^ *{time} +{line} ")
        cores = "".join(file.text for file in source.tree(pathlib.Path(ROOT))
                        if file.is_cpp and not file.is_test and file.folder in ("rendezvous/core", "agent/core"))
        functions = re.findall(r"\b[A-Z]\w+(?=\(\))", life)
        self.assertGreater(len(functions), 20)
        self.assertEqual([name for name in functions if not re.search(rf"(?m)^\S.* \**{name}\(", cores)], [])

    def test_no_page_that_help_prints_has_markup_of_pictures_or_links(self):
        pages = os.path.join(ROOT, "launcher/command_line/message_pages.cmake")
        topics = re.search(r"embed_pages\(topic_pages (.*)\)", pathlib.Path(pages).read_text(encoding="utf-8"))[1].split()
        for topic in [*topics, "messages", *re.findall(r"^(\S+)$", references.output(references.DDPRUN, "help", "messages"), re.M)]:
            text = CODE.sub("", references.output(references.DDPRUN, "help", topic))
            self.assertNotRegex(text, r"<[!/a-z]|\]\(|\*\*", topic)

    def test_a_signature_has_a_line_for_each_argument_with_its_whole_type(self):
        source_of = "def f(one: 'Union[str, os.PathLike[str]]', two: 'Callable[[int, str], Dict[str, List[int]]]' = g(1, 2)): pass"
        self.assertEqual(references.signature(ast.parse(source_of).body[0], "ddprun.f"),
                         "ddprun.f(\n    one: 'Union[str, os.PathLike[str]]',\n"
                         "    two: 'Callable[[int, str], Dict[str, List[int]]]'=g(1, 2),\n)")
