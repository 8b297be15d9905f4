#!/usr/bin/env python3
"""The grouped-query kernels of chapter 8 and the paged ones of chapter 9, beside PyTorch's backends.

    make lib
    python3 tests/peers/gpu_gqa.py      # writes docs/benchmarks/h200_ch08.csv and h200_ch09.csv

tests/peers/README.md says how it measures. Needs PyTorch with CUDA, 2.5 or newer.
"""

import argparse
import ctypes
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_common import (AttnShape, CUDA, DTYPES, common_columns, event_times, graph_of,
                        load_library, require, spread, time_sides)

PEERS = {"FLASH": SDPBackend.FLASH_ATTENTION, "CUDNN": SDPBackend.CUDNN_ATTENTION}
START = "gpu,driver,date,torch,kernel,case,batch,keys,heads_q,heads_kv,len_q,dim,dtype"
END = ("splits,runs,median_us,p10_us,p90_us,tb_s,of_read_ceiling,ratio_to_flash,ratio_to_cudnn,"
       "o_error,lse_error,check")
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


def stream():
    return torch.cuda.current_stream().cuda_stream


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


def read_ceiling(library):
    """TB/s of a kernel that only reads, 2 GiB at a time."""
    data = torch.randint(0, 2**31, (2**29,), dtype=torch.int32, device="cuda")
    sums = torch.empty(4096, dtype=torch.int32, device="cuda")

    def call():
        require(library.library, library.library.read_rate_cuda(
            ctypes.c_void_p(data.data_ptr()), ctypes.c_size_t(4 * data.numel()),
            ctypes.c_void_p(sums.data_ptr()), ctypes.c_void_p(stream())))

    call()
    return 4 * data.numel() / spread(event_times(call, 20))[0] / 1e9


def expected(q, k, v, lens=None):
    """O and LSE in float64, an entry and a KV head at a time; the largest sum p |v|."""
    batch, heads_q, len_q, dim = q.shape
    group = heads_q // k.shape[1]
    o = torch.zeros_like(q, dtype=torch.float64)
    lse = torch.full((batch, heads_q, len_q), float("-inf"), dtype=torch.float64, device="cuda")
    size = 0.0
    for b in range(batch):
        keys = k.shape[2] if lens is None else int(lens[b])
        for h in range(k.shape[1] if keys > 0 else 0):
            heads = slice(h * group, (h + 1) * group)
            scores = q[b, heads].double() @ k[b, h, :keys].double().T / dim**0.5
            weights, values = torch.softmax(scores, dim=-1), v[b, h, :keys].double()
            lse[b, heads] = torch.logsumexp(scores, dim=-1)
            o[b, heads] = weights @ values
            size = max(size, (weights @ values.abs()).max().item())
    return o, lse, size


def make_inputs(problem, dtype, seed=1):
    batch, keys, heads_q, heads_kv, len_q, dim = problem
    torch.manual_seed(seed)
    kind = DTYPES[dtype][1]
    return [torch.randn(batch, heads, length, dim, device="cuda").to(kind)
            for heads, length in ((heads_q, len_q), (heads_kv, keys), (heads_kv, keys))]


class Report:
    def __init__(self, common, ceiling):
        self.common, self.ceiling, self.passed = common, ceiling, True
        self.rows = {8: [START + "," + END], 9: [START + ",page,order," + END]}

    def add(self, chapter, kernel, case, problem, dtype, place, splits, times_us, size, ratios,
            errors, verdict):
        median, p10, p90 = spread(times_us)
        rate = size / median / 1e6
        if rate > 1.05 * self.ceiling:
            verdict += "; above the ceiling: a measurement error"
        self.passed = self.passed and verdict in ("ok", "peer", "timed only")
        text = [f"{value:.4f}" if value else "" for value in ratios]
        error = [f"{value:.3g}" if value is not None else "" for value in errors]
        self.rows[chapter].append(
            f"{self.common},{kernel},{case},{','.join(map(str, problem))},{dtype},{place}{splits},"
            f"{len(times_us)},{median:.5g},{p10:.5g},{p90:.5g},{rate:.4g},"
            f"{rate / self.ceiling:.4f},{','.join(text)},{','.join(error)},{verdict}")
        print(f"  {problem} {kernel:12} {case:10} {place:14} splits {splits:<4} {median:9.2f} us "
              f"[{p10:.2f}, {p90:.2f}] {rate:6.3f} TB/s {100 * rate / self.ceiling:5.1f} % "
              f"{' '.join(text)}  {verdict}", flush=True)


def bytes_of(problem, element, live=None):
    batch, keys, heads_q, heads_kv, len_q, dim = problem
    live = batch * keys if live is None else live
    return element * dim * (2 * live * heads_kv + 2 * batch * heads_q * len_q)


def verdict_of(o, lse, want, dtype_unit):
    want_o, want_lse, size = want
    errors = ((o.double() - want_o).abs().max().item(),
              torch.where(lse.double() == want_lse, 0.0, lse.double() - want_lse).abs().max().item())
    # Probabilities may be rounded to the storage type: half a unit of sum p |v|, and O once more.
    right = errors[0] <= 2 * dtype_unit * size and errors[1] <= 2.0**-24 * (
        4 * (o.shape[-1] ** 0.5 + 131072**0.5) + 2 * want_lse[want_lse > float("-inf")].abs().max())
    return errors, "ok" if right else "WRONG"


def compare(library, report, problem, dtype):
    inputs = [make_inputs(problem, dtype, seed) for seed in (1, 2)]
    shape = shape_of(problem)
    unit = torch.finfo(inputs[0][0].dtype).eps / 2
    o = torch.empty_like(inputs[0][0])
    lse = torch.empty(o.shape[:3], device="cuda")
    want = expected(*inputs[0])
    turn, sides, splits, results = [0], {}, {}, {}

    def rotate():
        turn[0] += 1
        return inputs[turn[0] % len(inputs)]

    for name, rung in library.gqa.items():
        splits[name] = library.splits(rung, shape, dtype)
        workspace = library.workspace(rung, shape, splits[name])
        o.fill_(float("nan"))
        lse.fill_(float("nan"))
        library.run_gqa(rung, shape, dtype, *inputs[0], o, lse, splits[name], workspace)
        results[name] = verdict_of(o, lse, want, unit)

        def ours(rung=rung, parts=splits[name], workspace=workspace):
            library.run_gqa(rung, shape, dtype, *rotate(), o, lse, parts, workspace)

        sides[name] = ours

    for name, backend in PEERS.items():
        def theirs(backend=backend):
            with sdpa_kernel(backend):
                F.scaled_dot_product_attention(*rotate(), enable_gqa=True)
        try:
            theirs()
            sides[name] = theirs
        except RuntimeError as error:
            print(f"  {name} does not take {problem}: {str(error)[:100]}")
    timed = {name: graph_of([side] * 4) for name, side in sides.items()}
    times = {name: [1e3 * t / 4 for t in values]
             for name, values in time_sides(timed, rounds=3, burst_seconds=0.03).items()}
    medians = {name: spread(values)[0] for name, values in times.items()}
    for name, values in times.items():
        errors, verdict = results.get(name, ((None, None), "peer"))
        ratios = [medians[peer] / medians[name] if peer in medians else None for peer in PEERS]
        report.add(8, name, "compare", problem, dtype, "", splits.get(name, ""), values,
                   bytes_of(problem, 2), ratios, errors, verdict)


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
    o = torch.full_like(q, float("nan"))
    lse = torch.full(q.shape[:3], float("nan"), device="cuda")

    def call():
        library.run_paged(rung, shape, dtype, q, cache, o, lse, splits, workspace)

    call()
    errors, verdict = verdict_of(o, lse, want, torch.finfo(q.dtype).eps / 2)
    replay = graph_of([call] * 4)
    replay()
    times = [1e3 * t / 4 for t in event_times(replay, 20)]
    report.add(9, name, case, problem, dtype, f"{page},{'shuffled' if shuffled else 'ordered'},",
               splits, times, bytes_of(problem, 2, sum(lens)), [None, None], errors, verdict)
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
        replay = graph_of([lambda: library.run_gqa(rung, shape, dtype, q, k, v, o, lse, splits,
                                                   workspace)] * 4)
        replay()
        times = [1e3 * t / 4 for t in event_times(replay, 20)]
        report.add(9, name, "pages", PAGED, dtype, ",contiguous,", splits, times,
                   bytes_of(PAGED, 2), [None, None], [None, None], "timed only")
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
        time_paged(library, report, problem, dtype, "paged_mma", case, 16, True, lens, want, q, k, v)


def main():
    parser = argparse.ArgumentParser(description="Chapters 8 and 9 beside PyTorch's backends.")
    parser.add_argument("--dtype", choices=("f16", "bf16"), default="bf16")
    parser.add_argument("--library", default="build/libtilebytile.so")
    parser.add_argument("--csv", default="docs/benchmarks/h200_ch08.csv")
    parser.add_argument("--csv-paged", default="docs/benchmarks/h200_ch09.csv")
    arguments = parser.parse_args()
    library = Library(arguments.library)
    with torch.inference_mode():
        report = Report(common_columns(), read_ceiling(library))
        print(f"{report.common}; read ceiling, measured: {report.ceiling:.3f} TB/s")
        for problem in BARS + OTHERS:
            compare(library, report, problem, arguments.dtype)
        paged(library, report, arguments.dtype)
    for path, chapter in ((arguments.csv, 8), (arguments.csv_paged, 9)):
        with open(path, "w", encoding="utf-8") as csv:
            csv.write("\n".join(report.rows[chapter]) + "\n")
        print(f"{path}: {len(report.rows[chapter]) - 1} rows")
    sys.exit(0 if report.passed else 1)


if __name__ == "__main__":
    main()
