"""What the scripts that time CUDA kernels beside PyTorch share: the library, timing, CSV columns."""

import ctypes
import datetime
import os
import subprocess
import sys

import torch

from cpu_sdpa import AttnShape, quantile

__all__ = ["AttnShape", "CUDA", "DTYPES", "common_columns", "event_times", "graph_of",
           "load_library", "quantile", "require", "spread", "time_sides"]

CUDA = 2  # GPU_CUDA of common/gpu.h
DTYPES = {"f32": (0, torch.float32), "f16": (1, torch.float16), "bf16": (2, torch.bfloat16)}
ROUNDS = 5  # bursts of each side, in turn
BURST_SECONDS = 0.1  # of timed calls


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
