"""pack.py OUT LIBRARY FILES...: one file that is both the library and a place of Python's path, since zip's table of contents
is at its end. sitecustomize is there compiled too: workers of the Python version that has built ddprun need not do it."""

import os
import py_compile
import shutil
import sys
import zipfile

out, library, *files = sys.argv[1:]
shutil.copyfile(library, out)
with zipfile.ZipFile(out, "a") as archive:  # Stored: no zlib is needed.
    for path in files:
        name = os.path.basename(path)
        with open(path, encoding="utf-8") as file:
            archive.writestr(zipfile.ZipInfo(name), file.read())
        if name == "sitecustomize.py":
            unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
            made = py_compile.compile(path, cfile=out + ".pyc", dfile=name, doraise=True, invalidation_mode=unchecked)
            with open(made, "rb") as file:
                archive.writestr(zipfile.ZipInfo(name + "c"), file.read())
