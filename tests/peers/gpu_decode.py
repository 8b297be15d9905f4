#!/usr/bin/env python3
"""The decode kernels of chapter 6 beside PyTorch's backends, in one process, on one GPU.

    make lib
    python3 tests/peers/gpu_decode.py          # writes docs/benchmarks/h200_ch06.csv

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
RUNGS = 4
COLUMNS = (
    "gpu,driver,date,torch,kernel,case,batch,keys,heads,dim,dtype,splits,runs,median_us,p10_us,"
    "p90_us,tb_s,of_read_ceiling,ratio_to_flash,ratio_to_cudnn,o_error,lse_error,check"
)
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


def stream():
    return torch.cuda.current_stream().cuda_stream


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


def read_ceiling(decode):
    """TB/s of a kernel that only reads, 2 GiB at a time."""
    data = torch.randint(0, 2**31, (2**29,), dtype=torch.int32, device="cuda")
    sums = torch.empty(4096, dtype=torch.int32, device="cuda")
    size = data.numel() * 4

    def call():
        require(decode.library, decode.library.read_rate_cuda(
            ctypes.c_void_p(data.data_ptr()), ctypes.c_size_t(size),
            ctypes.c_void_p(sums.data_ptr()), ctypes.c_void_p(stream())))

    call()
    times = event_times(call, 20)
    return size, times


def expected(q, k, v, lens):
    """O and LSE in float64, an entry and a head at a time; and the largest sum p |v|."""
    o = torch.zeros_like(q, dtype=torch.float64)
    lse = torch.full(q.shape[:3], float("-inf"), dtype=torch.float64, device=q.device)
    size = 0.0
    for b in range(q.shape[0]):
        keys = k.shape[2] if lens is None else int(lens[b])
        for h in range(q.shape[1] if keys > 0 else 0):
            scores = q[b, h].double() @ k[b, h, :keys].double().T / q.shape[-1] ** 0.5
            values, weights = v[b, h, :keys].double(), torch.softmax(scores, dim=-1)
            lse[b, h] = torch.logsumexp(scores, dim=-1)
            o[b, h] = weights @ values
            size = max(size, (weights @ values.abs()).max().item())
    return o, lse, size


def peers_of(sets, turn):
    def theirs(backend):
        def call():
            turn[0] += 1
            with sdpa_kernel(backend):
                F.scaled_dot_product_attention(*sets[turn[0] % len(sets)])
        return call
    return {name: theirs(backend) for name, backend in PEERS.items()}


class Report:
    def __init__(self, common, ceiling):
        self.common, self.ceiling = common, ceiling
        self.rows, self.passed = [], True

    def add(self, kernel, case, problem, dtype, splits, times_us, size, ratios, errors, verdict):
        median, p10, p90 = spread(times_us)
        rate = size / median / 1e6
        if self.ceiling and rate > 1.05 * self.ceiling:
            verdict += "; above the ceiling: a measurement error"
        self.passed = self.passed and verdict in ("ok", "peer", "ceiling", "timed only")
        share = rate / self.ceiling if self.ceiling else 1.0
        text = [f"{value:.4f}" if value else "" for value in ratios]
        error = [f"{value:.3g}" if value is not None else "" for value in errors]
        batch, keys, heads, dim = problem
        self.rows.append(
            f"{self.common},{kernel},{case},{batch},{keys},{heads},{dim},{dtype},{splits},"
            f"{len(times_us)},{median:.5g},{p10:.5g},{p90:.5g},{rate:.4g},{share:.4f},"
            f"{','.join(text)},{','.join(error)},{verdict}")
        print(f"  {batch:>3} x {keys:<6} {heads:>2} heads d={dim:<3} {kernel:16} {case:13} "
              f"splits {splits:<4} {median:9.2f} us [{p10:.2f}, {p90:.2f}] {rate:6.3f} TB/s "
              f"{100 * share:5.1f} %  {' '.join(text)}  {verdict}", flush=True)


def make_sets(problem, dtype, count):
    batch, keys, heads, dim = problem
    torch.manual_seed(1)
    kind = DTYPES[dtype][1]
    return [[torch.randn(batch, heads, length, dim, device="cuda").to(kind)
             for length in (1, keys, keys)] for _ in range(count)]


def sets_needed(problem, l2_bytes=64 << 20):
    batch, keys, heads, dim = problem
    return max(2, min(64, 3 * l2_bytes // (batch * keys * heads * dim * 4) + 1))


def compare(decode, report, problem, dtype, eager):
    """Every rung beside PyTorch, right answers first."""
    batch, keys, heads, dim = problem
    sets = make_sets(problem, dtype, sets_needed(problem))
    shape = AttnShape(batch, heads, heads, 1, keys, dim, 0.0, False, 0, None)
    splits = decode.splits(shape, dtype)
    workspace = decode.workspace(shape, splits)
    o = torch.empty_like(sets[0][0])
    lse = torch.empty(batch, heads, 1, device="cuda")
    size = 2 * batch * heads * (keys + 1) * dim * sets[0][0].element_size()

    q, k, v = sets[0]
    want_o, want_lse, absolute = expected(q, k, v, None)
    peer_error = 0.0
    for backend in PEERS.values():
        with sdpa_kernel(backend):
            theirs = F.scaled_dot_product_attention(q, k, v)
        peer_error = max(peer_error, (theirs.double() - want_o).abs().max().item())
    unit = torch.finfo(sets[0][0].dtype).eps / 2
    allowed_o = 2 * peer_error + unit * want_o.abs().max().item() + 8 * 2.0**-24 * absolute
    allowed_lse = 2.0**-24 * (4 * (dim**0.5 + keys**0.5) + 2 * want_lse.abs().max().item())
    errors, verdicts = {}, {}
    for name in decode.rungs:
        o.fill_(float("nan"))
        lse.fill_(float("nan"))
        decode.run(name, shape, dtype, q, k, v, o, lse, None, splits, workspace)
        errors[name] = ((o.double() - want_o).abs().max().item(),
                        (lse.double() - want_lse).abs().max().item())
        right = errors[name][0] <= allowed_o and errors[name][1] <= allowed_lse
        verdicts[name] = "ok" if right else "WRONG"

    turn = [0]

    def ours(name):
        def call():
            turn[0] += 1
            q, k, v = sets[turn[0] % len(sets)]
            decode.run(name, shape, dtype, q, k, v, o, lse, None, splits, workspace)
        return call

    sides = {name: ours(name) for name in decode.rungs}
    sides.update(peers_of(sets, turn))
    for case in ["compare", "compare_calls"] if eager else ["compare"]:
        per_call = 1
        timed = sides
        if case == "compare":  # a graph of calls: no time of the host between them
            per_call = len(sets) * max(1, 8 // len(sets))
            timed = {name: graph_of([side] * per_call) for name, side in sides.items()}
        times = {name: [1e3 * t / per_call for t in values]
                 for name, values in time_sides(timed, burst_seconds=0.05).items()}
        medians = {name: spread(values)[0] for name, values in times.items()}
        for name, values in times.items():
            report.add(name, case, problem, dtype, splits if name in decode.rungs else "", values,
                       size, [medians["FLASH"] / medians[name], medians["CUDNN"] / medians[name]],
                       errors.get(name, (None, None)), verdicts.get(name, "peer"))
        del timed


def sweep(decode, report, problem, dtype):
    """split_kv_fused over the number of splits."""
    batch, keys, heads, dim = problem
    sets = make_sets(problem, dtype, sets_needed(problem))
    shape = AttnShape(batch, heads, heads, 1, keys, dim, 0.0, False, 0, None)
    own = decode.splits(shape, dtype)
    o, lse = torch.empty_like(sets[0][0]), torch.empty(batch, heads, 1, device="cuda")
    size = 2 * batch * heads * (keys + 1) * dim * sets[0][0].element_size()
    for splits in sorted(set(SPLITS + [own])):
        workspace = decode.workspace(shape, splits)
        turn = [0]

        def call():
            turn[0] += 1
            q, k, v = sets[turn[0] % len(sets)]
            decode.run("split_kv_fused", shape, dtype, q, k, v, o, lse, None, splits, workspace)

        per_call = len(sets) * max(1, 8 // len(sets))
        replay = graph_of([call] * per_call)
        replay()
        repeats = max(5, min(40, int(30 / max(0.01, event_times(replay, 1)[0]))))
        times = [1e3 * t / per_call for t in event_times(replay, repeats)]
        report.add("split_kv_fused", "splits", problem, dtype, splits, times, size, [None, None],
                   [None, None], "timed only")


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
        o = torch.full_like(q, float("nan"))
        lse = torch.full((batch, heads, 1), float("nan"), device="cuda")

        def call():
            decode.run("split_kv_fused", shape, dtype, q, k, v, o, lse, on_gpu, splits, workspace)

        call()
        want_o, want_lse, absolute = expected(q, k, v, lengths)
        errors = ((o.double() - want_o).abs().max().item(),
                  (lse.double() - want_lse).abs().max().item())
        unit = torch.finfo(q.dtype).eps / 2
        right = errors[0] <= 2 * unit * max(absolute, want_o.abs().max().item()) and \
            errors[1] <= 2.0**-24 * (4 * (dim**0.5 + keys**0.5) + 2 * want_lse.abs().max().item())
        live = keys * batch if lengths is None else int(lengths.sum().item())
        size = 2 * heads * (live + batch) * dim * q.element_size()
        times = [1e3 * t for t in event_times(call, 20)]
        report.add("split_kv_fused", case, problem, dtype, splits, times, size, [None, None],
                   errors, "ok" if right else "WRONG")


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
            o.fill_(float("nan"))
            lse.fill_(float("nan"))
            replay()
            torch.cuda.synchronize()
            want_o, want_lse, size = expected(q, k, v, lengths)
            same = (lse == want_lse.float()) | ((lse.double() - want_lse).abs() < 1e-4)
            right = (o.double() - want_o).abs().max().item() <= 2.0**-7 * size and same.all().item()
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
        size, times = read_ceiling(decode)
        ceiling = size / spread(times)[0] / 1e9
        report = Report(common_columns(), ceiling)
        print(f"{report.common}; read ceiling, measured: {ceiling:.3f} TB/s")
        report.add("read_rate", "compare", (1, size // 4096, 8, 128), "bf16", "",
                   [1e3 * t for t in times], size, [None, None], [None, None], "ceiling")
        passed = graph_replays_new_values(decode)
        for problem in BARS + GROWING + LOSING:
            compare(decode, report, problem, arguments.dtype, problem in BARS)
        for problem in BARS + LOSING:
            sweep(decode, report, problem, arguments.dtype)
        ragged(decode, report, arguments.dtype)
    with open(arguments.csv, "w", encoding="utf-8") as csv:
        csv.write("\n".join([COLUMNS] + report.rows) + "\n")
    print(f"{arguments.csv}: {len(report.rows)} rows")
    sys.exit(0 if passed and report.passed else 1)


if __name__ == "__main__":
    main()
