"""Calls the functions named on the command line once each, with zeros, through a library.

    python3 every_function.py LIBRARY FUNCTION…

A call that a fault answers is never forwarded, so that zeros are good enough. Prints one JSON line:
[[function, result, last error], …]. Run by boundary_test.py.
"""

import ctypes
import json
import sys


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


# Functions that take the id by value; its place among the arguments matters to nobody here, as
# everything else is zero and the id travels on the stack.
BY_VALUE = {"CommInitRank": 2, "CommInitRankConfig": 2}
ARGUMENTS_MAX = 12


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.ncclGetLastError.restype = ctypes.c_char_p
    rows = []
    for name in sys.argv[2:]:
        arguments = [ctypes.c_void_p(0)] * ARGUMENTS_MAX
        if name in BY_VALUE:
            arguments[BY_VALUE[name]] = UniqueId()
        result = getattr(library, "nccl" + name)(*arguments)
        rows.append([name, result, (library.ncclGetLastError(None) or b"").decode()])
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
