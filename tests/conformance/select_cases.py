"""Chooses the compact selection of conformance cases that the project carries.

    python select_cases.py CASES_DIR OUT.jsonl.gz [--per-primitive N]

Takes, for every primitive and every check, the smallest cases that have it, so that all primitives
are met in all modes; then gzips them without a time stamp, so that equal input gives equal bytes.
"""

import argparse
import gzip
import json
import pathlib


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--per-primitive", type=int, default=8)
    options = parser.parse_args()

    lines = [line for path in sorted(options.cases.glob("*.jsonl")) for line in path.read_text().splitlines() if line]
    cases = [(json.loads(line), line) for line in lines]
    cases.sort(key=lambda case: (len(case[1]), case[0]["name"]))
    chosen = {}
    met = {}
    for case, line in cases:
        checks = ["eval", *case.get("checks", {})]
        wanted = [(p, c) for p in case["primitives"] for c in checks if met.get((p, c), 0) < options.per_primitive]
        if not wanted:
            continue
        chosen[case["name"]] = line
        for p in case["primitives"]:
            for c in checks:
                met[p, c] = met.get((p, c), 0) + 1
    text = "".join(chosen[name] + "\n" for name in sorted(chosen))
    with open(options.out, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=9, mtime=0) as out:
        out.write(text.encode())
    print(f"{len(chosen)} of {len(cases)} cases, {options.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
