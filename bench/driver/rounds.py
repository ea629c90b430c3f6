"""Times one workload in several contenders: all prepare, results are compared, then A B A B ... in rounds."""
import argparse
import os
import statistics
import time

import figures
import limits
import numpy as np
from contender import Failed, Late

TOLERANCE = 2e-4  # where no contender states one
# Seconds. Threads of a pool look for more work before they sleep, OpenBLAS's for some 30 ms: they must not do so while the
# next contender is timed.
PAUSE = 0.06


def ask(contender, question):
    """The answer; a contender that ends is an answer too, and is started again at the next question."""
    try:
        return contender.ask(question)
    except Failed as e:
        return {"error": str(e), "timeout" if isinstance(e, Late) else "crashed": True}


def read_outputs(contender, count):
    return [np.load(os.path.join(contender.folder.name, f"{i}.npy")) for i in range(count)]


def remove_outputs(contender):
    for name in os.listdir(contender.folder.name):
        os.remove(os.path.join(contender.folder.name, name))


def prepare(contender, name):
    """(entry of the table, outputs)"""
    reply = ask(contender, f"prepare {name} {contender.folder.name}")
    if "error" in reply or "not_yet" in reply:
        return reply, []
    outputs = read_outputs(contender, reply["outputs"])
    remove_outputs(contender)
    return reply | {"metrics": {}}, outputs


def real_numbers(x):
    """As float64; a complex number is two."""
    return x.astype(np.complex128).view(np.float64) if x.dtype.kind == "c" else x.astype(np.float64)


def difference(reference, other, tolerance):
    """What is wrong with the other's outputs, or "". Shapes may be flat; integers of the reference are exact."""
    if len(reference) != len(other):
        return f"{len(other)} outputs, not {len(reference)}"
    for i, (a, b) in enumerate(zip(reference, other)):
        a, b = np.ravel(a), np.ravel(b)
        if a.size != b.size:
            return f"output {i} has {b.size} numbers, not {a.size}"
        exact = a.dtype.kind in "iub"
        a, b = real_numbers(a), real_numbers(b)
        if not np.array_equal(np.isnan(a), np.isnan(b)):
            return f"output {i} has NaN elsewhere"
        with np.errstate(invalid="ignore"):  # inf - inf
            distance = np.where((a == b) | np.isnan(a), 0, np.abs(a - b))
        scale = max(np.abs(a[np.isfinite(a)]).max(initial=0), 1e-30)
        worst = distance.max(initial=0) / scale
        if worst > (0 if exact else tolerance):
            return f"output {i} is {worst:.2g} off, relative to the largest number ({tolerance:g} allowed)"
    return ""


def pair_tolerance(a, b):
    """The wider of the two that are stated; negative if one of them cannot be compared."""
    stated = [x for x in (a, b) if x is not None]
    if any(x < 0 for x in stated):
        return -1
    return max(stated, default=TOLERANCE)


def compare(entries, outputs):
    """Marks in the entries what differs from the first contender that has outputs: its name, or ""."""
    reference = next((c for c in entries if outputs[c]), "")
    for name, entry in entries.items():
        if name == reference or not outputs[name]:
            continue
        tolerance = pair_tolerance(entries[reference]["tolerance"], entry["tolerance"])
        wrong = difference(outputs[reference], outputs[name], tolerance) if tolerance >= 0 else ""
        if wrong:
            entry["mismatch"] = f"{wrong}; against {reference}"
        entry["compared"] = tolerance >= 0
    return reference


def add_round(entry, reply):
    """Keeps each sample: `finish` makes the figures."""
    for metric, samples in reply["samples"].items():
        entry["metrics"].setdefault(metric, []).append(samples)
    entry["note"] = reply.get("note") or entry["note"]


def finish(entry):
    """Figures in seconds (megabytes) of what is counted: divided by `per`."""
    per = entry.get("per", 1)
    for metric, rounds in entry.get("metrics", {}).items():
        samples = [x / per for r in rounds for x in r]
        entry["metrics"][metric] = {
            "min": min(samples), "median": statistics.median(samples), "samples": len(samples),
            "rounds": [min(r) / per for r in rounds]}


def metered(machine, meters, options, best):
    """One round of what bounds a row; `best` keeps the highest rate of each."""
    for name in meters:
        row = run(name, [machine], argparse.Namespace(**{**vars(options), "rounds": 1}))
        found = limits.rate(row["contenders"][machine.name])
        if found:
            best[name] = max(best.get(name, 0), found)


def rounds_of(contenders, entries, options, after):
    """A B A B ...: one at a time, each for some seconds; who has spent its budget waits for the others. `after` ends a
    round."""
    spent = dict.fromkeys(contenders, 0.0)
    for _ in range(options.rounds):
        for name, contender in contenders.items():
            entry = entries[name]
            if "error" in entry or spent[name] > options.budget:
                continue
            time.sleep(PAUSE)
            reply = ask(contender, f"time {options.seconds}")
            if "error" in reply:
                entry.update(reply)
                continue
            add_round(entry, reply)
            spent[name] += sum(sum(s) for s in reply["samples"].values())
        after()


def run(name, contenders, options):
    """The row of one workload: contenders by name, in the order of preference as reference."""
    here = {c.name: c for c in contenders if name in c.ids}
    entries, outputs = {}, {}
    for c in here.values():
        entries[c.name], outputs[c.name] = prepare(c, name)
    reference = compare(entries, outputs)
    wide = any(x.dtype == np.float64 for x in outputs.get(reference, []))
    timed = {n: c for n, c in here.items() if "metrics" in entries[n] and "mismatch" not in entries[n]}
    machine = next((c for c in contenders if c.name == figures.MACHINE and c.name not in here), None)
    meters = limits.meters(machine.ids, figures.stated(entries), wide) if machine and timed else []
    rates = {}
    rounds_of(timed, entries, options, lambda: metered(machine, meters, options, rates))
    for n, c in here.items():
        finish(entries[n])
        if "metrics" in entries[n]:
            ask(c, "release")
    return {"id": name, "unit": next(iter(here.values())).ids[name], "reference": reference, "rates": rates,
            "written": sum(x.nbytes for x in outputs.get(reference, [])), "contenders": entries}
