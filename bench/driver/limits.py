"""What the machine can do: bandwidth by size of the working set, and multiply-adds. See suite/machine_limits.cpp."""
import math
import re

BANDWIDTH = re.compile(r"M\.(read|copy|stream)_(\d+)k$")


def measured(rows):
    """From the rows of the ids M.*: {"bandwidth": [[bytes, bytes a second], ...], "f32": flops a second, "f64"}"""
    limits = {"bandwidth": []}
    best = {}
    for row in rows:
        for entry in row["contenders"].values():
            time = entry.get("metrics", {}).get("time")
            if not time:
                continue
            size = BANDWIDTH.match(row["id"])
            if size:
                kilobytes = int(size[2])
                best[kilobytes] = max(best.get(kilobytes, 0), entry["bytes"] / time["min"])
            elif row["id"].startswith("M.fma_"):
                limits[row["id"][6:]] = entry["flops"] / time["min"]
    limits["bandwidth"] = [[kilobytes * 1024, rate] for kilobytes, rate in sorted(best.items())]
    return limits


def bandwidth(limits, size):
    """Of the measured working set whose size is nearest."""
    return min(limits["bandwidth"], key=lambda p: abs(math.log(p[0] / size)))[1]


def least_time(limits, entry, wide):
    """Seconds that one call needs at least, or None: the longer of moving its bytes and computing its flops."""
    times = []
    if entry.get("bytes") and limits.get("bandwidth"):
        times.append(entry["bytes"] / bandwidth(limits, entry["bytes"]))
    peak = limits.get("f64" if wide else "f32")
    if entry.get("flops") and peak:
        times.append(entry["flops"] / peak)
    return max(times, default=None)
