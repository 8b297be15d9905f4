#!/usr/bin/env python3
"""The CUDA kernels of chapter 5 beside PyTorch's fp32 attention, in one process, on one GPU.

    make lib
    python3 tests/peers/gpu_sdpa.py            # writes docs/benchmarks/h200_ch05.csv

tests/peers/README.md says how it measures. Needs PyTorch with CUDA, 2.3 or newer.
"""

import argparse
import ctypes
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_common import (AttnShape, CUDA, common_columns, event_times, load_library, quantile,
                        require, time_sides)

PEERS = {"EFFICIENT": SDPBackend.EFFICIENT_ATTENTION, "MATH": SDPBackend.MATH}
SETS = 3  # inputs that the calls rotate through
COLUMNS = (
    "gpu,driver,date,torch,rung,n,dim,heads,runs,median_ms,p10_ms,p90_ms,tflops,"
    "of_matmul_ceiling,ratio_to_efficient,ratio_to_math,o_error,lse_error,check"
)


class FusedRung(ctypes.Structure):
    """FusedRung of chapters/ch05_fused_cuda/fused.h: one row of its table."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("file", ctypes.c_char_p),
        ("builds", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(AttnShape), *[ctypes.c_void_p] * 7)
         * 3),  # simt, traced, cuda
        ("launches", ctypes.c_int),
        ("workspace_floats", ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.POINTER(AttnShape))),
        ("tile", ctypes.c_void_p),
    ]


RUNGS = 5


def load_rungs(path):
    library = load_library(path)
    table = (FusedRung * RUNGS).in_dll(library, "fused_rungs")
    rungs = {rung.name.decode(): rung for rung in table}
    if not all(rung.builds[CUDA] for rung in table):
        sys.exit("gpu_sdpa: the library was built without nvcc")
    return library, rungs


def matmul_ceiling():
    """TFLOP/s of an 8192 matrix product in fp32 without TF32: the arithmetic this GPU reaches."""
    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.randn(8192, 8192, device="cuda") for _ in range(2))
    best = min(event_times(lambda: a @ b, 8))
    return 2 * 8192**3 / best / 1e9


def expected(q, k, v):
    """O, LSE and the largest sum p |v|, in float64, a head at a time."""
    o, lse, size = torch.empty_like(q, dtype=torch.float64), [], 0.0
    for head in range(q.shape[1]):
        scores = q[0, head].double() @ k[0, head].double().T / q.shape[-1] ** 0.5
        lse.append(torch.logsumexp(scores, dim=-1))
        weights, values = torch.softmax(scores, dim=-1), v[0, head].double()
        o[0, head] = weights @ values
        size = max(size, (weights @ values.abs()).max().item())
    return o, torch.stack(lse), size


def run_rung(library, rung, shape, q, k, v, o, lse, workspace):
    require(library, rung.builds[CUDA](
        ctypes.byref(shape), q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(),
        lse.data_ptr(), workspace.data_ptr(), torch.cuda.current_stream().cuda_stream,
    ))


def measure(library, rungs, length, dim, heads, ceiling, common):
    torch.manual_seed(1)
    sets = [[torch.randn(1, heads, length, dim, device="cuda") for _ in range(3)]
            for _ in range(SETS)]
    shape = AttnShape(1, heads, heads, length, length, dim, 0.0, False, 0, None)
    floats = max(1, *(rung.workspace_floats(ctypes.byref(shape)) for rung in rungs.values()))
    workspace = torch.empty(floats, device="cuda")
    turn = [0]

    def rotate():
        turn[0] += 1
        return sets[turn[0] % SETS]

    # Both sides allocate their output in the call, as PyTorch's function does.
    def ours(rung):
        def call():
            q, k, v = rotate()
            o = torch.empty_like(q)
            run_rung(library, rung, shape, q, k, v, o,
                     torch.empty(heads, length, device="cuda"), workspace)
        return call

    def theirs(backend):
        def call():
            with sdpa_kernel(backend):
                F.scaled_dot_product_attention(*rotate())
        return call

    sides = {name: ours(rung) for name, rung in rungs.items()}
    sides.update({name: theirs(backend) for name, backend in PEERS.items()})
    times = time_sides(sides)
    medians = {name: quantile(values, 0.5) for name, values in times.items()}

    q, k, v = sets[0]
    want_o, want_lse, size = expected(q, k, v)
    # O: twice the error of PyTorch's kernels plus eight roundings of what was added up, as in
    # cpu_sdpa.py. LSE: sums of d and of N terms, whose errors on random data grow with the square
    # root of their number, four times that; and two roundings of the LSE itself.
    peer_error = 0.0
    for backend in PEERS.values():
        with sdpa_kernel(backend):
            theirs_o = F.scaled_dot_product_attention(q, k, v)
        peer_error = max(peer_error, (theirs_o.double() - want_o).abs().max().item())
    allowed_o = 2 * peer_error + 8 * 2.0**-24 * size
    allowed_lse = 2.0**-24 * (4 * (dim**0.5 + length**0.5) + 2 * want_lse.abs().max().item())
    rows, passed = [], True
    for name in sides:
        o_error = lse_error = float("nan")
        verdict = "peer"
        if name in rungs:
            o = torch.full_like(q, float("nan"))
            lse = torch.full((heads, length), float("nan"), device="cuda")
            run_rung(library, rungs[name], shape, q, k, v, o, lse, workspace)
            o_error = (o.double() - want_o).abs().max().item()
            lse_error = (lse.double() - want_lse).abs().max().item()
            right = o_error <= allowed_o and lse_error <= allowed_lse
            verdict = "ok" if right else "WRONG"
            passed = passed and right
        values = times[name]
        tflops = 4.0 * heads * length * length * dim / medians[name] / 1e9
        if tflops > 1.05 * ceiling:
            verdict += ", above the ceiling: a measurement error"
            passed = False
        rows.append(
            f"{common},{name},{length},{dim},{heads},{len(values)},{medians[name]:.5g},"
            f"{quantile(values, 0.1):.5g},{quantile(values, 0.9):.5g},{tflops:.4g},"
            f"{tflops / ceiling:.4f},{medians['EFFICIENT'] / medians[name]:.4f},"
            f"{medians['MATH'] / medians[name]:.4f},{o_error:.3g},{lse_error:.3g},{verdict}"
        )
        print(f"  N={length:<5} d={dim:<3} {name:22} {medians[name]:9.3f} ms "
              f"[{quantile(values, 0.1):.3f}, {quantile(values, 0.9):.3f}] {tflops:6.2f} TFLOP/s "
              f"{medians['EFFICIENT'] / medians[name]:5.2f}x EFFICIENT  {verdict}", flush=True)
    return rows, passed


def main():
    parser = argparse.ArgumentParser(description="Chapter 5's CUDA kernels beside PyTorch's.")
    parser.add_argument("--len", type=int, nargs="+", default=[512, 2048, 4096])
    parser.add_argument("--dim", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--library", default="build/libtilebytile.so")
    parser.add_argument("--csv", default="docs/benchmarks/h200_ch05.csv")
    arguments = parser.parse_args()

    library, rungs = load_rungs(arguments.library)
    torch.backends.cudnn.allow_tf32 = False
    ceiling = matmul_ceiling()
    common = common_columns()
    print(f"{common}; fp32 matmul ceiling, measured: {ceiling:.1f} TFLOP/s")
    rows, passed = [], True
    with torch.inference_mode():
        for dim in arguments.dim:
            for length in arguments.len:
                measured, right = measure(library, rungs, length, dim, arguments.heads, ceiling, common)
                rows += measured
                passed = passed and right
    with open(arguments.csv, "w", encoding="utf-8") as csv:
        csv.write("\n".join([COLUMNS] + rows) + "\n")
    print(f"{arguments.csv}: {len(rows)} rows")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
