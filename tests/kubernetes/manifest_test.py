"""Manifests are what a cluster takes: those of examples/kubernetes, which are what `ddprun k8s-manifest`
prints, and what it prints for hostile words."""

import os
import subprocess
import unittest

from judges import judge
from manifests import EXAMPLES, container_of, expanded, objects, printed

from ddprun_runs import DDPRUN, read_text

TRAINING = ("ddprun-train", "--model=mlp")
MADE = {
    "job.yaml": ("--nodes=8", "--gpus=8"),
    "elastic.yaml": ("--nodes=2:8", "--gpus=8"),
    "jobset.yaml": ("--jobset", "--nodes=2:8", "--gpus=8"),
    "trainjob.yaml": ("--trainjob", "--nodes=2:8", "--gpus=8"),
}
FORMS = ((), ("--jobset",), ("--trainjob",))

# Texts with a meaning of their own in YAML, in Kubernetes, in a shell or where names in braces are replaced.
HOSTILE = [
    "", " ", "no", "null", "~", "1e3", "0x10", "2026-11-25", "a: b", "# no", "- x", "'", '"', '\\', "\\n", "a\nb",
    "\ttab", "a\r\nb", "\x01\x1b[0m\x7f", "\x85\u2028\u2029\ufeff", "\xa0", "%name%", "%", "%command%", "{{x}}", "{a}",
    "[x]", "*x", "&x", "!x", "|", ">", "$(JOB_UID)", "$$(JOB_UID)", "$", "$$", "$x", "`id`", "ü", "日本", "🚂", "\ufffe",
    "--- x", "...", "? x", "@x", "%YAML", "\x08", "x" * 5000, "a\\\nb", "=", "<<", "'''", '"""', "\\u0041", "\\x41",
]


class Examples(unittest.TestCase):
    def test_they_are_what_k8s_manifest_prints(self):
        self.assertEqual(sorted(MADE), sorted(os.listdir(EXAMPLES)))
        for name, flags in MADE.items():
            with self.subTest(name):
                self.assertEqual(printed(*flags, *TRAINING), read_text(os.path.join(EXAMPLES, name)))

    def test_a_cluster_takes_them(self):
        for name in MADE:
            for thing in objects(read_text(os.path.join(EXAMPLES, name))):
                with self.subTest(name, kind=thing["kind"]):
                    judge(thing)

    def test_names_are_words_whatever_yaml_thinks_of_them(self):
        for form in FORMS:
            for name in ("on", "null", "y"):
                made = objects(printed(*form, f"--name={name}", "--claim=123", *TRAINING))
                with self.subTest(form=form, name=name):
                    self.assertEqual([thing["metadata"]["name"] for thing in made], [name] * len(made))
                    self.assertIn("'claimName': '123'", str(made))


class Printed(unittest.TestCase):
    def test_a_programs_words_are_its_own(self):
        for form in FORMS:
            with self.subTest(form):
                things = objects(printed(*form, "--nodes=2", "--", "prog", *HOSTILE))
                judge(things[-1])
                container = container_of(things)
                command = container["command"] + container["args"]
                told = [expanded(word, {"JOB_UID": "u-1", "x": "y"}) for word in command]
                self.assertEqual(told[-len(HOSTILE) - 1:], ["prog", *HOSTILE])
                self.assertIn("--run-dir=/ckpt/run-u-1", told)

    def test_an_image_is_one(self):
        for image in ("registry.local:5000/a/b@sha256:0123", 'x"y', "a:b#c", "no"):
            things = objects(printed(f"--image={image}", "prog"))
            self.assertEqual(container_of(things)["image"], image)

    def test_sizes_are_said_where_each_kind_has_them(self):
        sizes = ("--gpus=4", "--cpus=32", "--memory=64Gi", "--nproc-per-node=2", "--grace=90")
        for form in FORMS:
            things = objects(printed(*form, "--nodes=3", *sizes, "--claim=disk", "prog"))
            judge(things[-1])
            container = container_of(things)
            limits = (container.get("resources") or container.get("resourcesPerNode"))["limits"]
            self.assertEqual(limits, {"nvidia.com/gpu": 4, "cpu": "32", "memory": "64Gi"})
            for word in ("--nproc-per-node=2", "--shutdown-timeout=60"):
                self.assertIn(word, container["command"])
            self.assertIn("'claimName': 'disk'", str(things[-1]))
            self.assertIn("'terminationGracePeriodSeconds': 90", str(things[-1]))

    def test_an_elastic_job_begins_with_the_fewest(self):
        spec = objects(printed("--nodes=2:8", "prog"))[-1]["spec"]
        self.assertEqual((spec["completions"], spec["parallelism"]), (2, 2))
        for form, place in (("--jobset", "completions"), ("--trainjob", "numNodes")):
            self.assertIn(f"'{place}': 8", str(objects(printed(form, "--nodes=2:8", "prog"))))

    def test_a_text_that_is_not_utf8_is_refused(self):
        done = subprocess.run([os.fsencode(DDPRUN), b"k8s-manifest", b"prog", b"\xff\xfe"],
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"UTF-8", done.stderr)
