"""The pictures of the pages: well-formed, small, without a request to anywhere; the text that a demo prints plays at
its time."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
SVG = "{http://www.w3.org/2000/svg}"
OUTPUT = """\
demo | ddprun --nproc-per-node=2 train <a&b>
  0.3 s  training
  9.0 s  >>> kill
  9.1 s  ddprun | recovered in 3 ms
  9.2 s  a step
 20.0 s  the end
demo | whole run 21 s
demo | ddprun --nnodes=1:2 train
  1.0 s  {long}
demo | whole run 2 s
""".replace("{long}", "w" * 200)


class Pictures(unittest.TestCase):
    def make(self, output):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "demo.svg")
            made = subprocess.run([sys.executable, ROOT / "scripts/pictures.py", path], input=output, text=True,
                                  capture_output=True, check=False)
            return made, path.read_text() if path.exists() else ""

    def test_a_scene_ends_after_the_recovery_and_waits_are_short(self):
        made, text = self.make(OUTPUT)
        self.assertEqual(made.returncode, 0, made.stderr)
        lines = ["".join(element.itertext()) for element in ElementTree.fromstring(text).iter(SVG + "text")][1:]
        self.assertEqual(lines[:5], ["$ ddprun --nproc-per-node=2 train <a&b>", "  0.3 s  training", "  9.0 s  >>> kill",
                                     "  9.1 s  ddprun | recovered in 3 ms", "  9.2 s  a step"])
        self.assertEqual(lines[6][:9], "  1.0 s  ")
        self.assertTrue(lines[6].endswith("w…") and len(lines[6]) <= 118, lines[6])
        self.assertEqual(len(lines), 7)
        total = float(re.search(r"animation-duration: ([\d.]+)s", text)[1])
        self.assertAlmostEqual(total, 0.3 + 0.9 + 0.12 + 0.12 + 4.0 + 0.9 + 4.0, delta=0.11)

    def test_output_of_one_demo_is_refused(self):
        made, text = self.make(OUTPUT.split("demo | whole")[0])
        self.assertNotEqual(made.returncode, 0)
        self.assertEqual(text, "")
        self.assertIn("two demos", made.stderr)

    def draw(self, name, given=""):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "drawn.svg")
            subprocess.run([sys.executable, ROOT / "scripts/docs/draw.py", name, path], input=given, text=True, check=True)
            return path.read_text()

    def test_a_picture_that_needs_no_run_is_as_it_is_drawn(self):
        for name in ("architecture", "slurm", "restarts", "badges"):
            self.assertEqual((ROOT / f"docs/pictures/{name}.svg").read_text(), self.draw(name))

    def test_bars_are_as_long_as_what_was_measured(self):
        rows = [{"name": name, "runs": 2, "whole": sum(parts), "parts": dict(zip("abc", parts))}
                for name, parts in (("slow", (1000, 2000, 1000)), ("quick", (10, 20, 10)))]
        text = self.draw("recovery", json.dumps({"machine": "m", "date": "d", "rows": rows}))
        widths = [float(width) for width in re.findall(r'class="part\d" x="[^"]+" y="[^"]+" width="([^"]+)" height="24"', text)]
        self.assertEqual(len(widths), 9)  # The quick one twice.
        self.assertAlmostEqual(widths[0] / widths[3], 100, delta=1)
        self.assertIn(">4.0 s<", text)
        self.assertEqual(text.count(">40 ms<"), 2)

    def test_a_timeline_has_the_times_of_its_run(self):
        lines = ["serving the rendezvous at x", ">>> the host of the server is switched off", "cannot reach the rendezvous",
                 "becoming the leader", "started rank 0 of 1", ">>> the old host is started again", "started rank 1 of 2"]
        text = self.draw("failover", "".join(f"  {number}.5 s  {line}\n" for number, line in enumerate(lines)))
        self.assertEqual(re.findall(r">\s*(\d+\.\d) s<", text), [f"{number}.5" for number in range(7)])

    def test_all_load_nothing(self):
        shown = re.findall(r"!\[[^]]+\]\(([^)]+\.svg)\)", (ROOT / "README.md").read_text())
        self.assertEqual(len(shown), 3)
        for path in (ROOT / "docs/pictures").glob("*.svg"):
            text = path.read_text()
            self.assertLess(len(text), 300_000)
            ElementTree.fromstring(text)
            self.assertNotRegex(text, r"<script|@import|url\((?!#)|href|on\w+=")
            self.assertEqual(re.findall(r"https?://[^\"']+", text), ["http://www.w3.org/2000/svg"])


if __name__ == "__main__":
    unittest.main()
