"""Figures of one run: which contender is how far ahead, row by row. What report.py and plot.py draw from."""
import re

import limits

OURS = "telamon"
# Telamon with contraction is compared with those that may contract or reassociate too.
CONTRACT = "telamon contract"
FREE_HAND = ("hand contracted", "hand fast")
HAND = "hand exact"
TORCH_COMPILE = "torch compile"
ONE = "telamon, 1 thread"  # beside several, where threads have a target
MACHINE = "machine"  # its limits
TROUBLE = {"mismatch": "MISMATCH", "timeout": "TIMEOUT", "crashed": "CRASHED", "error": "FAILED", "not_yet": "not yet"}
STOPPED = re.compile(r"not finished after (\S+) s, stopped")  # a contender's note
NOT_OURS = ("B00.python",)  # of an interpreter


def natural(name):
    """A key that puts _64 before _1000."""
    return [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", name)]


def group(name):
    return name.split(".")[0]


def stated(contenders):
    """The entry that states the bytes or operations of a row: ours first."""
    entries = [contenders.get(OURS, {}), *contenders.values()]
    return next((e for e in entries if e.get("bytes") or e.get("flops")), {})


def note_of(entry):
    """What a contender says of a row, and whether its results were not compared."""
    uncompared = "not compared" if entry.get("compared") is False else ""
    return ", ".join(filter(None, [entry.get("note"), uncompared]))


class Line:
    """One line of the table: a metric of a workload."""

    def __init__(self, row, metric, threads=1):
        self.threads = threads
        self.id, self.metric, self.unit = row["id"], metric, row["unit"]
        self.contenders, self.rates, self.written = row["contenders"], row["rates"], row["written"]

    @property
    def name(self):
        return self.id if self.metric == "time" else f"{self.id} {self.metric}"

    def least(self, contender):
        figures = self.figures(contender)
        return figures["min"] if figures else None

    def figures(self, contender):
        return self.contenders.get(contender, {}).get("metrics", {}).get(self.metric)

    def trouble(self, contender):
        """Why there is no figure: "" where the contender has no such workload."""
        entry = self.contenders.get(contender)
        if entry is None:
            return ""
        return next((text for key, text in TROUBLE.items() if entry.get(key)), "")

    def stopped(self, contender):
        """Whether its figure is the time after which it was stopped: it takes as long at least."""
        note = STOPPED.search(self.contenders.get(contender, {}).get("note") or "")
        return bool(note) and self.metric == "total" and self.least(contender) == float(note[1])

    def ratio(self, other, mine=OURS):
        """How many times longer the other takes (at least, if it was stopped), or None; also where it was stopped
        before we are done: that says nothing."""
        a, b = self.least(other), self.least(mine)
        return a / b if a and b and not (self.stopped(other) and a < b) else None

    def serial(self, contender):
        """Whether this one has one thread here, where others have more."""
        return self.threads > 1 and self.contenders.get(contender, {}).get("threads") == 1

    def compared(self, other, mine=OURS):
        """The ratio, but None where the other is slower with fewer threads: that says nothing."""
        ratio = self.ratio(other, mine)
        return None if ratio is not None and ratio >= 1 and self.serial(other) else ratio

    def libraries(self):
        return [c for c in self.contenders if not c.startswith(("telamon", "hand"))]

    def best(self, names):
        """(time, name) of the fastest, or None."""
        return min(((self.least(n), n) for n in names if self.least(n)), default=None)

    def of_limit(self):
        """What share of the machine's limit our time is."""
        if not self.least(OURS) or self.metric not in ("time", "steady"):
            return None
        least = limits.least_time(self.rates, stated(self.contenders), self.written)
        return least / self.contenders[OURS]["per"] / self.least(OURS) if least else None

    def no_limit(self):
        """Why there is no such share, in a word; "" where nobody says."""
        if missing(self):
            return self.trouble(OURS) or TROUBLE["not_yet"]
        entries = [self.contenders.get(OURS, {}), *self.contenders.values()]
        return next((e["no_limit"] for e in entries if e.get("no_limit")), "")

    def note(self):
        """Of all contenders: JAX's first, then each with a name."""
        notes = {name: note_of(entry) for name, entry in self.contenders.items()}
        first = notes.pop("jax", "")
        return "; ".join(filter(None, [first, *(f"{name}: {text}" for name, text in notes.items() if text)]))


def lines_of(result):
    """The lines of a run in the order of the ids; a row of which no contender has figures is one line too."""
    lines = []
    for row in sorted(result["rows"], key=lambda r: natural(r["id"])):
        metrics = []
        for entry in row["contenders"].values():
            metrics += [m for m in entry.get("metrics", {}) if m not in metrics]
        lines += [Line(row, m, result["threads"]) for m in metrics or ["time"]]
    return lines


def behind(line):
    """[(ratio, our contender, the other)]: by whom this line is lost, the worst first."""
    lost = []
    for mine, others in ((OURS, [*line.libraries(), HAND]), (CONTRACT, FREE_HAND)):
        for other in others:
            ratio = line.ratio(other, mine)
            if ratio is not None and ratio < 0.995:
                lost.append((ratio, mine, other))
    return sorted(lost)


def missing(line):
    """Whether others have figures of a workload where we have none at all."""
    if line.id.startswith(NOT_OURS) or line.contenders.get(OURS, {}).get("metrics"):
        return False
    return any(line.least(c) for c in line.contenders) or line.trouble(OURS) != ""
