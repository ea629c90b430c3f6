"""What the machine can do: bandwidth by size of the working set, and multiply-adds. See suite/machine_limits.cpp.

Neighbours of a virtual machine use the same memory and the same last cache: what it gives changes from minute to minute.
So each row is timed beside its own meters, the workloads of the contender `machine` (ids M.*) that bound it.
"""
import math
import re

BANDWIDTH = re.compile(r"M\.(read|copy|stream)_(\d+)k$")


def rate(entry):
    """Bytes or operations a second, or None."""
    time = entry.get("metrics", {}).get("time")
    return (entry.get("bytes") or entry.get("flops") or 0) / time["min"] if time else None


def measured(rows):
    """From the rows of the ids M.*: {"bandwidth": [[bytes, bytes a second], ...], "f32": flops a second, "f64"}, the best
    bandwidth of each size."""
    limits, best = {"bandwidth": []}, {}
    for row in rows:
        found = next((r for entry in row["contenders"].values() if (r := rate(entry))), None)
        size = BANDWIDTH.match(row["id"])
        if found and size:
            best[int(size[2])] = max(best.get(int(size[2]), 0), found)
        elif found and row["id"].startswith("M.fma_"):
            limits[row["id"][6:]] = found
    limits["bandwidth"] = [[kilobytes * 1024, found] for kilobytes, found in sorted(best.items())]
    return limits


def meters(ids, entry, wide):
    """Those of the ids that bound an entry: the ways of moving data of the nearest size, and multiply-adds."""
    sizes = {int(m[2]) for i in ids if (m := BANDWIDTH.match(i))}
    found = []
    if entry.get("bytes") and sizes:
        nearest = min(sizes, key=lambda kilobytes: abs(math.log(kilobytes * 1024 / entry["bytes"])))
        found += [i for i in ids if i.endswith(f"_{nearest}k")]
    if entry.get("flops"):
        found += [i for i in ids if i == f"M.fma_{'f64' if wide else 'f32'}"]
    return found


def least_time(rates, entry, written):
    """Seconds that one call needs at least, or None: the longer of moving its bytes and computing its flops. `rates` are
    those of its meters. As much as is written is read as fast as it is copied, the rest as it is read."""
    by_kind = {m[1]: r for i, r in rates.items() if (m := BANDWIDTH.match(i))}
    times = []
    if entry.get("bytes") and by_kind:
        copied = min(2 * written, entry["bytes"])
        copy = max(by_kind.get("copy", 0), by_kind.get("stream", 0)) or by_kind["read"]
        times.append(copied / copy + (entry["bytes"] - copied) / by_kind.get("read", copy))
    peak = next((r for i, r in rates.items() if i.startswith("M.fma_")), None)
    if entry.get("flops") and peak:
        times.append(entry["flops"] / peak)
    return max(times, default=None)
