#!/usr/bin/env python3
"""The kernels of chapter 8 (grouped queries) and 9 (paged caches) beside PyTorch's backends.

    make lib
    python3 tests/peers/gpu_gqa.py      # writes docs/benchmarks/h200_ch08.csv and h200_ch09.csv

tests/peers/README.md says how it measures. Needs PyTorch with CUDA, 2.5 or newer.
"""

import argparse
import ctypes
import functools
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_common import (AttnShape, CUDA, DTYPES, Report, calls_over, check, common_columns,
                        event_times, expected, graph_of, load_library, read_ceiling, require,
                        spread, stream, time_sides)

PEERS = {"FLASH": SDPBackend.FLASH_ATTENTION, "CUDNN": SDPBackend.CUDNN_ATTENTION}
PROBLEM = "kernel,case,batch,keys,heads_q,heads_kv,len_q,dim,dtype"
COLUMNS, COLUMNS_PAGED = PROBLEM + ",splits", PROBLEM + ",page,order,splits"
CALLS = 4  # of one graph
# batch, keys, heads_q, heads_kv, len_q, dim. The bars of the course first.
BARS = [(1, 131072, 32, 8, 1, 128), (16, 8192, 32, 8, 1, 128), (64, 8192, 32, 8, 1, 128),
        (16, 8192, 64, 8, 1, 128)]
OTHERS = [(16, 8192, 16, 8, 1, 128), (16, 8192, 32, 1, 1, 128), (16, 8192, 32, 8, 4, 128)]
PAGED = (16, 8192, 32, 8, 1, 128)
PAGES = [8, 16, 32, 64, 128, 256]


class Rung(ctypes.Structure):
    """GqaRung of chapter 8 and PagedRung of chapter 9: one row of their tables."""

    _fields_ = [
        ("name", ctypes.c_char_p), ("file", ctypes.c_char_p), ("builds", ctypes.c_void_p * 3),
        ("tile_rows", ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(AttnShape))),
        ("workspace_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.POINTER(AttnShape),
                                             ctypes.c_int64)),
        ("splits", ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(AttnShape), ctypes.c_int,
                                    ctypes.c_void_p)),
    ]


GQA_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(AttnShape), ctypes.c_int,
                             *[ctypes.c_void_p] * 6, ctypes.c_int64, ctypes.c_void_p,
                             ctypes.c_void_p)


class PageLayout(ctypes.Structure):
    _fields_ = [("page_size", ctypes.c_int64), ("heads_kv", ctypes.c_int64),
                ("dim", ctypes.c_int64), ("dtype", ctypes.c_int)]


class PagedCache(ctypes.Structure):
    _fields_ = [("target", ctypes.c_int), ("layout", PageLayout), ("pages", ctypes.c_int64),
                ("k", ctypes.c_void_p), ("v", ctypes.c_void_p), ("table", ctypes.c_void_p),
                ("columns", ctypes.c_int64), ("batch", ctypes.c_int64),
                ("kv_lens", ctypes.c_void_p)]


PAGED_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(AttnShape), ctypes.c_int,
                               ctypes.c_void_p, ctypes.POINTER(PagedCache), ctypes.c_void_p,
                               ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


def shape_of(problem, lens=None):
    batch, keys, heads_q, heads_kv, len_q, dim = problem
    return AttnShape(batch, heads_q, heads_kv, len_q, keys, dim, 0.0, False, 0, lens)


class Library:
    def __init__(self, path):
        self.library = load_library(path)
        self.properties = ctypes.create_string_buffer(1024)  # GpuProperties, opaque here
        require(self.library, self.library.gpu_properties(CUDA, self.properties))
        self.gqa = {rung.name.decode(): rung
                    for rung in (Rung * 3).in_dll(self.library, "gqa_rungs")}
        self.paged = {rung.name.decode(): rung
                      for rung in (Rung * 2).in_dll(self.library, "paged_rungs")}

    def splits(self, rung, shape, dtype):
        return rung.splits(ctypes.byref(shape), DTYPES[dtype][0], self.properties)

    def workspace(self, rung, shape, splits):
        size = max(256, rung.workspace_bytes(ctypes.byref(shape), splits))
        workspace = torch.empty(size, dtype=torch.uint8, device="cuda")
        require(self.library, self.library.split_kv_workspace_clear(
            CUDA, ctypes.c_void_p(workspace.data_ptr()), ctypes.c_size_t(size),
            ctypes.c_void_p(stream())))
        return workspace

    def run_gqa(self, rung, shape, dtype, q, k, v, o, lse, splits, workspace):
        entry = GQA_ENTRY(rung.builds[CUDA])
        require(self.library, entry(ctypes.byref(shape), DTYPES[dtype][0], q.data_ptr(),
                                    k.data_ptr(), v.data_ptr(), o.data_ptr(), lse.data_ptr(), None,
                                    splits, workspace.data_ptr(), stream()))

    def run_paged(self, rung, shape, dtype, q, cache, o, lse, splits, workspace):
        entry = PAGED_ENTRY(rung.builds[CUDA])
        require(self.library, entry(ctypes.byref(shape), DTYPES[dtype][0], q.data_ptr(),
                                    ctypes.byref(cache), o.data_ptr(), lse.data_ptr(), splits,
                                    workspace.data_ptr(), stream()))


def make_inputs(problem, dtype, seed=1):
    batch, keys, heads_q, heads_kv, len_q, dim = problem
    torch.manual_seed(seed)
    kind = DTYPES[dtype][1]
    return [torch.randn(batch, heads, length, dim, device="cuda").to(kind)
            for heads, length in ((heads_q, len_q), (heads_kv, keys), (heads_kv, keys))]


def bytes_of(problem, element, live=None):
    batch, keys, heads_q, heads_kv, len_q, dim = problem
    live = batch * keys if live is None else live
    return element * dim * (2 * live * heads_kv + 2 * batch * heads_q * len_q)


def theirs(backend, q, k, v):
    with sdpa_kernel(backend):
        F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def compare(library, report, problem, dtype):
    """Every rung beside PyTorch; O and LSE of the last call are checked after the timed runs."""
    sets = [make_inputs(problem, dtype, seed) for seed in (1, 2)]
    shape = shape_of(problem)
    o = torch.empty_like(sets[0][0])
    lse = torch.empty(o.shape[:3], device="cuda")
    want = expected(*sets[(CALLS - 1) % len(sets)])
    sides, splits = {}, {}
    for name, rung in library.gqa.items():
        splits[name] = library.splits(rung, shape, dtype)
        sides[name] = functools.partial(library.run_gqa, rung, shape, dtype, o=o, lse=lse,
                                        splits=splits[name],
                                        workspace=library.workspace(rung, shape, splits[name]))
    for name, backend in PEERS.items():
        try:
            theirs(backend, *sets[0])
            sides[name] = functools.partial(theirs, backend)
        except RuntimeError as error:
            print(f"  {name} does not take {problem}: {str(error)[:100]}")
    timed = {name: graph_of(calls_over(sets, call, CALLS)) for name, call in sides.items()}
    times = {name: [1e3 * t / CALLS for t in values]
             for name, values in time_sides(timed, rounds=3, burst_seconds=0.03).items()}
    medians = {name: spread(values)[0] for name, values in times.items()}
    size = bytes_of(problem, o.element_size())
    for name, values in times.items():
        ratios = [medians[peer] / medians[name] if peer in medians else None for peer in PEERS]
        if name in PEERS:
            report.add([name, "compare", *problem, dtype, ""], values, size, (None, None), "peer",
                       ratios)
        else:
            report.add([name, "compare", *problem, dtype, splits[name]], values, size,
                       *check(timed[name], o, lse, want), ratios)


def cache_of(problem, dtype, k, v, page, shuffled, lens):
    """Pages of these contiguous K and V, and what must stay alive."""
    batch, keys, _, heads_kv, _, dim = problem
    columns = (keys + page - 1) // page
    pages = batch * columns
    order = torch.randperm(pages, device="cuda") if shuffled else torch.arange(pages, device="cuda")
    arrays = []
    for tensor in (k, v):
        padded = F.pad(tensor, (0, 0, 0, columns * page - keys))
        split = padded.view(batch, heads_kv, columns, page, dim).permute(0, 2, 1, 3, 4)
        array = torch.empty(pages, heads_kv, page, dim, dtype=tensor.dtype, device="cuda")
        array[order] = split.reshape(pages, heads_kv, page, dim)
        arrays.append(array)
    table = order.view(batch, columns).to(torch.int32).contiguous()
    lengths = torch.tensor(lens, dtype=torch.int32, device="cuda")
    cache = PagedCache(CUDA, PageLayout(page, heads_kv, dim, DTYPES[dtype][0]), pages,
                       arrays[0].data_ptr(), arrays[1].data_ptr(), table.data_ptr(), columns, batch,
                       lengths.data_ptr())
    return cache, (arrays, table, lengths)


def time_paged(library, report, problem, dtype, name, case, page, shuffled, lens, want, q, k, v):
    host = (ctypes.c_int32 * problem[0])(*lens)
    shape = shape_of(problem, ctypes.cast(host, ctypes.c_void_p))
    rung = library.paged[name]
    splits = library.splits(rung, shape, dtype)
    workspace = library.workspace(rung, shape, splits)
    cache, alive = cache_of(problem, dtype, k, v, page, shuffled, lens)
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    replay = graph_of([functools.partial(library.run_paged, rung, shape, dtype, q, cache, o, lse,
                                         splits, workspace)] * CALLS)
    replay()
    times = [1e3 * t / CALLS for t in event_times(replay, 20)]
    report.add([name, case, *problem, dtype, page, "shuffled" if shuffled else "ordered", splits],
               times, bytes_of(problem, q.element_size(), sum(lens)), *check(replay, o, lse, want))
    del alive


def paged(library, report, dtype):
    q, k, v = make_inputs(PAGED, dtype)
    lens = [PAGED[1]] * PAGED[0]
    want = expected(q, k, v)
    shape = shape_of(PAGED)
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    for name in ("gqa", "gqa_mma"):
        rung = library.gqa[name]
        splits = library.splits(rung, shape, dtype)
        workspace = library.workspace(rung, shape, splits)
        replay = graph_of([functools.partial(library.run_gqa, rung, shape, dtype, q, k, v, o, lse,
                                             splits, workspace)] * CALLS)
        replay()
        times = [1e3 * t / CALLS for t in event_times(replay, 20)]
        report.add([name, "pages", *PAGED, dtype, "", "contiguous", splits], times,
                   bytes_of(PAGED, q.element_size()), *check(replay, o, lse, want))
    for page in PAGES:
        for shuffled in (False, True):
            for name in library.paged:
                time_paged(library, report, PAGED, dtype, name, "pages", page, shuffled, lens, want,
                           q, k, v)
    # A batch of 64 lengths 1..16,384, beside equal lengths with as many keys in all.
    torch.manual_seed(3)
    mixed = torch.randint(1, 16385, (64,)).tolist()
    mean = sum(mixed) // 64
    for case, lens in (("equal", [mean] * 64), ("mixed", mixed)):
        problem = (64, max(lens), 32, 8, 1, 128)
        q, k, v = make_inputs(problem, dtype)
        want = expected(q, k, v, lens)
        time_paged(library, report, problem, dtype, "paged_mma", case, 16, True, lens, want,
                   q, k, v)


def main():
    parser = argparse.ArgumentParser(description="Chapters 8 and 9 beside PyTorch's backends.")
    parser.add_argument("--dtype", choices=("f16", "bf16"), default="bf16")
    parser.add_argument("--library", default="build/libtilebytile.so")
    parser.add_argument("--csv", default="docs/benchmarks/h200_ch08.csv")
    parser.add_argument("--csv-paged", default="docs/benchmarks/h200_ch09.csv")
    arguments = parser.parse_args()
    library = Library(arguments.library)
    with torch.inference_mode():
        size, times = read_ceiling(library.library)
        common, ceiling = common_columns(), size / spread(times)[0] / 1e6
        print(f"{common}; read ceiling, measured: {ceiling:.3f} TB/s")
        report = Report(COLUMNS, common, ceiling)
        report_paged = Report(COLUMNS_PAGED, common, ceiling)
        for problem in BARS + OTHERS:
            compare(library, report, problem, arguments.dtype)
        paged(library, report_paged, arguments.dtype)
    report.write(arguments.csv)
    report_paged.write(arguments.csv_paged)
    sys.exit(0 if report.passed and report_paged.passed else 1)


if __name__ == "__main__":
    main()
