"""auditwheel's judgement of a wheel: check_wheel.py WHEEL

Its tag must say no less than what its binaries need. libtorch is not in the wheel: it comes from the
torch wheel that it requires, and brings libstdc++'s users with it, so these must ask for no newer one.
"""

import pathlib
import sys

from auditwheel.wheel_abi import analyze_wheel_abi

TORCH = frozenset({"libtorch*.so", "libc10*.so"})
GLIBCXX = (3, 4, 29)


def newer(symbols):
    versions = symbols.get("libstdc++.so.6", set())
    return sorted(v for v in versions
                  if v.startswith("GLIBCXX_") and tuple(map(int, v[8:].split("."))) > GLIBCXX)


def main(wheel):
    found = analyze_wheel_abi(None, None, wheel, TORCH, disable_isa_ext_check=False, allow_graft=False)
    wanted = wheel.name.removesuffix(".whl").split("-")[-1]
    known = {policy.name: policy for policy in found.policies}
    problems = []
    if wanted not in known or known[wanted] > found.overall_policy:
        problems.append(f"its tag says {wanted}, its binaries {found.overall_policy.name}: "
                        f"{sorted(map(str, found.external_refs[found.overall_policy.name].libs))}")
    problems += [f"wants {version} of libstdc++" for version in newer(found.versioned_symbols)]
    for problem in problems:
        print(f"{wheel.name}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
