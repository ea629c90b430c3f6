"""What a report says of the machine and of the build; nothing of it names a path."""
import glob
import hashlib
import os
import platform
import re
import subprocess


def output(*command, folder=None):
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=folder).stdout.strip()
    except OSError:
        return ""


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def first(pattern, text, otherwise="unknown"):
    found = re.search(pattern, text, re.MULTILINE)
    return found[1].strip() if found else otherwise


def describe():
    cpu = read("/proc/cpuinfo")
    flags = first(r"^flags\s*:(.*)", cpu, "").split()
    model = first(r"^model name\s*:(.*)", cpu, platform.machine())
    family = f" (family {first(r'^cpu family.*:(.*)', cpu)}, model {first(r'^model.*:(.*)', cpu)})"
    kilobytes = int(first(r"^MemTotal:\s*(\d+)", read("/proc/meminfo"), "0"))
    vectors = next((name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags), "no AVX2")
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    return {"cpu": model + family, "cores": os.cpu_count(), "vectors": vectors, "system": system,
            "memory": f"{kilobytes / 2**20:.0f} GiB", "load": round(os.getloadavg()[0], 2)}


def slug(cpu):
    """For the name of a file: the words before the details, and the family and the model, since hosts may hide the rest of a
    processor's name."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"\(.*?\)", " ", cpu).lower())[:4]
    return "-".join([*words, *re.findall(r"(?:family|model) (\d+)", cpu)]) or "cpu"


def fingerprint(build):
    """Of our program and library, "" if they are not here: two builds of one revision may differ."""
    files = [os.path.join(build, "bench/telamon_bench"), *sorted(glob.glob(os.path.join(build, "lib/libtelamon.so")))]
    digest = hashlib.sha256()
    for path in filter(os.path.exists, files):
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:8] if os.path.exists(files[0]) else ""


def build_version(root, build):
    """Our revision and the compiler of this build."""
    revision = output("git", "describe", "--always", "--dirty", folder=root) or "unversioned"
    cache = read(os.path.join(build, "CMakeCache.txt"))
    compiler = first(r"^CMAKE_CXX_COMPILER:\w+=(.*)", cache, "")
    version = output(compiler, "--version").splitlines() if compiler else []
    llvm = first(r"^LLVM_DIR:\w+=.*?llvm-(\d+)", cache, "")
    return revision, ", ".join([version[0] if version else "unknown compiler", *([f"LLVM {llvm}"] if llvm else [])])
