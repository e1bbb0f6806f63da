"""The line of the job's commands that failed: the verdict names it, and scripts do what they do
without."""
import json
import os
import re
import shutil
import subprocess

from checks import PATIENCE, TOP, check, equal, finish, tests
from plugin_kit import D, SHELLS, Pod

SECRET = "S3CRET-VALUE"
# Scripts must behave as if they began with these lines.
PLAIN = "set -o errexit\nset -o nounset\nif (set -o pipefail) 2>/dev/null; then set -o pipefail; fi\n"


class Task(Pod):
    """A task of a job with these commands, after init and, if it succeeded, `run`."""

    def __init__(self, commands, command=None, more="", secrets=None, run=True, through=()):
        role = {"instances": 1, "commands": commands} if command is None else {"command": command}
        config = json.dumps({"taskRoles": {"worker": role}} | ({"parameters": more} if more else {}))
        super().__init__(raw=config, secrets=secrets, USER_CMD=self.joined(commands, more) if command is None else
                         'export PAI_TASK_ROLE_0_HOST_LIST="x"\n' + command)
        if not run:
            return
        self.write(D + "/runtime-exit-spec.yaml", "[]")
        self.done = self.run_through(*through) if through else self.run("run", "--logs-kept")
        self.message = (self.read("/tmp/pai-termination-log") or b"").decode()
        reason = re.search(r"^failedLine: (.*)$", self.message, re.M)
        self.reason = json.loads(reason[1]) if reason else None

    @staticmethod
    def joined(commands, parameters):
        """Joins the commands like the server."""
        text = "\n".join(c.strip() for c in commands)
        for key, value in (parameters or {}).items():
            text = text.replace("<% $parameters." + key + " %>", value)
        return text.strip()

    def run_through(self, *program):
        """`run`, started by this program."""
        words = [*program, os.path.abspath(os.environ.get("PAI_RUNTIME", os.path.join(TOP, "build", "pai-runtime")))]
        return subprocess.run([*words, "run", "--root", self.path, "--logs-kept"], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=PATIENCE, check=False)


def said(name, commands, code, reason, **more):
    with Task(commands, **more) as t:
        equal(f"{name}: code and reason", (t.message and int(re.search(r"originUserExitCode: (\d+)", t.message)[1]), t.reason),
              (code, reason))
        check(f"{name}: no secret", SECRET not in t.message and SECRET.encode() not in t.done.stdout + t.done.stderr, t.message)


def failed(line, code, text):
    return f"line {line} of the commands ended with exit code {code}: {text}"


def test_failed_line_is_named():
    said("a command", ["true", "false; echo x"], 1, failed(2, 1, "false; echo x"))
    said("the first line", ["(exit 3)"], 3, failed(1, 3, "(exit 3)"))
    said("a text of several lines", ["true", "# a\nfor i in 1 2; do\n  [ $i = 1 ]\ndone\n", "true"], 1, failed(4, 1, "[ $i = 1 ]"))
    said("a pipeline", ["true", "false | cat"], 1, failed(2, 1, "false | cat"))
    said("a command over several lines", ["true", "ls \\\n  /nonexistent \\\n  -l"], 2, failed(2, 2, "ls \\"))
    said("a subshell over several lines", ["true", "(\ntrue\nfalse\n)"], 1, failed(2, 1, "("))
    said("a program", ["exec 2>/dev/null", "nosuchprogram a"], 127, failed(2, 127, "nosuchprogram a"))
    said("a signal", ["sh -c 'kill -9 $$'"], 137, failed(1, 137, "sh -c 'kill -9 $$'"))
    said("a sourced file", ["cd \"$(mktemp -d)\"; echo 'false' >f.sh", "true", ". ./f.sh"], 1, failed(3, 1, ". ./f.sh"))
    said("a function, with errtrace", ["set -E", "f() {\nfalse\n}", "true", "f"], 1, failed(6, 1, "f"))
    said("a long line", ["test '" + "ä" * 300 + "' = x"], 1, failed(1, 1, "test '" + "ä" * 97 + "..."))
    said("not set", ["true", "echo ${GONE}x"], 1, "the variable GONE is not set: line 2 of the commands: echo ${GONE}x")
    said("not set in a function", ["f() {\necho $GONE\n}", "f"], 1,
         "the variable GONE is not set: line 2 of the commands: echo $GONE")
    said("not set in a subshell", ["(echo $GONE)"], 1, failed(1, 1, "(echo $GONE)"))


def test_failed_line_is_shown_as_submitted():
    """The line has references instead of values; values of several lines and lines of the server do
    not shift it."""
    keys = f"pw: {SECRET}\nkey: \"{SECRET}\\n{SECRET}\\nx\"\n"
    said("a secret", ["true", "test <% $secrets.pw %> = x"], 1, failed(2, 1, "test <% $secrets.pw %> = x"), secrets=keys)
    said("a secret as the command", ["exec 2>/dev/null", "<% $secrets.pw %> x"], 127, failed(2, 127, "<% $secrets.pw %> x"),
         secrets=keys)
    said("a secret of several lines", ["cat >/dev/null <<E", "<% $secrets.key %>", "E", "false <% $secrets.pw %>"], 1,
         failed(4, 1, "false <% $secrets.pw %>"), secrets=keys)
    said("a syntax error in the first command", ["if true; then", "echo <% $secrets.pw %> )"], 2, None, secrets=keys)
    said("a parameter", ["true", "test <% $parameters.p %> = 1"], 1, failed(2, 1, "test <% $parameters.p %> = 1"), more={"p": "x"})
    said("a parameter of several lines", ["true", "<% $parameters.p %>", "true", "false"], 1, failed(4, 1, "false"),
         more={"p": "true\ntrue\n:"})
    said("... which fails itself", ["true", "<% $parameters.p %>", "true"], 1, None, more={"p": "false\n:\n:"})
    said("version 1", [], 1, failed(2, 1, "false"), command="true\nfalse")


def test_failed_line_is_omitted_if_unknown():
    """If the line is unknown, the verdict omits it."""
    for name, commands, code in (
            ("exit", ["false || true", "exit 3"], 3), ("a function", ["f() {\nfalse\n}", "f"], 1),
            ("without errexit", ["set +e", "false"], 1), ("exec", ["exec false"], 1),
            ("their trap", ["trap 'echo mine' ERR", "false"], 1), ("their trap and code", ["trap 'exit 8' EXIT", "false"], 8),
            ("a command of their trap", ["true", "trap 'false' EXIT", "exit 0"], 1), ("eval", ["eval 'true\nfals''e'"], 1),
            ("an earlier message", ["(echo $GONE) || echo on", "exit 3"], 3),
            ("a subshell with errtrace", ["set -E", "x=$(set -e; false) || true", "exit 1"], 1),
            ("a name like one", ["echo '/x/user.sh: line 1: GONE: unbound variable' >&2", "exit 1"], 1)):
        said(f"not known: {name}", commands, code, None)
    said("not known: no descriptor for the report", ["true", "(exit 7)"], 7, None, through=("prlimit", "--nofile=80"))
    with Task(["false"], run=False) as t:
        for i, args in enumerate(([], ["--", "sh", "-c", "exit 4"])):
            t.write(D + "/user.sh", "exit 4\n" if not i else "", 0o755)
            t.run("run", "--logs-kept", *args)
            check("not known: a script without the header, a program", b"failedLine" not in t.read("/tmp/pai-termination-log"), i)


def test_other_shells_report_only_unset_variables():
    """Other shells report only which variable is not set."""
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        print("skipped: other shells: mount namespaces are forbidden")
        return
    for shell in [s for s in SHELLS if s == "dash"]:
        # A mount namespace in which this program is bash.
        through = ("unshare", "-m", "sh", "-ec", 'mount --bind "$0" "$(realpath /bin/bash)"; exec "$@"', shutil.which(shell))
        said(f"{shell}: a command", ["true", "false"], 1, None, through=through)
        said(f"{shell}: not set", ["true", "echo $GONE"], 2, "the variable GONE is not set: line 2 of the commands: echo $GONE",
             through=through)


SAME = r"""
set -E; f() { false; }; true; f
for i in 1 2; do true; false; done
x=$(echo 1; false); echo on
trap 'echo exit $? $_ ${PIPESTATUS[@]}' EXIT; true | false aa bb
trap 'echo exit $?; false' EXIT; exit 0
trap 'echo err $? $_' ERR; true; false cc
trap 'echo err $? $_' ERR; f() { false; }; f
trap 'echo err $?' ERR; set +e; false; echo on; false
trap 'exit 8' ERR; false
trap 'exit 8' EXIT; false
trap - ERR; false
trap - EXIT; (exit 2)
trap 'echo term; exit 9' TERM; kill -TERM $$; echo after
kill -TERM $$
trap 'echo usr1' USR1; kill -USR1 $$; false x y
trap '' TERM; kill $$; false
eval 'true; false'
if false; then :; fi; ! true; false || true; while false; do :; done; echo x$_; set +e; false cc; echo $? $_ ${PIPESTATUS[@]}
set +e; false | true | false; echo ${PIPESTATUS[@]} $_; exit 4
set +e; (exit 4) | cat; echo "${PIPESTATUS[*]}" "$?"; false
set +o errexit; false; true
(true; false; echo no); echo
{ sleep 0.1; false; } & wait $!
{ sleep 0.1; false; } & wait; echo done
sleep 0.1 & (false; echo in) || echo out; wait; exit 6
(set -e; false; echo no) | cat; echo here
(trap 'echo inner' EXIT; true); echo b
(sleep 0.2) & ps -o args -g $$ | grep -c sleep; wait
(ps -o args --ppid $$ | wc -l)
exec true; echo no
[[ 1 == 2 ]]
(( 0 ))
set -C; false
f() { return 5; }; f
f() { local x=$(false); echo "local $x"; x=$(false); echo no; }; f
echo $- | tr -d Bs; shopt -p 2>/dev/null; echo "$SHELLOPTS"
declare -F; declare -p 2>/dev/null | grep -v 'LINENO\|PID\|RANDOM\|EPOCH\|_=\|BASH_ARG\|SECONDS\|BASH_SOURCE'
IFS=,; false a
printf() { echo mine; }; builtin() { echo mine2; }; false
true && false
false || false
x=1 y=2 false
! false; echo $?; ! true; echo on
case x in x) false;; esac
echo a | while read l; do false; done
function g { false; }; g || echo caught; g
set -T; f() { true; }; f; false
set -o errtrace; (false)
set -o errtrace; x=$(false; echo y); echo $x; exit 1
set -o errtrace; { false; } & wait; exit 1
export A=$(false); echo survived
set +u; echo "$GONE"; false
( echo $GONE ) || echo ok; exit 3
unset RUNTIME_LOG_PIPE; false
cd /; false
ulimit -n 50; false
exec 2>&-; false
exit 300
""".strip().splitlines()


def test_scripts_behave_the_same_with_the_header():
    """Scripts have the same output and code with the header and without it, in each shell."""
    with Task(["true"], run=False) as t:
        header = t.read(D + "/user.sh").decode().removesuffix("true")
        t.env["RUNTIME_LOG_PIPE"] = f"/proc/{os.getpid()}/fd/100"
        report = os.memfd_create("report")
        os.dup2(report, 101)
        for shell, argv in SHELLS.items():
            for script in SAME:
                if shell != "bash" and ("{" in script and "_" in script or "ERR" in script):
                    continue  # messages quote what is no word there
                got = []
                for text in (PLAIN + script, header + script):
                    t.write(D + "/same.sh", text)
                    done = subprocess.run([*argv, t.at(D + "/same.sh")], cwd=t.path, env=t.env, stdin=subprocess.DEVNULL,
                                          capture_output=True, timeout=PATIENCE, check=False)
                    lines = re.sub(rb"line \d+|: \d+:|\d+ Terminated.*", b"", done.stderr)
                    got.append((done.returncode, done.stdout, lines))
                equal(f"same with {shell}: {script}", got[1], got[0])
        os.close(101)
        os.close(report)


def test_bare_pod_uses_lines_of_its_configuration():
    """Without a job, the lines are those of RUNTIME_CONFIG."""
    with Pod() as t:
        t.env = {k: v for k, v in t.env.items() if k not in ("USER_CMD", "FC_TASKROLE_NAME")}
        t.env["RUNTIME_CONFIG"] = json.dumps({"commands": ["echo '<% $secrets.two %>'", "false <% $secrets.one %>"],
                                              "secrets": {"two": "a\nb", "one": SECRET}})
        t.run("init", "--steps", "config,plugins,command")
        t.write(D + "/runtime-exit-spec.yaml", "[]")
        t.run("run", "--logs-kept")
        message = t.read("/tmp/pai-termination-log").decode()
        check("bare pod", f'failedLine: "{failed(2, 1, "false <% $secrets.one %>")}"' in message and SECRET not in message, message)


tests(test_failed_line_is_named, test_failed_line_is_shown_as_submitted, test_failed_line_is_omitted_if_unknown,
      test_other_shells_report_only_unset_variables, test_scripts_behave_the_same_with_the_header,
      test_bare_pod_uses_lines_of_its_configuration)
finish()
