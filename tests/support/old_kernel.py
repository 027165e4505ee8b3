"""Executes a program on a kernel that lacks newer system calls, or in a sandbox that refuses them, by a seccomp filter:

old_kernel.py KERNEL PROGRAM [ARGUMENT...]      KERNEL: a key of OLD_KERNELS
"""

import ctypes
import errno
import os
import struct
import sys

CLOSE_RANGE = 436
FIRST_AFTER_4_18 = 424  # pidfd_send_signal, of Linux 5.1; 4.18's last is 334.


def forbid(first, last, error):
    """From now on the system calls of these numbers fail with `error`, here and in all children."""
    libc = ctypes.CDLL(None, use_errno=True)

    def statement(code, if_true, if_false, value):
        return struct.pack("HBBI", code, if_true, if_false, value)
    load, at_least, more_than, give = 0x20, 0x35, 0x25, 0x06
    filters = b"".join([statement(load, 0, 0, 0),  # The number of the call.
                        statement(at_least, 0, 2, first), statement(more_than, 1, 0, last),
                        statement(give, 0, 0, 0x00050000 | error), statement(give, 0, 0, 0x7FFF0000)])
    program = ctypes.create_string_buffer(filters)
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(filters) // 8, ctypes.addressof(program)))
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(header)), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no seccomp filter here")


OLD_KERNELS = {
    "4.18": (FIRST_AFTER_4_18, 1000, errno.ENOSYS),
    "sandbox": (CLOSE_RANGE, CLOSE_RANGE, errno.EPERM),
    "5.9": (CLOSE_RANGE, CLOSE_RANGE, errno.EINVAL),  # It lacks the flag.
}

if __name__ == "__main__":
    forbid(*OLD_KERNELS[sys.argv[1]])
    os.execvp(sys.argv[2], sys.argv[2:])
