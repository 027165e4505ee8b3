"""Shows what a process prints where the caller's own output goes."""

import codecs
import os
import selectors
import subprocess
import sys
from typing import Any


def is_gone(stream: Any) -> bool:
    """As of a daemon, whose descriptors are closed: Python has None there."""
    return stream is None or bool(getattr(stream, "closed", False))


def follow(process: "subprocess.Popen[bytes]") -> None:
    """Until those of its streams that are pipes have ended. May be called again after an interrupt."""
    with selectors.DefaultSelector() as selector:
        for pipe, stream in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            if pipe is not None and not pipe.closed:
                decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
                selector.register(pipe, selectors.EVENT_READ, (decoder, stream))
        while selector.get_map():
            for key, _ in selector.select():
                decoder, stream = key.data
                content = os.read(key.fd, 1 << 16)
                stream.write(decoder.decode(content, final=not content))
                stream.flush()
                if not content:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
