"""A cluster's names: dns.py ADDRESS TABLE. TABLE is a file of "name address" lines, read for each question."""

import socket
import struct
import sys


def answer(question, table):
    """Of one question for A in class IN; a name that is unknown does not exist."""
    end, labels = 12, []
    while question[end]:
        labels.append(question[end + 1:end + 1 + question[end]].decode())
        end += 1 + question[end]
    end += 5
    kind = struct.unpack("!H", question[end - 4:end - 2])[0]
    with open(table) as file:
        known = dict(line.split() for line in file)
    address = known.get(".".join(labels).lower())
    record = b""
    if address and kind == 1:
        record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 5, 4) + socket.inet_aton(address)
    flags = 0x8580 if address else 0x8583
    return (question[:2] + struct.pack("!HHHHH", flags, 1, 1 if record else 0, 0, 0) +
            question[12:end] + record)


def main(address, table):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        print("serving", file=sys.stderr, flush=True)
        while True:
            question, peer = server.recvfrom(512)
            server.sendto(answer(question, table), peer)


if __name__ == "__main__":
    main(*sys.argv[1:])
