"""Writes what is linked into ddprun as an SPDX 2.3 document, for scanners: sbom.py NOTICES VERSION > FILE

NOTICES is third-party.txt as it is installed: each line "==== NAME" is a Debian package. Versions are
those that are installed here, so the build's. The time is SOURCE_DATE_EPOCH.
"""

import datetime
import json
import os
import re
import subprocess
import sys
import uuid

# Boost's licence asks for no notice beside a program, so the notices do not name it.
WITHOUT_NOTICE = ["libboost1.81-dev"]


def package(name):
    """One Debian package and the source that a security tracker knows it by."""
    form = "${Version}\t${Architecture}\t${source:Package}\t${source:Version}"
    version, architecture, source, source_version = subprocess.run(
        ["dpkg-query", "-W", "-f", form, name], check=True, capture_output=True, text=True).stdout.split("\t")
    return {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name),
        "name": source,
        "versionInfo": source_version,
        "comment": f"linked statically from {name} {version}",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{name}@{version.replace(':', '%3A').replace('+', '%2B')}"
                                f"?arch={architecture}&distro=debian-12"}],
    }


def document(notices, version):
    names = re.findall(r"^==== (\S+)$", notices, re.M) + WITHOUT_NOTICE
    linked = [package(name) for name in names]
    own = {"SPDXID": "SPDXRef-ddprun", "name": "ddprun", "versionInfo": version, "downloadLocation": "NOASSERTION",
           "filesAnalyzed": False, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
           "copyrightText": "NOASSERTION"}
    made = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    content = json.dumps([own, linked])
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"ddprun-{version}",
        "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "creationInfo": {"created": made.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: ddprun-package"]},
        "packages": [own, *linked],
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own["SPDXID"]},
            *({"spdxElementId": own["SPDXID"], "relationshipType": "STATIC_LINK", "relatedSpdxElement": one["SPDXID"]}
              for one in linked)],
    }


def main():
    notices, version = sys.argv[1:]
    with open(notices, encoding="utf-8") as file:
        json.dump(document(file.read(), version), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
