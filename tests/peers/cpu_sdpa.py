#!/usr/bin/env python3
"""The CPU kernel of chapter 4 beside PyTorch's attention, in one process, on the same tensors.

    make lib
    python3 tests/peers/cpu_sdpa.py                     # all cores, docs/benchmarks/cpu_pytorch.csv
    python3 tests/peers/cpu_sdpa.py --threads 1 --len 2048 --dtype f32 --append

tests/peers/README.md says how it measures. Needs PyTorch 2.3 or newer and nothing else.
"""

import argparse
import ctypes
import datetime
import os
import re
import sys
import time

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own messages

import torch
import torch.nn.functional as F

DTYPES = {"f32": (0, torch.float32), "f16": (1, torch.float16), "bf16": (2, torch.bfloat16)}
UNIT = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}  # unit roundoff
ROUNDS = 7  # bursts of each side
BURST_SECONDS = 0.15  # timed calls of one burst: as many as fit, at least one
PAUSE_SECONDS = 0.25  # between bursts where two OpenMP runtimes are loaded
COLUMNS = (
    "machine,date,command,torch,openmp,threads,phase,dtype,batch,heads,len_q,len_kv,dim,causal,"
    "peer,runs_ours,ours_s,ours_p10,ours_p90,runs_torch,torch_s,torch_p10,torch_p90,time_ratio,"
    "ours_error,torch_error,check"
)


class AttnShape(ctypes.Structure):
    """AttnShape of common/attn.h, field by field."""

    _fields_ = [
        ("batch", ctypes.c_int64),
        ("heads_q", ctypes.c_int64),
        ("heads_kv", ctypes.c_int64),
        ("len_q", ctypes.c_int64),
        ("len_kv", ctypes.c_int64),
        ("dim", ctypes.c_int64),
        ("scale", ctypes.c_double),
        ("causal", ctypes.c_bool),
        ("window", ctypes.c_int64),
        ("kv_lens", ctypes.c_void_p),
    ]


def load_library(path):
    # After torch: a libgomp.so.1 that torch has loaded then serves the library too.
    try:
        library = ctypes.CDLL(os.path.abspath(path))
    except OSError as error:
        sys.exit(f"cpu_sdpa: {error}\nbuild it first: make lib")
    library.attn_last_error.restype = ctypes.c_char_p
    library.tiled_simd_attention.argtypes = (
        [ctypes.POINTER(AttnShape), ctypes.c_int] + [ctypes.c_void_p] * 5 + [ctypes.c_int]
    )
    return library


def openmp_runtimes():
    """The OpenMP runtimes loaded in this process, by file name."""
    names = set()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            found = re.search(r"/((?:libgomp|libomp|libiomp5)[^/ ]*\.so[^/ ]*)$", line.strip())
            if found:
                names.add(line.split()[-1])
    return sorted(os.path.basename(name) for name in names)


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip().replace(",", " ")
    return "unknown CPU"


def quantile(values, fraction):
    values = sorted(values)
    position = fraction * (len(values) - 1)
    below = int(position)
    above = min(below + 1, len(values) - 1)
    return values[below] + (position - below) * (values[above] - values[below])


def time_sides(sides, pause):
    """Times every side, a burst of calls at a time, in turn; seconds of all calls, by side.

    A burst begins with a call that is not timed, so that the threads of the side's runtime are
    awake, unless a call is so long that this does not matter.
    """
    calls = {}
    for name, side in sides.items():
        side()
        start = time.perf_counter()
        side()
        calls[name] = time.perf_counter() - start
    seconds = {name: [] for name in sides}
    for round_number in range(ROUNDS):
        order = list(sides) if round_number % 2 == 0 else list(reversed(sides))
        for name in order:
            side = sides[name]
            time.sleep(pause)
            if calls[name] < 0.3:
                side()
            for _ in range(max(1, min(20, int(BURST_SECONDS / calls[name])))):
                start = time.perf_counter()
                side()
                seconds[name].append(time.perf_counter() - start)
    return seconds


def kernel_name(call):
    """The operation that PyTorch chose, as its profiler names it."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profile:
        call()
    names = [event.key.removeprefix("aten::") for event in profile.key_averages()]
    chosen = [name for name in names if name.startswith("_scaled_dot_product")]
    return chosen[0].strip("_").replace("scaled_dot_product_", "") if chosen else "unknown"


def expected_rows(q, k, v, causal, rows):
    """float64 attention of some rows of the first and the last head, and sum p |v|."""
    outputs, sizes = [], []
    for head in (0, q.shape[1] - 1):
        q64, k64, v64 = q[0, head].double(), k[0, head].double(), v[0, head].double()
        scores = q64[rows] @ k64.T / q.shape[-1] ** 0.5
        if causal:
            keys = torch.arange(k64.shape[0])
            seen = keys[None, :] <= rows[:, None] + (k64.shape[0] - q64.shape[0])
            scores = scores.masked_fill(~seen, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        outputs.append(weights @ v64)
        sizes.append(weights @ v64.abs())
    return torch.stack(outputs), torch.stack(sizes)


def check(q, k, v, causal, dtype, ours, theirs):
    """Largest errors of both sides on a few rows, and "ok" or what is wrong with ours.

    Allowed: twice PyTorch's error plus one rounding of the output (16-bit types), or plus 8
    roundings of what was added up (f32). All other rows are compared with PyTorch's.
    """
    length = q.shape[2]
    rows = torch.tensor(sorted({0, length // 3, length // 2, length - 1}))
    expected, size = expected_rows(q, k, v, causal, rows)
    got = torch.stack([ours[0, head][rows].double() for head in (0, q.shape[1] - 1)])
    peer = torch.stack([theirs[0, head][rows].double() for head in (0, q.shape[1] - 1)])
    ours_error = (got - expected).abs().max().item()
    torch_error = (peer - expected).abs().max().item()
    rounding = 8 * UNIT[dtype] * size.max().item()
    if dtype != "f32":
        rounding = UNIT[dtype] * expected.abs().max().item()
    allowed = 2 * torch_error + rounding
    difference = (ours.double() - theirs.double()).abs().max().item()
    if not ours_error <= allowed:
        return ours_error, torch_error, f"error {ours_error:.2e} above {allowed:.2e}"
    if not difference <= 4 * allowed:
        return ours_error, torch_error, f"differs from PyTorch by {difference:.2e}"
    return ours_error, torch_error, "ok"


def measure(library, point, threads, pause, common):
    """One point against PyTorch's choice, and against its other backend where that is sensible."""
    dtype, heads, len_q, len_kv, dim, causal = point
    code, torch_dtype = DTYPES[dtype]
    generator = torch.Generator().manual_seed(1)
    make = lambda n: torch.randn(1, heads, n, dim, generator=generator).to(torch_dtype)
    q, k, v = make(len_q), make(len_kv), make(len_kv)
    shape = AttnShape(1, heads, heads, len_q, len_kv, dim, 0.0, causal, 0, None)

    # Both sides allocate their output in the call, as PyTorch's function does.
    def ours():
        o = torch.empty_like(q)
        lse = torch.empty(1, heads, len_q)
        status = library.tiled_simd_attention(
            ctypes.byref(shape), code, q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(),
            lse.data_ptr(), threads,
        )
        if status != 0:
            sys.exit(f"cpu_sdpa: {library.attn_last_error().decode()}")
        return o

    def theirs():
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def math_backend():
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    peers = {kernel_name(theirs): theirs}
    if len_q == 1:
        peers.setdefault("attention_math", math_backend)
    seconds = time_sides({"ours": ours, **peers}, pause)
    ours_error, torch_error, verdict = check(q, k, v, causal, dtype, ours(), theirs())
    rows = []
    for peer in peers:
        own, other = seconds["ours"], seconds[peer]
        ratio = quantile(own, 0.5) / quantile(other, 0.5)
        stats = lambda x: ",".join(f"{quantile(x, f):.6g}" for f in (0.5, 0.1, 0.9))
        phase = "decode" if len_q == 1 else "prefill"
        rows.append(
            f"{common},{threads},{phase},{dtype},1,{heads},{len_q},{len_kv},{dim},{int(causal)},"
            f"{peer},{len(own)},{stats(own)},{len(other)},{stats(other)},{ratio:.4f},"
            f"{ours_error:.3g},{torch_error:.3g},{verdict}"
        )
        print(
            f"  {threads:3} thr  {dtype:4} T={len_q:<5} S={len_kv:<5} d={dim:<3} "
            f"{'causal' if causal else 'full':6} ours {quantile(own, 0.5) * 1e3:8.2f} ms, "
            f"PyTorch {quantile(other, 0.5) * 1e3:8.2f} ms, ratio {ratio:.2f}  {peer}"
            + ("" if verdict == "ok" else f"  WRONG: {verdict}"),
            flush=True,
        )
    return rows, verdict == "ok"


def main():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description="Chapter 4's CPU kernel beside PyTorch's.")
    parser.add_argument("--threads", type=int, nargs="+", default=[cores])
    parser.add_argument("--len", type=int, nargs="+", default=[2048, 4096])
    parser.add_argument("--dim", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--dtype", nargs="+", choices=list(DTYPES), default=["f32", "bf16"])
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--decode-keys", type=int, default=16384)
    parser.add_argument("--library", default="build/libtilebytile.so")
    parser.add_argument("--csv", default="docs/benchmarks/cpu_pytorch.csv")
    parser.add_argument("--append", action="store_true", help="keep the rows that the file has")
    arguments = parser.parse_args()

    torch.set_num_threads(max(arguments.threads))
    library = load_library(arguments.library)
    torch.ones(1 << 20).exp()  # makes PyTorch's runtime show itself
    runtimes = openmp_runtimes()
    pause = PAUSE_SECONDS if len(runtimes) > 1 else 0.0
    command = "cpu_sdpa.py " + " ".join(sys.argv[1:])
    common = ",".join(
        [cpu_name(), datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")]
        + [command.strip().replace(",", " "), torch.__version__, "+".join(runtimes)]
    )
    print(f"{cpu_name()}, {cores} cores allowed, PyTorch {torch.__version__}")
    print(f"OpenMP runtimes: {', '.join(runtimes)}; pause between bursts {pause} s")
    for name, value in sorted(os.environ.items()):
        if name.startswith(("OMP_", "GOMP_", "KMP_", "MKL_NUM")):
            print(f"{name}={value}")

    points = []
    for dtype in arguments.dtype:
        for dim in arguments.dim:
            for length in arguments.len:
                for causal in (False, True):
                    points.append((dtype, arguments.heads, length, length, dim, causal))
            points.append((dtype, arguments.heads, 1, arguments.decode_keys, dim, False))
    start, rows, passed = time.perf_counter(), [], True
    with torch.inference_mode():
        for threads in arguments.threads:
            torch.set_num_threads(threads)
            for point in points:
                measured, right = measure(library, point, threads, pause, common)
                rows += measured
                passed = passed and right
    keep = arguments.append and os.path.exists(arguments.csv)
    with open(arguments.csv, "a" if keep else "w", encoding="utf-8") as csv:
        csv.write("\n".join(rows if keep else [COLUMNS] + rows) + "\n")
    print(f"{arguments.csv}: {len(rows)} rows, {time.perf_counter() - start:.0f} s")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
