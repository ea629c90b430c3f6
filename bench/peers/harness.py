"""What every Python contender of the side-by-side shares: as suite/harness.hpp and .cpp do for those in C++.

    PEER.py [--only REGEX] [--threads N] [--seconds S] [--list]   prints a table
    PEER.py --serve [--threads N]                                 obeys compare.py: the protocol of harness.cpp

A workload is a function, registered by id with @workload, that makes its inputs and returns a Case.
"""
import argparse
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import Callable

import numpy as np

UNITS = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0, "MB": 1.0}  # a sample in MB is no time


@dataclass
class Case:
    """What a workload returns once its inputs exist."""

    call: Callable = None  # runs once, waits, and returns the result
    outputs: Callable = None  # the list of arrays that are compared; None: the leaves of call()
    compared: "Case" = None  # whose outputs are compared instead
    per: float = 1  # a time is divided by this: trips, steps, elements
    bytes: float = 0  # what one call moves, computes and handles at least: the limits
    flops: float = 0
    items: float = 0
    no_limit: str = ""  # of what has none that could be stated: why, in a word
    tolerance: float = None  # relative to the largest number of an output; negative: incomparable; None: not stated
    note: str = ""
    measure: Callable = None  # seconds -> {metric: samples}, or (that, note): what is no repeated call


def chaotic(make, trips, few=10):
    """A case of make(trips) whose results rounding decides: those of make(few) are compared."""
    return replace(make(trips), compared=make(few))


def stable_places(x, places):
    """The places of the sorted numbers of x, those of equal ones in ascending order, as a stable sort has them."""
    places = np.asarray(places)
    values = np.take_along_axis(x, places, -1)
    runs = np.cumsum(np.diff(values, prepend=values[..., :1]) != 0, -1)  # of equal ones; what is not in order stays so
    return np.take_along_axis(places, np.lexsort((places, runs), -1), -1)


def moments_of_normals(x):
    """The means of the first powers of many numbers, which must be normal ones: of another generator than JAX's, nothing
    more can be compared."""
    found = [np.mean(np.asarray(x, np.float64) ** n) for n in (1, 2, 3, 4)]
    if not np.allclose(found, [0, 1, 0, 3], rtol=0, atol=0.02):
        raise ValueError(f"no normal numbers: their moments are {found}")
    return np.array(found)


@dataclass
class Workload:
    id: str
    unit: str
    make: Callable
    options: dict  # what begin() of the contender wants to know: x64=True


WORKLOADS = {}


def workload(name, unit="us", **options):
    def register(make):
        assert name not in WORKLOADS and unit in UNITS, name
        WORKLOADS[name] = Workload(name, unit, make, options)
        return make

    return register


def known_to_numpy(x):
    """bfloat16, which no file of NumPy's tells of, as float32."""
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


# ---- time ----
def seconds_of(call, times):
    start = time.perf_counter()
    for _ in range(times):
        call()
    return time.perf_counter() - start


def time_call(call, seconds):
    """Seconds of a call: a sample is a batch of at least 0.2 ms; samples for about so many seconds, at least 3."""
    call()
    once = max(seconds_of(call, 1), 1e-9)
    if once < 1e-4:
        once = seconds_of(call, 10) / 10
    batch = max(1, int(2e-4 / once))
    count = min(max(int(seconds / (batch * once)), 3), 3000)
    gc.collect()
    gc.disable()
    try:
        return [seconds_of(call, batch) / batch for _ in range(count)]
    finally:
        gc.enable()


def time_case(case, seconds):
    """({metric: samples}, note)"""
    if case.measure is None:
        return {"time": time_call(case.call, seconds)}, ""
    samples = case.measure(seconds)
    return samples if isinstance(samples, tuple) else (samples, "")


def fresh_process(code, env=None):
    """Seconds from just before a new interpreter starts to the end of the code, by the child's own clock."""
    code += "\nimport time; print(time.monotonic())"
    start = time.monotonic()
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    if run.returncode:
        raise RuntimeError(run.stderr[-400:])
    return float(run.stdout.split()[-1]) - start


def process_start(code, env=None):
    """A case that measures fresh processes; the first one warms the page cache."""
    fresh_process(code, env)
    return Case(measure=lambda seconds: {"time": [fresh_process(code, env) for _ in range(3)]}, outputs=list,
                no_limit="start")


# ---- serving ----
class Server:
    """One contender: `begin(options)` prepares the library for a workload, `end()` forgets what it kept,
    `leaves(result)` lists the arrays of a result in order."""

    def __init__(self, name, leaves, begin=lambda options: None, end=lambda: None):
        self.name, self.leaves, self.begin, self.end = name, leaves, begin, end
        self.case = None

    def make(self, name):
        found = WORKLOADS[name]
        self.begin(found.options)
        return found.make()

    def outputs(self, case):
        case = case.compared or case
        return case.outputs() if case.outputs else self.leaves(case.call())

    def prepare(self, name, folder):
        if name not in WORKLOADS:
            return {"error": f"there is no workload {name}"}
        self.release()
        self.case = case = self.make(name)
        count = 0
        for x in self.outputs(case):
            np.save(os.path.join(folder, f"{count}.npy"), known_to_numpy(np.asarray(x)))
            count += 1
        reply = {key: getattr(case, key) for key in ("per", "bytes", "flops", "items", "no_limit", "tolerance", "note")}
        return reply | {"outputs": count}

    def release(self):
        self.case = None
        gc.collect()
        self.end()
        return {}

    def answer(self, line):
        command, *words = line.split()
        if command == "list":
            return {"ids": [{"id": w.id, "unit": w.unit} for w in WORKLOADS.values()], "name": self.name}
        if command == "prepare":
            return self.prepare(*words)
        if command == "time":
            samples, note = time_case(self.case, float(words[0]))
            return {"samples": samples, "note": note}
        if command == "release":
            return self.release()
        return {"error": f"there is no command {command}"}

    def serve(self):
        answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # whatever a library prints must not stand between the answers
        for line in sys.stdin:
            try:
                reply = self.answer(line)
            except Exception as e:  # every failure of a workload is an answer
                reply = {"error": f"{type(e).__name__}: {str(e)[:300]}"}
            print(json.dumps(reply), file=answers, flush=True)

    def print_table(self, options):
        selected = [w for w in WORKLOADS.values() if re.search(options.only, w.id)]
        if options.list:
            for found in selected:
                print(found.id)
            return
        print(f"# {self.name}, {options.threads} thread(s)\n{'id':<43} {'':<3} {'min':>11} {'median':>11}")
        for found in selected:
            try:
                self.print_row(found, self.make(found.id), options.seconds)
            except Exception as e:
                print(f"{found.id:<30} FAILED {type(e).__name__}: {str(e)[:200]}")
            self.release()

    def print_row(self, found, case, seconds):
        samples, note = time_case(case, seconds)
        for metric, values in samples.items():
            scale = UNITS[found.unit] / case.per
            least, median = min(values) * scale, statistics.median(values) * scale
            label = "" if metric == "time" else metric
            print(f"{found.id:<30} {label:<12} {found.unit:<3} {least:>11.5g} {median:>11.5g}  {note or case.note}",
                  flush=True)

    def run(self, options):
        if options.serve:
            self.serve()
        else:
            self.print_table(options)


# ---- the command line, before any library is imported ----
def read_options(*flags):
    parser = argparse.ArgumentParser()
    for name in flags:
        parser.add_argument(name, action="store_true")
    parser.add_argument("--only", default=".")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--serve", action="store_true")
    return parser.parse_args()


def limit_threads(threads):
    """Runs this program again on so many processors, with the libraries told: they read it when they load."""
    if os.environ.get("BENCH_THREADS") == str(threads):
        return
    env = dict(os.environ, BENCH_THREADS=str(threads))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"):
        env[name] = str(threads)
    if threads == 1:
        env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    os.execvpe("taskset", ["taskset", "-c", cpus, sys.executable, *sys.argv], env)
