#!/usr/bin/env python3
"""The side-by-side: the same workloads in Telamon, in other libraries and in hand-written C++, in one run.

    bench/compare.py [--only REGEX] [--threads 1,2] [--peers jax,hand,numpy,torch,torch-compile,mlx,drjit]
                     [--out docs/performance.md]
    bench/compare.py --report RESULT.json ... --out docs/performance.md     writes the report again, and runs nothing
    bench/compare.py --self-test                                            checks this program with contenders of paper

Each contender is a process (driver/contender.py) on processors of its own. For each workload all contenders make the
inputs, results are compared with JAX's, then they are timed one at a time, in rounds: A B A B ... (driver/rounds.py).
The figures go to bench/results/DATE-CPU-THREADSt.json after each workload: rows are replaced, the others stay. With
--out, tables and plots are written as well, but never over a report that has rows which this run has not.
The exit status is 1 if results of ours differ, or others from ours, or one of our own rows fails or is missing, 2 if
the options cannot be followed.
"""
import ctypes.util
import datetime
import math
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(HERE, "driver"))

import figures  # noqa: E402
import limits  # noqa: E402
import machine  # noqa: E402
import options as command_line  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402
import results  # noqa: E402
import targets  # noqa: E402
from contender import Contender, Failed  # noqa: E402
from options import PYTHON_PEERS, Refused  # noqa: E402


# Seconds for torch.compile, which writes loops out: of a thousand trips it takes longer than anybody waits.
COMPILE_PATIENCE = 120


class Broken(Exception):
    """A run that cannot go on."""


def shown(path):
    """Without the folders of this machine."""
    return os.path.relpath(path, ROOT) if path.startswith(ROOT) else os.path.basename(path)


# ---- contenders ----
def environment(threads, patience):
    """The sizes of thread pools; XLA's pool has no size by itself. No cache that an earlier run has filled, no word
    that keeps OpenBLAS from choosing its kernels by the processor, and OpenMP's threads wait as they do for anybody."""
    env = dict.fromkeys(("JAX_COMPILATION_CACHE_DIR", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OMP_WAIT_POLICY"))
    env |= {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    env["TELAMON_BENCH_PATIENCE"] = f"{0.8 * patience:g}"  # to give up by itself, with what is known so far
    llvm = next((x for v in range(21, 13, -1) if (x := ctypes.util.find_library(f"LLVM-{v}"))), None)
    if llvm and "DRJIT_LIBLLVM_PATH" not in os.environ:
        env["DRJIT_LIBLLVM_PATH"] = llvm
    # What torch compiles is for this run alone.
    return env | {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}


def commands(options, threads):
    """{name: command}, in the order in which results are trusted: JAX, then what is written by hand."""
    def program(name, *more):
        return [os.path.join(options.build, "bench", name), "--serve", "--threads", str(threads), *more]

    peers = options.peers
    ours = {figures.OURS: program("telamon_bench"), figures.CONTRACT: program("telamon_bench", "--contract")}
    hand = {f"hand {x}": program(f"hand_{x}") for x in ("exact", "contracted", "fast")} if "hand" in peers else {}
    python = {x.replace("-", " "): [options.python, os.path.join(HERE, "peers", program), *more, "--serve", "--threads",
                                    str(threads)]
              for x, (program, *more) in PYTHON_PEERS.items() if x in peers}
    first = {x: python.pop(x) for x in ("jax",) if x in python}
    one = {figures.ONE: one_thread(ours[figures.OURS])} if threads > 1 else {}
    return {**first, **hand, **ours, **one, **python, figures.MACHINE: program("machine_limits")}


def one_thread(command):
    at = command.index("--threads") + 1
    return [*command[:at], "1", *command[at + 1:]]


def start(options, threads, cpus):
    """(those that run, {name: why not})"""
    running, missing = [], {}
    env = environment(threads, options.patience)
    for name, command in commands(options, threads).items():
        takes = targets.of_threads if name == figures.ONE else Contender.takes_all
        patience = min(options.patience, COMPILE_PATIENCE if name == figures.TORCH_COMPILE else math.inf)
        contender = Contender(name, command, cpus, patience, env, takes)
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
    known = {figures.OURS: f"{revision}, {compiler}", figures.CONTRACT: "the same, {.contract = true}", figures.ONE: "the same, one thread",
             "hand exact": f"{compiler}, -ffp-contract=off", "hand contracted": f"{compiler}, -ffp-contract=fast",
             "hand fast": f"{compiler}, -ffast-math"}
    text = [{"name": c.name, "version": c.version or known.get(c.name, c.name)} for c in contenders]
    text += [{"name": name, "version": "", "missing": why} for name, why in missing.items()]
    return [x for x in text if x["name"] != figures.MACHINE]


# ---- one run ----
def shown_command(words):
    """As it was called."""
    words = [shown(word) if word.startswith("/") else word for word in words]
    return " ".join(["bench/compare.py", *(f"'{w}'" if re.search(r"[^\w./,=-]", w) else w for w in words)])


def say(row, threads):
    """One line of progress."""
    cells = []
    for line in figures.lines_of({"rows": [row], "threads": threads}):
        known = [(c, report.cell(line, c)) for c in row["contenders"]]
        cells.append(f"{line.name:<30} {row['unit']:<3} " + "  ".join(f"{c} {x}" for c, x in known if x))
    print("\n".join(cells), flush=True)
    for name, entry in row["contenders"].items():
        if entry.get("mismatch") or entry.get("error"):
            print(f"*** {row['id']}, {name}: {entry.get('mismatch') or entry['error']}", file=sys.stderr, flush=True)


def measure(options, contenders, result, path, selected, stamp):
    """Takes the rows and saves each: those taken."""
    import rounds  # needs NumPy

    meters = sorted({i for c in contenders for i in c.ids if i.startswith("M.")}, key=figures.natural)
    result["limits"] = limits.measured([rounds.run(i, contenders, options) for i in meters])
    taken = []
    for name in selected:
        here = {c.name for c in contenders if name in c.ids}
        if options.resume and results.has(result, name, stamp["build"], here):
            continue
        now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
        taken.append(rounds.run(name, contenders, options) | stamp | {"time": now})
        say(taken[-1], result["threads"])
        results.put(result, taken[-1])
        results.save(path, result)
    return taken


def selection(options, contenders):
    """(the ids to be timed, whether that is all)"""
    ours = {c.name for c in contenders} & {figures.OURS, figures.CONTRACT}
    if len(ours) < 2:
        raise Broken("our own contender does not run: nothing is compared")
    names = sorted({i for c in contenders for i in c.ids if not i.startswith("M.")}, key=figures.natural)
    selected = [i for i in names if re.search(options.only, i)]
    if not selected:
        raise Refused(f"--only {options.only!r}: no workload's id has a match")
    return selected, len(selected) == len(names)


def run(options, threads, command):
    """The workloads with so many threads: (path of the results, rows taken, whether these are all)."""
    contenders, missing = start(options, threads, options.cpus[:threads])
    about, date = machine.describe(), datetime.date.today().isoformat()
    try:
        selected, whole = selection(options, contenders)
        path, old = results.place(options.json, about, date, threads, {c.name for c in contenders}, whole)
        stamp = {"revision": machine.build_version(ROOT, options.build)[0],
                 "build": machine.fingerprint(options.build), "command": command}
        known = described(contenders, missing, options)
        result = {"date": date, "command": command, "threads": threads, "seconds": options.seconds, "machine": about,
                  "contenders": results.merged_contenders(known, old), "limits": {}, "rows": old["rows"] if old else []}
        taken = measure(options, contenders, result, path, selected, stamp)
        if whole:  # what no contender has any more
            result["rows"] = [row for row in result["rows"] if row["id"] in selected]
            result["contenders"] = known
        results.save(path, result)
    finally:
        for contender in contenders:
            contender.stop()
    return path, taken, whole


def drawings(out, count):
    """The files of the plots: page.svg, page-2.svg, ..."""
    stem = os.path.splitext(out)[0]
    return [f"{stem}.svg" if k == 0 else f"{stem}-{k + 1}.svg" for k in range(count)]


def write_report(paths, out):
    all_results = [results.load(p) for p in paths]
    files = drawings(out, len(paths))
    folder = os.path.dirname(os.path.abspath(out))
    links = [os.path.relpath(p, folder) for p in paths]
    report.write(out, report.generated(all_results, [os.path.basename(f) for f in files], links))
    for result, path in zip(all_results, files):
        with open(path, "w") as file:
            file.write(plot.svg(result))


def report_of_run(paths, out, whole):
    """Unless the page has rows that would be lost."""
    lost = report.would_lose(out, [results.load(p) for p in paths], whole)
    if not lost:
        return write_report(paths, out)
    print(f"*** {shown(out)} has {len(lost)} rows that this run has not: it stays as it is; to write it:\n"
          f"    bench/compare.py --report {' '.join(map(shown, paths))} --out ...", file=sys.stderr)


def follow(options, command):
    """The exit status."""
    if options.self_test:
        import self_test
        return self_test.main()
    if options.report:
        write_report(options.report, options.out)
        return 0 if all(results.sound(results.load(p)["rows"]) for p in options.report) else 1
    done = [run(options, n, command) for n in options.threads]
    if options.out:
        report_of_run([path for path, _, _ in done], options.out, all(whole for _, _, whole in done))
    return 0 if all(results.sound(taken) for _, taken, _ in done) else 1


def main(words):
    try:
        return follow(command_line.read(words, __doc__), shown_command(words))
    except (Refused, Broken) as e:
        print(f"compare.py: {e}", file=sys.stderr)
        return 2 if isinstance(e, Refused) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
