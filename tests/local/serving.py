"""Jobs of this machine by HTTP: logs, links, follow, why a job waits, events; what `serve` refuses."""
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.request

from checking import Found
from cli import cli
from harness import BINARY, PATIENCE, SLOW, USER, Server, command_line, free_port, run, wait_until
from machine import Machine, job, role


def fetch(m, path, headers=None):
    """Status, headers (lower case) and body of a GET, however it is framed."""
    c = http.client.HTTPConnection("127.0.0.1", m.port, timeout=2 * PATIENCE * SLOW)
    try:
        c.request("GET", path, headers=headers or {})
        reply = c.getresponse()
        return reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read().decode("utf-8", "replace")
    finally:
        c.close()


def as_user():
    """Arguments of a Machine that is an ordinary user's, so that bubblewrap works; None: it does not here."""
    if os.getuid() != 0:
        return {}
    program = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    probe = [*program, "bwrap", "--unshare-user", "--ro-bind", "/", "/", "true"]
    if not shutil.which("bwrap") or subprocess.run(probe, capture_output=True, check=False).returncode:
        print("     not tested: bubblewrap does not work here", flush=True)
        return None
    base = tempfile.mkdtemp(prefix="rest-lit-local.")
    os.chown(base, 65534, 65534)
    os.chmod(base, 0o755)
    return {"program": [*program, BINARY], "where": os.path.join(base, "jobs")}


def logs_path(name, task_role="main", index=0, attempt=0, retry=0):
    return (f"/api/v2/jobs/alice~{name}/attempts/{attempt}/taskRoles/{task_role}/taskIndex/{index}"
            f"/attempts/{retry}/logs")


def links(m, *task):
    """The log links of a task, by name."""
    status, _, body = fetch(m, logs_path(*task))
    if status != 200:
        return {}
    return {x["name"]: x["uri"].removeprefix("/rest-server") for x in json.loads(body)["locations"]}


def test_log_links_work_during_and_after_the_task(check):
    """A task has four logs, while it runs and after its end."""
    with Machine() as m:
        m.start("both", {"main": role("echo to the left", "echo to the right >&2", "until [ -e /proc/1/none ]; do sleep 0.1; done")})
        check.ok("it has begun", wait_until(lambda: "right" in m.log("both", "main")))
        for when in ("while it runs", "after its end"):
            if when == "after its end":
                check.equal("stop", m.stop_job("both").status, 202)
                check.equal("state", m.wait("both"), "STOPPED")
            uris = links(m, "both")
            check.equal(f"{when}: names", sorted(uris), ["all", "runtime", "stderr", "stdout"])
            logs = {name: fetch(m, uri) for name, uri in uris.items()}
            check.equal(f"{when}: status", {name: log[0] for name, log in logs.items()}, dict.fromkeys(uris, 200))
            text = {name: log[2] for name, log in logs.items()}
            check.ok(f"{when}: stdout", "left" in text["stdout"] and "right" not in text["stdout"], text)
            check.ok(f"{when}: stderr", "right" in text["stderr"] and "left" not in text["stderr"], text)
            check.ok(f"{when}: all", "left" in text["all"] and "right" in text["all"], text)
            check.ok(f"{when}: runtime", "plugins: 0" in text["runtime"] and "USER COMMAND" not in text["runtime"], text)
        changed = uris["all"].replace("/all?", "/stderr?")
        check.equal("a link is for one log", fetch(m, changed)[0], 403)
        status, headers, body = fetch(m, uris["all"], {"Range": "bytes=0-3"})
        check.equal("a range", (status, len(body), headers.get("content-range", "").split("/")[0]), (206, 4, "bytes 0-3"))
        check.equal("none there", fetch(m, uris["all"], {"Range": "bytes=10000000-"})[0], 416)
        check.equal("no such task", fetch(m, logs_path("both", "main", 1))[0], 404)


def test_log_of_this_machine_has_times(check):
    """While a task runs and after its end each line has its time, in their order; from each offset the rest has them."""
    with Machine() as m:
        m.start("timed", {"main": role("echo one; echo two >&2; printf three; until [ -e /proc/1/none ]; do sleep 0.1; done")})
        check.ok("it has begun", wait_until(lambda: "two" in m.log("timed", "main")))
        for when in ("while it runs", "after its end"):
            if when == "after its end":
                m.stop_job("timed")
                check.equal("state", m.wait("timed"), "STOPPED")
            uri = links(m, "timed")["all"]
            text = fetch(m, uri)[2]
            status, headers, body = fetch(m, uri + "&times=true")
            check.equal(f"{when}: headers", [status, headers.get("x-log-times"), headers.get("x-log-offset"), headers.get("accept-ranges")], [200, "true", "0", "none"])
            lines = [line.partition(" ") for line in body.splitlines(keepends=True)]
            check.equal(f"{when}: text", "".join(line for _, _, line in lines), text)
            times = [time for time, _, _ in lines]
            check.ok(f"{when}: times", times == sorted(times) and all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", time) for time in times), times)
            at = text.index("two") + 1
            status, headers, body = fetch(m, f"{uri}&times=true&from={at}")
            first = text[:at].count("\n")
            check.equal(f"{when}: from an offset", (body, headers.get("x-log-offset")), (f"{times[first]} wo\n" + "".join("".join(line) for line in lines[first + 1:]), str(at)))


def test_host_files_are_mentioned_to_users(check):
    """Without images, the response to a submission and `show` mention that, with the name
    of the image."""
    words = "runs on this machine's files, not in debian:12-slim"
    with Machine() as m:
        at = ("--server", f"http://127.0.0.1:{m.port}")
        all_of_it = {"completion": {"minSucceededInstances": -1}}
        text = job("own", {"main": role("true", **all_of_it), "other": role("true", **all_of_it)})
        reply = m.submit(text)
        check.equal("of each task role", [w["message"] for w in reply.json["warnings"]], [words] * 2)
        check.equal("... with its place", [w["pointer"] for w in reply.json["warnings"]], ["/taskRoles/main", "/taskRoles/other"])
        code, out, err = cli("submit", *at, "-", text=text.replace("own", "two"))
        check.ok("submit", code == 0 and f"warning: /taskRoles/main: {words}\n" in err, (code, err))
        m.wait("own")
        code, out, err = cli("show", *at, "own")
        check.ok("show", code == 0 and f"  image:    main {words}\n  image:    other {words}\n" in out, (code, out, err))
        code, out, err = cli("jobs", *at)
        check.equal("jobs says nothing of it", (code, err), (0, ""))
        check.equal("the machine", m.request("GET", "/api/v2/machine").json["hostFiles"], True)


FORBID = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forbid.py")
# A copy of /proc/sys/kernel for this process, as on machines where AppArmor requires profiles.
APPARMOR = ("cd /proc/sys/kernel && cp overflow?id cap_last_cap /var/tmp/$$ && mount -t tmpfs none /proc/sys/kernel && "
            "cp /var/tmp/$$/* /proc/sys/kernel && rm -r /var/tmp/$$ && echo 1 >/proc/sys/kernel/apparmor_restrict_unprivileged_userns && cd / && exec \"$@\"")


def test_forbidden_namespaces_are_explained(check):
    """The probe names the refused program, which is started like that of a task, and the remedy."""
    lacks = next((p for p in ("skopeo", "umoci", "bwrap") if not shutil.which(p)), None)
    if lacks:
        print(f"     not tested: {lacks} is missing", flush=True)
        return
    with tempfile.TemporaryDirectory() as where:
        def item(name, *before, images="oci"):
            done = subprocess.run([*before, BINARY, "check", "--local", os.path.join(where, "jobs"), "--no-auth", "--user", "alice", "--images", images],
                                  capture_output=True, text=True, check=False)
            return re.search(rf"^\w+ +{name}: .*", done.stdout, re.M).group(0)
        for calls, name, refused in (("unshare", "images", "pai-runtime mount-overlay"), ("clone", "images", "bwrap"), ("clone", "sandbox", "bwrap")):
            said = item(name, "python3", FORBID, calls)
            check.ok(f"{calls}, {name}", f"tasks cannot be isolated: {refused} was refused: \"" in said and "namespaces" in said, said)
        # With another /proc that is not covered, for example of a chroot, the kernel would allow a
        # new one.
        others = "awk '$3 == \"proc\" && $2 != \"/proc\" { print $2 }' /proc/mounts | xargs -r umount -l"
        apparmor = ["unshare", "-m", "sh", "-c", f"{others}; mkdir /var/tmp/$$ && {APPARMOR}", "sh"]
        if subprocess.run([*apparmor, "true"], capture_output=True, check=False).returncode:
            print("     not tested: /proc/sys/kernel cannot be covered", flush=True)
            return
        command = "apparmor_parser -r /etc/apparmor.d/pai-runtime"
        profile = f"profile pai-runtime {os.path.realpath(os.path.join(os.path.dirname(BINARY), 'pai-runtime'))} flags=(unconfined)"
        said = item("sandbox", *apparmor, "python3", FORBID, "clone")
        check.ok("AppArmor", command in said and profile in said and "keep one profile for bwrap" in said, said)
        said = item("sandbox", *apparmor)
        check.ok("AppArmor does not forbid it, but /proc is covered", "allow the container an unmasked /proc" in said and command not in said, said)


def test_log_reports_how_many_bytes_are_missing(check):
    """For a log that is too large, HTTP and `rest-lit logs` report the number of missing bytes."""
    size = 401
    with Machine() as m:
        m.start("large", {"main": role(f"seq -f %0{size - 1}.0f 100000", "while sleep 1; do :; done")})
        check.ok("all is written", wait_until(lambda: "0100000\n" in m.log("large", "main")))
        for when in ("while it runs", "after its end"):
            if when == "after its end":
                m.stop_job("large")
                m.wait("large")
            gone = json.loads(fetch(m, logs_path("large"))[2]).get("dropped", 0)
            body = fetch(m, logs_path("large") + "/all")[2]
            first = int(body.split("\n", 1)[0])
            before = (first - 1) * size
            check.ok(f"{when}: what is gone", first > 1 and 0 <= gone - before < 4096, (gone, before))  # and lines of pai-runtime
            code, out, err = cli("logs", "--server", f"http://127.0.0.1:{m.port}", "large")
            check.ok(f"{when}: all that is kept is printed", code == 0 and out.startswith(f"{first:0400}\n") and f"{100000:0400}\n" in out, (code, out[:1000], err))
            check.ok(f"{when}: and how much is not", f"main[0]: {gone} bytes before the next line are not kept\n" in err, err)
        m.start("small", {"main": role("echo one")})
        m.wait("small")
        check.ok("nothing of a small one", "dropped" not in fetch(m, logs_path("small"))[2])


def test_log_of_each_attempt_is_kept(check):
    """Earlier attempts are counted, and keep their logs and results."""
    with Machine() as m:
        m.start("again", {"main": role("echo attempt $FC_FRAMEWORK_ATTEMPT_ID", "exit $((2 - FC_FRAMEWORK_ATTEMPT_ID))")},
                jobRetryCount=2)
        check.equal("state", m.wait("again"), "SUCCEEDED")
        check.equal("counted", m.status("again")["retryPolicyStatus"]["accountableRetriedCount"], 2)
        for attempt, state in enumerate(("FAILED", "FAILED", "SUCCEEDED")):
            uris = links(m, "again", "main", 0, attempt)
            check.ok(f"attempt {attempt}", f"attempt {attempt}\n" in fetch(m, uris["stdout"])[2], uris)
            shown = m.request("GET", f"/api/v2/jobs/alice~again/attempts/{attempt}").json
            check.equal(f"history: attempt {attempt}", shown["jobStatus"]["attemptState"], state)
        check.equal("no fourth", fetch(m, logs_path("again", "main", 0, 3))[0], 404)


def test_log_that_is_a_link_is_not_followed(check):
    """A log that is a symbolic link is not followed; a deleted log is 404."""
    with Machine() as m:
        m.start("gone", {"main": role("echo here")})
        check.equal("state", m.wait("gone"), "SUCCEEDED")
        check.ok("no pod", wait_until(lambda: not m.pods()))
        uid = m.framework("gone")["metadata"]["uid"]
        log = os.path.join(m.where, "logs", uid, "main-0-0-0", "log")
        check.ok("kept", "here" in fetch(m, logs_path("gone") + "/all")[2])
        os.unlink(log)
        os.symlink("/etc/passwd", log)
        status, _, body = fetch(m, logs_path("gone") + "/all")
        check.ok("no link", status == 404 and "root:" not in body, body)
        os.unlink(log)
        status, _, body = fetch(m, logs_path("gone") + "/all")
        check.ok("lost", status == 404 and "is lost: this server has not deleted it" in body, body)
        with open(os.path.join(m.where, "logs", uid, "deleted"), "w", encoding="ascii"):
            pass
        status, _, body = fetch(m, logs_path("gone") + "/all")
        check.ok("deleted", status == 404 and "--keep-logs" in body, body)


def test_waiting_reason_names_the_missing_cpu(check):
    """The reason of a job that waits for a CPU is in lists, in details and on the command line;
    then the job runs."""
    with Machine("--cpus", "1") as m:
        m.start("first", {"main": role("exec sleep 1000")})
        check.equal("runs", m.wait("first", "RUNNING"), "RUNNING")
        m.start("second", {"main": role("true")})
        def reason():
            return m.request("GET", "/api/v2/jobs/alice~second").json["jobStatus"].get("waitingReason") or {}
        check.ok("in full", wait_until(lambda: reason().get("kind") == "machine"), reason())
        why = reason()
        check.ok("a sentence", why.get("reason") == "Waiting" and "CPU" in why.get("message", ""), why)
        rows = {row["name"]: row.get("waitingReason") for row in m.request("GET", "/api/v2/jobs").json}
        check.ok("in lists", rows["first"] is None and (rows["second"] or {}).get("kind") == "machine", rows)
        server = ("--server", f"http://127.0.0.1:{m.port}")
        check.ok("jobs", "CPU" in run("jobs", *server).stdout.decode(), run("jobs", *server))
        check.ok("show", "CPU" in run("show", *server, "second").stdout.decode(), run("show", *server, "second"))
        waiter = subprocess.Popen(command_line([BINARY], ["wait", *server, "second"]), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        check.ok("deleted", m.request("DELETE", "/api/v1/user/alice/jobs/first").status in (200, 202))
        out, err = waiter.communicate(timeout=2 * PATIENCE * SLOW)
        check.equal("then it runs", (waiter.returncode, m.state("second")), (0, "SUCCEEDED"))
        check.ok("wait says so", b"CPU" in err + out or b"SUCCEEDED" in err + out, (out, err))


def test_engine_none_only_keeps_jobs(check):
    """Jobs are only stored, which responses and the log mention; the next server runs them."""
    where = os.path.join(tempfile.mkdtemp(prefix="rest-lit-local."), "jobs")
    with Server("--local", where, "--engine", "none") as s:
        check.equal("submitted", s.submit(job("kept", {"main": role("true")})).status, 202)
        why = s.request("GET", "/api/v2/jobs/alice~kept").json["jobStatus"]["waitingReason"]
        check.ok("waitingReason", why["kind"] == "controller" and "--engine=none" in why["message"], why)
        check.ok("in the log", s.logged("nothing runs them"), s.log())
        check.equal("no logs", s.request("GET", logs_path("kept")).status, 404)
        done = run("wait", "--server", f"http://127.0.0.1:{s.port}", "--timeout", "3", "kept")
        check.ok("wait", b"nothing runs them" in done.stderr + done.stdout, done)
    with Machine(where=where) as m:
        check.equal("runs", m.wait("kept"), "SUCCEEDED")


def test_sandbox_is_needed_for_several_users(check):
    """Without bubblewrap, or as root, several users cannot share a machine, but one user can use
    it. For root, the refusal contains a command, which the test runs without the parts that change
    this machine."""
    base = tempfile.mkdtemp(prefix="rest-lit-local.")
    secret = os.path.join(base, "secret")
    with open(secret, "w", encoding="ascii") as f:
        f.write(os.urandom(30).hex())
    os.symlink(shutil.which("env"), os.path.join(base, "env"))
    empty = {**os.environ, "PATH": base}
    arguments = ["serve", "--listen", f"127.0.0.1:{free_port()}", "--local", os.path.join(base, "it's jobs"), "--images", "host",
                 "--jwt-secret-file", secret]

    def refusal(environment, *program):
        done = subprocess.run(command_line([*program, BINARY], arguments), capture_output=True, text=True, timeout=PATIENCE * SLOW,
                              env=environment, check=False)
        check.ok("refused", done.returncode > 0, done)
        return done.stderr

    if os.getuid() == 0:
        pasted = refusal(None).splitlines()[-1].removeprefix("rest-lit: ")
        says = "\n".join(f'{name}() {{ printf "<%s>" {name} "$@"; echo; }}' for name in ("id", "chown", "setpriv"))
        done = subprocess.run(["sh", "-c", f"{says}\n{pasted}"], capture_output=True, text=True, check=False)
        check.equal("as root: a command", done.stdout.splitlines(), [
            "<id><rest-lit>", f"<chown><-R><rest-lit:><{arguments[4]}><{secret}>", "<setpriv><--reuid><rest-lit><--regid>"
            "<rest-lit><--init-groups>" + "".join(f"<{a}>" for a in command_line([BINARY], arguments))])
        subprocess.run(["chown", "-R", "65534:65534", base], check=True)
    setpriv = shutil.which("setpriv")
    program = [setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.getuid() == 0 else []
    check.ok("without bubblewrap: its name", "bubblewrap" in refusal(empty, *program))
    with Machine(environment=empty) as m:
        check.ok("--no-auth: a warning", m.logged("sandbox"), m.log())
        m.start("plain", {"main": role("echo runs")})
        check.equal("... and jobs run", m.wait("plain"), "SUCCEEDED")


def test_several_users_see_only_permitted_logs(check):
    """Users with tokens share the machine; only users with access to a job can read its logs."""
    mine = as_user()
    if mine is None:
        return
    base = os.path.dirname(mine.get("where") or tempfile.mkdtemp(prefix="rest-lit-local."))
    secret = os.path.join(base, "secret")
    with open(secret, "w", encoding="ascii") as f:
        f.write(os.urandom(30).hex())
    if os.getuid() == 0:
        os.chown(secret, 65534, 65534)
    os.chmod(secret, 0o600)
    auth = {}
    for user in ("alice", "bob"):
        token = run("token", "--jwt-secret-file", secret, "--user", user).stdout.decode().strip()
        auth[user] = {"Authorization": f"Bearer {token}"}
    with Machine("--visibility", "owner", who=["--jwt-secret-file", secret], **mine) as m:
        for user in auth:
            reply = m.submit(job("mine", {"main": role(f"echo I am {user}; exec sleep 1000")}), auth[user])
            check.equal(f"{user} submits", reply.status, 202)
        def log(user):
            path = logs_path("mine").replace("alice", user) + "/stdout"
            return fetch(m, path, auth[user])
        for user in auth:
            check.ok(f"{user}'s log", wait_until(lambda u=user: f"I am {u}\n" in log(u)[2]), log(user))
        other = fetch(m, logs_path("mine") + "/stdout", auth["bob"])
        check.ok("not another's", other[0] in (403, 404) and "I am" not in other[2], other)
        for user in auth:
            m.request("DELETE", f"/api/v1/user/{user}/jobs/mine", headers=auth[user])
        check.ok("all is stopped", wait_until(lambda: not m.pods()), m.pods())


def test_events_and_logs_continue_after_a_restart(check):
    """The events of a job, and a log that continues after a restart of the server."""
    with Machine() as m:
        m.start("long", {"main": role("for i in 1 2 3 4 5 6; do echo line $i; sleep 0.5; done")})
        check.ok("it has begun", wait_until(lambda: "line 1" in m.log("long", "main")))
        def told():
            return {e["reason"] for e in m.request("GET", "/api/v2/jobs/alice~long/events").json["data"]}
        check.ok("events", wait_until(lambda: {"Scheduled", "Started"} <= told()), told())
        check.equal("stopped", m.stop(), 0)
        again = m.again()
        check.ok("all jobs are known", again.ready())
        check.equal("state", again.wait("long"), "SUCCEEDED")
        text = fetch(again, logs_path("long") + "/stdout")[2]
        check.equal("every line once", [x for x in text.splitlines() if x.startswith("line")],
                    [f"line {i}" for i in range(1, 7)])
        again.remove()


def test_time_limits_stop_jobs_with_a_reason(check):
    """A job is stopped at its limit, also by a server that was started meanwhile; details contain
    the reason."""
    with Machine("--max-duration", "6") as m:
        main = {"main": role("exec sleep 1000")}
        m.start("short", main, extras={"maxDurationSec": 1})
        reply = m.submit(job("longer", main, extras={"maxDurationSec": 7}))
        check.ok("more is refused", reply.status == 400 and "at most 6, the limit for all jobs" in reply.message, reply)
        check.equal("the limit of the job", m.wait("short"), "STOPPED")
        status = m.request("GET", f"/api/v2/jobs/{USER}~short").json["jobStatus"]
        check.ok("why", "after 1 seconds, its time limit" in status.get("stopReason", ""), status)
        check.ok("as OpenPAI's clients see it", status["appExitDiagnostics"] == status["stopReason"]
                 and status["appExitCode"] == -210, status)
        m.start("long", main)  # only now: it runs for a few seconds
        check.equal("the other one runs", m.wait("long", "RUNNING"), "RUNNING")
        check.equal("stopped", m.stop(), 0)
        again = m.again()
        check.equal("over a restart", again.wait("long"), "STOPPED")
        times = again.request("GET", f"/api/v2/jobs/{USER}~long").json["jobStatus"]
        check.ok("not earlier", times["completedTime"] - times["launchedTime"] >= 5000, times)
        again.remove()


def test_quotas_and_storages_of_the_facts_apply(check):
    """`capacity` is a quota; `path` is the directory of a storage."""
    mine = as_user()
    if mine is None:
        return
    base = tempfile.mkdtemp(prefix="rest-lit-local.")
    os.chmod(base, 0o755)
    data = os.path.join(base, "data")
    os.mkdir(data)
    with open(os.path.join(data, "greeting"), "w", encoding="ascii") as f:
        f.write("from the storage\n")
    facts = os.path.join(base, "facts.yaml")
    with open(facts, "w", encoding="ascii") as f:
        f.write(f"capacity: {{default: {{cpu: 1}}}}\nstorages:\n- {{name: data, path: {data}}}\n- {{name: claim}}\n")
    with Machine("--cpus", "4", "--facts", facts, **mine) as m:
        storage = {"extras": {"com.microsoft.pai.runtimeplugin": [
            {"plugin": "teamwise_storage", "parameters": {"storageConfigNames": ["data"]}}]}}
        m.start("reads", {"main": role("cat /mnt/data/greeting")}, **storage)
        check.equal("state", m.wait("reads"), "SUCCEEDED")
        check.ok("the file", "from the storage" in m.log("reads", "main"), m.log("reads", "main"))
        m.start("first", {"main": role("exec sleep 1000")})
        check.equal("runs", m.wait("first", "RUNNING"), "RUNNING")
        m.start("second", {"main": role("true")})
        check.ok("over the quota", wait_until(lambda: "default" in m.waiting_reason("second")), m.waiting_reason("second"))
        reply = m.submit(job("third", {"main": role("true", cpu=2)}))
        check.ok("more than the quota", reply.status == 400 and reply.json["code"] == "InvalidProtocolError" and
                 "asks for 2 CPUs for a task; the quota of virtual cluster default is 1" in reply.json["message"], reply)


def test_check_reports_the_state_of_the_machine(check):
    """`rest-lit check` with the options of a server, with and without a running server."""
    base = as_user()
    if base is None:
        return
    program = base.get("program", [BINARY])

    def look(*arguments):
        return Found(subprocess.run([*program, "check", *arguments], capture_output=True, check=False))
    alice = ("--no-auth", "--user", "alice", "--images", "host")
    with Machine(gpus=2, **base) as m:
        found = look("--local", m.where, "--gpu-devices", m.pattern, "--cpus", "64", *alice)
        check.equal("beside a server", ([line[:2] for line in found.lines if line[0] != "ok"], found.code), ([], 0))
        check.equal("the items", [line[1] for line in found.lines], [
            "options", "templates", "users", "directory", "database", "runtime", "resources", "sandbox", "images"])
        check.ok("free space", "is writable; " in found.of("directory")[0][2], found.text)
        check.ok("GPUs", "64.0 CPUs" in found.text and f"2 GPUs: {m.gpu_files[0]}, {m.gpu_files[1]}" in found.text, found.text)
        check.ok("user namespaces", "can make user namespaces" in found.of("sandbox")[0][2], found.text)
        check.ok("the server works", m.request("GET", "/readyz").status == 200)
        new = os.path.join(os.path.dirname(m.where), "new")
        found = look("--local", new, *alice)
        check.ok("a directory that serve creates", found.of("directory")[0][0] == "ok" and "creates it" in found.text, found.text)
        check.ok("is not created", not os.path.exists(new))
        for what, arguments, item, words in (
                ("no such directory", ("--local", "/nowhere/jobs"), "directory", "No such file"),
                ("a file", ("--local", BINARY), "directory", "Not a directory"),
                ("two runtimes", ("--local", m.where, "--runtime-binary", "a,b"), "runtime", "name one"),
                ("no such runtime", ("--local", m.where, "--runtime-binary", "/nowhere/r"), "runtime", "/nowhere/r: No such file"),
                ("a file that cannot be executed", ("--local", m.where, "--runtime-binary", __file__), "runtime", "Permission denied"),
                ("more GPUs than there are", ("--local", m.where, "--gpus", "7", "--gpu-devices", m.pattern), "resources", "only 2 GPUs"),
                ("no bubblewrap", ("--local", m.where), "sandbox", "")):
            if what == "no bubblewrap":
                program = [*program[:-1], "env", "PATH=/nowhere", BINARY]
            found = look(*arguments, *alice)
            states = {line[1]: line[0] for line in found.lines}
            wanted = "warning" if what == "no bubblewrap" else "failed"
            check.ok(what, states[item] == wanted and words in found.text and found.code == (wanted == "failed"), found.text)


def test_metrics_count_tasks_and_gpus(check):
    """/metrics contains tasks and GPUs of this machine."""
    port = free_port()

    def samples():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE * SLOW) as reply:
            return dict(re.findall(r'^rest_lit_local_(\w+{state="\w+"}) (\d+)$', reply.read().decode(), re.M))

    def is_now(what, *numbers):
        wanted = dict(zip(('tasks{state="waiting"}', 'tasks{state="running"}', 'gpus{state="held"}',
                           'gpus{state="foreign"}', 'gpus{state="free"}'), map(str, numbers)))
        check.ok(what, wait_until(lambda: samples() == wanted), samples())
    with Machine("--metrics-listen", f"127.0.0.1:{port}", gpus=3) as m:
        is_now("nothing runs", 0, 0, 0, 0, 3)
        m.start("first", {"main": role("sleep 600", gpu=2)})
        is_now("the first runs", 0, 1, 2, 0, 1)
        m.start("second", {"main": role("sleep 600", gpu=1, instances=2)})
        is_now("the second waits for both of its tasks", 2, 1, 2, 0, 1)
        m.stop_job("first")
        is_now("now they run", 0, 2, 2, 0, 1)


def test_runtime_of_another_version_is_refused(check):
    """`serve` and `run` start with the pai-runtime of the same release beside them, and with no other."""
    version = subprocess.run([BINARY, "version"], capture_output=True, text=True, check=True).stdout.split()[1]
    with tempfile.TemporaryDirectory() as d:
        shutil.copy(BINARY, d)
        with open(os.path.join(os.path.dirname(BINARY), "pai-runtime"), "rb") as f:
            program = f.read()
        for other in "9" * len(version), version:
            with open(f"{d}/pai-runtime", "wb") as f:
                f.write(program.replace(f"pai-runtime {version}, ".encode(), f"pai-runtime {other}, ".encode()))
            os.chmod(f.name, 0o755)
            serve = ["serve", "--no-auth", "--user", "alice", "--local", f"{d}/jobs", "--listen", "127.0.0.1:0"]
            for command in [["run", "--", "true"], *([serve] if other != version else [])]:
                done = subprocess.run([f"{d}/rest-lit", *command], capture_output=True, text=True, cwd=d, timeout=PATIENCE * SLOW, check=False)
                refusal = f"pai-runtime has version {other}, and this program has version {version}"
                check.equal(f"{command[0]}, {other}: {done.stderr}", (done.returncode != 0, refusal in done.stderr),
                            (other != version, other != version))
