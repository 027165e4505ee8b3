"""A TCP proxy on loopback that a test can make silent or dead.

    pass    forwards
    stall   connections stay open and new ones are accepted, but nothing is forwarded: a partition
"""

import socket
import struct
import threading


class TcpProxy:
    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.changed = threading.Condition()
        self.mode = "pass"
        self.stalls_after = None  # Bytes for the target.
        self.closed = False
        self.pairs = []
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, mode):
        with self.changed:
            self.mode = mode
            self.changed.notify_all()

    def _count(self, size):
        if self.stalls_after is not None:
            self.stalls_after -= size
            if self.stalls_after <= 0:
                self.stalls_after = None
                self.set("stall")

    def cut(self):
        """Resets every connection there is, as a firewall that forgot them."""
        with self.changed:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                self._reset(end)
        return len(pairs)

    def close(self):
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()

    @staticmethod
    def _reset(end):
        try:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # Closed by the other side meanwhile.
        end.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target, 5)
                server.settimeout(None)
            except OSError:
                self._reset(client)
                continue
            with self.changed:
                self.pairs.append((client, server))
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, source, sink):
        try:
            while piece := source.recv(65536):
                with self.changed:
                    self.changed.wait_for(lambda: self.mode != "stall" or self.closed)
                sink.sendall(piece)
                if sink.getpeername() == self.target:
                    self._count(len(piece))
            with self.changed:  # A silent network does not pass on that one end has gone.
                self.changed.wait_for(lambda: self.mode != "stall" or self.closed)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self._reset(source)
            self._reset(sink)
