"""Lets a torch wheel for GPUs be imported where the libraries of CUDA are missing: gigabytes that a test on CPUs has no
use for. In place of each library that torch/lib links and nobody has stands one whose functions end the process.

stub_cuda.py SITE_PACKAGES      For the releases that scripts/pins has; another one may call them when it is imported.
"""

import pathlib
import re
import subprocess
import sys


def output(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def needed(library):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", "-W", library)))


def versions(library):
    """Version -> the library that it wants it of."""
    found, file = {}, ""
    for name, version in re.findall(r"  File: (\S+)|  Name: (\S+)  Flags", output("readelf", "-V", "-W", library)):
        file = name or file
        if version:
            found[version] = file
    return found


def symbols(library, which):
    """Of its dynamic table, with "@version" where they have one; weak ones may be missing."""
    lines = output("nm", "-D", which, "-P", library).splitlines()
    return {line.split()[0].replace("@@", "@") for line in lines if line.split()[1] not in "wv"}


def stub(path, name, functions):
    """`functions`: version -> names; "": without one."""
    source, script = path.with_suffix(".s"), path.with_suffix(".map")
    names = sorted(set().union(*functions.values()))
    source.write_text("".join(f".globl {one}\n.type {one}, @function\n{one}:\n" for one in names) +
                      'ud2\n.section .note.GNU-stack,"",@progbits\n')
    script.write_text("".join(f"{version} {{ global: {' '.join(f'{one};' for one in sorted(ones))} }};\n"
                              for version, ones in sorted(functions.items()) if version))
    versioned = [f"-Wl,--version-script={script}"] if script.stat().st_size else []
    output("gcc", "-shared", "-nostdlib", f"-Wl,-soname,{name}", *versioned, "-o", path, source)
    source.unlink()
    script.unlink()


def main():
    site = pathlib.Path(sys.argv[1])
    torch = site / "torch" / "lib"
    users = sorted({*torch.glob("*.so*"), *(site / "torch").glob("_C*.so")})
    there = {path.name: path for path in [*torch.glob("*.so*"), *site.glob("nvidia/*/lib/*.so*")]}
    cache = re.findall(r"^\s+(\S+) \(libc6,x86-64\S*?\) => (\S+)", output("/sbin/ldconfig", "-p"), re.M)
    # The system's CUDA, where there is one, is that of another release.
    there.update({name: path for name, path in cache if name not in there and not name.startswith(("libcu", "libnv", "libnccl"))})
    missing = {name for user in users for name in needed(user)} - set(there)
    functions = {name: {} for name in sorted(missing)}
    defined = set().union(*(symbols(there[name], "--defined-only") for user in users for name in needed(user) - missing))
    defined |= set().union(*(symbols(user, "--defined-only") for user in users))
    defined |= {name.split("@")[0] for name in defined}
    for user in users:
        of = versions(user)
        for symbol in symbols(user, "--undefined-only") - defined:
            name, _, version = symbol.partition("@")
            library = of.get(version, min(missing)) if version else min(missing)
            if library in missing:
                functions[library].setdefault(version, set()).add(name)
    for name, ones in functions.items():
        stub(torch / name, name, ones)
    print(f"{sum(len(names) for ones in functions.values() for names in ones.values())} functions of {' '.join(functions)}")


if __name__ == "__main__":
    main()
