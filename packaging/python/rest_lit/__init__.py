"""A client of rest-lit servers, on the standard library alone; Python 3.9 or later.

    client = rest_lit.Client("https://rest-lit.example.com", "token")
    job = client.submit(["python3", "train.py", "0.1"], name="trial")
    print(client.wait(job).jobStatus.state, *client.logs(job), sep="\\n")

Jobs are named USER~NAME, or NAME of the client's own user.  What is sent with a command, logs and
results are the work of the program `rest-lit`, which the same wheel installs.
"""
from __future__ import annotations

import dataclasses
import functools
import http.client
import json
import math
import os
import random
import re
import secrets
import shutil
import ssl
import subprocess
import sys
import sysconfig
import tempfile
import time
import typing
import urllib.error
import urllib.parse
import urllib.request

from .answers import Job, JobRow, Note

__all__ = ["Client", "Error", "Job", "JobRow", "Note"]
# Of an option or a filter; several values, also as NAME=VALUE of a mapping.
Path = typing.Union[str, "os.PathLike[str]"]
Value = typing.Union[str, float, typing.Sequence[str], typing.Mapping[str, object]]

ANSWER_MAX = 256 << 20  # bytes
ATTEMPT_S = 60  # longer than the deadline of servers
PATIENCE_S = 60  # of submit and wait, while a server does not answer
WAIT_S = 60  # that a server holds one request of wait
TOKEN_MAX = 65536  # bytes
PAUSE_S = 0.5  # before the first repetition; doubled each time
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


class Error(Exception):
    """A refusal, or no answer: `code` for programs (NoJobError, ...; "" without an answer of the server, or if
    the program rest-lit reports it), `message` for people, `status` of HTTP (0: none), `notes`: places in the job."""

    def __init__(self, message: str, code: str = "", status: int = 0, notes: typing.Sequence[Note] = ()):
        self.message, self.code, self.status, self.notes = message, code, status, list(notes)
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.message} ({self.code})" if self.code else self.message


class Client:
    """A server.  server, token_file and ca_file default to REST_LIT_SERVER, REST_LIT_TOKEN_FILE and
    REST_LIT_CA_FILE.  The file of the token is read for each request, so it can be replaced.  Any thread may call."""

    def __init__(self, server: str = "", token_file: Path = "", ca_file: Path = ""):
        self.server = _address(server or os.environ.get("REST_LIT_SERVER") or "http://127.0.0.1:9186")
        self.token_file = os.fspath(token_file or os.environ.get("REST_LIT_TOKEN_FILE") or "")
        self.ca_file = os.fspath(ca_file or os.environ.get("REST_LIT_CA_FILE") or "")
        tls = ssl.create_default_context(cafile=self.ca_file or None)
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls), _NoRedirect)

    def __repr__(self) -> str:
        return f"Client({self.server!r})"

    def submit(self, job: typing.Union[Path, dict[str, typing.Any], list[str]], **options: Value) -> str:
        """Submits a job file (its path), a job (a dict) or a command (a list) with the files of the current
        directory.  The options are those of `rest-lit submit`: name="trial", gpus=1, tag=["a", "b"], env={"A": 1},
        no_results=True.  Returns USER~NAME.  Warnings, and what is sent, go to standard error."""
        if {"sweep", "wait", "logs", "dry_run", "server", "token_file", "ca_file"} & set(options):
            raise TypeError("submit: one job at a time, without sweep, wait, logs, dry_run")
        if isinstance(job, list):
            return self._run("submit", options, "--", *job).strip()
        text = json.dumps(job).encode() if isinstance(job, dict) else b""
        if options:
            return self._run("submit", options, "-" if isinstance(job, dict) else os.path.abspath(job), text=text).strip()
        body, kind = text, "application/json"
        if not isinstance(job, dict):
            with open(job, "rb") as f:
                body, kind = f.read(), "text/yaml"
        answer, headers = self._ask("POST", "/api/v2/jobs", body, kind, patience_s=PATIENCE_S)
        for note in _notes(answer, "warnings"):
            print(f"warning: {note.message}", file=sys.stderr)
        location: str = _read(str, headers["Location"])
        return location.rpartition("/")[2]

    def wait(self, job: str, timeout: typing.Optional[float] = None) -> Job:
        """Waits for the end of a job, at most so many seconds (then TimeoutError: the job goes on)."""
        end, path = time.monotonic() + (math.inf if timeout is None else timeout), self._path(job)
        while True:
            seconds = math.ceil(min(max(end - time.monotonic(), 0), WAIT_S))
            found: Job = _read(Job, self._ask("GET", f"{path}?wait={seconds}", patience_s=PATIENCE_S)[0])
            if found.jobStatus.state in ENDED:
                return found
            if time.monotonic() >= end:
                raise TimeoutError(f"{job} has not ended")
            time.sleep(PAUSE_S)

    def logs(self, job: str, task: str = "", follow: bool = True) -> typing.Iterator[str]:
        """The lines of the output of a job, or of one task (`worker`, `worker[0]`), to the end of the job; with
        follow=False those that there are.  Of several tasks, or if there is none yet, with `worker[0] | ` before."""
        self.show(job)  # for its refusal
        command = self._command("logs", {"follow": follow}, "--", job, *([task] if task else []))
        with tempfile.TemporaryFile() as errors:
            with _start(command, errors) as process:
                try:
                    for line in process.stdout or ():
                        yield line.decode(errors="replace").rstrip("\n")
                    process.wait()
                finally:
                    process.kill()
            _check(process.returncode, errors)

    def jobs(self, **filters: Value) -> list[JobRow]:
        """The jobs of all users, newest first, at most 5000.  Filters are the parameters of GET /api/v2/jobs:
        username="alice", state=["RUNNING", "WAITING"], tagsContain="trial", keyword, limit, offset, order."""
        query = urllib.parse.urlencode({name: ",".join(_texts(value)) for name, value in filters.items()})
        rows: list[JobRow] = _read(list[JobRow], self._ask("GET", f"/api/v2/jobs?{query}")[0])
        return rows

    def show(self, job: str) -> Job:
        """State, tasks, and why it waits or has failed."""
        found: Job = _read(Job, self._ask("GET", self._path(job))[0])
        return found

    def fetch(self, job: str, directory: Path, path: str = "", force: bool = False) -> None:
        """Brings the results of a job, or what is at `path` in them, into a directory; repeated, what is missing."""
        self.show(job)  # likewise
        self._run("fetch", {"output": os.path.abspath(directory), "force": force}, "--", f"{job}:{path}" if path else job)

    def stop(self, job: str) -> None:
        """Stops a job.  A job that has ended stays as it is."""
        self._ask("PUT", self._path(job, "/executionType"), b'{"value": "STOP"}', "application/json")

    # ---- requests ----
    def _path(self, job: str, rest: str = "") -> str:
        if "~" not in job:
            job = f"{_read(dict[str, typing.Any], self._ask('GET', '/api/v2/tokens/check')[0])['username']}~{job}"
        return f"/api/v2/jobs/{urllib.parse.quote(job, safe='~')}{rest}"

    def _token(self) -> str:
        with open(self.token_file, encoding="ascii", errors="replace") as f:
            text = f.read(TOKEN_MAX + 1).strip()
        if re.fullmatch("[!-~]+", text):
            return text
        del text  # a traceback can show local variables
        raise Error(f"{self.token_file}: has no token, which is one line of visible characters")

    def _ask(self, method: str, path: str, body: typing.Optional[bytes] = None, kind: str = "", patience_s: float = 0
             ) -> tuple[typing.Any, typing.Any]:
        """(the JSON of the answer, its headers).  A repetition has the same Idempotency-Key."""
        request = urllib.request.Request(self.server + path, body, method=method)
        if body is not None:
            request.add_header("Content-Type", kind)
        if method == "POST":
            request.add_header("Idempotency-Key", secrets.token_hex(16))
        end, pause = time.monotonic() + patience_s, PAUSE_S
        while True:
            if self.token_file:
                request.add_unredirected_header("Authorization", "Bearer " + self._token())
            after = "0"
            try:
                with self._opener.open(request, timeout=ATTEMPT_S + WAIT_S) as answer:
                    text = answer.read(ANSWER_MAX + 1)
                    if answer.length and len(text) <= ANSWER_MAX:
                        raise http.client.IncompleteRead(text, answer.length)
                    return _json(text, self.server), answer.headers
            except urllib.error.HTTPError as e:
                with e:
                    error, after = _refusal(e, self.server), e.headers.get("Retry-After", "0")
                again = e.code in (408, 429, 502, 503, 504) or error.code == "IdempotencyError" and e.code == 409
            except (OSError, http.client.HTTPException) as e:
                reason = getattr(e, "reason", e)
                error = Error(f"{self.server}: {reason}")
                again = not isinstance(reason, ssl.SSLError)
            pause_s = (int(after) if after.isdigit() else 0) + pause * random.uniform(0.5, 1)
            if not again or time.monotonic() + pause_s >= end:
                raise error from None
            time.sleep(pause_s)
            pause *= 2

    # ---- the program ----
    def _command(self, name: str, options: dict[str, Value], *words: str) -> list[str]:
        own = os.path.join(sysconfig.get_path("scripts"), "rest-lit")
        command = [own if os.access(own, os.X_OK) else shutil.which("rest-lit") or "rest-lit", name, f"--server={self.server}"]
        files: dict[str, Value] = {"token_file": self.token_file, "ca_file": self.ca_file}
        for key, value in {**files, **options}.items():
            option = "--" + key.replace("_", "-")
            if value is True:
                command.append(option)
            elif value is not False and value != "":
                command += [f"{option}={one}" for one in _texts(value)]
        return command + list(words)

    def _run(self, name: str, options: dict[str, Value], *words: str, text: bytes = b"") -> str:
        with tempfile.TemporaryFile() as errors:
            with _start(self._command(name, options, *words), errors, subprocess.PIPE) as process:
                out = process.communicate(text)[0]
            print(_check(process.returncode, errors), end="", file=sys.stderr)
        return out.decode(errors="replace")


def _start(command: list[str], errors: typing.IO[bytes], stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=errors)
    except FileNotFoundError:
        raise Error("the program rest-lit is not installed: pip install rest-lit, or put it on the PATH") from None


def _check(status: int, errors: typing.IO[bytes]) -> str:
    """What the program has written to standard error."""
    errors.seek(0)
    text = errors.read(ANSWER_MAX).decode(errors="replace")
    if status == 0:
        return text
    message = re.sub("^rest-lit: ", "", text.strip(), flags=re.M) or f"rest-lit ended with status {status}"
    code = re.search(r" \(([45][0-9][0-9])\)", message)
    raise Error(message, status=int(code[1]) if code else 0)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: the token is for this server."""

    def redirect_request(self, *_: typing.Any) -> None:
        return None


def _address(text: str) -> str:
    """https://HOST[:PORT][/PATH]; http, also by default, for this machine only."""
    parts = urllib.parse.urlsplit(text if "://" in text else f"//{text}")
    host = parts.hostname or ""
    here = host in ("localhost", "127.0.0.1", "::1")
    scheme = parts.scheme or ("http" if here else "https")
    if not host or parts.username is not None or parts.query or parts.fragment or scheme not in ("http", "https"):
        raise ValueError("server: must be https://HOST[:PORT][/PATH]")
    if scheme == "http" and not here:
        raise ValueError(f"server: http is for this machine only, use https://{parts.netloc}")
    return f"{scheme}://{parts.netloc}{parts.path}".rstrip("/")


def _texts(value: Value) -> list[str]:
    if isinstance(value, typing.Mapping):
        return [f"{name}={one}" for name, one in value.items()]
    return [str(value)] if isinstance(value, (str, int, float)) else list(value)


# ---- answers ----
def _json(body: bytes, server: str) -> typing.Any:
    try:
        if len(body) <= ANSWER_MAX:
            return json.loads(body)
    except (ValueError, RecursionError):
        pass
    raise Error(f"{server}: the answer is not JSON, or too large: is it rest-lit?")


def _notes(answer: typing.Any, member: str) -> list[Note]:
    found = answer.get(member) if isinstance(answer, dict) else None
    return [_read(Note, note) for note in found or []]


def _refusal(answer: urllib.error.HTTPError, server: str) -> Error:
    try:
        body = _json(answer.read(ANSWER_MAX + 1), server)
        return Error(_read(str, body["message"]), _read(str, body.get("code", "")), answer.code, _notes(body, "errors"))
    except (Error, OSError, http.client.HTTPException, KeyError, TypeError, AttributeError):
        return Error(f"{server} answers {answer.code}", status=answer.code)


@functools.lru_cache(None)
def _members(kind: typing.Any) -> dict[str, typing.Any]:
    return typing.get_type_hints(kind)


def _read(kind: typing.Any, value: typing.Any) -> typing.Any:
    """A value of JSON as an instance of this type.  A member that an older server lacks is None; one that this
    client does not know is left out."""
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union:
        return _read(of[0], value)
    if origin is list and isinstance(value, list):
        return [_read(of[0], v) for v in value]
    if origin is dict and isinstance(value, dict):
        return {k: _read(of[1], v) for k, v in value.items()}
    if dataclasses.is_dataclass(kind) and isinstance(value, dict) and _members(kind).keys() & value.keys():
        return kind(**{k: None if value.get(k) is None else _read(of, value[k]) for k, of in _members(kind).items()})
    if origin or dataclasses.is_dataclass(kind) or kind is str and not isinstance(value, str):
        raise Error("the answer is not that of rest-lit: is the address right?")
    return value
