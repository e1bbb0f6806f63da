#!/usr/bin/env python3
"""Many stored Frameworks, for benchmarks of the job cache.

    many.py N [SEED]     print N Frameworks, one per line

Each is a copy of a Framework in tests/data/frameworks with unique names, owner, virtual cluster,
tags, priority, times, uids and addresses.  The output is reproducible for a seed."""
import glob
import hashlib
import json
import os
import random
import re
import sys
import time
from calendar import timegm

STATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/frameworks")
# Number of jobs in each state, of 100 jobs.
SHARES = {"11-Completed-succeeded": 46, "12-Completed-failed": 18, "14-Completed-stopped": 10, "13-Completed-oom-killed": 3,
          "22-Completed-retries-exhausted": 1, "06-AttemptRunning": 12, "05-AttemptRunning-first-task": 1,
          "04-AttemptPreparing-addresses": 2, "03-AttemptPreparing-no-pods": 2, "01-AttemptCreationPending": 1,
          "17-retry-waiting": 1, "20-task-retry": 1, "09-AttemptDeleting": 1, "10-AttemptCompleted": 1}
USERS, CLUSTERS = 200, ["default", "vision", "speech", "nlp", "search", "ads", "robotics", "intern"]
WHAT = ["resnet50", "bert-large", "mnist", "gpt2_ft", "yolo", "wav2vec", "eval", "preprocess", "tune-lr", "distill"]
PRIORITIES = [""] * 6 + ["prod", "test", "test", "oppo"]
NEWEST = timegm((2026, 11, 22, 0, 0, 0))
MONTH_S = 30 * 86400
TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MARK = re.compile("\x01([A-Z]+)(-?[0-9]*)\x02")


def mark(kind, number=""):
    return f"\x01{kind}{number}\x02"


def seconds(text):
    return timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


class Template:
    """One object as text and marks: [text, kind, number, text, kind, number, ..., text]."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            o = json.load(f)
        meta = o["metadata"]
        name, born = meta["name"], seconds(meta["creationTimestamp"])
        meta["name"] = mark("NAME")
        meta["resourceVersion"] = mark("VERSION")
        meta["labels"] = {"userName": mark("USER"), "virtualCluster": mark("CLUSTER")}
        meta["annotations"].update({"jobName": mark("JOB"), "logPathInfix": mark("NAME"), "totalGpuNumber": mark("GPUS"),
                                    "config": meta["annotations"]["config"] + mark("EXTRAS"), "rest-lit/tags": mark("TAGS")})
        text = json.dumps(o, separators=(",", ":"), ensure_ascii=False)
        text = text.replace("\\u0001", "\x01").replace("\\u0002", "\x02")
        text = re.sub(rf"\b{re.escape(name)}(-[a-z]+-\d+|-attempt)", mark("NAME") + r"\1", text)
        text = re.sub(rf"\b{re.escape(name)}\b", mark("JOB"), text).replace("alice", mark("USER"))
        text = TIME.sub(lambda m: mark("TIME", seconds(m[0]) - born), text)
        uuids = {}
        text = UUID.sub(lambda m: mark("UUID", uuids.setdefault(m[0], len(uuids))), text)
        self.pieces, self.uuids = MARK.split(text), len(uuids)


def inside(text):
    """Encoded for a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


class Many:
    def __init__(self, seed=1):
        self.seed, self.templates, self.weights = seed, [], []
        for path in sorted(glob.glob(os.path.join(STATES, "*.json"))):
            share = SHARES.get(os.path.basename(path)[:-len(".json")])
            if share:
                self.templates.append(Template(path))
                self.weights.append(share)
        assert len(self.templates) == len(SHARES), f"{STATES} lacks some of {sorted(SHARES)}"

    def values(self, i, r):
        user = f"user{int(USERS * r.random() ** 2):03d}"
        job = f"{r.choice(WHAT)}_{r.getrandbits(24):06x}_{i}"
        priority = r.choice(PRIORITIES)
        tags = r.sample(["baseline", "nightly", "paper", "großer Lauf", "a,b"], r.choice([0, 0, 0, 0, 1, 2]))
        return {"USER": user, "JOB": job, "NAME": hashlib.md5(f"{user}~{job}".encode()).hexdigest(),
                "CLUSTER": r.choice(CLUSTERS), "GPUS": str(r.choice([0, 1, 1, 2, 4, 8, 16, 64])), "VERSION": str(1000 + i),
                "TAGS": inside(json.dumps(tags, ensure_ascii=False)),
                "EXTRAS": inside(f"extras:\n  hivedScheduler:\n    jobPriorityClass: {priority}\n") if priority else ""}

    def framework(self, i):
        """The text of Framework i."""
        r = random.Random(self.seed << 32 | i)
        template = r.choices(self.templates, self.weights)[0]
        values = self.values(i, r)
        born = NEWEST - int(MONTH_S * r.random())
        stretch = r.choice([1, 10, 100, 1000])
        uuids = [f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"
                 for h in (f"{r.getrandbits(128):032x}" for _ in range(template.uuids))]
        out = list(template.pieces)
        for at in range(1, len(out), 3):
            kind, number = out[at], out[at + 1]
            if kind == "TIME":
                out[at] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(born + int(number) * stretch))
            else:
                out[at] = uuids[int(number)] if kind == "UUID" else values[kind]
            out[at + 1] = ""
        return "".join(out)


def main():
    many = Many(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for i in range(int(sys.argv[1])):
        print(many.framework(i))


if __name__ == "__main__":
    main()
