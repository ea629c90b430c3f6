"""The options of compare.py, and what is wrong with them: one line, before anything is started."""
import argparse
import importlib.util
import math
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PYTHON_PEERS = {"jax": ["jax_peer.py"], "numpy": ["numpy_peer.py"], "torch": ["torch_peer.py"],
                "torch-compile": ["torch_peer.py", "--compile"], "mlx": ["mlx_peer.py"], "drjit": ["drjit_peer.py"]}
PEERS = ("hand", *PYTHON_PEERS)


class Refused(Exception):
    """Options that cannot be followed: the reason."""


# ---- what a word must be ----
def names(word):
    return [x for x in word.split(",") if x]


def whole_numbers(least):
    def parse(word):
        numbers = [int(x) if re.fullmatch(r"[0-9]+", x) else -1 for x in names(word)]
        if not numbers or min(numbers) < least or len(set(numbers)) < len(numbers):
            raise argparse.ArgumentTypeError(f"{word!r} is no list of different numbers from {least}: 1,2")
        return numbers

    return parse


def rounds(word):
    if not re.fullmatch(r"[0-9]+", word) or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is no number from 1")
    return int(word)


def seconds(word):
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not (0 < value < math.inf):
        raise argparse.ArgumentTypeError(f"{word!r} is no number of seconds above 0")
    return value


def pattern(word):
    try:
        re.compile(word)
    except re.error as e:
        raise argparse.ArgumentTypeError(f"{word!r} is no regular expression: {e}") from None
    return word


def peers(word):
    unknown = [x for x in names(word) if x not in PEERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}: {', '.join(PEERS)}")
    return names(word)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(message)


def read(words, about):
    parser = Parser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--only", default=".", type=pattern, metavar="REGEX", help="workloads whose id has a match")
    parser.add_argument("--threads", default=[1], type=whole_numbers(1), metavar="N,...", help="one run for each")
    parser.add_argument("--cpus", type=whole_numbers(0), metavar="N,...",
                        help="processors to use; by default the first ones")
    parser.add_argument("--peers", default=peers("jax,hand,numpy"), type=peers, metavar="NAME,...",
                        help=", ".join(PEERS))
    parser.add_argument("--seconds", type=seconds, default=0.2, help="of a contender in a round")
    parser.add_argument("--rounds", type=rounds, default=5)
    parser.add_argument("--budget", type=seconds, default=20, help="seconds of a contender: slow ones do fewer rounds")
    parser.add_argument("--patience", type=seconds, default=600, help="seconds to wait for an answer")
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"), metavar="FOLDER")
    parser.add_argument("--python", default=sys.executable, help="of the peers")
    parser.add_argument("--json", default=os.path.join(ROOT, "bench/results"), metavar="FOLDER", help="for the results")
    parser.add_argument("--resume", action="store_true", help="keep the rows that this build has today already")
    parser.add_argument("--out", metavar="FILE.md", help="write the report into this file, plots beside it")
    parser.add_argument("--report", nargs="+", metavar="RESULT.json")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args(words)
    check(options)
    return options


# ---- what must be here ----
def check(options):
    if options.out:
        folder = os.path.dirname(os.path.abspath(options.out))
        if not os.path.isdir(folder):
            raise Refused(f"--out {options.out}: there is no folder {folder}")
    if options.report:
        absent = [x for x in options.report if not os.path.isfile(x)]
        if absent:
            raise Refused(f"--report: there is no file {', '.join(absent)}")
        if not options.out:
            raise Refused("--report needs --out FILE.md")
        return
    if importlib.util.find_spec("numpy") is None:
        raise Refused("the driver needs NumPy, which this Python has not (scripts/bench_jax.sh has one with it)")
    for program in ("taskset", options.python):
        if shutil.which(program) is None:
            raise Refused(f"there is no program {program}")
    if not options.self_test:
        check_processors(options)


def check_processors(options):
    here = sorted(os.sched_getaffinity(0))
    absent = [x for x in options.cpus or [] if x not in here]
    if absent:
        raise Refused(f"--cpus: this process may not run on {absent[0]}, but on {', '.join(map(str, here))}")
    options.cpus = options.cpus or here
    if max(options.threads) > len(options.cpus):
        raise Refused(f"--threads {max(options.threads)}: there are {len(options.cpus)} processors to use")
