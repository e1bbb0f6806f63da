"""Reference implementation of GET of one job, written from the REST contract and compared with the
server's response field by field.  Its input is a Framework as a dict."""
import base64
import datetime
import functools
import gzip
import json
import re
from urllib.parse import quote

STOPPED = (-210, -220)
WAITING = ("AttemptCreationPending", "AttemptCreationRequested", "AttemptPreparing")
ENDING = ("AttemptDeletionPending", "AttemptDeletionRequested", "AttemptDeleting",
          "AttemptCompleted")
# Members that other tests have: in tests/unit/server/jobs, test_first_failure.c and test_job_detail.c; in
# details.py, test_details_report_that_no_controller_handles_the_job.
ELSEWHERE = {"firstFailure", "containerPorts", "waitingReason"}


def state_of(state, code, attempt=False, v1=False):
    """Tables 1 and 2."""
    if attempt and state == "AttemptCompleted":
        state = "Completed"
    if state in WAITING:
        return "WAITING"
    if state == "AttemptRunning":
        return "RUNNING"
    if state in ENDING:
        return "STOPPING" if code in STOPPED and not v1 else "RUNNING"
    if state == "Completed":
        return "SUCCEEDED" if code == 0 else "STOPPED" if code in STOPPED else "FAILED"
    return "UNKNOWN"


@functools.cache
def ms(text):
    if not text:
        return None
    at = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    return int(at.replace(tzinfo=datetime.timezone.utc).timestamp()) * 1000


def exit_spec(specs, code, final):
    if code is None:
        return None
    entry = specs.get(code) or {**specs[256 if code > 0 else -8000], "code": code}
    if final and "solution" in entry:
        return {**entry, "solution": [s for s in entry["solution"] if s != "Wait for the next attempt"]}
    return entry


class Detail:
    """specs: {code: entry}.  attempt: an earlier attemptStatus."""

    def __init__(self, framework, specs, attempt=None, v1=False):
        self.f, self.specs, self.v1 = framework, specs, v1
        self.meta, self.spec = framework["metadata"], framework["spec"]
        self.annotations = self.meta.get("annotations") or {}
        self.labels = self.meta.get("labels") or {}
        self.status = framework.get("status") or {}
        self.state = self.status.get("state", "AttemptCreationPending")
        self.latest = self.status.get("attemptStatus") or {}
        self.attempt = attempt or self.latest
        self.earlier = attempt is not None
        self.final = self.earlier or self.state == "Completed"
        self.completion = self.attempt.get("completionStatus") or {}
        self.name = self.annotations.get("jobName", self.meta["name"])
        self.user = self.labels.get("userName") or self.maker() or "unknown"
        md5 = re.fullmatch("[0-9a-f]{32}", self.meta["name"]) and "jobName" in self.annotations
        self.id = f"{self.user}~{self.name}" if md5 else self.meta["name"]

    def maker(self):
        """The user from the environment, where the first rest-lit stored it."""
        roles = self.spec.get("taskRoles") or [{}]
        containers = roles[0].get("task", {}).get("pod", {}).get("spec", {}).get("containers") or [{}]
        return next((v.get("value") for v in containers[0].get("env") or [] if v["name"] == "PAI_USER_NAME"), None)

    def job_status(self):
        latest_code = (self.latest.get("completionStatus") or {}).get("code")
        retry = self.status.get("retryPolicyStatus") or {}
        total, counted = retry.get("totalRetriedCount", 0), retry.get("accountableRetriedCount", 0)
        created = ms(self.meta["creationTimestamp"])
        return {
            "username": self.user, "state": state_of(self.state, latest_code, v1=self.v1),
            "subState": self.state, "executionType": self.spec["executionType"].upper(),
            "retries": total, "retryDelayTime": retry.get("retryDelaySec"),
            "retryDetails": {"user": counted, "platform": total - counted, "resource": 0},
            "submissionTime": created, "createdTime": created,
            "launchedTime": ms(self.status.get("runTime")) or ms(self.status.get("completionTime")),
            "completedTime": ms(self.status.get("completionTime")),
            "virtualCluster": self.labels.get("virtualCluster", "unknown"),
            **self.attempt_status()}

    def attempt_status(self):
        a, c = self.attempt, self.completion
        code, trigger = c.get("code"), c.get("trigger") or {}
        there = {"attemptId": a["id"], "appId": a.get("instanceUID")} if a else {}
        summary, runtime = self.diagnostics(c.get("diagnostics"))
        return {
            **there,
            "attemptState": state_of("AttemptCompleted" if self.earlier else self.state, code, True, self.v1),
            "appProgress": 1 if c else 0, "appTrackingUrl": "",
            "appCreatedTime": ms(a.get("startTime")),
            "appLaunchedTime": ms(a.get("runTime")) or ms(a.get("completionTime")),
            "appCompletedTime": ms(a.get("completionTime")),
            "appExitCode": code, "appExitType": (c.get("type") or {}).get("name"),
            "appExitSpec": exit_spec(self.specs, code, self.final),
            "appExitTriggerMessage": trigger.get("message"),
            "appExitTriggerTaskRoleName": trigger.get("taskRoleName"),
            "appExitTriggerTaskIndex": trigger.get("taskIndex"),
            "appExitDiagnostics": summary,
            "appExitMessages": None if summary is None else {
                "container": None, "runtime": runtime, "launcher": None if runtime else summary}}

    @staticmethod
    def diagnostics(text):
        """(text before the YAML, True if there is a report of the runtime)"""
        if not text:
            return None, None
        match = re.search("matched: (.*)", text)
        try:
            pod = json.loads(match.group(1)) if match else None
        except ValueError:
            pod = None
        if pod is None:
            return text, None
        report = any(c.get("code", 0) > 0 and "[PAI_RUNTIME_ERROR_START]" in c.get("message", "")
                     for c in pod.get("containers", []))
        return text[:match.start() + len("matched:")] + "\n", report or None

    def task_roles(self):
        roles = self.attempt.get("taskRoleStatuses")
        if roles is None and self.attempt.get("taskRoleStatusesCompressed"):
            roles = json.loads(gzip.decompress(
                base64.b64decode(self.attempt["taskRoleStatusesCompressed"])))
        return roles or []

    def roles(self):
        return {role["name"]: {"taskRoleStatus": {"name": role["name"], **self.gpus(role["name"])},
                               "taskStatuses": [self.task(role, t) for t in role["taskStatuses"]]}
                for role in self.task_roles()}

    def gpus(self, role):
        """Additions to OpenPAI's answer."""
        pod = next((r["task"]["pod"]["spec"] for r in self.spec["taskRoles"] if r["name"] == role), {"containers": []})
        n = sum(int(c.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0)) for c in pod["containers"])
        grace = pod.get("terminationGracePeriodSeconds")
        return {**({"gpuNumber": n} if n else {}), **({} if grace is None else {"gracePeriodSeconds": grace})}

    def task(self, role, t):
        retry = t["retryPolicyStatus"]
        return {
            "taskIndex": t["index"], "taskUid": t["instanceUID"],
            "taskState": state_of(t["state"], self.code(t), v1=self.v1),
            "retries": retry["totalRetriedCount"],
            "accountableRetries": retry["accountableRetriedCount"],
            "createdTime": ms(t["startTime"]),
            "launchedTime": ms(t["runTime"]) or ms(t["completionTime"]),
            "completedTime": ms(t["completionTime"]), **self.task_attempt(role, t)}

    @staticmethod
    def code(t):
        return (t["attemptStatus"].get("completionStatus") or {}).get("code")

    def task_attempt(self, role, t):
        a, code = t["attemptStatus"], self.code(t)
        pod = next((r["task"]["pod"] for r in self.spec["taskRoles"] if r["name"] == role["name"]), {})
        host = pod.get("spec", {}).get("hostNetwork")
        summary, _ = self.diagnostics((a.get("completionStatus") or {}).get("diagnostics"))
        log = (f"/api/v2/jobs/{quote(self.id, safe='~')}/attempts/{self.attempt['id']}/taskRoles/"
               f"{role['name']}/taskIndex/{t['index']}/attempts/{a['id']}/logs")
        return {
            "attemptId": a["id"], "attemptState": state_of(t["state"], code, True, self.v1),
            "currentAttemptCreatedTime": ms(a["startTime"]),
            "currentAttemptLaunchedTime": ms(a["runTime"]) or ms(a["completionTime"]),
            "currentAttemptCompletedTime": ms(a["completionTime"]),
            "containerId": a["podUID"], "containerIp": a["podHostIP" if host else "podIP"] or None,
            "containerNodeName": a["podNodeName"],
            **({"deletionDue": ms(t["transitionTime"]) + 1000 * pod.get("spec", {}).get("terminationGracePeriodSeconds", 30)}
               if t["state"] == "AttemptDeleting" else {}),
            "containerGpus": None, "containerLog": log, "containerExitCode": code,
            "containerExitSpec": exit_spec(self.specs, code, self.final), "containerExitDiagnostics": summary}

    def whole(self):
        return {"debugId": self.meta["name"], "name": self.name, "jobStatus": self.job_status(),
                "tags": json.loads(self.annotations.get("rest-lit/tags", "[]")),
                "taskRoles": self.roles()}

    def one_task(self, role, index):
        """.../taskIndex/INDEX/attempts"""
        task = next(t for t in self.roles()[role]["taskStatuses"] if t["taskIndex"] == index)
        ours = ("taskIndex", "taskUid", "taskState", "retries", "accountableRetries",
                "createdTime", "launchedTime", "completedTime")
        return {"username": self.user, "jobName": self.name, "jobAttemptId": self.attempt["id"],
                "taskRoleName": role, **{k: task[k] for k in ours},
                "attempts": [{k: v for k, v in task.items() if k not in ours}]}

    def job_attempt(self, latest):
        """One entry of job-attempts."""
        s, c = self.attempt_status(), self.completion
        code, summary, messages = c.get("code"), s["appExitDiagnostics"], s["appExitMessages"]
        latest_code = (self.latest.get("completionStatus") or {}).get("code")
        tasks = [r["taskNumber"] for r in self.spec["taskRoles"]]
        gpus = self.annotations.get("totalGpuNumber")
        return {
            "jobName": self.name, "frameworkName": self.meta["name"], "uid": self.meta["uid"],
            "userName": self.user, "attemptIndex": self.attempt.get("id"),
            "state": s["attemptState"] if self.earlier else state_of(self.state, latest_code, v1=self.v1),
            "originState": "AttemptCompleted" if self.earlier else self.state,
            "jobStartedTime": ms(self.meta["creationTimestamp"]),
            "attemptStartedTime": s["appCreatedTime"], "attemptCompletedTime": s["appCompletedTime"],
            "exitCode": code, "exitPhrase": c.get("phrase"), "exitType": s["appExitType"],
            "exitDiagnostics": None if summary is None else {
                "diagnosticsSummary": summary, "runtime": messages["runtime"],
                "launcher": messages["launcher"]},
            **{k: v for k, v in s.items() if k.startswith("appExit") and k not in ("appExitCode", "appExitType")},
            "totalGpuNumber": int(gpus) if gpus else 0, "totalTaskNumber": sum(tasks),
            "totalTaskRoleNumber": len(tasks), "taskRoles": self.roles(), "isLatest": latest}


DIAGNOSTICS = ("appExitDiagnostics", "containerExitDiagnostics", "diagnosticsSummary", "launcher")


def differences(want, got, at=""):
    """The differences, as texts.  For diagnostics, only the beginning is compared; for the report
    of the runtime, only its presence."""
    key = at.rsplit("/", 1)[-1]
    if isinstance(want, dict) and isinstance(got, dict):
        for k in sorted(set(want) | set(got)):
            if k in ELSEWHERE:
                continue
            if k not in want or k not in got:
                yield f"{at}/{k}: {'too much' if k not in want else 'missing'}"
            else:
                yield from differences(want[k], got[k], f"{at}/{k}")
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for i, (a, b) in enumerate(zip(want, got)):
            yield from differences(a, b, f"{at}/{i}")
    elif key in DIAGNOSTICS and isinstance(want, str) and want.endswith("\n"):
        if not isinstance(got, str) or not got.startswith(want) or got[len(want):len(want) + 1] in ("", "{"):
            yield f"{at}: {got!r}, which does not begin with {want!r}"
    elif key == "runtime" and want:
        if not isinstance(got, dict) or not got.get("name"):
            yield f"{at}: {got!r}, and no report"
    elif type(want) is not type(got) or want != got:
        yield f"{at}: {got!r}, not {want!r}"
