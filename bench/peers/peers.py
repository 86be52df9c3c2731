"""libattn beside ONNX Runtime, PyTorch, NumPy and oneDNN: the same attention problems, in one run, in float.

docs/bench.md, "Beside other libraries", says how to install the peers and what each of them does. NumPy is needed; of
the others those that are installed take part.
"""

import argparse
import ctypes
import ctypes.util
import hashlib
import importlib
import json
import math
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import time
import weakref

HERE = os.path.dirname(os.path.abspath(__file__))
EPS = 2.0**-23  # of float
WRONG = 1000  # errors beyond this many eps max|V| are another computation, not rounding
REST = 0.04  # seconds between two engines: idle threads of OpenMP spin for up to 16 ms before they sleep
SHORT = 0.05  # calls below this many seconds run once untimed in every turn, to wake threads and warm caches
TURN = 0.005  # calls of a turn are repeated until it takes this many seconds

SHAPES = {
    "prefill": ["b1h12q512k512d64", "b1h12q1024k1024d64", "b1h12q2048k2048d64", "b1h12q4096k4096d64",
                "b1h32q512k512d128", "b1h32q1024k1024d128", "b1h32q2048k2048d128"],
    "batch": ["b32h12q128k128d64", "b32h12q128k128d64,causal"],
    "decode": ["b1h32q1k1024d128", "b1h32q1k8192d128", "b1h32q1k32768d128",
               "b1h32/8q1k1024d128", "b1h32/8q1k8192d128", "b1h32/8q1k32768d128"],
}
SHAPES["causal"] = [shape + ",causal" for shape in SHAPES["prefill"]]
GROUPS = ["prefill", "causal", "batch", "decode"]


class Missing(Exception):
    """An engine that is not installed, or not usable, and why."""


class Refused(Exception):
    """A problem that an engine does not do, and why."""


# ---- Problems ----------------------------------------------------------------------------------------------------


class Problem:
    """A problem string of attn-bench: b1h32/8q1k1024d128; `,causal` for as many queries as keys."""

    def __init__(self, text):
        match = re.fullmatch(r"(?:b(\d+))?h(\d+)(?:/(\d+))?q(\d+)(?:k(\d+))?d(\d+)(,causal)?", text)
        if not match:
            raise ValueError(f"{text!r} is neither one of {', '.join(GROUPS)}, all, nor a problem such as "
                             "b1h12q1024k1024d64 or b1h32/8q1k1024d128 or b1h12q1024k1024d64,causal")
        batch, heads, kv_heads, q_len, kv_len, dim, causal = match.groups()
        self.text = text
        self.batch = int(batch or 1)
        self.heads = int(heads)
        self.kv_heads = int(kv_heads or heads)
        self.q_len = int(q_len)
        self.kv_len = int(kv_len or q_len)
        self.dim = int(dim)
        self.causal = bool(causal)
        if min(self.batch, self.heads, self.kv_heads, self.q_len, self.kv_len, self.dim) < 1:
            raise ValueError(f"{text!r} has a size of 0")
        if self.heads % self.kv_heads:
            raise ValueError(f"{text!r}: {self.kv_heads} key heads do not divide {self.heads} query heads")
        if self.causal and self.q_len != self.kv_len:
            raise ValueError(f"{text!r}: causal needs as many queries as keys here, because the libraries differ in where "
                             "they put query 0 otherwise")
        self.group = self.heads // self.kv_heads
        self.scale = 1 / math.sqrt(self.dim)
        self.decode = self.q_len == 1
        self.seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")

    def flops(self):
        """As attn-bench counts: 2 * visible pairs * (head_dim + v_dim)."""
        pairs = self.q_len * (self.q_len + 1) // 2 if self.causal else self.q_len * self.kv_len
        return 4.0 * self.batch * self.heads * pairs * self.dim

    def kv_bytes(self):
        """Keys and values, read once."""
        return 8.0 * self.batch * self.kv_heads * self.kv_len * self.dim

    def inputs(self):
        random = np.random.default_rng(self.seed)
        return [random.standard_normal((self.batch, heads, length, self.dim), dtype=np.float32)
                for heads, length in ((self.heads, self.q_len), (self.kv_heads, self.kv_len), (self.kv_heads, self.kv_len))]

    def reference(self, q, k, v):
        """In double, head by head."""
        out = np.empty(q.shape)
        hidden = np.triu(np.ones((self.q_len, self.kv_len), dtype=bool), 1) if self.causal else None
        for b in range(self.batch):
            for h in range(self.heads):
                keys, values = (x[b, h // self.group].astype(np.float64) for x in (k, v))
                s = q[b, h].astype(np.float64) @ keys.T / math.sqrt(self.dim)
                if self.causal:
                    s[hidden] = -np.inf
                np.exp(s - s.max(axis=1, keepdims=True), out=s)
                out[b, h] = s @ values / s.sum(axis=1, keepdims=True)
        return out


# ---- Engines -----------------------------------------------------------------------------------------------------

# Each has a name, a version, and prepare(problem, q, k, v) -> (run, result): run() is what is timed, result() gives the
# output of the last run as [batch, heads, len, dim]; run.keeps is what a library only has pointers to. Inputs are dense
# arrays of that order; what a library wants in another order is put there before the clock starts.


class Strides(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "head", "row")]


class MaskStrides(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "head", "row", "key")]


class AttnProblem(ctypes.Structure):
    """attn_problem, field by field."""

    _fields_ = ([("struct_size", ctypes.c_size_t), ("flags", ctypes.c_uint64), ("engine", ctypes.c_int),
                 ("alignment", ctypes.c_int)]
                + [(name, ctypes.c_int64) for name in "batch q_heads kv_heads q_len kv_len head_dim v_dim".split()]
                + [("scale", ctypes.c_double)]
                + [(name, ctypes.c_int64) for name in "offset window_left window_right".split()]
                + [("softcap", ctypes.c_double)]
                + [(name, Strides) for name in "q k v out lse".split()]
                + [("mask", MaskStrides), ("bias", MaskStrides), ("mask_len", ctypes.c_int64),
                   ("bias_len", ctypes.c_int64), ("scores", Strides), ("total_q", ctypes.c_int64),
                   ("total_kv", ctypes.c_int64)])


class AttnArgs(ctypes.Structure):
    """attn_args_f32, field by field."""

    _fields_ = [("struct_size", ctypes.c_size_t)] + [
        (name, ctypes.c_void_p) for name in "q k v out lse q_lens kv_lens q_offsets kv_offsets mask bias alibi_slopes sink "
                                            "scores capped masked weights".split()]


class Libattn:
    """A plan with the caller's workspace, as a program that calls in a loop has it."""

    name = "libattn"
    CAUSAL, F32 = 1, 0

    def __init__(self, options):
        try:
            self.lib = ctypes.CDLL(os.path.abspath(options.lib))
            self.lib.attn_last_error.restype = ctypes.c_char_p
            self.lib.attn_version_string.restype = ctypes.c_char_p
        except (OSError, AttributeError) as error:
            raise Missing(str(error)) from error
        self.version = self.lib.attn_version_string().decode()

    def call(self, function, *arguments):
        if getattr(self.lib, function)(*arguments):
            raise Refused(self.lib.attn_last_error().decode())

    def prepare(self, p, q, k, v):
        problem = AttnProblem(batch=p.batch, q_heads=p.heads, kv_heads=p.kv_heads, q_len=p.q_len, kv_len=p.kv_len,
                              head_dim=p.dim, v_dim=p.dim, flags=self.CAUSAL if p.causal else 0)
        problem.struct_size = ctypes.sizeof(problem)
        self.call("attn_problem_layout_bhld", ctypes.byref(problem))
        plan, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.call("attn_plan_create", None, ctypes.byref(problem), self.F32, ctypes.byref(plan))
        self.call("attn_plan_workspace", plan, ctypes.byref(size))
        space = np.empty(size.value + 64, dtype=np.uint8)
        start = ctypes.c_void_p(-(-space.ctypes.data // 64) * 64)
        out = np.full(q.shape, np.nan, dtype=np.float32)
        args = AttnArgs(q=q.ctypes.data, k=k.ctypes.data, v=v.ctypes.data, out=out.ctypes.data)
        args.struct_size = ctypes.sizeof(args)
        reference = ctypes.byref(args)

        def run():
            self.call("attn_plan_run_f32", plan, reference, start, size)

        run.keeps = q, k, v, out, space
        weakref.finalize(run, self.lib.attn_plan_destroy, plan)
        return run, lambda: out


def causal_mask(p):
    """0 and -Inf, to be added to the scores of a key head: [group * q_len, kv_len]."""
    return np.tile(np.triu(np.full((p.q_len, p.kv_len), -np.inf, dtype=np.float32), 1), (p.group, 1))


class Numpy:
    """As one writes it in NumPy: the whole score matrix, in place; the heads of a group are rows of one product."""

    name = "numpy"

    def __init__(self, options):
        try:
            blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
            self.version = f"{np.__version__}, {blas['name']} {blas['version']}"
        except (TypeError, KeyError):  # before NumPy 1.26 it only prints
            self.version = f"{np.__version__}, a BLAS that it does not tell"

    def prepare(self, p, q, k, v):
        rows = q.reshape(p.batch, p.kv_heads, p.group * p.q_len, p.dim)
        keys = k.swapaxes(2, 3)
        s = np.empty((p.batch, p.kv_heads, p.group * p.q_len, p.kv_len), dtype=np.float32)
        out = np.full(rows.shape, np.nan, dtype=np.float32)
        scale = np.float32(p.scale)
        mask = causal_mask(p) if p.causal else None

        def run():
            np.matmul(rows, keys, out=s)
            np.multiply(s, scale, out=s)
            if mask is not None:
                np.add(s, mask, out=s)
            np.subtract(s, s.max(axis=3, keepdims=True), out=s)
            np.exp(s, out=s)
            np.matmul(s, v, out=out)
            np.divide(out, s.sum(axis=3, keepdims=True), out=out)

        return run, lambda: out.reshape(q.shape)


class Torch:
    """torch.nn.functional.scaled_dot_product_attention, which chooses its own kernel."""

    name = "torch"

    def __init__(self, options):
        self.torch = load("torch")
        self.version = self.torch.__version__
        if not hasattr(self.torch.nn.functional, "scaled_dot_product_attention"):
            raise Missing(f"PyTorch {self.version} is older than scaled_dot_product_attention")
        self.torch.set_num_threads(options.worker)

    def prepare(self, p, q, k, v):
        attention = self.torch.nn.functional.scaled_dot_product_attention
        # One query: the heads of a group are queries over the same keys.
        folded = (p.batch, p.kv_heads, p.group, p.dim) if p.decode else q.shape
        q, k, v = (self.torch.from_numpy(x) for x in (q.reshape(folded), k, v))
        options = {"is_causal": p.causal}
        if p.group > 1 and not p.decode:
            options["enable_gqa"] = True
        out = []

        def run():
            with self.torch.inference_mode():
                out[:] = [attention(q, k, v, **options)]

        return run, lambda: out[0].numpy().reshape(p.batch, p.heads, p.q_len, p.dim)


class Ort:
    """A model of one node in ONNX Runtime, all inputs and outputs bound to arrays that stay."""

    opsets = {"com.microsoft": 1, "": 17}
    ir = 8

    def __init__(self, options):
        self.ort, self.onnx = load("onnxruntime"), load("onnx")
        self.version = f"{self.ort.__version__} (onnx {self.onnx.__version__})"
        self.settings = self.ort.SessionOptions()
        self.settings.intra_op_num_threads = options.worker
        self.settings.inter_op_num_threads = 1
        self.settings.log_severity_level = 4  # a refusal is an exception; nothing more is to be printed
        # Threads go to sleep when a run ends, else they would steal from the engine that is next.
        self.settings.add_session_config_entry("session.force_spinning_stop", "1")

    def session(self, operator, inputs, outputs, **attributes):
        """inputs: name -> array, or None for one that is left out; outputs: name -> array to write."""
        helper, domain = self.onnx.helper, "" if operator == "Attention" else "com.microsoft"
        kinds = {np.dtype(np.float32): self.onnx.TensorProto.FLOAT, np.dtype(np.int32): self.onnx.TensorProto.INT32}

        def described(arrays):
            return [helper.make_tensor_value_info(name, kinds[x.dtype], x.shape) for name, x in arrays.items() if x is not None]

        node = helper.make_node(operator, [name if x is not None else "" for name, x in inputs.items()], list(outputs),
                                domain=domain, **attributes)
        graph = helper.make_graph([node], "peers", described(inputs), described(outputs))
        model = helper.make_model(graph, ir_version=self.ir,
                                  opset_imports=[helper.make_opsetid(name, n) for name, n in self.opsets.items()])
        try:
            session = self.ort.InferenceSession(model.SerializeToString(), self.settings, providers=["CPUExecutionProvider"])
        except Exception as error:  # the classes of onnxruntime's errors have no common base but this
            raise Refused(f"ONNX Runtime {self.ort.__version__}: {first_line(error)}") from error
        binding = session.io_binding()
        values = {}
        for bind, arrays in ((binding.bind_ortvalue_input, inputs), (binding.bind_ortvalue_output, outputs)):
            for name, x in arrays.items():
                if x is not None:  # the same array on both sides is one buffer
                    bind(name, values.setdefault(id(x), self.ort.OrtValue.ortvalue_from_numpy(x)))

        def run():
            try:
                session.run_with_iobinding(binding)
            except Exception as error:
                raise Refused(f"ONNX Runtime {self.ort.__version__}: {first_line(error)}") from error

        run.keeps = values
        return run, values[id(outputs["out"])]


def rows_of_heads(x):
    """[batch, heads, len, dim] to [batch, len, heads * dim]."""
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1)


class OrtAttention(Ort):
    """Attention of ONNX, opset 23: the whole score matrix."""

    name = "ort attention"
    opsets = {"": 23}
    ir = 11

    def prepare(self, p, q, k, v):
        out = np.full(q.shape, np.nan, dtype=np.float32)
        run, value = self.session("Attention", {"q": q, "k": k, "v": v}, {"out": out}, is_causal=int(p.causal))
        return run, value.numpy


class OrtMha(Ort):
    """MultiHeadAttention of com.microsoft: tiles with an online softmax, when not causal."""

    name = "ort mha"

    def prepare(self, p, q, k, v):
        if p.group > 1:
            raise Refused("MultiHeadAttention has a key head for each query head")
        if p.decode:
            raise Refused("MultiHeadAttention reads no cache as [batch, heads, len, dim]: GroupQueryAttention does")
        arrays = dict(zip("qkv", map(rows_of_heads, (q, k, v))))
        out = np.full_like(arrays["q"], np.nan)
        causal = {"unidirectional": 1} if p.causal else {}
        run, value = self.session("MultiHeadAttention", arrays, {"out": out}, num_heads=p.heads, **causal)
        return run, lambda: value.numpy().reshape(p.batch, p.q_len, p.heads, p.dim).transpose(0, 2, 1, 3)


class OrtGqa(Ort):
    """GroupQueryAttention of com.microsoft: causal prompts (K and V are copied to the cache), or one token over a cache
    that is input and output at once."""

    name = "ort gqa"

    def prepare(self, p, q, k, v):
        if not p.causal and not p.decode:
            raise Refused("GroupQueryAttention is always causal")
        if p.decode:  # the last token of the cache is the new one: it is written again in each run
            new_k, new_v = k[:, :, -1:], v[:, :, -1:]
            past = present = k.copy(), v.copy()
        else:
            new_k, new_v, past = k, v, (None, None)
            present = np.empty_like(k), np.empty_like(v)
        inputs = {"q": rows_of_heads(q), "k": rows_of_heads(new_k), "v": rows_of_heads(new_v), "past_k": past[0],
                  "past_v": past[1], "seqlens_k": np.full(p.batch, p.kv_len - 1, dtype=np.int32),
                  "total": np.array([p.kv_len], dtype=np.int32)}
        outputs = {"out": np.full_like(inputs["q"], np.nan), "present_k": present[0], "present_v": present[1]}
        run, value = self.session("GroupQueryAttention", inputs, outputs, num_heads=p.heads, kv_num_heads=p.kv_heads)
        return run, lambda: value.numpy().reshape(p.batch, p.q_len, p.heads, p.dim).transpose(0, 2, 1, 3)


class DnnlArg(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_int), ("memory", ctypes.c_void_p)]


class Dnnl:
    """oneDNN's C interface, version 3: product with scale and mask, softmax in place, product."""

    name = "onednn"
    # Values of dnnl_types.h, the same in all releases of version 3.
    CPU, IN_ORDER, F32, INFERENCE, LINEAR, ADD, SOFTMAX, OPENMP = 1, 1, 3, 96, 38, 0x1FFF0, 0x30000, 2
    SRC, SRC_1, WEIGHTS, DST = 1, 2, 33, 17

    class Version(ctypes.Structure):
        _fields_ = ([(name, ctypes.c_int) for name in ("major", "minor", "patch")]
                    + [("hash", ctypes.c_char_p), ("cpu_runtime", ctypes.c_uint), ("gpu_runtime", ctypes.c_uint)])

    def __init__(self, options):
        own = os.path.join(sys.prefix, "lib", "libdnnl.so.3")
        path = options.onednn or (own if os.path.exists(own) else ctypes.util.find_library("dnnl"))
        if not path:
            raise Missing("no libdnnl.so.3 in this Python's environment or where the loader looks")
        try:
            self.lib = ctypes.CDLL(path)
        except OSError as error:
            raise Missing(str(error)) from error
        if not hasattr(self.lib, "dnnl_version"):
            raise Missing(f"{path} is not oneDNN")
        self.lib.dnnl_version.restype = ctypes.POINTER(self.Version)
        version = self.lib.dnnl_version().contents
        self.version = f"{version.major}.{version.minor}.{version.patch}"
        if version.major != 3:
            raise Missing(f"{path} is version {self.version}, not 3")
        if version.cpu_runtime != self.OPENMP:
            raise Missing(f"{path} ({self.version}) is not built for OpenMP: its threads could not be set here")
        self.engine, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("engine_create", ctypes.byref(self.engine), self.CPU, ctypes.c_size_t(0))
        self.call("stream_create", ctypes.byref(self.stream), self.engine, self.IN_ORDER)

    def call(self, function, *arguments):
        status = getattr(self.lib, "dnnl_" + function)(*arguments)
        if status:
            raise Refused(f"dnnl_{function} gave status {status}")

    def made(self, function, *arguments):
        handle = ctypes.c_void_p()
        self.call(function, ctypes.byref(handle), *arguments)
        return handle

    def prepare(self, p, q, k, v):
        created, heads, rows = [], p.batch * p.kv_heads, p.group * p.q_len
        long = ctypes.c_int64 * 12

        def array(x, sizes, strides):
            md = self.made("memory_desc_create_with_strides", 3, long(*sizes), self.F32, long(*strides))
            memory = self.made("memory_create", md, self.engine, ctypes.c_void_p(x.ctypes.data))
            created.extend([("memory_desc_destroy", md), ("memory_destroy", memory)])
            return md, memory

        def dense(x, n, m):
            return array(x, (heads, n, m), (n * m, m, 1))

        def primitive(kind, *arguments):
            pd = self.made(kind + "_primitive_desc_create", self.engine, *arguments)
            done = self.made("primitive_create", pd)
            created.extend([("primitive_desc_destroy", pd), ("primitive_destroy", done)])
            return done

        scores = np.empty((heads, rows, p.kv_len), dtype=np.float32)
        out = np.full(q.shape, np.nan, dtype=np.float32)
        query, value = dense(q, rows, p.dim), dense(v, p.kv_len, p.dim)
        key = array(k, (heads, p.dim, p.kv_len), (p.kv_len * p.dim, 1, p.dim))
        s, z = dense(scores, rows, p.kv_len), dense(out, rows, p.dim)
        ops, attributes = self.made("post_ops_create"), self.made("primitive_attr_create")
        created.extend([("post_ops_destroy", ops), ("primitive_attr_destroy", attributes)])
        self.call("post_ops_append_eltwise", ops, self.LINEAR, ctypes.c_float(p.scale), ctypes.c_float(0))
        self.call("primitive_attr_set_post_ops", attributes, ops)
        mask = causal_mask(p) if p.causal else None
        steps = [(primitive("matmul", query[0], key[0], None, s[0], attributes),
                  [(self.SRC, query[1]), (self.WEIGHTS, key[1]), (self.DST, s[1])])]
        if p.causal:  # a primitive of its own: as a post-op of the product it makes oneDNN 3.2 take its reference loops
            hidden = array(mask, (1, rows, p.kv_len), (rows * p.kv_len, p.kv_len, 1))
            steps.append((primitive("binary", self.ADD, s[0], hidden[0], s[0], None),
                          [(self.SRC, s[1]), (self.SRC_1, hidden[1]), (self.DST, s[1])]))
        steps += [(primitive("softmax_forward", self.INFERENCE, self.SOFTMAX, s[0], s[0], 2, None),
                   [(self.SRC, s[1]), (self.DST, s[1])]),
                  (primitive("matmul", s[0], value[0], None, z[0], None),
                   [(self.SRC, s[1]), (self.WEIGHTS, value[1]), (self.DST, z[1])])]
        steps = [(step, len(args), (DnnlArg * len(args))(*[DnnlArg(arg, memory) for arg, memory in args]))
                 for step, args in steps]

        def run():
            for step, n, args in steps:
                self.call("primitive_execute", step, self.stream, n, args)
            self.call("stream_wait", self.stream)

        run.keeps = q, k, v, out, scores, mask
        weakref.finalize(run, self.free, created)
        return run, lambda: out

    def free(self, created):
        for function, handle in reversed(created):
            self.call(function, handle)


ENGINES = [Libattn, OrtAttention, OrtMha, OrtGqa, Torch, Numpy, Dnnl]


def first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def load(module):
    try:
        return importlib.import_module(module)
    except Exception as error:  # a package that is there may still fail to load, in any way
        raise Missing(first_line(error)) from error


# ---- Measuring: one process per number of threads, since most libraries take it once, from the environment -------


def measured(problem, engines, options):
    """Checks, then times all engines in turn. -> {"results": {name: {...}}, "refused": {name: why}}"""
    q, k, v = problem.inputs()
    reference, largest = problem.reference(q, k, v), float(np.abs(v).max())
    results, refused, runs = {}, {}, {}
    for engine in engines:
        try:
            run, result = engine.prepare(problem, q, k, v)
            run()
        except Refused as why:
            refused[engine.name] = str(why)
            continue
        out = np.ascontiguousarray(result())
        error = float(np.abs(out - reference).max()) / (EPS * largest)
        if not error <= WRONG:  # NaN too
            refused[engine.name] = f"WRONG: its largest error is {error:.3g} eps max|V|; not timed"
            continue
        results[engine.name] = {"error": error, "sha256": hashlib.sha256(out.tobytes()).hexdigest(), "seconds": []}
        start = time.perf_counter()
        run()
        once = time.perf_counter() - start
        runs[engine.name] = run, once < SHORT, max(1, min(1000, math.ceil(TURN / once)))
    del reference
    for _ in range(options.repeat):
        for name, (run, short, calls) in runs.items():
            time.sleep(REST)
            if short:
                run()
            start = time.perf_counter()
            for _ in range(calls):
                run()
            results[name]["seconds"].append((time.perf_counter() - start) / calls)
    return {"results": results, "refused": refused}


def worker(options):
    """Serves problems from standard input, one line of JSON each way."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # What the libraries print must not come between the lines.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    engines, versions, missing = [], {}, {}
    for kind in ENGINES:
        try:
            engines.append(kind(options))
            versions[kind.name] = engines[-1].version
        except (Missing, Refused) as why:
            missing[kind.name] = str(why)
    print(json.dumps({"versions": versions, "not_installed": missing}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = measured(Problem(json.loads(line)), engines, options)
        except MemoryError as error:
            answer = {"failed": first_line(error) or "not enough memory"}
        print(json.dumps(answer), file=answers, flush=True)


class Worker:
    def __init__(self, options, threads):
        self.threads = threads
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--worker", str(threads), "--lib", options.lib, "--repeat",
             str(options.repeat), *(["--onednn", options.onednn] if options.onednn else [])],
            # OpenBLAS's idle threads would spin far into the other engines' turns; 2^20 ticks are less than 1 ms.
            env={"OPENBLAS_THREAD_TIMEOUT": "20", **os.environ, **{name: str(threads) for name in names}}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True)
        self.about = self.answer("at the start")

    def answer(self, when):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"peers.py: the process for --threads {self.threads} ended {when}, status {self.process.wait()}")
        return json.loads(line)

    def ask(self, problem):
        self.process.stdin.write(json.dumps(problem.text) + "\n")
        self.process.stdin.flush()
        return self.answer(f"during {problem.text}")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


# ---- Telling -----------------------------------------------------------------------------------------------------


def rows_of(problem, answers):
    """One row per engine and number of threads, from {threads: answer}."""
    rows = []
    for threads, answer in answers.items():
        results = answer["results"]
        medians = {name: statistics.median(result["seconds"]) for name, result in results.items()}
        peers = [name for name in medians if name != Libattn.name]
        best = min(peers, key=medians.get) if peers else None
        fastest = results[best]["seconds"] if best else None
        for name, result in results.items():
            seconds = result["seconds"]
            sums = {other["results"][name]["sha256"] for other in answers.values() if name in other["results"]}
            rows.append({
                "problem": problem.text, "threads": threads, "engine": name, "repeats": len(seconds),
                "ms_best": 1e3 * min(seconds), "ms_median": 1e3 * medians[name],
                "gflops": problem.flops() / medians[name] / 1e9, "gbytes_per_s": problem.kv_bytes() / medians[name] / 1e9,
                "best_peer": best,
                "times_best_peer": statistics.median(a / b for a, b in zip(fastest, seconds)) if best else None,
                "error": result["error"],
                "same_bits": len(sums) == 1 if len(answers) > 1 else None, "sha256": result["sha256"],
            })
    return rows


def show(problem, rows, answers):
    rate = "GB/s" if problem.decode else "GFLOP/s"
    print(f"\n{problem.text}")
    print(f"  {'threads':>7}  {'engine':<14}{'best ms':>10}{'median ms':>11}{rate:>9}"
          f"{'x best peer':>13}{'error':>8}  same bits")
    for row in rows:
        speed = row["gbytes_per_s" if problem.decode else "gflops"]
        ratio = f"{row['times_best_peer']:.2f}" if row["best_peer"] else "-"
        bits = {True: "yes", False: "NO", None: "-"}[row["same_bits"]]
        print(f"  {row['threads']:>7}  {row['engine']:<14}{row['ms_best']:>10.3f}{row['ms_median']:>11.3f}{speed:>9.1f}"
              f"{ratio:>13}{row['error']:>8.2f}  {bits}")
    told = set()
    for answer in answers.values():
        for name, why in answer["refused"].items():
            if (name, why) not in told:
                print(f"  left out: {name}: {why}")
            told.add((name, why))
    sys.stdout.flush()


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    except OSError:
        return platform.processor() or "unknown"


def positive(text):
    number = int(text) if re.fullmatch(r"\d{1,6}", text) else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return number


def thread_list(text):
    return list(dict.fromkeys(positive(word) for word in text.split(",")))


def arguments():
    parser = argparse.ArgumentParser(
        description="libattn beside ONNX Runtime, PyTorch, NumPy and oneDNN, in one run, in float.",
        epilog="Columns: milliseconds of a call, best and median over the repeats; GFLOP/s (2 * visible pairs * (head_dim + "
               "v_dim)), for one query GB/s of keys and values read once; how many times as fast as the fastest peer (median "
               "over the repeats); the largest error against NumPy in double in eps max|V|; whether the bits are the same for "
               "all --threads. Exit status 1 when libattn is wrong or refuses.")
    default = os.path.normpath(os.path.join(HERE, "../../build/release/lib/libattn.so"))
    parser.add_argument("--lib", metavar="PATH", default=default, help="libattn.so, by default that of the release preset")
    parser.add_argument("--onednn", metavar="PATH", help="libdnnl.so.3, by default that of this Python's environment or system")
    parser.add_argument("--shapes", metavar="SHAPE", nargs="+", default=["all"],
                        help=f"{', '.join(GROUPS)}, all, or problems of attn-bench (default all)")
    parser.add_argument("--threads", metavar="N,...", type=thread_list, default=[1, 2], help="default 1,2")
    parser.add_argument("--repeat", metavar="N", type=positive, default=7, help="turns of every engine (default 7)")
    parser.add_argument("--json", metavar="FILE", help="writes everything as JSON too")
    parser.add_argument("--worker", type=positive, help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        names = [name for word in options.shapes for name in (GROUPS if word == "all" else [word])]
        texts = dict.fromkeys(text for name in names for text in SHAPES.get(name, [name]))
        options.problems = [Problem(text) for text in texts]
    except ValueError as error:
        parser.error(f"--shapes: {error}")
    if not os.path.exists(options.lib):
        parser.error(f"--lib: {options.lib} does not exist")
    if np is None:
        parser.error("NumPy is not installed; inputs and reference are made with it")
    return parser, options


def main():
    parser, options = arguments()
    if options.worker:
        worker(options)
        return 0
    try:
        out = open(options.json, "w", encoding="utf-8") if options.json else None
    except OSError as error:
        parser.error(f"--json: {error}")
    workers = {threads: Worker(options, threads) for threads in options.threads}
    about = next(iter(workers.values())).about
    if Libattn.name in about["not_installed"]:
        sys.exit(f"peers.py: libattn: {about['not_installed'][Libattn.name]}")
    machine = {"cpu": cpu_name(), "cores": os.cpu_count(), "date": time.strftime("%Y-%m-%d"), "system": platform.platform(),
               "python": platform.python_version(), "command": " ".join(sys.argv)}
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['date']}")
    for name, version in about["versions"].items():
        print(f"  {name:<14}{version}")
    for name, why in about["not_installed"].items():
        print(f"  {name:<14}not installed: {why}")
    everything = {"machine": machine, **about, "results": [], "refused": []}
    bad = False
    for problem in options.problems:
        answers = {}
        for threads, process in workers.items():
            answer = process.ask(problem)
            if "failed" in answer:
                print(f"\n{problem.text}\n  left out: {answer['failed']}")
                everything["refused"].append({"problem": problem.text, "threads": threads, "why": answer["failed"]})
                continue
            answers[threads] = answer
            bad |= Libattn.name in answer["refused"]
            everything["refused"] += [{"problem": problem.text, "threads": threads, "engine": name, "why": why}
                                      for name, why in answer["refused"].items()]
        if answers:
            rows = rows_of(problem, answers)
            everything["results"] += rows
            show(problem, rows, answers)
    for process in workers.values():
        process.end()
    if out:
        with out:
            json.dump(everything, out, indent=1)
            out.write("\n")
    return 1 if bad else 0


try:
    import numpy as np
except ImportError:
    np = None

if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
