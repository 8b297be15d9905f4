#!/usr/bin/env python3
"""The trace beside the GPU's own counters: requests, sectors and bytes of a chapter's kernels.

    python3 tests/peers/gpu_counters.py --chapter ch06 --len 4096 --csv FILE

Runs `launches` (tests/peers/launches.c) twice at each size: on simt, traced, and on the GPU under
ncu. Exit status 1 unless global load and store requests and sectors are identical for every kernel,
and DRAM reads at the largest size are within 10 % of the launch-unique bytes (of what the launch did
not write itself: that comes back from the L2). Launches that read less than 1 MiB are not held to
that: some tens of kilobytes that are not the kernel's are always among the GPU's.
"""

import argparse
import csv
import datetime
import io
import subprocess
import sys

METRICS = {
    "load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
}
EXACT = ("load_requests", "load_sectors", "store_requests", "store_sectors")
COLUMNS = (
    "gpu,driver,date,kernel,n,dim,counter,trace,gpu_counter,verdict"
)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"gpu_counters: {' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def traced(launches, chapter, length, dim):
    """One dict per launch, in order."""
    text = run([launches, "trace", chapter, str(length), str(dim)])
    return list(csv.DictReader(io.StringIO(text)))


def counted(launches, chapter, length, dim):
    command = ["ncu", "--clock-control", "none", "--cache-control", "all", "--csv",
               "--print-units", "base", "--metrics", ",".join(METRICS.values()),
               "--kernel-name-base", "function",
               launches, "cuda", chapter, str(length), str(dim)]
    text = run(command)
    text = text[text.index('"ID"'):]
    kernels = {}
    names = {metric: name for name, metric in METRICS.items()}
    for row in csv.DictReader(io.StringIO(text)):
        if row["Metric Name"] in names:
            entry = kernels.setdefault(int(row["ID"]), {"kernel": row["Kernel Name"]})
            value = row["Metric Value"].replace(",", "")
            entry[names[row["Metric Name"]]] = float(value)
    return [kernels[i] for i in sorted(kernels)]


def gpu():
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return [part.strip() for part in run(command).split("\n")[0].split(",")]


def main():
    parser = argparse.ArgumentParser(description="The trace beside the GPU's counters.")
    parser.add_argument("--launches", default="build/launches")
    parser.add_argument("--chapter", default="ch05")
    parser.add_argument("--len", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--csv", help="default: docs/benchmarks/h200_<chapter>_counters.csv")
    arguments = parser.parse_args()
    arguments.csv = arguments.csv or f"docs/benchmarks/h200_{arguments.chapter}_counters.csv"
    name, driver = gpu()
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    rows, passed = [], True
    for length in arguments.len:
        trace = traced(arguments.launches, arguments.chapter, length, arguments.dim)
        names = {launch["kernel"] for launch in trace}
        counters = [kernel for kernel in counted(arguments.launches, arguments.chapter, length,
                                                 arguments.dim)
                    if kernel["kernel"].split("(")[0].split("::")[-1] in names]
        if len(trace) != len(counters):
            sys.exit(f"gpu_counters: {len(trace)} launches traced, {len(counters)} counted: "
                     f"{[t['kernel'] for t in trace]} {[c['kernel'] for c in counters]}")
        for ours, theirs in zip(trace, counters):
            def row(counter, mine, other, verdict):
                rows.append(f"{name},{driver},{date},{ours['kernel']},{length},{arguments.dim},"
                            f"{counter},{mine:.0f},{other:.0f},{verdict}")
                print(f"  N={length:<5} {ours['kernel']:34} {counter:16} {mine:12.0f} "
                      f"{other:12.0f}  {verdict}", flush=True)
            for counter in EXACT:
                same = float(ours[counter]) == theirs[counter]
                passed = passed and same
                row(counter, float(ours[counter]), theirs[counter], "same" if same else "DIFFERS")
            unique, read = float(ours["launch_unique_inputs"]), theirs["dram_read_bytes"]
            if unique >= 1 << 20:
                near = abs(read / unique - 1)
                passed = passed and (length < max(arguments.len) or near <= 0.1)
                row("dram_read_bytes", unique, read, f"{100 * (read / unique - 1):+.1f} %")
            else:
                row("dram_read_bytes", unique, read, "not compared: less than 1 MiB")
            row("dram_write_bytes", float(ours["launch_unique_store"]), theirs["dram_write_bytes"],
                "not compared: results stay in the L2")
    with open(arguments.csv, "w", encoding="utf-8") as out:
        out.write("\n".join([COLUMNS] + rows) + "\n")
    print(f"{arguments.csv}: {len(rows)} rows, {'as it should be' if passed else 'DIFFERENCES'}")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
