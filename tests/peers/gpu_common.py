"""What the scripts that time CUDA kernels beside PyTorch share: the library, timing, CSV columns.

And for the two that time decoding, gpu_decode.py and gpu_gqa.py: answers, the check, the rows.
"""

import collections
import ctypes
import datetime
import functools
import os
import subprocess
import sys

import torch

from cpu_sdpa import AttnShape, quantile

__all__ = ["AttnShape", "CUDA", "DTYPES", "Report", "calls_over", "check", "common_columns",
           "event_times", "expected", "graph_of", "load_library", "quantile", "read_ceiling",
           "require", "spread", "stream", "time_sides"]

CUDA = 2  # GPU_CUDA of common/gpu.h
DTYPES = {"f32": (0, torch.float32), "f16": (1, torch.float16), "bf16": (2, torch.bfloat16)}
ROUNDS = 5  # bursts of each side, in turn
BURST_SECONDS = 0.1  # of timed calls

torch.backends.cuda.matmul.allow_tf32 = False  # `expected` needs float32 products


def load_library(path):
    try:
        library = ctypes.CDLL(os.path.abspath(path))
    except OSError as error:
        sys.exit(f"{sys.argv[0]}: {error}\nbuild it first, where nvcc is: make lib")
    library.attn_last_error.restype = ctypes.c_char_p
    return library


def require(library, status):
    if status != 0:
        sys.exit(f"{sys.argv[0]}: {library.attn_last_error().decode()}")


def stream():
    return torch.cuda.current_stream().cuda_stream


def common_columns():
    """gpu,driver,date,torch of a row."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0].strip()
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    return ",".join([torch.cuda.get_device_name(), driver, date, torch.__version__])


def event_times(call, repeats):
    """Milliseconds of each call, by events on the current stream."""
    pairs = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        stop.record()
        pairs.append((start, stop))
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) for start, stop in pairs]


def calls_over(sets, call, count):
    """`count` calls that take the sets in turn; the last takes sets[(count - 1) % len(sets)]."""
    return [functools.partial(call, *sets[i % len(sets)]) for i in range(count)]


def graph_of(calls):
    """A CUDA graph of these calls, one after the other; its replay."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph.replay


def time_sides(sides, rounds=ROUNDS, burst_seconds=BURST_SECONDS):
    """Milliseconds of all timed calls, by side: bursts in turn, each after an untimed call."""
    calls, times = {}, {name: [] for name in sides}
    for name, side in sides.items():
        side()
        calls[name] = max(1e-3, min(event_times(side, 3)))
    for round_number in range(rounds):
        order = list(sides) if round_number % 2 == 0 else list(reversed(sides))
        for name in order:
            side = sides[name]
            side()
            repeats = max(2, min(40, int(burst_seconds * 1e3 / calls[name])))
            times[name] += event_times(side, repeats)
    return times


def spread(values):
    """Median, 10th and 90th percentile."""
    return quantile(values, 0.5), quantile(values, 0.1), quantile(values, 0.9)


def read_ceiling(library):
    """A kernel that only reads: its bytes, 2 GiB, and the microseconds of each call."""
    data = torch.randint(0, 2**31, (2**29,), dtype=torch.int32, device="cuda")
    sums = torch.empty(4096, dtype=torch.int32, device="cuda")  # READ_RATE_SUMS
    size = 4 * data.numel()

    def call():
        require(library, library.read_rate_cuda(
            ctypes.c_void_p(data.data_ptr()), ctypes.c_size_t(size),
            ctypes.c_void_p(sums.data_ptr()), ctypes.c_void_p(stream())))

    call()
    return size, [1e3 * t for t in event_times(call, 20)]


# O and LSE in float64, and by how much each entry's may be off ([batch][1][1][1], [batch][1][1]).
Answer = collections.namedtuple("Answer", "o lse o_bound lse_bound")


def expected(q, k, v, lens=None):
    """The Answer, an entry and a KV head at a time. Rows without keys: O is 0, LSE is -inf.

    q [batch][heads_q][len_q][dim], k and v [batch][heads_kv][keys][dim]; lens: keys of each entry.

    O may be off by twice the error of the plain computation, which is in float32 with its
    probabilities and its O rounded to the storage type; by one more such rounding of the largest
    |O|; and by eight float32 roundings of the largest sum p |v|. LSE may be off by twice the plain
    one's error and eight float32 roundings of 1 + |LSE|. All of one entry: the rows of another,
    with fewer keys, are larger.
    """
    batch, heads_q, len_q, dim = q.shape
    heads_kv = k.shape[1]
    group = heads_q // heads_kv
    keys_of = [k.shape[2]] * batch if lens is None else [int(keys) for keys in lens]
    o = torch.zeros_like(q, dtype=torch.float64)
    lse = torch.full((batch, heads_q, len_q), float("-inf"), dtype=torch.float64, device=q.device)
    o_bound, lse_bound = torch.zeros(2, batch, dtype=torch.float64, device=q.device)
    unit, unit32 = torch.finfo(q.dtype).eps / 2, 2.0**-24
    for b, keys in enumerate(keys_of):
        o_error = absolute = lse_error = 0.0
        for h in range(heads_kv if keys > 0 else 0):
            heads = slice(h * group, (h + 1) * group)
            queries, keys_t, values = q[b, heads], k[b, h, :keys].T, v[b, h, :keys]
            scores = queries.double() @ keys_t.double() / dim**0.5
            weights = torch.softmax(scores, dim=-1)
            lse[b, heads] = torch.logsumexp(scores, dim=-1)
            o[b, heads] = weights @ values.double()
            plain_scores = queries.float() @ keys_t.float() / dim**0.5
            rounded = torch.softmax(plain_scores, dim=-1).to(q.dtype)
            plain_o = (rounded.float() @ values.float()).to(q.dtype)
            plain_lse = torch.logsumexp(plain_scores, dim=-1)
            o_error = max(o_error, (plain_o.double() - o[b, heads]).abs().max().item())
            lse_error = max(lse_error, (plain_lse.double() - lse[b, heads]).abs().max().item())
            absolute = max(absolute, (weights @ values.double().abs()).max().item())
        o_bound[b] = 2 * o_error + unit * o[b].abs().max() + 8 * unit32 * absolute
        if keys > 0:
            lse_bound[b] = 2 * lse_error + 8 * unit32 * (1 + lse[b].abs().max())
    return Answer(o, lse, o_bound.view(batch, 1, 1, 1), lse_bound.view(batch, 1, 1))


def check(call, o, lse, want):
    """The largest errors of the O and LSE that this call writes, and "ok" or "WRONG"."""
    o.fill_(float("nan"))
    lse.fill_(float("nan"))
    call()
    o_error = (o.double() - want.o).abs()
    # A row without keys must have -inf itself: -inf less -inf is NaN, any other LSE is off by inf.
    lse_error = torch.where((want.lse == float("-inf")) & (lse == want.lse), 0.0,
                            lse.double() - want.lse).abs()
    # No comparison with NaN is true. Entries without keys have bounds of 0.
    right = (o_error <= want.o_bound).all() and (lse_error <= want.lse_bound).all()
    return (o_error.max().item(), lse_error.max().item()), "ok" if right else "WRONG"


class Report:
    """The rows of one CSV file, and whether all of them are right."""

    def __init__(self, columns, common, ceiling):
        """columns: those between torch and runs. ceiling: TB/s."""
        self.common, self.ceiling, self.passed = common, ceiling, True
        self.rows = [f"gpu,driver,date,torch,{columns},runs,median_us,p10_us,p90_us,tb_s,"
                     "of_read_ceiling,ratio_to_flash,ratio_to_cudnn,o_error,lse_error,check"]

    def add(self, fields, times_us, size, errors, verdict, ratios=(None, None)):
        """A row. fields: the values of `columns`, kernel and case first; size: bytes of a call."""
        median, p10, p90 = spread(times_us)
        rate = size / median / 1e6
        if rate > 1.05 * self.ceiling:
            verdict += "; above the ceiling: a measurement error"
        self.passed = self.passed and verdict in ("ok", "peer", "ceiling")
        share = rate / self.ceiling
        ratio = [f"{value:.4f}" if value is not None else "" for value in ratios]
        error = [f"{value:.3g}" if value is not None else "" for value in errors]
        self.rows.append(
            f"{self.common},{','.join(map(str, fields))},{len(times_us)},{median:.5g},{p10:.5g},"
            f"{p90:.5g},{rate:.4g},{share:.4f},{','.join(ratio)},{','.join(error)},{verdict}")
        kernel, case, *where = fields
        print(f"  {kernel:16} {case:13} {' '.join(f'{value!s:>6}' for value in where)} "
              f"{median:9.2f} us [{p10:.2f}, {p90:.2f}] {rate:6.3f} TB/s {100 * share:5.1f} %  "
              f"{' '.join(ratio)}  {verdict}", flush=True)

    def write(self, path):
        with open(path, "w", encoding="utf-8") as csv:
            csv.write("\n".join(self.rows) + "\n")
        print(f"{path}: {len(self.rows) - 1} rows")
