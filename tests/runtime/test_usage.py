"""Version, help and usage errors of pai-runtime."""
import subprocess

from checks import PATIENCE, RUNTIME, Root, check, equal, finish, tests

COMMANDS = ("init", "run", "exit", "sshd", "ssh-barrier", "git-move", "check-api", "version")


def call(*args, **env):
    with Root(**env) as root:
        return subprocess.run([RUNTIME, *args], env=root.env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE)


def test_help_pages_fit_into_80_columns():
    pages = {"": call("--help")}
    pages.update({name: call(name, "--help") for name in COMMANDS})
    for name, done in pages.items():
        equal(f"{name} --help succeeds", (done.returncode, done.stderr), (0, ""))
        check(f"{name} --help begins with the usage", done.stdout.startswith(f"usage: pai-runtime {name}".rstrip()),
              done.stdout)
        wide = [line for line in done.stdout.splitlines() if len(line) > 80]
        equal(f"{name} --help fits into 80 columns", wide, [])
    for name in COMMANDS:
        check(f"--help lists {name}", f"\n  {name} " in pages[""].stdout, pages[""].stdout)


def test_misuse_is_explained_first():
    for args, said in ((("init", "--stepz", "x"), "--stepz"), (("init", "--root"), "--root"), (("run", "x"), "x"),
                       (("exit", "256"), "256"), (("exit", "1", "--spec"), "--spec"), (("exit",), "missing"),
                       (("check-api", "x"), "x"), (("version", "--long"), "--long")):
        done = call(*args)
        first = done.stderr.splitlines()[0] if done.stderr else ""
        equal(f"{' '.join(args)}: a mistake of usage", (done.returncode, done.stdout), (2, ""))
        check(f"{' '.join(args)}: what is wrong is said first",
              first.startswith(f"pai-runtime {args[0]}: ") and said in first, done.stderr)
        check(f"{' '.join(args)}: then the usage", f"\nusage: pai-runtime {args[0]}" in done.stderr, done.stderr)
    done = call("init", "--\033[31m")
    check("no control characters are passed on", "\033" not in done.stderr, done.stderr)
    equal("no command", call().returncode, 2)
    equal("--version is the command version", call("--version").stdout, call("version").stdout)
    equal("no such command", call("initialise").returncode, 2)


def test_messages_have_positions():
    with Root(RUNTIME_CONFIG="commands:\n- [a\nparameters: {}\n") as root:
        done = root.run("init")
        check("a mistake in RUNTIME_CONFIG has its line", b"RUNTIME_CONFIG, line 3, column " in done.stderr, done.stderr)
    with Root() as root:
        done = root.run("exit", "--spec", root.at("none.yaml"), "1")
        check("which specification is not there", b"/none.yaml is not there" in done.stderr, done.stderr)


tests(test_help_pages_fit_into_80_columns, test_misuse_is_explained_first, test_messages_have_positions)
finish()
