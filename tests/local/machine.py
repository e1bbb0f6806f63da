"""Common parts of the tests of jobs on this machine: a server with an engine, jobs, and the files
of its directory."""
import glob
import json
import os
import re
import shutil
import signal
import sqlite3
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))

from harness import BINARY, USER, Server, database_rows, framework_name, wait_until  # noqa: E402

# A root without capabilities cannot make user namespaces.
NOBODY = 65534
AS_NOBODY = (shutil.which("setpriv") or "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
DONE = ("SUCCEEDED", "FAILED", "STOPPED")


def role(*commands, instances=1, gpu=0, cpu=1, memory=64, **more):
    return {"instances": instances, "dockerImage": "image", "commands": list(commands),
            "resourcePerInstance": {"cpu": cpu, "memoryMB": memory, "gpu": gpu}, **more}


def job(name, roles, **more):
    """A job as text; roles: by name, from role()."""
    return json.dumps({
        "protocolVersion": 2, "name": name, "type": "job", "taskRoles": roles,
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "debian:12-slim"}], **more})


class Machine(Server):
    """`rest-lit serve --local`, as an ordinary user unless `root`.  The directory outlives the
    server: see again()."""

    def __init__(self, *arguments, where=None, gpus=0, pattern=None, root=False, inside=(), **more):
        """inside: a command that executes the server."""
        self.where = where or os.path.join(tempfile.mkdtemp(prefix="rest-lit-local."), "jobs")
        self.gpu_files = [os.path.join(os.path.dirname(self.where), f"gpu{i}") for i in range(gpus)]
        for path in self.gpu_files:
            with open(path, "a", encoding="ascii"):
                pass
        if gpus:
            pattern = os.path.join(os.path.dirname(self.where), "gpu[0-9]*")
        devices = ("--gpu-devices", pattern) if pattern else ("--gpus", "none")
        ours = os.path.isdir(self.where) and os.stat(self.where).st_uid == 0
        if os.geteuid() == 0 and not root and not ours:
            for path in (os.path.dirname(self.where), *self.gpu_files):
                os.chown(path, NOBODY, NOBODY)
            more["program"] = [*inside, *AS_NOBODY, BINARY]
        # Tests that run at the same time listen on 20000 and above.
        super().__init__("--local", self.where, "--images", "host", "--cpus", "64", "--port-start", "10000",
                         "--port-end", "20000", *devices, *arguments, **more)
        self.pattern, self.gpus, self.root, self.more_arguments, self.inside = pattern, gpus, root, arguments, inside

    def again(self):
        """The same directory, after this one has been stopped or killed."""
        return Machine(*self.more_arguments, where=self.where, gpus=self.gpus, root=self.root, inside=self.inside)

    # ---- jobs ----
    def start(self, name, roles, **more):
        reply = self.submit(job(name, roles, **more))
        if reply.status != 202:
            raise RuntimeError(f"{name}: {reply}")

    def rows(self, sql, *values):
        return database_rows(self.where, sql, *values)

    def change(self, sql, *values):
        """Changes the database of a server that does not run."""
        database = sqlite3.connect(os.path.join(self.where, "store.db"))
        with database:
            database.execute(sql, values)
        database.close()

    def framework(self, name):
        """The stored object; None if there is none."""
        for body, status in self.rows("SELECT body, text FROM object JOIN status USING (id) "
                                      "WHERE kind = 0 AND name = ?", framework_name(name)):
            return {**json.loads(body), **({"status": json.loads(status)} if status else {})}
        return None

    def status(self, name):
        return (self.framework(name) or {}).get("status") or {}

    def tasks(self, name):
        """The task statuses, by role and index."""
        roles = (self.status(name).get("attemptStatus") or {}).get("taskRoleStatuses") or []
        return {(r["name"], t["index"]): t for r in roles for t in r["taskStatuses"]}

    def code(self, name):
        return ((self.status(name).get("attemptStatus") or {}).get("completionStatus") or {}).get("code")

    def exit(self, name):
        """The exit status of the user's command, or the code of the job if the command has none."""
        outcome = (self.status(name).get("attemptStatus") or {}).get("completionStatus") or {}
        found = re.search(r"originUserExitCode: (\d+)", outcome.get("diagnostics") or "")
        return int(found.group(1)) if found else outcome.get("code")

    def task_code(self, name, task_role, index=0):
        task = self.tasks(name).get((task_role, index)) or {}
        return ((task.get("attemptStatus") or {}).get("completionStatus") or {}).get("code")

    def state(self, name):
        return self.request("GET", f"/api/v2/jobs/{USER}~{name}").json["jobStatus"]["state"]

    def wait(self, name, *states):
        """Its state, when it is one of these, or the job has ended."""
        wait_until(lambda: self.state(name) in (states or DONE) + DONE, 300)
        return self.state(name)

    def waiting_reason(self, name):
        status = self.request("GET", f"/api/v2/jobs/{USER}~{name}").json["jobStatus"]
        return json.dumps(status.get("waitingReason"))

    def stop_job(self, name):
        return self.request("PUT", f"/api/v2/jobs/{USER}~{name}/executionType",
                            json.dumps({"value": "STOP"}), {"Content-Type": "application/json"})

    # ---- files ----
    def log(self, *what):
        """The server's log; with the name of a job, the log of a task: name, role, index, attempt,
        retry."""
        if not what:
            return super().log()
        name, task_role, index, attempt, retry = (*what, *("", 0, 0, 0)[len(what) - 1:])
        uid = self.framework(name)["metadata"]["uid"]
        kept = os.path.join(self.where, "logs", uid, f"{task_role}-{index}-{attempt}-{retry}")
        pod = (self.tasks(name).get((task_role, index)) or {}).get("attemptStatus", {}).get("podUID")
        lines = []
        for directory in (kept, os.path.join(self.where, "pods", str(pod))):
            for part in ("log.1", "log"):
                try:
                    with open(os.path.join(directory, part), encoding="utf-8") as f:
                        whole = (line.split(" ", 3) for line in f if line.endswith("\n"))  # the last one may be being written
                        lines += [text for _, stream, _, text in whole if stream != "before"]
                except FileNotFoundError:
                    pass
        return "".join(lines)

    def pods(self):
        return sorted(os.path.basename(p) for p in glob.glob(os.path.join(self.where, "pods", "*")))

    def shims(self):
        """Pids of the shims that live, by uid of the pod."""
        found = {}
        for path in glob.glob(os.path.join(self.where, "pods", "*", "shim")):
            try:
                with open(path, encoding="ascii") as f:
                    pid = int(f.read().split()[0])
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    if b"shim" in f.read():
                        found[os.path.basename(os.path.dirname(path))] = pid
            except (OSError, ValueError, IndexError):
                pass
        return found

    def remove(self):
        if self.process.poll() is None:
            for (name,) in self.rows("SELECT body ->> '$.metadata.annotations.jobName' FROM object WHERE kind = 0"):
                self.forget(name)
            wait_until(lambda: not self.pods())
        self.stop()
        for pid in self.shims().values():
            os.kill(pid, signal.SIGKILL)
        super().remove()
        shutil.rmtree(os.path.dirname(self.where), ignore_errors=True)

    def forget(self, name):
        """Deletes a job, so that its processes end."""
        try:
            self.request("DELETE", f"/api/v1/user/{USER}/jobs/{name}")
        except OSError:
            pass


def processes_with(word):
    """Command lines of all processes in which a word stands."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                line = f.read().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if word in line:
            found.append(line)
    return found
