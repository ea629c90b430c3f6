"""The file of results: one a day, machine and number of threads. Runs of some rows are merged into it by id, and each
row says which build it is of, and when it was taken."""
import json
import os
import re
import sys

import machine
from options import Refused

PARTS = ("machine", "contenders", "limits", "rows", "threads", "date")


def load(path):
    try:
        with open(path) as file:
            result = json.load(file)
    except (OSError, ValueError) as e:
        raise Refused(f"{path} cannot be read: {e}") from None
    if not isinstance(result, dict) or any(part not in result for part in PARTS):
        raise Refused(f"{path} is no result of this program")
    return result


def save(path, result):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w") as file:
        json.dump(result, file, separators=(",", ":"))
    os.replace(path + ".new", path)


def running(result):
    return {c["name"] for c in result["contenders"] if not c.get("missing")}


def place(folder, about, date, threads, names, whole):
    """(path, what it has already or None): not the file of the day if a run of some rows would take contenders away
    from it that this run has not."""
    stem = os.path.join(folder, f"{date}-{machine.slug(about['cpu'])}-{threads}t")
    path, old = stem + ".json", None
    if os.path.exists(path):
        old = load(path)
        lacking = running(old) - names
        if lacking and not whole:
            print(f"*** {os.path.basename(path)} has {', '.join(sorted(lacking))} too: the figures go beside it",
                  file=sys.stderr, flush=True)
            path, old = stem + "-part.json", None
    return path, old


def merged_contenders(new, old):
    """The new ones, and those that only older rows have."""
    names = {c["name"] for c in new}
    return new + [c for c in (old or {}).get("contenders", []) if c["name"] not in names]


def put(result, row):
    result["rows"] = [r for r in result["rows"] if r["id"] != row["id"]] + [row]


def has(result, name, build, contenders):
    """Whether there is this row of this build with all these contenders: then it need not be taken again."""
    return any(r["id"] == name and build and r.get("build") == build and contenders <= set(r["contenders"])
               for r in result["rows"])


def runs(result):
    """[(revision, build, command, rows)]: which rows are of which build and command, in the order of their time."""
    groups = {}
    for row in sorted(result["rows"], key=lambda r: r.get("time", "")):
        key = row.get("revision", ""), row.get("build", ""), row.get("command", result.get("command", ""))
        groups.setdefault(key, []).append(row)
    return [(*key, rows) for key, rows in groups.items()]


def sound(rows):
    """Whether none of our own rows failed, is missing, or has results that differ from the reference's (which may be
    one of ours). How others differ, as fast math does on infinities, stands in the table."""
    ours = "telamon"
    for row in rows:
        if ours not in row["contenders"] and not row["id"].startswith("B00.python"):
            return False
        for name, entry in row["contenders"].items():
            if re.match(ours, name) and (entry.get("error") or entry.get("mismatch")):
                return False
            if re.match(ours, row["reference"]) and entry.get("mismatch"):
                return False
    return True
