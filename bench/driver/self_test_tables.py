"""Checks the tables of reports with results of paper: targets, threads, plots, what a page must not lose."""
import os
import tempfile

import compare
import figures
import limits
import machine
import plot
import report
import results
import targets


def check(condition, what):
    if not condition:
        raise SystemExit(f"self-test: {what}")


def entry(seconds, metric="time", **more):
    return {"per": 1, "metrics": {metric: {"min": seconds, "median": seconds, "samples": 3}}} | more


def entries(**metrics):
    return {"per": 1, "metrics": {name: {"min": x, "median": x, "samples": 1} for name, x in metrics.items()}}


def row(name, unit="us", **contenders):
    named = {figures.ONE if key == "one" else key.replace("_", " "): value for key, value in contenders.items()}
    about = {"reference": "jax", "rates": {"M.read_1k": 1e9}, "written": 0, "revision": "r", "build": "b"}
    return {"id": name, "unit": unit, "contenders": named} | about


def result(*rows, threads=1):
    contenders = [{"name": name, "version": "1"} for name in ("telamon", "telamon contract", "jax", *targets.HAND)]
    machine = {"cpu": "Paper", "cores": 2, "memory": "1 GiB", "vectors": "none", "system": "none"}
    best = {"bandwidth": [[1024, 1e9]], "f32": 1e9, "f64": 1e9}
    return {"date": "2026-01-01", "command": "compare", "threads": threads, "machine": machine,
            "contenders": contenders, "limits": best, "rows": list(rows)}


def some_rows():
    return [
        row("B01.jit_scalar_add", "ns", telamon=entry(100e-9), jax=entry(5e-6)),
        row("B17.hessian_small", "ns", telamon=entry(190e-9), hand_exact=entry(60e-9), hand_fast=entry(50e-9)),
        row("B17.grad_small", "ns", telamon=entry(201e-9), hand_exact=entry(60e-9), hand_fast=entry(50e-9)),
        row("B02.chain10_f32_1M", telamon=entry(9e-6), telamon_contract=entry(4e-6), hand_fast=entry(3e-6)),
        row("B03.sum_all", telamon=entry(2e-6, bytes=1000), jax=entry(4e-6)),
        row("B04.batch_small_8", telamon=entry(2e-6), jax=entry(4e-6), hand_exact=entry(3e-6)),
        row("B16.compile_100", "ms", telamon=entry(14e-3, "total"), jax=entry(1, "total")),
        row("B16.compile_1000", "ms", telamon=entry(240e-3, "total"), jax=entry(1, "total")),
        row("MEM.within", "MB", telamon=entries(arena=3.2, scratch=0.7, both=3.9, results=2, bound=3)),
        row("MEM.beyond", "MB", telamon=entries(arena=3.6, scratch=0, both=3.6, bound=3)),
        row("B13.gather", telamon={"error": "gone"}, hand_exact=entry(3e-6)),
        row("B02.sin_f32_64k", telamon=entry(2e-6)),
        row("B02.sin_f32_64k_special", telamon=entry(5e-6)),
        row("B02.sin_f32_64k_special_inf", telamon=entry(2.1e-6)),
    ]


def check_targets():
    verdicts = targets.verdicts(figures.lines_of(result(*some_rows())))
    found = {v.name: (v, target) for target, all_of_it in verdicts if target is not targets.EVERY_LINE for v in all_of_it}
    figure = {name: v.figure for name, (v, _) in found.items()}
    met = {name: v.met for name, (v, _) in found.items()}
    check(met["B01.jit_scalar_add"] and figure["B01.jit_scalar_add"] == 100e-9, "a time that is reached")
    check(abs(figure["B17.hessian_small"] - 1.8) < 1e-9 and met["B17.hessian_small"], "hand-written C++ plus the call")
    check(not met["B17.grad_small"], "what takes 2.02 times as long as that")
    check(abs(figure["B02.chain10_f32_1M"] - 0.75) < 1e-9 and not met["B02.chain10_f32_1M"], "our contracted build")
    check(abs(figure["B03.sum_all"] - 0.5) < 1e-9 and not met["B03.sum_all"], "a share of the limit")
    check(met["B04.batch_small_8"] and abs(figure["B04.batch_small_8"] - 1.5) < 1e-9, "the best of several")
    check(met["B16.compile_100 total"] and not met["B16.compile_1000 total"], "bounds by number of operations")
    check(met["MEM.within arena"] and abs(figure["MEM.beyond arena"] - 1.2) < 1e-9 and not met["MEM.beyond arena"],
          "memory by the bound beside it")
    check(abs(figure["MEM.within both"] - 1.18) < 1e-9 and not met["MEM.within both"], "with what a call takes for itself")
    check(figure["MEM.beyond both"] is None, "without results")
    check("MEM.within bound" not in figure and "MEM.within scratch" not in figure, "the bound is no target")
    slower, as_fast = [v for target, all_of_it in verdicts if target.kind == "special" for v in all_of_it]
    check(abs(slower.figure - 2.5) < 1e-9 and not slower.met, "slower on special operands")
    check(abs(as_fast.figure - 1.05) < 1e-9 and as_fast.met, "special operands of another kind")
    check(figure["B13.gather"] is None and not met["B13.gather"], "a row that failed is not measured")


def check_limits():
    """The best way of moving as many bytes counts; a row has the meters of the nearest size, and those of copying for
    what it writes."""
    rates = {"M.read_16k": 8, "M.read_32k": 1, "M.copy_32k": 2, "M.stream_32k": 4}
    best = limits.measured([row(name, machine=entry(1 / rate, bytes=1)) for name, rate in rates.items()])
    check(best["bandwidth"] == [[16 << 10, 8], [32 << 10, 4]], "the best bandwidth of each size")
    ids = [*rates, "M.fma_f32", "M.fma_f64"]
    check(limits.meters(ids, {"bytes": 20 << 10}, False) == ["M.read_16k"], "the nearest size")
    check(limits.meters(ids, {"flops": 1}, True) == ["M.fma_f64"], "operations of the type of the results")
    of_32 = {name: r for name, r in rates.items() if "32k" in name} | {"M.fma_f32": 10}
    check(limits.least_time(of_32, {"bytes": 12}, 0) == 12, "what only reads")
    check(limits.least_time(of_32, {"bytes": 12}, 4) == 4 + 8 / 4, "what reads 8 and writes 4")
    check(limits.least_time(of_32, {"bytes": 12}, 12) == 3, "what only writes")
    check(limits.least_time(of_32, {"bytes": 4, "flops": 90}, 0) == 9, "the longer of both")
    check(limits.least_time({}, {"bytes": 4}, 0) is None, "what is not measured")


def check_rows_without_a_limit():
    """A word instead of a share: what the contender says, or that there is no figure yet."""
    rows = [row("P.call", telamon=entry(1e-6, no_limit="call"), jax=entry(1e-6)),
            row("P.moves", telamon=entry(2e-6, bytes=1000, no_limit="compile")),
            row("P.steady", telamon=entries(steady=2e-6, trace=1) | {"bytes": 1000, "no_limit": "compile"}),
            row("P.later", telamon={"not_yet": "no such thing"}, jax=entry(1e-6)),
            row("P.start", jax=entry(1e-6, no_limit="start"))]
    cells = {cells[0]: cells[-2] for cells in (report.full_row(x, ["telamon"]) for x in figures.lines_of(result(*rows)))}
    check(cells == {"P.call": "call", "P.moves": "50 %", "P.steady steady": "50 %", "P.steady trace": "compile",
                    "P.later": "not yet", "P.start": "not yet"}, f"the column of limits: {cells}")


def check_torch_compiled():
    """It counts as torch does, where it is ahead of it."""
    rows = [row("B05.mlp_step", telamon=entry(2.0), jax=entry(4.0), torch=entry(3.0), torch_compile=entry(1.0)),
            row("B05.mlp_digits_step", telamon=entry(2.0), torch=entry(3.0))]
    found, alone = [v for t, all_of_it in targets.verdicts(figures.lines_of(result(*rows))) for v in all_of_it
                    if t.what.startswith("Networks")]
    check(found.figure == 0.5 and not found.met, "the better of torch and torch compile")
    check(alone.figure is None, "one that is named lacks")


def check_targets_of_threads():
    """Two threads take 1/1.6 of the time for large work, and longer for a call."""
    rows = [row("B04.matmul_1024", telamon=entry(1.0), one=entry(1.6)),
            row("B03.layernorm", telamon=entry(1.0, bytes=0.95e9), one=entry(1.6)),
            row("B01.jit_scalar_add", telamon=entry(1.0), one=entry(0.8))]
    lines = figures.lines_of(result(*rows, threads=2))
    found = {(t.kind, v.name): (v.figure, v.met) for t, all_of_it in targets.verdicts(lines) for v in all_of_it}
    check(found["threads", "B04.matmul_1024"] == (0.8, False), "the efficiency of threads")
    check(found["threads", "B03.layernorm"] == (0.8, True), "which are at the limit")
    check(found["speedup", "B01.jit_scalar_add"] == (0.8, False), "threads in the way")
    check("threads" not in {t.kind for t, _ in targets.verdicts(figures.lines_of(result(*rows)))}, "one thread has no efficiency")
    check(targets.of_threads("B17.jit_struct") and not targets.of_threads("B00.first_jit"), "who is timed with one thread, too")


def check_table_of_targets():
    text = "\n".join(report.targets_table(figures.lines_of(result(*some_rows()))))
    order = [text.index(x) for x in ("Compiling n", "Large elementwise", "Vector functions", "Gather", "Cached call")]
    check(order == sorted(order), "the furthest off on top, then what is not measured, then what is met")
    check("**missed** in 1 of 2 | B16.compile_1000 total 240 ms | B16.compile_100 total 14 ms |" in text, "both")
    check("| met |  | B01.jit_scalar_add 100 ns |" in text and "| B03.sum_all 50 % |" in text, "figures with units")
    whole = report.generated([result(*some_rows())], ["a.svg"], ["a.json"])
    check(whole.index("### Targets") < whole.index("### Behind another library"), "above the lost rows")


def check_one_thread_among_two():
    """Who has one thread only is compared where it is ahead nevertheless."""
    rows = [row("P.slow", telamon=entry(1e-6), hand_exact=entry(3e-6, threads=1)),
            row("P.fast", telamon=entry(2e-6), hand_exact=entry(1e-6, threads=1))]
    slow, fast = sorted(figures.lines_of(result(*rows, threads=2)), key=lambda x: x.name, reverse=True)
    check(slow.compared("hand exact") is None and fast.compared("hand exact") == 0.5, "one thread among two")
    check(report.cell(slow, "hand exact") == "3 / 3 (1 thread)", "it is said")
    check(figures.lines_of(result(*rows))[1].compared("hand exact") == 3, "one thread among one")
    check("P.slow" not in plot.svg(result(*rows, threads=2)), "it is not drawn")


def check_who_was_stopped():
    """The time is a lower bound, and so is its ratio; none if we take longer ourselves."""
    given = {"note": "not finished after 20 s, stopped"}
    rows = [row("B16.compile_grad_475", "ms", telamon=entries(total=0.05, trace=0.01),
                jax=entries(total=20.0, trace=1.0) | given),
            row("B16.compile_grad_10000", "ms", telamon=entries(total=25.0), jax=entries(total=20.0) | given),
            row("B16.rolls_250", "ms", telamon=entries(total=0.05), jax=entries(total=19.0) | given)]
    text = "\n".join(report.full_tables(figures.lines_of(result(*rows)), ["telamon", "jax"]))
    check("| 50 / 50 | >= 20000 | >= 400× | >= 400× |" in text, "who was stopped")
    check("| 10 / 10 | 1000 / 1000 | 100× | 100× |" in text, "what it has done before")
    check("| 25000 / 25000 | >= 20000 |  |" in text, "who was stopped before we are done")
    check("| 50 / 50 | 19000 / 19000 | 380× |" in text, "who was stopped in another round")
    lines = figures.lines_of(result(*rows))
    check(not any(figures.behind(line) for line in lines), "nobody who was stopped is ahead")
    every = "\n".join(report.targets_table(lines))
    check("B16.compile_grad_475 total >= 400×" in every and "B16.rolls_250 total 380×" in every, "targets")
    check("&gt;= 400" in plot.svg(result(*rows)), "plots")


def check_plots():
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for n in (1, 2):
            paths.append(os.path.join(folder, f"{n}t.json"))
            results.save(paths[-1], result(*some_rows(), threads=n))
        out = os.path.join(folder, "page.md")
        compare.write_report(paths, out)
        with open(out) as page, open(os.path.join(folder, "page-2.svg")) as second:
            text, drawing = page.read(), second.read()
    check("1 thread](page.svg)" in text and "2 threads](page-2.svg)" in text, "a plot in each section")
    check("2 thread(s)" in drawing, "the second plot")


def check_what_a_page_must_not_lose():
    one, two = result(*some_rows()), result(*some_rows(), threads=2)
    part = result(*some_rows()[:2])
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "page.md")
        check(not report.would_lose(out, [part], False), "there is no page yet")
        report.write(out, report.generated([one, two], ["a.svg", "b.svg"], ["a.json", "b.json"]))
        check(not report.would_lose(out, [one, two], False), "all rows")
        check((1, "B13.gather") in report.would_lose(out, [part, two], False), "some rows")
        check(not report.would_lose(out, [part, two], True), "rows that do not exist any more")
        check({t for t, _ in report.would_lose(out, [one], True)} == {2}, "the other number of threads")


def check_names_of_machines():
    """Hosts may hide all but the family and the model of a processor."""
    check(machine.slug("AMD EPYC (family 25, model 17)") == "amd-epyc-25-17", "the name of a machine")
    check(machine.slug("Some(R) Chip 9 CPU @ 3 GHz (family 6, model 85)") == "some-chip-9-cpu-6-85", "a longer name")


def check_soundness():
    check(results.sound([row("P.a", telamon=entry(1), jax=entry(1)), row("B00.python", jax=entry(1))]), "sound rows")
    check(not results.sound([row("P.a", jax=entry(1))]), "a row that we have not")
    check(not results.sound([row("P.a", telamon=entry(1), telamon_contract={"error": "x"})]), "one of ours failed")
    check(results.sound([row("P.a", telamon=entry(1), jax={"error": "x"})]), "another's failure")
    wrong = entry(1, mismatch="NaN elsewhere; against jax")
    check(not results.sound([row("P.a", telamon=wrong, jax=entry(1))]), "results of ours that differ")
    check(results.sound([row("P.a", telamon=entry(1), jax=entry(1), hand_fast=wrong)]), "another's results that differ")
    from_ours = row("P.a", telamon=entry(1), torch=wrong) | {"reference": "telamon"}
    check(not results.sound([from_ours]), "that differ from ours")


def main():
    check_limits()
    check_targets()
    check_rows_without_a_limit()
    check_torch_compiled()
    check_targets_of_threads()
    check_table_of_targets()
    check_one_thread_among_two()
    check_who_was_stopped()
    check_plots()
    check_what_a_page_must_not_lose()
    check_names_of_machines()
    check_soundness()
