"""One contender of the side-by-side: a process that is asked by lines and answers in JSON (suite/harness.cpp)."""
import json
import os
import select
import signal
import subprocess
import tempfile


class Failed(Exception):
    """A contender that ended, or gave no answer in time."""


class Late(Failed):
    """The latter."""


class Contender:
    """Runs on the given processors only, and has the workloads that it takes; between two questions it sleeps on its
    standard input."""

    @staticmethod
    def takes_all(workload):
        return True

    def __init__(self, name, command, cpus, patience=600, env=None, takes=takes_all):
        self.name, self.command, self.cpus, self.patience, self.takes = name, command, cpus, patience, takes
        self.env = {k: v for k, v in {**os.environ, **(env or {})}.items() if v is not None}
        self.process, self.errors = None, tempfile.TemporaryFile()
        self.folder = tempfile.TemporaryDirectory(prefix="telamon-bench-")
        self.ids, self.version = {}, ""

    def start(self):
        """Asks for the workloads: {id: unit}."""
        pinned = ["taskset", "-c", ",".join(map(str, self.cpus)), *self.command]
        self.process = subprocess.Popen(pinned, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        env=self.env, text=True, bufsize=1, start_new_session=True)
        reply = self.ask("list")
        self.ids = {w["id"]: w["unit"] for w in reply["ids"] if self.takes(w["id"])}
        self.version = reply.get("name", "")

    def stop(self):
        if self.process is None:
            return
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process.stdout.close()
        self.process = None

    def kill(self):
        """With what it has started: that would go on, and slow down all that is timed afterwards."""
        os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()

    def last_words(self):
        """The end of what it wrote to standard error, in one line."""
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else ""

    def ask(self, question):
        """The answer; Failed if there is none, and then the process is gone."""
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(question + "\n")
            ready, _, _ = select.select([self.process.stdout], [], [], self.patience)
            line = self.process.stdout.readline() if ready else ""
        except BrokenPipeError:
            ready, line = True, ""
        if line:
            return json.loads(line)
        code = self.kill()
        self.process = None
        where = f"at `{question.split()[0]}`"
        if not ready:
            raise Late(f"no answer in {self.patience:g} s {where}")
        raise Failed(f"crashed ({code}) {self.last_words()} {where}")
