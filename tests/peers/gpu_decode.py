#!/usr/bin/env python3
"""The decode kernels of chapter 6 beside PyTorch's backends, in one process, on one GPU.

    make lib
    python3 tests/peers/gpu_decode.py          # writes docs/benchmarks/h200_ch06.csv

tests/peers/README.md says how it measures. Needs PyTorch with CUDA, 2.5 or newer.
"""

import argparse
import ctypes
import functools
import itertools
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_common import (AttnShape, CUDA, DTYPES, Report, calls_over, check, common_columns,
                        event_times, expected, graph_of, load_library, read_ceiling, require,
                        spread, stream, time_sides)

PEERS = {"FLASH": SDPBackend.FLASH_ATTENTION, "CUDNN": SDPBackend.CUDNN_ATTENTION}
RUNGS = 4
COLUMNS = "kernel,case,batch,keys,heads,dim,dtype,splits"
# batch, keys, heads, dim: the bars of the course, then what shows where launches and splits matter.
BARS = [(8, 8192, 32, 128), (1, 16384, 12, 64), (1, 131072, 8, 128)]
GROWING = [(1, 1024, 12, 64), (1, 4096, 12, 64), (1, 65536, 12, 64)]
LOSING = [(64, 1024, 32, 128)]
SPLITS = [1, 2, 4, 8, 16, 32, 64, 128, 256]


class DecodeRung(ctypes.Structure):
    """DecodeRung of chapters/ch06_decode/decode.h: one row of its table."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("file", ctypes.c_char_p),
        ("builds", ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(AttnShape), ctypes.c_int, *[ctypes.c_void_p] * 6,
            ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p) * 3),
        ("launches", ctypes.c_int),
        ("workspace_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.POINTER(AttnShape),
                                             ctypes.c_int64)),
    ]


class Decode:
    """The library's rungs on PyTorch's tensors."""

    def __init__(self, path):
        self.library = load_library(path)
        table = (DecodeRung * RUNGS).in_dll(self.library, "decode_rungs")
        self.rungs = {rung.name.decode(): rung for rung in table}
        if not all(rung.builds[CUDA] for rung in table):
            sys.exit("gpu_decode: the library was built without nvcc")
        self.library.decode_splits.restype = ctypes.c_int64
        self.properties = ctypes.create_string_buffer(1024)  # GpuProperties, opaque here
        require(self.library, self.library.gpu_properties(CUDA, self.properties))

    def splits(self, shape, dtype):
        return self.library.decode_splits(ctypes.byref(shape), DTYPES[dtype][0], self.properties)

    def workspace(self, shape, most_splits):
        size = max(256, *(rung.workspace_bytes(ctypes.byref(shape), splits)
                          for rung in self.rungs.values() for splits in {1, most_splits}))
        workspace = torch.empty(size, dtype=torch.uint8, device="cuda")
        require(self.library, self.library.decode_workspace_clear(
            CUDA, ctypes.c_void_p(workspace.data_ptr()), ctypes.c_size_t(size),
            ctypes.c_void_p(stream())))
        return workspace

    def run(self, name, shape, dtype, q, k, v, o, lse, lens, splits, workspace):
        require(self.library, self.rungs[name].builds[CUDA](
            ctypes.byref(shape), DTYPES[dtype][0], q.data_ptr(), k.data_ptr(), v.data_ptr(),
            o.data_ptr(), lse.data_ptr(), None if lens is None else lens.data_ptr(), splits,
            workspace.data_ptr(), stream()))


def make_sets(problem, dtype, count):
    batch, keys, heads, dim = problem
    torch.manual_seed(1)
    kind = DTYPES[dtype][1]
    return [[torch.randn(batch, heads, length, dim, device="cuda").to(kind)
             for length in (1, keys, keys)] for _ in range(count)]


def sets_needed(problem, l2_bytes=64 << 20):
    batch, keys, heads, dim = problem
    return max(2, min(64, 3 * l2_bytes // (batch * keys * heads * dim * 4) + 1))


def calls_of_graph(sets):
    """Eight or more, and as often each set: the last call takes the last set."""
    return len(sets) * max(1, 8 // len(sets))


def bytes_of(problem, element, live=None):
    batch, keys, heads, dim = problem
    live = batch * keys if live is None else live
    return 2 * heads * (live + batch) * dim * element


def theirs(backend, q, k, v):
    with sdpa_kernel(backend):
        F.scaled_dot_product_attention(q, k, v)


def in_turn(sets, call):
    turn = itertools.cycle(sets)
    return lambda: call(*next(turn))


def compare(decode, report, problem, dtype, eager):
    """Every rung beside PyTorch; O and LSE of the last set are checked after the timed runs."""
    batch, keys, heads, dim = problem
    sets = make_sets(problem, dtype, sets_needed(problem))
    shape = AttnShape(batch, heads, heads, 1, keys, dim, 0.0, False, 0, None)
    splits = decode.splits(shape, dtype)
    workspace = decode.workspace(shape, splits)
    o = torch.empty_like(sets[0][0])
    lse = torch.empty(batch, heads, 1, device="cuda")
    size = bytes_of(problem, o.element_size())
    want = expected(*sets[-1])
    sides = {name: functools.partial(decode.run, name, shape, dtype, o=o, lse=lse, lens=None,
                                     splits=splits, workspace=workspace) for name in decode.rungs}
    sides.update({name: functools.partial(theirs, backend) for name, backend in PEERS.items()})
    for case in ["compare", "compare_calls"] if eager else ["compare"]:
        if case == "compare":  # a graph of calls: no time of the host between them
            per_call = calls_of_graph(sets)
            timed = {name: graph_of(calls_over(sets, call, per_call))
                     for name, call in sides.items()}
            last = timed
        else:
            per_call = 1
            timed = {name: in_turn(sets, call) for name, call in sides.items()}
            last = {name: functools.partial(call, *sets[-1]) for name, call in sides.items()}
        times = {name: [1e3 * t / per_call for t in values]
                 for name, values in time_sides(timed, burst_seconds=0.05).items()}
        medians = {name: spread(values)[0] for name, values in times.items()}
        for name, values in times.items():
            ratios = [medians[peer] / medians[name] for peer in PEERS]
            if name in PEERS:
                report.add([name, case, *problem, dtype, ""], values, size, (None, None), "peer",
                           ratios)
            else:
                report.add([name, case, *problem, dtype, splits], values, size,
                           *check(last[name], o, lse, want), ratios)


def sweep(decode, report, problem, dtype):
    """split_kv_fused over the number of splits."""
    batch, keys, heads, dim = problem
    sets = make_sets(problem, dtype, sets_needed(problem))
    shape = AttnShape(batch, heads, heads, 1, keys, dim, 0.0, False, 0, None)
    own = decode.splits(shape, dtype)
    o, lse = torch.empty_like(sets[0][0]), torch.empty(batch, heads, 1, device="cuda")
    want = expected(*sets[-1])
    for splits in sorted(set(SPLITS + [own])):
        call = functools.partial(decode.run, "split_kv_fused", shape, dtype, o=o, lse=lse,
                                 lens=None, splits=splits,
                                 workspace=decode.workspace(shape, splits))
        per_call = calls_of_graph(sets)
        replay = graph_of(calls_over(sets, call, per_call))
        replay()
        repeats = max(5, min(40, int(30 / max(0.01, event_times(replay, 1)[0]))))
        times = [1e3 * t / per_call for t in event_times(replay, repeats)]
        report.add(["split_kv_fused", "splits", *problem, dtype, splits], times,
                   bytes_of(problem, o.element_size()), *check(replay, o, lse, want))


def ragged(decode, report, dtype):
    """A batch of lengths 1..16,384 beside one of equal lengths with as many keys in all."""
    batch, longest, heads, dim = 64, 16384, 8, 128
    torch.manual_seed(2)
    lens = torch.randint(1, longest + 1, (batch,), dtype=torch.int32)
    mean = int(lens.sum().item()) // batch
    for case, keys, lengths in [("equal", mean, None), ("ragged", longest, lens)]:
        problem = (batch, keys, heads, dim)
        q, k, v = make_sets(problem, dtype, 1)[0]
        host = None if lengths is None else (ctypes.c_int32 * batch)(*lengths.tolist())
        shape = AttnShape(batch, heads, heads, 1, keys, dim, 0.0, False, 0,
                          None if host is None else ctypes.cast(host, ctypes.c_void_p))
        on_gpu = None if lengths is None else lengths.cuda()
        splits = decode.splits(shape, dtype)
        workspace = decode.workspace(shape, splits)
        o, lse = torch.empty_like(q), torch.empty(batch, heads, 1, device="cuda")

        def call():
            decode.run("split_kv_fused", shape, dtype, q, k, v, o, lse, on_gpu, splits, workspace)

        call()
        times = [1e3 * t for t in event_times(call, 20)]
        want = expected(q, k, v, lengths)
        live = None if lengths is None else int(lengths.sum().item())
        report.add(["split_kv_fused", case, *problem, dtype, splits], times,
                   bytes_of(problem, q.element_size(), live), *check(call, o, lse, want))


def graph_replays_new_values(decode):
    """A captured launch computes with what its buffers and lengths hold when it is replayed."""
    batch, keys, heads, dim, splits = 3, 5000, 4, 128, 7
    shape = AttnShape(batch, heads, heads, 1, keys, dim, 0.0, False, 0, None)
    q, k, v = make_sets((batch, keys, heads, dim), "bf16", 1)[0]
    lens = torch.tensor([keys, keys, keys], dtype=torch.int32, device="cuda")
    workspace = decode.workspace(shape, splits)
    o, lse = torch.empty_like(q), torch.empty(batch, heads, 1, device="cuda")
    passed = True
    for name in decode.rungs:
        replay = graph_of([lambda: decode.run(name, shape, "bf16", q, k, v, o, lse, lens, splits,
                                              workspace)])
        for lengths in ([5000, 1, 0], [4097, 4096, 3]):
            lens.copy_(torch.tensor(lengths, dtype=torch.int32))
            q.copy_(torch.randn_like(q))
            right = check(replay, o, lse, expected(q, k, v, lengths))[1] == "ok"
            passed = passed and right
            print(f"  graph of {name}, replayed with lengths {lengths}: "
                  f"{'ok' if right else 'WRONG'}", flush=True)
        first = o.clone()
        for _ in range(50):
            replay()
        torch.cuda.synchronize()
        if not torch.equal(first, o):
            print(f"  graph of {name}: 50 replays differ: WRONG")
            passed = False
    return passed


def main():
    parser = argparse.ArgumentParser(description="Chapter 6's kernels beside PyTorch's backends.")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--library", default="build/libtilebytile.so")
    parser.add_argument("--csv", default="docs/benchmarks/h200_ch06.csv")
    arguments = parser.parse_args()
    decode = Decode(arguments.library)
    with torch.inference_mode():
        size, times = read_ceiling(decode.library)
        ceiling = size / spread(times)[0] / 1e6
        report = Report(COLUMNS, common_columns(), ceiling)
        print(f"{report.common}; read ceiling, measured: {ceiling:.3f} TB/s")
        report.add(["read_rate", "compare", 1, size // 4096, 8, 128, "bf16", ""], times, size,
                   (None, None), "ceiling")
        passed = graph_replays_new_values(decode)
        for problem in BARS + GROWING + LOSING:
            compare(decode, report, problem, arguments.dtype, problem in BARS)
        for problem in BARS + LOSING:
            sweep(decode, report, problem, arguments.dtype)
        ragged(decode, report, arguments.dtype)
    report.write(arguments.csv)
    sys.exit(0 if passed and report.passed else 1)


if __name__ == "__main__":
    main()
