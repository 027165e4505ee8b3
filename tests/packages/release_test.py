"""The files of a release beside its packages: the list of what is linked, NOTICE, and the workflows that make it."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LISTED = re.search(r"set\(linked ([^)]+)\)", (ROOT / "cmake/DdprunInstall.cmake").read_text())[1].split()

# Debian's source package -> its line in NOTICE.
NAMES = {"grpc": "gRPC", "protobuf": "Protocol Buffers", "abseil": "Abseil", "re2": "RE2", "c-ares": "c-ares",
         "openssl": "OpenSSL", "zlib": "zlib", "spdlog": "spdlog", "fmtlib": "{fmt}", "cli11": "CLI11",
         "nlohmann-json3": "JSON for Modern C++", "xxhash": "xxHash", "gcc-12": "libstdc++", "boost1.81": "Boost"}


class BillOfMaterials(unittest.TestCase):
    def setUp(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as notices:
            notices.write("".join(f"\n==== {name}\ntext\n==== in the text of a notice\n" for name in LISTED))
            notices.flush()
            made = subprocess.run(
                [sys.executable, ROOT / "scripts/package/sbom.py", notices.name, "1.2.3"], check=True, text=True,
                capture_output=True, env={**os.environ, "SOURCE_DATE_EPOCH": "86400"})
        self.document = json.loads(made.stdout)

    def test_each_linked_package_is_there_with_its_version(self):
        own, *linked = self.document["packages"]
        self.assertEqual((own["name"], own["versionInfo"]), ("ddprun", "1.2.3"))
        places = [p["externalRefs"][0]["referenceLocator"] for p in linked]
        found = {re.fullmatch(r"pkg:deb/debian/([^@]+)@([^?+: ]+)\?arch=\w+&distro=debian-12", place)[1]
                 for place in places}
        self.assertEqual(found, {*LISTED, "libboost1.81-dev"})
        self.assertTrue(all(re.match(r"(\d+:)?\d", p["versionInfo"]) for p in linked), linked)

    def test_the_relations_are_between_what_is_there(self):
        names = {p["SPDXID"] for p in self.document["packages"]}
        self.assertEqual(len(names), len(self.document["packages"]))
        related = {r["relatedSpdxElement"] for r in self.document["relationships"]}
        self.assertEqual(related, names)
        self.assertEqual(self.document["creationInfo"]["created"], "1970-01-02T00:00:00Z")

    def test_notice_names_what_is_linked(self):
        named = re.findall(r"^  (\S.*?) {2,}\S", (ROOT / "NOTICE").read_text(), re.M)
        linked = [p["name"] for p in self.document["packages"][1:]]
        self.assertEqual(sorted(named), sorted(NAMES[name] for name in linked))


class Workflows(unittest.TestCase):
    def test_they_call_scripts_that_are_there(self):
        called = set()
        for workflow in (ROOT / ".github/workflows").glob("*.yml"):
            called |= set(re.findall(r"scripts/[\w./-]+\.sh", workflow.read_text()))
        self.assertLessEqual({"scripts/test.sh", "scripts/quickstart.sh", "scripts/release.sh"}, called)
        for name in called:
            self.assertTrue(os.access(ROOT / name, os.X_OK), name)


class Versions(unittest.TestCase):
    def test_the_citation_has_the_projects_version(self):
        version = re.search(r"project\(ddprun VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertIn(f"\nversion: {version}\n", (ROOT / "CITATION.cff").read_text())
