"""A Python program that calls libattn through ctypes: one query, two keys whose scores are 1000 and 1001, values 3 and
5, so that the output is 4.462117157. Takes the path of libattn.so. Exit code 1 when the result is another."""

import ctypes
import math
import sys

EXPECTED = 4.46211715726001

if len(sys.argv) != 2:
    print("usage: caller.py PATH_OF_LIBATTN_SO", file=sys.stderr)
    sys.exit(2)
try:
    libattn = ctypes.CDLL(sys.argv[1])
except OSError as error:
    print(f"caller.py: {error}", file=sys.stderr)
    sys.exit(2)
libattn.attn_last_error.restype = ctypes.c_char_p
libattn.attn_version_string.restype = ctypes.c_char_p


def attention(function, number, q, k, v):
    """softmax(q k^T) v for one query and keys and values of size 1."""
    pointer = ctypes.POINTER(number)
    function.argtypes = [ctypes.c_int64] * 7 + [pointer] * 4 + [ctypes.c_uint64]
    out = (number * 1)(math.nan)
    status = function(1, 1, 1, 1, len(k), 1, 1, (number * 1)(q), (number * len(k))(*k), (number * len(v))(*v), out, 0)
    if status != 0:
        sys.exit(f"status {status}: {libattn.attn_last_error().decode()}")
    return out[0]


f64 = attention(libattn.attn_sdpa_flat_f64, ctypes.c_double, 1, [1000, 1001], [3, 5])
f32 = attention(libattn.attn_sdpa_flat_f32, ctypes.c_float, 1, [1000, 1001], [3, 5])
print(f"{libattn.attn_version_string().decode()}: f64 {f64:.9f}, f32 {f32:.6f}")
good = abs(f64 - EXPECTED) <= 1e-14 * EXPECTED and abs(f32 - EXPECTED) <= 1e-6 * EXPECTED
sys.exit(0 if good else 1)
