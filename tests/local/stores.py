"""Databases that releases have stored, which every later version reads (docs/COMPAT.md); 0.1 is a build
before the first release.

    TEST_RECORD=1 tests/local/run stores     writes tests/data/stores/VERSION.db.xz, for a release"""
import contextlib
import glob
import lzma
import os
import re
import sqlite3
import tempfile
import time

from harness import ROOT, Server, wait_until
from machine import Machine, role

STORES = os.path.join(ROOT, "tests", "data", "stores")
STATES = {"good": "SUCCEEDED", "bad": "FAILED", "runs": "RUNNING", "waits": "WAITING"}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def record(path):
    """Each state, a tag, a secret, an exit code."""
    first = Machine("--cpus", "2")
    first.start("good", {"main": role("test <% $secrets.key %> = k1")}, secrets={"key": "k1"})
    first.start("bad", {"main": role("echo why >&2; exit 3")})
    for name in "good", "bad":
        first.wait(name)
    first.request("PUT", "/api/v2/jobs/alice~good/tag", '{"value": "kept"}', {"Content-Type": "application/json"})
    first.start("runs", {"main": role("exec sleep 1000", cpu=2)})
    first.wait("runs", "RUNNING")
    first.start("waits", {"main": role("true")})
    wait_until(lambda: "CPU" in first.waiting_reason("waits"))
    first.kill()
    with tempfile.NamedTemporaryFile() as copy, lzma.open(path, "wb") as out:
        with contextlib.closing(sqlite3.connect(f"{first.where}/store.db")) as store, contextlib.closing(sqlite3.connect(copy.name)) as to:
            store.backup(to)
        out.write(copy.read())
    first.again().remove()


def test_stores_of_all_releases_are_read(check):
    """A start reads the store of each minor version: states, codes, tags, texts; and sets nothing aside."""
    version = re.search(r"^VERSION := (\d+\.\d+)", read("Makefile"), re.M)[1]
    if os.environ.get("TEST_RECORD"):
        record(os.path.join(STORES, f"{version}.db.xz"))
    found = sorted(glob.glob(os.path.join(STORES, "*.db.xz")))
    check.ok("this version has one, see above", os.path.join(STORES, f"{version}.db.xz") in found, found)
    number = re.search(r"SCHEMA_VERSION = (\d+)", read("machine/store/database.c"))[1]
    rows = re.findall(r"^\| (\d+) \| (?:.* )?([\d.]+) \|$", read("docs/COMPAT.md"), re.M)
    check.equal("COMPAT.md has the number of store.db", rows[-1][0], number)
    check.ok("its versions go up to this one, or the next", any(of == version for _, of in rows), rows)
    for path in found:
        name = os.path.basename(path)
        with tempfile.TemporaryDirectory() as d:
            for folder in "", "logs", "pods":
                os.makedirs(os.path.join(d, folder), 0o700, exist_ok=True)
            with lzma.open(path) as f, open(f"{d}/store.db", "wb") as out:
                out.write(f.read())
            # Nothing runs or expires.
            with Server("--local", d, "--engine", "none") as s:
                jobs = {one["name"]: one for one in s.request("GET", "/api/v2/jobs").json}
                check.equal(f"{name}: states", {job: one["state"] for job, one in jobs.items()}, STATES)
                check.equal(f"{name}: the tag", s.request("GET", "/api/v2/jobs?tagsContain=kept").json[0]["name"], "good")
                check.equal(f"{name}: the code", jobs["bad"]["appExitCode"], 255)
                check.ok(f"{name}: the text", b"exit 3" in s.request("GET", "/api/v2/jobs/alice~bad/config").body)
            check.ok(f"{name}: nothing is set aside", not os.path.exists(f"{d}/damaged"), os.listdir(d))
            with contextlib.closing(sqlite3.connect(f"{d}/store.db")) as store:
                check.equal(f"{name}: it is of this version", str(store.execute("PRAGMA user_version").fetchone()[0]), number)


def test_store_of_the_version_before_survives_kills_while_it_is_taken_over(check):
    """Killed at some moments of the first start, the store is the old one or the new one, with all jobs."""
    numbers = set()
    with tempfile.TemporaryDirectory() as d:
        for pause in range(12):
            where = os.path.join(d, str(pause))
            for folder in "", "logs", "pods":
                os.makedirs(os.path.join(where, folder), 0o700, exist_ok=True)
            with lzma.open(os.path.join(STORES, "0.1.db.xz")) as f, open(f"{where}/store.db", "wb") as out:
                out.write(f.read())
            first = Server("--local", where, "--engine", "none", wait=False)
            time.sleep(pause * 0.01)
            first.kill()
            with contextlib.closing(sqlite3.connect(f"file:{where}/store.db?immutable=1", uri=True)) as store:
                numbers.add(store.execute("PRAGMA user_version").fetchone()[0])
            with Server("--local", where, "--engine", "none") as s:
                states = {one["name"]: one["state"] for one in s.request("GET", "/api/v2/jobs").json}
                check.equal(f"killed after {pause * 10} ms: all jobs", states, STATES)
            check.ok(f"killed after {pause * 10} ms: nothing else is left",
                     not {"damaged", "store.db.new", "store.db.new-wal"} & set(os.listdir(where)), os.listdir(where))
    check.ok("one of two versions", numbers <= {1, 2}, numbers)
