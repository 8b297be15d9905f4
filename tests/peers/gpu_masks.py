#!/usr/bin/env python3
"""The masked kernels of chapter 7 with and without their masks, beside PyTorch, on one GPU.

    make lib
    python3 tests/peers/gpu_masks.py           # writes docs/benchmarks/h200_ch07.csv

tests/peers/README.md says how it measures. Needs PyTorch with CUDA, 2.5 or newer.
"""

import argparse
import ctypes
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_common import (AttnShape, CUDA, DTYPES, common_columns, load_library, require, spread,
                        time_sides)

COLUMNS = (
    "gpu,driver,date,torch,kernel,case,len_q,len_kv,batch,heads,dim,dtype,causal,window,density,"
    "runs,median_ms,p10_ms,p90_ms,tflops,of_full,o_error,lse_error,check"
)
SKIP, EVERY_SCORE, EVERY_TILE = 0, 1, 2  # MaskVisit
BLOCK = 64  # BLOCK_SPARSE
SETS = 3


class BlockList(ctypes.Structure):
    _fields_ = [("query_blocks", ctypes.c_int64), ("key_blocks", ctypes.c_int64),
                ("offsets", ctypes.POINTER(ctypes.c_int32)),
                ("blocks", ctypes.POINTER(ctypes.c_int32))]


class DeviceBlockList(ctypes.Structure):
    _fields_ = [("target", ctypes.c_int), ("query_blocks", ctypes.c_int64),
                ("key_blocks", ctypes.c_int64), ("offsets", ctypes.c_void_p),
                ("blocks", ctypes.c_void_p)]


def own_keys(length, device="cuda"):
    return torch.arange(length, device=device)


def visible(shape, rows, blocks):
    """[rows][len_kv]: which keys those rows see."""
    own = rows[:, None] + (shape.len_kv - shape.len_q)
    keys = own_keys(shape.len_kv)[None, :]
    seen = torch.ones(len(rows), shape.len_kv, dtype=torch.bool, device="cuda")
    if shape.causal:
        seen &= keys <= own
    if shape.window:
        seen &= keys > own - shape.window
    if blocks is not None:
        seen &= blocks[(rows // BLOCK).cpu()].to("cuda").repeat_interleave(
            BLOCK, dim=1)[:, :shape.len_kv]
    return seen


def check(shape, q, k, v, o, lse, blocks):
    """Largest errors on 256 rows of the first and the last head, and whether they are allowed."""
    rows = torch.unique(torch.linspace(0, shape.len_q - 1, 256, device="cuda").long())
    o_error = lse_error = 0.0
    right = True
    unit = torch.finfo(q.dtype).eps / 2
    for head in (0, q.shape[1] - 1):
        scores = q[0, head, rows].double() @ k[0, head].double().T / q.shape[-1] ** 0.5
        scores.masked_fill_(~visible(shape, rows, blocks), float("-inf"))
        want_lse = torch.logsumexp(scores, dim=-1)
        empty = want_lse == float("-inf")
        weights = torch.softmax(scores, dim=-1).masked_fill(empty[:, None], 0)
        want, size = weights @ v[0, head].double(), weights @ v[0, head].double().abs()
        error = (o[0, head, rows].double() - want).abs()
        right = right and (error <= 2 * unit * want.abs() + 2.0**-20 * size + 1e-12).all().item()
        o_error = max(o_error, error.max().item())
        got = lse[0, head, rows].double()
        both = torch.where(empty & (got == float("-inf")), torch.zeros_like(got), got - want_lse)
        right = right and (both.abs() <= 2.0**-24 * (
            4 * (q.shape[-1] ** 0.5 + shape.len_kv**0.5) + 40)).all().item()
        lse_error = max(lse_error, both.abs().max().item())
    return o_error, lse_error, right


def random_blocks(query_blocks, key_blocks, density, seed=7):
    """A causal pattern: each block below the diagonal with this probability, the diagonal always."""
    generator = torch.Generator().manual_seed(seed)
    blocks = torch.rand(query_blocks, key_blocks, generator=generator) < density
    blocks |= torch.eye(query_blocks, key_blocks, dtype=torch.bool)
    return torch.tril(blocks)


class Masks:
    def __init__(self, path, common):
        self.library, self.common = load_library(path), common
        self.rows, self.passed = [], True

    def causal(self, shape, dtype, visit, q, k, v, o, lse):
        require(self.library, self.library.causal_attention_cuda(
            ctypes.byref(shape), DTYPES[dtype][0], *(ctypes.c_void_p(t.data_ptr())
                                                    for t in (q, k, v, o, lse)),
            None, visit, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)))

    def sparse(self, shape, dtype, on_device, q, k, v, o, lse):
        require(self.library, self.library.block_sparse_attention_cuda(
            ctypes.byref(shape), DTYPES[dtype][0], *(ctypes.c_void_p(t.data_ptr())
                                                    for t in (q, k, v, o, lse)),
            None, ctypes.byref(on_device),
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)))

    def list_on_device(self, shape, blocks):
        counts = blocks.sum(dim=1)
        offsets = [0] + torch.cumsum(counts, 0).tolist()
        numbers = blocks.nonzero()[:, 1].tolist()
        host = BlockList(blocks.shape[0], blocks.shape[1],
                         (ctypes.c_int32 * len(offsets))(*offsets),
                         (ctypes.c_int32 * max(1, len(numbers)))(*numbers))
        on_device = DeviceBlockList()
        require(self.library, self.library.device_block_list_make(
            ctypes.byref(on_device), CUDA, ctypes.byref(host), ctypes.byref(shape)))
        return on_device

    def row(self, kernel, case, shape, dtype, density, times, pairs, full, errors, verdict):
        median, p10, p90 = spread(times)
        tflops = 4.0 * shape.heads_q * pairs * shape.dim / median / 1e9
        of_full = f"{median / full:.4f}" if full else ""
        error = [f"{value:.3g}" if value is not None else "" for value in errors]
        self.passed = self.passed and verdict in ("ok", "peer")
        self.rows.append(
            f"{self.common},{kernel},{case},{shape.len_q},{shape.len_kv},1,{shape.heads_q},"
            f"{shape.dim},{dtype},{int(shape.causal)},{shape.window},{density:.4g},{len(times)},"
            f"{median:.5g},{p10:.5g},{p90:.5g},{tflops:.4g},{of_full},{','.join(error)},{verdict}")
        print(f"  N={shape.len_q:<6} d={shape.dim:<3} {dtype} {kernel:22} {case:12} "
              f"density {density:6.3f} {median:9.3f} ms [{p10:.3f}, {p90:.3f}] {tflops:6.2f} "
              f"TFLOP/s  of full {of_full}  {verdict}", flush=True)


def visible_pairs(shape, blocks=None):
    rows = own_keys(shape.len_q)
    return sum(int(visible(shape, part, blocks).sum().item()) for part in rows.split(2048))


def measure(masks, length, dim, heads, dtype, windows, densities, peers):
    """One length: no mask, causal in three ways, windows, lists; PyTorch's causal beside."""
    torch.manual_seed(1)
    kind = DTYPES[dtype][1]
    sets = [[torch.randn(1, heads, length, dim, device="cuda").to(kind) for _ in range(3)]
            for _ in range(SETS)]
    o, lse = torch.empty_like(sets[0][0]), torch.empty(heads, length, device="cuda")
    turn = [0]

    def shape_of(causal, window=0):
        return AttnShape(1, heads, heads, length, length, dim, 0.0, causal, window, None)

    def rotating(function, *arguments):
        def call():
            turn[0] += 1
            function(*arguments, *sets[turn[0] % SETS], o, lse)
        return call

    def theirs(backend, causal):
        def call():
            turn[0] += 1
            with sdpa_kernel(backend):
                F.scaled_dot_product_attention(*sets[turn[0] % SETS], is_causal=causal)
        return call

    causal = shape_of(True)
    cases = {("causal", "full"): (shape_of(False), SKIP, 1.0, None),
             ("causal", "causal"): (causal, SKIP, 1.0, None)}
    if peers:
        cases["causal", "every_score"] = (causal, EVERY_SCORE, 1.0, None)
        cases["causal", "every_tile"] = (causal, EVERY_TILE, 1.0, None)
    for window in windows:
        cases["causal", f"window {window}"] = (shape_of(True, window), SKIP, 1.0, None)
    blocks_of = {}
    for density in densities:
        count = (length + BLOCK - 1) // BLOCK
        blocks = random_blocks(count, count, density)
        share = blocks.sum().item() / (count * (count + 1) // 2)
        cases["block_sparse", f"sparse {density}"] = (causal, SKIP, share, blocks)
    sides, devices = {}, {}
    for key, (shape, visit, _, blocks) in cases.items():
        if blocks is None:
            sides[key] = rotating(masks.causal, shape, dtype, visit)
        else:
            devices[key] = masks.list_on_device(shape, blocks)
            blocks_of[key] = blocks
            sides[key] = rotating(masks.sparse, shape, dtype, devices[key])
    if peers and dtype != "f32":
        for case, is_causal in (("full", False), ("causal", True)):
            sides["FLASH", case] = theirs(SDPBackend.FLASH_ATTENTION, is_causal)
            sides["CUDNN", case] = theirs(SDPBackend.CUDNN_ATTENTION, is_causal)
    times = time_sides(sides, rounds=3, burst_seconds=0.05)
    full = {"causal": spread(times["causal", "full"])[0],
            "block_sparse": spread(times["causal", "full"])[0]}
    for name in ("FLASH", "CUDNN"):
        if (name, "full") in times:
            full[name] = spread(times[name, "full"])[0]
    for key, values in times.items():
        kernel, case = key
        if key not in cases:
            shape = shape_of(case == "causal")
            masks.row(kernel, case, shape, dtype, 1.0, values, visible_pairs(shape), full[kernel],
                      (None, None), "peer")
            continue
        shape, visit, share, blocks = cases[key]
        o.fill_(float("nan"))
        lse.fill_(float("nan"))
        if blocks is None:
            masks.causal(shape, dtype, visit, *sets[0], o, lse)
        else:
            masks.sparse(shape, dtype, devices[key], *sets[0], o, lse)
        o_error, lse_error, right = check(shape, *sets[0], o, lse[None], blocks)
        masks.row(f"{kernel}_attention", case.split()[0], shape, dtype, share, values,
                  visible_pairs(shape, blocks), full[kernel], (o_error, lse_error),
                  "ok" if right else "WRONG")


def main():
    parser = argparse.ArgumentParser(description="Chapter 7's kernels with and without masks.")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--library", default="build/libtilebytile.so")
    parser.add_argument("--csv", default="docs/benchmarks/h200_ch07.csv")
    arguments = parser.parse_args()
    masks = Masks(arguments.library, common_columns())
    print(masks.common)
    with torch.inference_mode():
        for dim, heads in ((64, 12), (128, 12)):
            for length in (1024, 2048, 4096):
                measure(masks, length, dim, heads, arguments.dtype, [], [], False)
            measure(masks, 8192, dim, heads, arguments.dtype, [1024],
                    [0.0, 0.1, 0.25, 0.5, 1.0], True)
            measure(masks, 32768, dim, heads, arguments.dtype, [1024], [], False)
    with open(arguments.csv, "w", encoding="utf-8") as csv:
        csv.write("\n".join([COLUMNS] + masks.rows) + "\n")
    print(f"{arguments.csv}: {len(masks.rows)} rows")
    sys.exit(0 if masks.passed else 1)


if __name__ == "__main__":
    main()
