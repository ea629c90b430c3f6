"""Checks compare.py with contenders of paper: known times, one wrong result, one crash, one absent program.

Called as a program (self_test.py NAME LOG), it is such a contender.
"""
import argparse
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "peers")]

import compare  # noqa: E402
import figures  # noqa: E402
import harness  # noqa: E402
import numpy as np  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402
import self_test_tables  # noqa: E402
from contender import Contender  # noqa: E402

SECONDS = {"jax": 6e-3, "hand exact": 1e-3, "telamon": 2e-3, "telamon contract": 1e-3, "machine": 1e-3}


# ---- a contender of paper ----
def paper(name, log):
    """Registers the workloads of this contender; each call of one writes a letter into the log."""
    here = harness.workload

    def timed(factor=1.0, value=1.0, **more):
        def measure(seconds):
            with open(log, "a") as file:
                file.write(name[0])
            return {"time": [factor * SECONDS[name]] * 3}

        return harness.Case(measure=measure, outputs=lambda: [np.full(4, value)], **more)

    if name == "machine":
        here("M.fma_f64")(lambda: timed(flops=4e6))  # 4 GF/s
        here("M.copy_32k")(lambda: timed(bytes=1e6))
        return
    here("P.ahead")(lambda: timed(flops=4e6, note="a | note" if name == "telamon" else ""))
    here("P.behind_10", "ms")(lambda: timed(factor=10.0 if name == "telamon" else 1.0))
    here("P.wrong")(lambda: timed(value=1.1 if name == "telamon" else 1.0))
    here("P.chaos")(lambda: timed(value=float(len(name)), tolerance=-1))
    here("P.crash")(lambda: os._exit(7) if name == "telamon" else timed())
    if name != "telamon":
        here("P.not_here")(timed)


def leaves(result):
    return [result]


# ---- checks ----
def check(condition, what):
    if not condition:
        raise SystemExit(f"self-test: {what}")


def paper_commands(log):
    here = [sys.executable, os.path.abspath(__file__)]
    commands = {name: [*here, name, log] for name in SECONDS}
    return {**commands, "hand fast": [os.path.join(os.path.dirname(log), "no-such-program")]}


def called(*words):
    """(exit status, what was said)"""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = compare.main(list(words))
    return status, said.getvalue()


def run(folder, *words, build="one", without=()):
    """(exit status, result, text of the report, what was said)"""
    log = os.path.join(folder, "log")
    compare.commands = lambda options, threads: {n: c for n, c in paper_commands(log).items() if n not in without}
    compare.machine.fingerprint = lambda folder: build
    out = os.path.join(folder, "report.md")
    status, said = called("--rounds", "3", "--json", folder, "--out", out, *words)
    (path,) = [os.path.join(folder, f) for f in os.listdir(folder) if f.endswith("-1t.json")]
    return status, read_json(path), read(out), said


def read(path):
    with open(path) as file:
        return file.read()


def read_json(path):
    return json.loads(read(path))


def lines_by_name(result):
    return {line.name: line for line in figures.lines_of(result)}


def check_differences():
    x = np.array([3 + 4j, -5j], np.complex64)
    check(rounds.difference([x], [x], 0) == "", "equal complex numbers")
    check(rounds.difference([x], [np.conj(x)], 0.5) != "", "complex numbers whose imaginary parts differ")


def check_figures(result):
    lines = lines_by_name(result)
    check(abs(lines["P.ahead"].ratio("jax") - 3) < 1e-9, "a ratio")
    check(abs(lines["P.ahead"].of_limit() - 0.5) < 1e-9, "the share of the limit")
    check(figures.behind(lines["P.ahead"])[0][2] == "hand exact", "who is ahead")
    check(abs(lines["P.behind_10"].ratio("jax") - 0.3) < 1e-9, "a ratio that is lost")
    check(lines["P.wrong"].trouble("telamon") == "MISMATCH", "a wrong result")
    check(lines["P.wrong"].least("telamon") is None, "a wrong result is not timed")
    check(lines["P.chaos"].ratio("jax") == 3, "results that cannot be compared")
    check(lines["P.crash"].trouble("telamon") == "CRASHED" and lines["P.crash"].least("jax"), "a crash")
    check(lines["P.ahead"].figures("jax")["samples"] == 9, "all rounds are kept")


def check_report(text, said):
    check("*** MISSING: hand fast" in said and "hand fast: MISSING" in text, "an absent program is named")
    check("MISMATCH" in text and "CRASHED" in text and "not yet" in text, "troubles stand in the table")
    top = text.index("### Behind another library")
    check(text.index("P.behind_10", top) < text.index("### P", top), "losses on top")
    check("**missed** in 1 of" in text[:top] and "P.behind_10" in text[:top], "a loss misses the target of every line")
    check("| P.behind_10 | ms | 20 / 20 | 6 / 6 (jax) | **0.3×** |" in text, "a losing row")
    check(re.search(r"\| P.ahead \| us \| 2000 / 2000 \|.*\| 50 % \|", text), "a row")
    check("telamon: a \\| note" in text, "a note")
    check("telamon: not compared; telamon contract: not compared" in text, "results that are not compared are named")


def check_alternation(folder):
    with open(os.path.join(folder, "log")) as file:
        check("jhttmjhttmjhttm" in file.read(), "rounds alternate, each with its limit")


def check_prose_is_kept(folder):
    path = os.path.join(folder, "report.md")
    report.write(path, f"{report.BEGIN}\nnew\n{report.END}")
    text = open(path).read()
    check(text.startswith("# Performance") and "new" in text and "P.ahead" not in text, "prose around the tables")


def check_paths(folder, text):
    drawing = open(os.path.join(folder, "report.svg")).read()
    xml.etree.ElementTree.fromstring(drawing)
    check("P.ahead" in drawing and drawing.count("<rect") > 8, "bars")
    for what in (text, drawing):
        check(folder not in what and os.path.dirname(HERE) not in what, "no folder of this machine is named")


def check_a_silent_contender_is_given_up():
    silent = Contender("silent", [sys.executable, "-c", "import time; time.sleep(60)"], os.sched_getaffinity(0), 0.2)
    reply = rounds.ask(silent, "list")
    row = {"id": "P.silent", "unit": "us", "rates": {}, "written": 0, "contenders": {"silent": reply}}
    line = figures.Line(row, "time")
    check("no answer" in reply["error"] and line.trouble("silent") == "TIMEOUT", "a silent contender")


def raises(f, *args):
    try:
        f(*args)
    except ValueError:
        return True
    return False


def check_what_peers_compare():
    """Of chaos a few trips, of equal numbers their places in order, of other generators the moments."""
    case = harness.chaotic(lambda n: harness.Case(lambda: [n]), 1000, 20)
    check(case.call() == [1000] and harness.Server("any", list).outputs(case) == [20], "a few trips")
    x = np.float32([[2, 1, 2, 0], [0, 0, 0, 1]])
    found = harness.stable_places(x, np.uint32([[3, 1, 2, 0], [2, 0, 1, 3]]))
    check(np.array_equal(found, np.argsort(x, 1, kind="stable")), "the places of equal numbers")
    wrong = [[1, 3, 2, 0], [2, 0, 3, 1]]
    check(not (harness.stable_places(x, wrong) == np.argsort(x, 1, kind="stable")).all(1).any(), "places out of order")
    numbers = np.random.RandomState(1).standard_normal(1 << 20)
    check(not raises(harness.moments_of_normals, numbers), "the moments of normal numbers")
    check(raises(harness.moments_of_normals, 1.1 * numbers), "the moments of others")


def check_environment():
    os.environ["JAX_COMPILATION_CACHE_DIR"] = "full"
    env = Contender("any", [], [0], env=compare.environment(1, 10)).env
    check("JAX_COMPILATION_CACHE_DIR" not in env and env["OMP_NUM_THREADS"] == "1", "the environment of contenders")


def builds_of(result):
    return {row["id"]: row["build"] for row in result["rows"]}


def check_part_of_the_rows(folder, before):
    """A run of one row replaces this row and keeps the others, in the file and on the page."""
    status, result, text, _ = run(folder, "--only", "P.ahead", build="two")
    check(status == 0, "rows that an earlier run has lost are not this run's")
    check(builds_of(result) == builds_of(before) | {"P.ahead": "two"}, "the build of each row")
    check("P.behind_10" in text and "of 2 builds" in text and "(build two)" in text, "a page of two builds")


def check_resume(folder):
    """Rows of this build are kept, those of another are taken again."""
    log = os.path.join(folder, "log")
    before = read(log)
    _, result, _, _ = run(folder, "--resume", "--only", "P.ahead", build="two")
    check(read(log) == before + "m" * (len(read(log)) - len(before)), "nothing is taken twice")
    _, result, _, _ = run(folder, "--resume", build="two")
    check(set(builds_of(result).values()) == {"two"} and len(read(log)) > len(before), "no row of another build")


def check_fewer_contenders(folder, before):
    """They do not take the others' figures away."""
    _, result, text, said = run(folder, "--only", "P.ahead", without=["hand exact"])
    check(result["rows"] == before["rows"] and text.count("P.behind_10") > 1, "the file of the day")
    check("hand exact too" in said and "stays as it is" in said, "what was not written is said")
    (part,) = [f for f in os.listdir(folder) if f.endswith("-part.json")]
    check([r["id"] for r in read_json(os.path.join(folder, part))["rows"]] == ["P.ahead"], "the file beside it")


def check_our_own_must_run(folder):
    status, said = called("--only", "P.ahead", "--json", folder)
    check(status == 0, said)
    compare.commands = lambda options, threads: {"jax": paper_commands(os.path.join(folder, "log"))["jax"]}
    status, said = called("--json", folder)
    check(status == 1 and "our own contender" in said, "a run without us")


def check_refusals(folder):
    """One line and status 2 for what cannot be followed."""
    away = os.path.join(folder, "no-such-file")
    for words in (["--cpus", "4095"], ["--threads", "0"], ["--threads", "x"], ["--threads", "4096"], ["--rounds", "0"],
                  ["--peers", "foo"], ["--only", "("], ["--only", "no.such.workload"], ["--seconds", "-1"],
                  ["--seconds", "nan"], ["--report", away], ["--report", away, "--out", away],
                  ["--report", __file__, "--out", "x.md"], ["--out", os.path.join(away, "x.md")],
                  ["--python", away], ["--budget"], ["--unknown"]):
        status, said = called("--json", folder, *words)
        lines = [x for x in said.strip().splitlines() if not x.startswith("***")]
        check(status == 2 and len(lines) == 1 and lines[0].startswith("compare.py: "), f"{words}: {status} {said}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        status, result, text, said = run(folder, "--only", "P")
        check(status == 1, "a mismatch fails the run")
        check_figures(result)
        check_report(text, said)
        check_alternation(folder)
        check_paths(folder, text)
        check_part_of_the_rows(folder, result)
        check_resume(folder)
        check_fewer_contenders(folder, run(folder)[1])
        check_refusals(folder)
        check_our_own_must_run(folder)
        check_prose_is_kept(folder)
    check_a_silent_contender_is_given_up()
    check_what_peers_compare()
    check_environment()
    self_test_tables.main()
    check_differences()
    print("self-test: all is well")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("log")
    ARGUMENTS = parser.parse_args()
    paper(ARGUMENTS.name, ARGUMENTS.log)
    harness.Server(ARGUMENTS.name, leaves).serve()
