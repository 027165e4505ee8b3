#!/usr/bin/env python3
"""Does Python's own safetensors package read what the trainer writes, and the other way round?

  safetensors_check.py FILE           prints "name dtype shape byte-sum" of each tensor
  safetensors_check.py --tool TOOL    lets checkpoint_tool write a checkpoint and compares what
                                      both print; then both print a file that Python wrote

Needs the packages safetensors and numpy.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32",
         "uint8": "U8", "bool": "BOOL"}


def describe(path):
    lines = []
    for name, array in sorted(load_file(path).items()):
        shape = ",".join(str(size) for size in array.shape)
        total = sum(array.tobytes())
        lines.append(f"{name} {NAMES[array.dtype.name]} [{shape}] {total}")
    return lines


def compare(tool, path):
    theirs = subprocess.run([tool, "print", str(path)], check=True, capture_output=True,
                            text=True).stdout.splitlines()
    ours = describe(path)
    print(f"{path.name}:", *ours, sep="\n  ")
    if not ours:
        sys.exit(f"{path}: Python sees no tensors")
    if ours != theirs:
        sys.exit(f"{path}: checkpoint_tool prints otherwise:\n  " + "\n  ".join(theirs))


def check_with_tool(tool):
    with tempfile.TemporaryDirectory() as directory:
        written = subprocess.run([tool, "write", directory], check=True, capture_output=True,
                                 text=True).stdout.strip()
        for name in ("model", "optimizer", "rank-states"):
            compare(tool, pathlib.Path(written) / f"{name}.safetensors")
        model = pathlib.Path(written) / "model.safetensors"
        with safe_open(model, framework="numpy") as opened:
            metadata = opened.metadata()
        weight = load_file(model)["fc.weight"]
        if metadata.get("step") != "12" or weight.tolist() != [12.0, 13.0, 14.0]:
            sys.exit(f"{model}: metadata {metadata}, fc.weight {weight}")

        python_file = pathlib.Path(directory) / "python.safetensors"
        arrays = {f"a.{name}": numpy.arange(12).reshape(3, 4).astype(name) for name in NAMES}
        arrays["scalar"] = numpy.array(7, dtype="int64")
        save_file(arrays, python_file, metadata={"format": "np"})
        compare(tool, python_file)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--tool":
        check_with_tool(sys.argv[2])
    elif len(sys.argv) == 2:
        print("\n".join(describe(sys.argv[1])))
    else:
        sys.exit(__doc__)
