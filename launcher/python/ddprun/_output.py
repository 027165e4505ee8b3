"""Shows what a process prints where the caller's own output goes."""

import codecs
import os
import selectors
import subprocess
import sys

from ddprun import _caller


def follow(process: "subprocess.Popen[bytes]") -> None:
    """Until both of its streams have ended. May be called again after an interrupt."""
    assert process.stdout is not None and process.stderr is not None
    with selectors.DefaultSelector() as selector:
        for pipe, stream in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            if not pipe.closed:
                decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
                selector.register(pipe, selectors.EVENT_READ, (decoder, stream))
        while selector.get_map():
            for key, _ in selector.select():
                decoder, stream = key.data
                content = os.read(key.fd, 1 << 16)
                if not _caller.is_closed(stream):
                    stream.write(decoder.decode(content, final=not content))
                    stream.flush()
                if not content:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
