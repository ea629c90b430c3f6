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


def run(folder):
    """(exit status, result, text of the report, what was said)"""
    log = os.path.join(folder, "log")
    compare.commands = lambda options, threads: paper_commands(log)
    out = os.path.join(folder, "report.md")
    words = ["--only", "P", "--rounds", "3", "--json", folder, "--out", out]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = compare.main(words)
    (path,) = [os.path.join(folder, f) for f in os.listdir(folder) if f.endswith("-1t.json")]
    return status, json.load(open(path)), open(out).read(), said.getvalue()


def lines_by_name(result):
    return {line.name: line for line in figures.lines_of(result)}


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
    check(text.index("### Behind another library") < text.index("P.behind_10") < text.index("### P"), "losses on top")
    check("| P.behind_10 | ms | 20 / 20 | 6 / 6 (jax) | **0.3×** |" in text, "a losing row")
    check(re.search(r"\| P.ahead \| us \| 2000 / 2000 \|.*\| 50 % \|", text), "a row")
    check("telamon: a \\| note" in text, "a note")


def check_alternation(folder):
    with open(os.path.join(folder, "log")) as file:
        check("jhttjhttjhtt" in file.read(), "rounds alternate")


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
    try:
        silent.start()
    except compare.Failed as e:
        return check("no answer" in str(e), "a silent contender")
    check(False, "a silent contender")


def main():
    with tempfile.TemporaryDirectory() as folder:
        status, result, text, said = run(folder)
        check(status == 1, "a mismatch fails the run")
        check_figures(result)
        check_report(text, said)
        check_alternation(folder)
        check_paths(folder, text)
        check_prose_is_kept(folder)
    check_a_silent_contender_is_given_up()
    print("self-test: all is well")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("log")
    ARGUMENTS = parser.parse_args()
    paper(ARGUMENTS.name, ARGUMENTS.log)
    harness.Server(ARGUMENTS.name, leaves).serve()
