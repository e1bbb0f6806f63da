"""The traces t1.txt to t5.txt of the real Kueue 0.19.2, asked of the stand-in: the same answers, and the same states
afterwards.  Left out: v1beta1, Events, rights, the integrations of pods and Jobs, and what the manager needs."""
import json
import os
import re
import time

from harness import wait_until
from kueue.kueue import WORKLOADS, Kueue, is_true, shown

HERE = os.path.dirname(os.path.abspath(__file__))
STALE = re.compile(r"(1|5c|5e)\. ")  # where the ClusterQueue's own count was late
LEFT_OUT = re.compile(r"### (0|13|13'|14|18|22|22b|23)\. ")
CONTAINER = {"name": "c", "image": "x"}


def body_of(name, sets=1, cpu="1", **spec):
    part = {"template": {"spec": {"restartPolicy": "Never", "containers": [
        {**CONTAINER, "resources": {"requests": {"cpu": cpu}}}]}}, "count": 1}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": name, "namespace": "default"},
            "spec": {"queueName": "lq", "priority": 0, "podSets": [{"name": f"role{i}", **part} for i in range(1, sets + 1)],
                     **spec}}


# Requests of which the traces show the answer only, or the begin.
HIDDEN = {
    **{f"ps{n}": body_of(f"ps{n}", n, "100m") for n in (8, 9, 18, 19)}, "many": body_of("many", 18, "100m"),
    "pc": body_of("pc", 1, priority=5, priorityClassRef={"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass",
                                                         "name": "prod"}),
    "met": body_of("met", 1, maximumExecutionTimeSeconds=3), "sp2": body_of("sp2"),
    "fin": body_of("fin", 1, "4"), "gate": body_of("gate")}
HIDDEN["fin"]["metadata"]["finalizers"] = ["kueue.x-k8s.io/resource-in-use"]
HIDDEN["gate"]["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.test/attempt"}


def plain(text):
    """Without what differs each time."""
    text = re.sub(r"UID: [0-9a-f-]{36}", "UID: U", text)
    return re.sub(r"\[\d+\]", "", text)


class Replay:
    def __init__(self, check, scene, kueue):
        self.check, self.scene, self.kueue, self.title = check, scene, kueue, ""

    def workload(self, name):
        return self.kueue.workload(name)

    def ask(self, method, path, kind, text, code, says):
        name = path.partition("?")[0].removesuffix("/status").rpartition("/")[2]
        try:
            body = json.loads(text) if text else None
        except ValueError:
            body = HIDDEN[re.search(r'"name":"(\w+)"', text)[1]]
        if isinstance(body, dict) and "resourceVersion" in body.get("metadata", {}):
            body["metadata"]["resourceVersion"] = self.workload(name)["metadata"]["resourceVersion"]
        if isinstance(body, dict):
            body.get("metadata", {}).pop("ownerReferences", None)
        self.expect(method, path, self.scene.api(method, path, body, kind), code, says)
        if path == WORKLOADS and code == 201:
            self.seen(body["metadata"]["name"])

    def seen(self, name):
        """The stand-in has looked at it."""
        wait_until(lambda: (self.workload(name) or {}).get("status", {}).get("conditions"), 10)

    def expect(self, method, path, reply, code, says):
        what = f"{self.title}: {method} {path.removeprefix(WORKLOADS)}"
        self.check.ok(f"{what}: {code}", reply[0] == code, reply)
        wanted = re.search(r'"message":"((?:[^"\\]|\\.)*)"', says)
        if code >= 400 and wanted and method != "GET":
            # Of the API server's own sentences, which differ by its version, the field.
            said = (reply[1] or {}).get("message", "")
            field = re.search(r"(?:spec|status)\.[\w.\[\]]+|conflict|quota reserved|priority|webhook", wanted[1])
            self.check.ok(f"{what}: says why", not field or plain(field[0]) in plain(said), (said, wanted[1]))

    def awaited(self, name, jq, never):
        """Of jq's conditions those that the traces have."""
        def holds():
            w = self.workload(name)
            if w is None:
                return False
            if jq.startswith(".spec.active"):
                return w["spec"]["active"] is False
            kind = re.search(r'\.type=="(\w+)" and', jq)
            return all(is_true(w, k) for k in ([kind[1]] if kind else ["Admitted", "QuotaReserved"]))
        if never:
            time.sleep(1)
            self.check.ok(f"{self.title}: {name}: not {jq}", not holds())
        else:
            self.check.ok(f"{self.title}: {name}: {jq}", wait_until(holds, 30), self.workload(name))

    def state(self, head, rows):
        name, active, priority, admission, requeue = re.match(
            r"= (\w+): active=(\w+) priority=(\d+) admission=(\w+) requeueState=(.*)", head).groups()
        wanted = (active == "true", int(priority), admission != "none", requeue != "null", [plain(r) for r in rows])

        def now():
            w = self.workload(name) or {"spec": {}}
            status = w.get("status", {})
            seen = sorted((plain(f"{c['type']}={c['status']} {c['reason']}: {c['message']}")
                           for c in status.get("conditions", []) if c["type"] != "Requeued"),
                          key=lambda r: [plain(x) for x in rows].index(r) if r in [plain(x) for x in rows] else 99)
            return (w["spec"].get("active"), w["spec"].get("priority"), bool(status.get("admission")),
                    bool(status.get("requeueState")), seen)
        wait_until(lambda: now() == wanted, 15)
        self.check.equal(f"{self.title}: {name}", now(), wanted)

    def play(self, lines):
        skips, i = False, 0
        while i < len(lines):
            line = lines[i]
            i += 1
            if line.startswith("### "):
                self.title, skips = line[4:].split(":")[0], bool(LEFT_OUT.match(line))
                if line.startswith("### 16."):
                    self.kueue.ready_s, self.kueue.recovery_s, self.kueue.backoff_s = 8, 4, 300
                    self.kueue.back()
            elif skips:
                continue
            elif line.startswith("> "):
                method, path, kind = re.match(r"> (\w+) (\S+)(?:  \((.*)\))?", line).groups()
                text = ""
                if i < len(lines) and lines[i].startswith("> ") and not re.match(r"> [A-Z]+ /", lines[i]):
                    text = lines[i][2:]
                    i += 1
                code, says = re.match(r"< (\d+) ?(.*)", lines[i]).groups()
                i += 1
                if '"name":"down"' in text and not self.kueue.paused.is_set():
                    self.kueue.away()
                if "/api/v1/" in path or "v1beta1" in path:
                    continue
                if path.endswith("/workloads") and method == "POST" and "null" in text[:120]:
                    continue
                self.ask(method, path, kind or "application/json", text, int(code), says)
            elif re.match(r'< \d+ \{"(?:kind":"Workload",)?"?name":"', line):
                code, name = re.match(r'< (\d+) .*?"name":"(\w+)"', line).groups()
                if name in HIDDEN:
                    self.expect("POST", name, self.scene.api("POST", WORKLOADS, HIDDEN[name]), int(code), line)
                    self.seen(name)
            elif m := re.match(r"= \((\w+): (NOT )?(.*?)(?:\|length>0|\|length==2)? (?:after|within) \d+ m?s\)", line):
                self.awaited(m[1], m[3], bool(m[2]))
            elif re.match(r"= \w+: active=", line):
                rows = []
                while i < len(lines) and lines[i].startswith("     "):
                    rows.append(lines[i].strip())
                    i += 1
                self.state(line, rows)
            elif (m := re.match(r"= ClusterQueue cq: .* usage=cpu (\w+)", line)) and not STALE.match(self.title):
                self.check.ok(f"{self.title}: usage {m[1]}", wait_until(lambda n=m[1]: shown(self.kueue.used()) == n, 10),
                              shown(self.kueue.used()))


def test_stand_in_answers_as_kueue(check, scene):
    """Each recorded request has the recorded answer, and the recorded state follows."""
    with Kueue(scene) as kueue:
        kueue.queue(4)
        for number in range(1, 6):
            with open(os.path.join(HERE, f"t{number}.txt"), encoding="utf-8") as f:
                lines = f.read().splitlines()
            Replay(check, scene, kueue).play(lines)
            kueue.clear()
        check.equal("the stand-in had no trouble", kueue.trouble, [])
