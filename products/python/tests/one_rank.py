"""NCCL called through ctypes, without torch: one communicator of one rank, and its all-reduce.

Put in front of the code of a test, which finds `all_reduce()` returning NCCL's result code.
"""
CODE = """
import ctypes, sabot

_nccl = ctypes.CDLL(str(sabot.standin_library()))

class _UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]

_nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, _UniqueId, ctypes.c_int]
_nccl.ncclAllReduce.argtypes = [
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
    ctypes.c_void_p, ctypes.c_void_p]
_id, _comm = _UniqueId(), ctypes.c_void_p()
assert _nccl.ncclGetUniqueId(ctypes.byref(_id)) == 0
assert _nccl.ncclCommInitRank(ctypes.byref(_comm), 1, _id, 0) == 0
_data = (ctypes.c_float * 4)(1, 2, 3, 4)

def all_reduce():
    return _nccl.ncclAllReduce(_data, _data, 4, 7, 0, _comm, None)
"""
