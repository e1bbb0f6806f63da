"""Results of jobs (extras.results): a directory that outlives tasks, retries, kills of the server and
losses of its database.  TEST_WHOLE=1: 300 jobs and 20 kills; else fewer."""
import contextlib
import glob
import os
import random
import signal
import subprocess
import tempfile

from archives import archive
from cli import cli
from commands import Here, boxed
from damage import settle
from harness import USER, wait_until
from job_code import put
from machine import Machine, job, role
from serving import as_user

WHOLE = os.environ.get("TEST_WHOLE") == "1"
JOBS, KILLS = (300, 20) if WHOLE else (16, 4)
RESULTS = {"extras": {"results": True}}
TRY = "$FC_FRAMEWORK_ATTEMPT_ID"


def place(m, name):
    return os.path.join(m.where, "results", m.framework(name)["metadata"]["uid"])


def files(where):
    """The contents of files, by path."""
    found = {}
    for path in glob.glob(os.path.join(where, "**"), recursive=True):
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as f:
                found[os.path.relpath(path, where)] = f.read()
    return found


def said(m, name):
    """The lines of the command in its log."""
    return [line for line in m.log(name, "main").splitlines() if "[openpai-runtime]" not in line]


def names(m):
    return set(os.listdir(os.path.join(m.where, "results")))


def test_results_are_the_same_for_tasks_and_retries(check):
    """Each task and each try finds what the others have written; the files go with the job."""
    with Machine() as m:
        sha = put(m, *archive({"train.py": b"x = 1\n"})) if as_user() is not None else None
        code = {"extras": {"results": {"path": "out"}, "code": {"sha256": sha}}} if sha else RESULTS
        where = "out" if sha else "$PAI_RESULTS_DIR"
        m.start("two", {"main": role(f"echo {TRY} >{where}/$FC_TASK_INDEX-{TRY}", f"[ {TRY} -ge 1 ] || exit 3",
                                     "[ $(cat $PAI_RESULTS_DIR/$FC_TASK_INDEX-0) = 0 ]", instances=2)}, jobRetryCount=1, **code)
        m.start("other", {"main": role("ls -A $PAI_RESULTS_DIR; mkdir $PAI_RESULTS_DIR/a; echo x >$PAI_RESULTS_DIR/a/b")}, **RESULTS)
        m.start("none", {"main": role('echo "<${PAI_RESULTS_DIR-}>"')})
        check.equal("it is tried again", (m.wait("two"), m.wait("other"), m.wait("none")), ("SUCCEEDED",) * 3)
        two = files(place(m, "two"))
        check.ok("both tries of both tasks", {"0-0", "0-1"} <= set(two) <= {"0-0", "0-1", "1-0", "1-1"}, two)
        check.equal("each job has its own", files(place(m, "other")), {"a/b": "x\n"})
        check.equal("which was empty", said(m, "other"), [])
        check.equal("a job that does not ask has none", (said(m, "none"), os.path.exists(place(m, "none"))), (["<>"], False))
        check.equal("for nobody else", oct(os.stat(place(m, "two")).st_mode & 0o777), "0o700")
        before = names(m)
        for name in ("two", "other"):
            m.forget(name)
        check.ok("they go with the job", wait_until(lambda: not names(m)), (before, names(m)))
        check.equal("the machine has results", m.request("GET", "/api/v2/machine").json["results"], True)


def test_results_are_found_in_the_working_directory(check):
    """`results` leads there also without code; PAI_RESULTS_DIR always does."""
    if as_user() is None:
        return
    with Machine() as m:
        m.start("code", {"main": role("pwd; echo 1 >results/a; echo 2 >$PAI_RESULTS_DIR/b; ls")},
                extras={"results": True, "code": {"sha256": put(m, *archive({"x.py": b""}))}})
        m.start("path", {"main": role("echo $PAI_RESULTS_DIR; echo 1 >/srv/my/a")}, extras={"results": {"path": "/srv/my"}})
        m.start("bare", {"main": role("cd /tmp; echo 1 >$PAI_RESULTS_DIR/a")}, **RESULTS)
        check.equal("states", [m.wait(n) for n in ("code", "path", "bare")], ["SUCCEEDED"] * 3)
        check.equal("beside the code", (files(place(m, "code")), said(m, "code")), ({"a": "1\n", "b": "2\n"}, ["/workspace", "results", "x.py"]))
        check.equal("elsewhere", (files(place(m, "path")), said(m, "path")), ({"a": "1\n"}, ["/srv/my"]))
        check.equal("without code", files(place(m, "bare")), {"a": "1\n"})


def test_command_leaves_its_results(check):
    """submit -- CMD asks for them by itself; run -- CMD leaves the same files in ./results."""
    train = "import os\nprint(sorted(os.listdir('.')))\nopen('results/model.pt', 'w').write('m')\nassert os.path.samefile('results', os.environ['PAI_RESULTS_DIR'])\n"
    with Here() as p, Machine() as m:
        p.write("train.py", train)
        at = ("submit", "--server", f"http://127.0.0.1:{m.port}", "--wait")
        code, out, err = p.command("python3", "train.py")
        check.ok("run", code == 0 and os.listdir(os.path.join(p.cwd, "results")) == ["model.pt"], (code, out, err))
        code, out, err = p.command("ls", "-A", options=("--results", "new"))
        check.ok("one without files goes", code == 0 and "new\n" in out and not os.path.exists(os.path.join(p.cwd, "new")), (code, out, err))
        code, out, err = p.shell("echo \"<$PAI_RESULTS_DIR>\"; ls -d new", options=("--no-results",))
        check.ok("none", out == "<>\n" and not os.path.exists(os.path.join(p.cwd, "new")), (code, out, err))
        if not boxed(err):
            return
        code, out, err = cli(*at, "--name", "one", "--", "python3", "train.py", **p.more)
        check.ok("submit", code == 0 and files(place(m, "one")) == {"model.pt": "m"}, (code, out, err))
        check.ok("old results are not sent", '"results" is where the job has its results and is not sent' in err, err)
        check.ok("the code", "['results', 'train.py']" in m.log("one", "main"), m.log("one", "main"))
        code, out, err = cli(*at, "--name", "two", "--results", "out", "--", "sh", "-c", "ls; echo >out/x; cat results/model.pt", **p.more)
        check.ok("elsewhere", code == 0 and files(place(m, "two")) == {"x": "\n"} and "is not sent" not in err, (code, out, err))
        code, out, err = cli(*at, "--name", "three", "--no-results", "--", "ls", **p.more)
        check.ok("without", code == 0 and "results" in m.log("three", "main") and not os.path.exists(place(m, "three")), (code, out, err))
        for options, text in ((("--results", "a", "--no-results"), "exclude"), (("--results", "../x"), "one name"),
                              (("--results", "/workspace/x"), "in the directory of the code"), (("--results", "/usr/bin"), "/usr/bin")):
            code, out, err = cli(*at, *options, "--", "ls", **p.more)
            check.ok(f"{options}: refused", code == 2 and text in err, (code, out, err))
        p.write("job.json", job("file", {"main": role("true")}))
        code, out, err = cli(*at, "--results", "x", "job.json", **p.more)
        check.ok("a file says it", code == 2 and "extras.results" in err, (code, out, err))


def test_run_of_a_file_has_results_here(check):
    with Here() as p:
        p.write("job.json", job("file", {"main": role("echo m >$PAI_RESULTS_DIR/model")}, **RESULTS))
        code, out, err = cli("run", "job.json", **p.more)
        check.ok("the file", code == 0 and files(os.path.join(p.cwd, "results")) == {"model": "m\n"}, (code, out, err, os.listdir(p.cwd)))
        p.write("none.json", job("none", {"main": role("true")}))
        os.rename(os.path.join(p.cwd, "results"), os.path.join(p.cwd, "kept"))
        code, out, err = cli("run", "none.json", **p.more)
        check.ok("none is made for a job that does not ask", code == 0 and "results" not in os.listdir(p.cwd), (code, out, err))


def test_server_that_keeps_no_results_says_so(check):
    with Here() as p, Machine("--keep-results", "none") as m:
        p.write("x", "")
        reply = m.submit(job("asks", {"main": role("true")}, **RESULTS))
        check.ok("a file is refused", reply.status == 400 and "--keep-results none" in reply.body.decode(), reply)
        at = ("submit", "--server", f"http://127.0.0.1:{m.port}", "--dry-run", "-o", "job")
        code, out, err = cli(*at, "--", "ls", **p.more)
        check.ok("a command goes without", code == 0 and "results" not in out and "no directory for results" in err, (code, out, err))
        code, out, err = cli(*at, "--no-results", "--", "ls", **p.more)
        check.ok("without a word", code == 0 and "results" not in err, (code, out, err))


def test_oldest_results_make_room(check):
    """--keep-results: the oldest ended job loses its results, and `show` says so; one that runs does not."""
    with Machine("--keep-results", "2MiB") as m:
        m.start("runs", {"main": role("head -c 3000000 /dev/zero >$PAI_RESULTS_DIR/a; exec sleep 1000")}, **RESULTS)
        check.ok("one runs", wait_until(lambda: glob.glob(place(m, "runs") + "/a") and os.path.getsize(place(m, "runs") + "/a") == 3000000))
        for i in range(4):
            m.start(f"job{i}", {"main": role("head -c 900000 /dev/zero >$PAI_RESULTS_DIR/a")}, **RESULTS)
            m.wait(f"job{i}")
            check.ok(f"job{i} is measured", wait_until(lambda i=i: os.path.exists(place(m, f"job{i}") + ".size")), names(m))
        check.ok("two are kept", wait_until(lambda: not os.path.exists(place(m, "job1"))), names(m))
        check.equal("the newest", [os.path.exists(place(m, f"job{i}")) for i in range(4)] + [os.path.exists(place(m, "runs"))],
                    [False, False, True, True, True])
        code, out, err = cli("show", "--server", f"http://127.0.0.1:{m.port}", "job0")
        check.ok("show", "results:  deleted, to make room" in out, (code, out, err))
        code, out, err = cli("fetch", "--server", f"http://127.0.0.1:{m.port}", "job0", "-o", os.path.join(m.where, "to"))
        check.ok("fetch", code == 2 and "were deleted" in err and "--keep-results" in err, (code, out, err))
        code, out, err = cli("show", "--server", f"http://127.0.0.1:{m.port}", "job3")
        check.ok("not of others", "results:" not in out, (code, out, err))
        check.ok("the log names it", m.logged("--keep-results"))


def test_results_survive_kills_of_servers_and_shims(check):
    """No file is lost, and each job has only its own."""
    pick, m = random.Random(int(os.environ.get("TEST_SEED", "1"))), Machine()
    more = {"port": m.port, "where": m.where, "wait": True}
    write = f"echo $FC_FRAMEWORK_NAME >>$PAI_RESULTS_DIR/try-{TRY}; sync -f $PAI_RESULTS_DIR"
    made = {}
    try:
        for turn in range(KILLS):
            for i in range(turn * JOBS // KILLS, (turn + 1) * JOBS // KILLS):
                tries = pick.choice([0, 0, 1, 2])
                m.start(f"job{i}", {"main": role(write, f"sleep 0.{pick.randrange(10)}", f"[ {TRY} -ge {tries} ] || exit 1", memory=16)},
                        jobRetryCount=tries, **RESULTS)
                made[f"job{i}"] = tries
            pods = [os.path.join(path, "root") for path in glob.glob(os.path.join(m.where, "pods", "*"))]
            m.kill()
            for pid in pick.sample(sorted(m.shims().values()), k=min(2, len(m.shims()))):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            check.ok(f"turn {turn}", True, pods)
            m = Machine(**more)
        for name, tries in made.items():
            check.equal(f"{name}: state", m.wait(name), "SUCCEEDED")
            total = m.status(name)["retryPolicyStatus"]["totalRetriedCount"]
            found = files(place(m, name))
            own = m.framework(name)["metadata"]["name"]
            check.ok(f"{name}: its own only", found and all(set(text.split()) == {own} for text in found.values()), found)
            check.ok(f"{name}: the last try, and those before", f"try-{total}" in found, (found, total))
        check.equal("nothing else", {n for n in names(m) if not n.endswith(".size")}, {os.path.basename(place(m, name)) for name in made})
    finally:
        m.remove()


def test_full_disk_leaves_exit_codes_right(check):
    """A job that fills the disk with its results ends with its own exit code, and others with theirs."""
    where = tempfile.mkdtemp(prefix="rest-lit-full.")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=755", "none", where], capture_output=True, check=False).returncode != 0:
        print("     not tested: only root can mount a small file system", flush=True)
        return
    try:
        with Machine(where=os.path.join(where, "jobs")) as m:
            mark = "while [ ! -e $PAI_RESULTS_DIR/../../full ]; do sleep 0.1; done; "
            if as_user() is not None:  # the directory of others is not seen
                mark = "sleep 4; "
            m.start("beside", {"main": role(mark + "exit 5")}, **RESULTS)
            m.start("good", {"main": role(mark + "exit 0")}, **RESULTS)
            check.ok("they run", [m.wait(n, "RUNNING") for n in ("beside", "good")], m.log())
            m.start("fills", {"main": role("head -c 100000000 /dev/zero >$PAI_RESULTS_DIR/a || exit 9")}, **RESULTS)
            check.equal("states", [m.wait(n) for n in ("fills", "beside", "good")], ["FAILED", "FAILED", "SUCCEEDED"])
            check.equal("codes", [m.exit(n) for n in ("fills", "beside", "good")], [9, 5, 0])
            m.forget("fills")
            m.start("after", {"main": role("echo x >$PAI_RESULTS_DIR/a")}, **RESULTS)
            check.equal("there is room again", m.wait("after"), "SUCCEEDED")
    finally:
        subprocess.run(["umount", "-l", where], check=False)


def test_results_without_their_job_are_kept(check):
    """A restored database lacks a job: its results become unknown-UID, are named, and are its own again
    when the database is put back."""
    with Machine() as first:
        first.start("old", {"main": role("echo old >$PAI_RESULTS_DIR/a")}, **RESULTS)
        first.start("new", {"main": role("echo new >$PAI_RESULTS_DIR/a")}, **RESULTS)
        check.equal("both end", (first.wait("old"), first.wait("new")), ("SUCCEEDED", "SUCCEEDED"))
        old, new = place(first, "old"), place(first, "new")
        first.stop()
        settle(first.where)
        subprocess.run(["cp", "-a", os.path.join(first.where, "store.db"), os.path.join(first.where, "kept.db")], check=True)
        first.change("DELETE FROM object WHERE kind = 0 AND body ->> '$.metadata.annotations.jobName' = 'new'")
        unknown = os.path.join(os.path.dirname(new), "unknown-" + os.path.basename(new))
        m = first.again()
        try:
            check.ok("it is named", m.logged(os.path.basename(unknown)), m.log())
            check.equal("nothing is lost", (files(old), files(unknown), os.path.exists(new)), ({"a": "old\n"}, {"a": "new\n"}, False))
            check.ok("whose it was", f"{USER}~new" in m.log(), m.log())
            m.stop()
            settle(m.where)
            os.rename(os.path.join(m.where, "kept.db"), os.path.join(m.where, "store.db"))
            m = m.again()
            check.ok("it is known again", wait_until(lambda: files(new) == {"a": "new\n"}), (names(m), m.log()))
        finally:
            m.remove()
