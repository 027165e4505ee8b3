"""Unpacks what a C++ program needs out of the wheels in a folder: unpack_libtorch.py [--cuda] WHEELS TARGET

Keeps the layout of site-packages: libtorch_cpu finds its neighbours by a path relative to itself. --cuda: also what the GPU
plug-in is compiled and linked against, which is less than what it runs with.
"""

import pathlib
import sys
import zipfile

LIBRARIES = {
    "torch/lib/libtorch_cpu.so",
    "torch/lib/libc10.so",
    "torch/lib/libgomp.so.1",
    "nvidia/cu13/lib/libcudart.so.13",
    "nvidia/cu13/lib/libcupti.so.13",
}
CUDA_LIBRARIES = {"torch/lib/libtorch_cuda.so", "torch/lib/libc10_cuda.so"}


def is_wanted(name, libraries, cuda):
    if name in libraries or name.startswith("torch/include/"):
        return True
    if cuda and name.startswith("nvidia/") and "/include/" in name:
        return True
    folder = name.split("/", 1)[0]  # Licences and versions stay with what they cover.
    is_notice = any(word in name for word in ("LICENSE", "NOTICE", "License", "METADATA"))
    return folder.endswith(".dist-info") and is_notice


def unpack(wheels, target, cuda):
    count = size = 0
    libraries = LIBRARIES | (CUDA_LIBRARIES if cuda else set())
    missing = set(libraries)
    for wheel in sorted(pathlib.Path(wheels).glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                if entry.is_dir() or not is_wanted(entry.filename, libraries, cuda):
                    continue
                archive.extract(entry, target)
                missing.discard(entry.filename)
                count += 1
                size += entry.file_size
        wheel.unlink()  # Half a gigabyte that nothing reads again.
    if missing:
        sys.exit(f"the wheels in {wheels} do not hold {', '.join(sorted(missing))}")
    print(f"{count} files, {size / 1e6:.0f} MB")


if __name__ == "__main__":
    folders = [argument for argument in sys.argv[1:] if argument != "--cuda"]
    unpack(*folders, cuda=len(folders) < len(sys.argv) - 1)
