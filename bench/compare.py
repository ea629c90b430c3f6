#!/usr/bin/env python3
"""The side-by-side: the same workloads in Telamon, in other libraries and in hand-written C++, in one run.

    bench/compare.py [--only REGEX] [--threads 1,2] [--peers jax,hand,numpy,torch,mlx,drjit] [--out docs/performance.md]
    bench/compare.py --report RESULT.json ... --out docs/performance.md     writes the report again, and runs nothing
    bench/compare.py --self-test                                            checks this program with contenders of paper

Each contender is a process (driver/contender.py) on processors of its own. For each workload all contenders make the
inputs, results are compared with JAX's, then they are timed one at a time, in rounds: A B A B ... (driver/rounds.py).
The figures go to bench/results/DATE-CPU-THREADSt.json after each workload; with --out, tables and a plot as well.
The exit status is 1 if results differ or one of our own rows fails.
"""
import argparse
import ctypes.util
import datetime
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(HERE, "driver"))

import figures  # noqa: E402
import limits  # noqa: E402
import machine  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402
from contender import Contender, Failed  # noqa: E402

PYTHON_PEERS = ("jax", "numpy", "torch", "mlx", "drjit")


def read_options(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=".", metavar="REGEX", help="workloads whose id has a match")
    parser.add_argument("--threads", default="1", metavar="N,...", help="one run for each")
    parser.add_argument("--cpus", metavar="N,...", help="processors to use; by default the first ones")
    parser.add_argument("--peers", default="jax,hand,numpy", metavar="NAME,...",
                        help=f"hand, {', '.join(PYTHON_PEERS)}")
    parser.add_argument("--seconds", type=float, default=0.2, help="of a contender in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=20, help="seconds of a contender: slow ones do fewer rounds")
    parser.add_argument("--patience", type=float, default=600, help="seconds to wait for an answer")
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"), metavar="FOLDER")
    parser.add_argument("--python", default=sys.executable, help="of the peers")
    parser.add_argument("--json", default=os.path.join(HERE, "results"), metavar="FOLDER", help="for the results")
    parser.add_argument("--resume", action="store_true", help="keep the rows that the file of results has already")
    parser.add_argument("--out", metavar="FILE.md", help="write the report into this file, the plot beside it")
    parser.add_argument("--report", nargs="+", metavar="RESULT.json")
    parser.add_argument("--self-test", action="store_true")
    return parser.parse_args(words)


def shown(path):
    """Without the folders of this machine."""
    return os.path.relpath(path, ROOT) if path.startswith(ROOT) else os.path.basename(path)


# ---- contenders ----
def environment(threads):
    """The sizes of thread pools; XLA's pool has no size by itself."""
    env = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    env["OMP_WAIT_POLICY"] = "passive"
    llvm = next((x for v in range(21, 13, -1) if (x := ctypes.util.find_library(f"LLVM-{v}"))), None)
    if llvm and "DRJIT_LIBLLVM_PATH" not in os.environ:
        env["DRJIT_LIBLLVM_PATH"] = llvm
    return env


def commands(options, threads):
    """{name: command}, in the order in which results are trusted: JAX, then what is written by hand."""
    def program(name, *more):
        return [os.path.join(options.build, "bench", name), "--serve", "--threads", str(threads), *more]

    peers = options.peers.split(",")
    ours = {figures.OURS: program("telamon_bench"), figures.CONTRACT: program("telamon_bench", "--contract")}
    hand = {f"hand {x}": program(f"hand_{x}") for x in ("exact", "contracted", "fast")} if "hand" in peers else {}
    python = {x: [options.python, os.path.join(HERE, "peers", f"{x}_peer.py"), "--serve", "--threads", str(threads)]
              for x in PYTHON_PEERS if x in peers}
    first = {x: python.pop(x) for x in ("jax",) if x in python}
    return {**first, **hand, **ours, **python, "machine": program("machine_limits")}


def start(options, threads, cpus):
    """(those that run, {name: why not})"""
    running, missing = [], {}
    env = environment(threads)
    for name, command in commands(options, threads).items():
        contender = Contender(name, command, cpus, options.patience, env)
        try:
            if not os.path.exists(command[0]):
                raise Failed(f"there is no {shown(command[0])}")
            contender.start()
            running.append(contender)
        except Failed as e:
            missing[name] = str(e)
            print(f"*** MISSING: {name}: {e}", file=sys.stderr, flush=True)
    return running, missing


def described(contenders, missing, options):
    revision, compiler = machine.build_version(ROOT, options.build)
    known = {figures.OURS: f"{revision}, {compiler}", figures.CONTRACT: "the same, {.contract = true}",
             "hand exact": f"{compiler}, -ffp-contract=off", "hand contracted": f"{compiler}, -ffp-contract=fast",
             "hand fast": f"{compiler}, -ffast-math"}
    text = [{"name": c.name, "version": c.version or known.get(c.name, c.name)} for c in contenders]
    text += [{"name": name, "version": "", "missing": why} for name, why in missing.items()]
    return [x for x in text if x["name"] != "machine"]


# ---- one run ----
def shown_command(words):
    """As it was called."""
    words = [shown(word) if word.startswith("/") else word for word in words]
    return " ".join(["bench/compare.py", *(f"'{w}'" if re.search(r"[^\w./,=-]", w) else w for w in words)])


def say(row):
    """One line of progress."""
    cells = []
    for line in figures.lines_of({"rows": [row], "limits": {}}):
        known = [(c, report.cell(line, c)) for c in row["contenders"]]
        cells.append(f"{line.name:<30} {row['unit']:<3} " + "  ".join(f"{c} {x}" for c, x in known if x))
    print("\n".join(cells), flush=True)
    for name, entry in row["contenders"].items():
        if entry.get("mismatch") or entry.get("error"):
            print(f"*** {row['id']}, {name}: {entry.get('mismatch') or entry['error']}", file=sys.stderr, flush=True)


def save(path, result):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w") as file:
        json.dump(result, file, separators=(",", ":"))
    os.replace(path + ".new", path)


def load(path):
    with open(path) as file:
        return json.load(file)


def run(options, threads, command):
    """All workloads with so many threads: the path of the results."""
    cpus = [int(x) for x in options.cpus.split(",")] if options.cpus else sorted(os.sched_getaffinity(0))
    contenders, missing = start(options, threads, cpus[:threads])
    about, date = machine.describe(), datetime.date.today().isoformat()
    path = os.path.join(options.json, f"{date}-{machine.slug(about['cpu'])}-{threads}t.json")
    kept = load(path)["rows"] if options.resume and os.path.exists(path) else []
    result = {"date": date, "command": command, "threads": threads, "seconds": options.seconds, "machine": about,
              "contenders": described(contenders, missing, options), "limits": {}, "rows": kept}
    try:
        names = sorted({i for c in contenders for i in c.ids}, key=figures.natural)
        meters = [i for i in names if i.startswith("M.")]
        result["limits"] = limits.measured([rounds.run(i, contenders, options) for i in meters])
        done = {row["id"] for row in kept}
        for name in names:
            if name in meters or name in done or not re.search(options.only, name):
                continue
            row = rounds.run(name, contenders, options)
            say(row)
            result["rows"].append(row)
            save(path, result)
    finally:
        for contender in contenders:
            contender.stop()
    save(path, result)
    return path


def write_report(paths, out):
    results = [load(p) for p in paths]
    drawing = os.path.splitext(out)[0] + ".svg"
    folder = os.path.dirname(os.path.abspath(out))
    links = [os.path.relpath(p, folder) for p in paths]
    report.write(out, report.generated(results, os.path.basename(drawing), links))
    with open(drawing, "w") as file:
        file.write(plot.svg(results[0]))


def sound(path):
    """Whether no results differ and none of our own rows failed."""
    return not any(entry.get("mismatch") or (entry.get("error") and name.startswith("telamon"))
                   for row in load(path)["rows"] for name, entry in row["contenders"].items())


def main(words):
    options = read_options(words)
    if options.self_test:
        import self_test
        return self_test.main()
    paths = options.report or [run(options, int(n), shown_command(words)) for n in options.threads.split(",")]
    if options.out:
        write_report(paths, options.out)
    return 0 if all(sound(p) for p in paths) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
