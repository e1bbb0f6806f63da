"""`pai-runtime exit`: the results of 41 failures (../data/runtime/exit/README.md), and hostile
input for the explanation."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import time

from checks import PATIENCE, RUNTIME, TOP, Root, check, equal, explain_all, finish, tests

DATA = os.path.join(TOP, "tests", "data", "runtime")
START, END = b"[PAI_RUNTIME_ERROR_START]\n", b"[PAI_RUNTIME_ERROR_END]"
MESSAGE = "/tmp/pai-termination-log"
ESCAPES = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r",
           "e": "\x1b", '"': '"', "\\": "\\", "N": "\x85", "L": "\u2028", "P": "\u2029"}


def quoted(text):
    """A double-quoted text of YAML."""
    assert text[0] == text[-1] == '"', text

    def one(m):
        if m.group(1):
            return chr(int(m.group(1)[1:], 16))
        return ESCAPES[m.group(2)]
    return re.sub(r"\\(?:(x..|u....|U........)|(.))", one, text[1:-1])


def value(text):
    if text.startswith('"'):
        return quoted(text)
    return {"true": True, "{}": {}}.get(text) if not text.lstrip("-").isdigit() else int(text)


def parse(message):
    """The message, parsed like by a REST server."""
    if not (message.startswith(START) and message.endswith(END)):
        return None
    out, inner = {}, None
    for line in message[len(START):-len(END)].decode().splitlines():
        key, _, rest = line.strip().partition(":")
        if not rest.strip():
            inner = out.setdefault(key, {})
        else:
            (inner if line.startswith(" ") else out)[key] = value(rest.strip())
    return out


def spec_of(folder, expected):
    name = expected.get("spec")
    return os.path.join(DATA, "exitspec", name + ".yaml") if name else folder + "/spec.yaml"


def options(folder, expected):
    out = ["--spec", spec_of(folder, expected)]
    for option, name in (("--user-log", "user.log"), ("--runtime-log", "runtime.log")):
        out += [option, os.path.join(folder, name)]
    return out


def run_case(name):
    folder = os.path.join(DATA, "exit", name)
    with open(folder + "/expected.json") as f:
        want = json.load(f)
    with Root() as root:
        if os.path.isdir(folder + "/bin"):
            shutil.copytree(folder + "/bin", root.at("/usr/bin"))
        done = root.run("exit", *options(folder, want), str(want["userExitCode"]))
        equal(f"{name}: exit status", done.returncode, want["exitCode"])
        equal(f"{name}: nothing on standard output", done.stdout, b"")
        message = root.read(MESSAGE)
        if want["summary"] is None:
            equal(f"{name}: no message", message, None)
            return
        check(f"{name}: at most 4096 bytes", len(message) <= 4096, len(message))
        equal(f"{name}: summary", parse(message), want["summary"])
        if os.path.exists(folder + "/termination-log"):
            with open(folder + "/termination-log", "rb") as f:
                equal(f"{name}: message", message, f.read())
        if "bad" in name:
            check(f"{name}: says so", b"exit specification" in done.stderr, done.stderr)


def explain(root, code=1, spec="sample", **logs):
    """Runs on the pod's own logs; (exit status, message)."""
    for name, text in logs.items():
        path = {"user": "user-all/current", "runtime": "runtime.log"}.get(name, name)
        root.write(root.logs(path), text)
    with open(os.path.join(DATA, "exitspec", spec + ".yaml"), "rb") as f:
        root.write("/usr/local/pai/runtime.d/runtime-exit-spec.yaml", f.read())
    done = root.run("exit", str(code))
    message = root.read(MESSAGE)
    return done, parse(message) if message is not None else None


def test_logs_and_specification_of_the_pod_are_defaults():
    with Root() as root:
        done, summary = explain(root, 137, user="killed\n", runtime="rt\n")
        equal("the pod's own logs and specification", (done.returncode, summary["errorLogs"]),
              (137, {"user": "killed\n", "platform": "rt\n"}))
        equal("the message is readable by all", os.stat(root.at(MESSAGE)).st_mode & 0o777, 0o644)
    with Root() as root:
        done, summary = explain(root, 9)
        equal("no logs at all", (done.returncode, summary["errorLogs"]),
              (255, {"user": "", "platform": ""}))
    with Root() as root:
        done = root.run("exit", "3")
        equal("no specification either", done.returncode, 255)
        check("which is told", b"exit specification" in done.stderr, done.stderr)


def test_rotated_log_precedes_a_short_one():
    name = "@400000006553f10012345678.s"
    with Root() as root:
        root.write(root.logs("user-all/" + name), "x" * 20000 + "\npackage not find abc\n")
        root.write(root.logs("user-all/@400000006553f00012345678.s"), "failed with error code 1 in /tmp/a\n")
        done, summary = explain(root, user="the end\n")
        equal("a short log is preceded by the latest rotated one",
              (done.returncode, summary.get("matchedUserLogString")), (12, "package not find abc"))
    with Root() as root:
        root.write(root.logs("user-all/" + name), "package not find abc\n" + "x" * 16384)
        done, _ = explain(root, user="the end\n")
        equal("of which only the last 16 KiB count", done.returncode, 255)
    with Root() as root:
        root.write(root.logs("user-all/" + name), "package not find abc\n")
        done, _ = explain(root, user="y" * 16384)
        equal("and none before a log that is not short", done.returncode, 255)


def test_standard_input_is_not_read():
    """Without an older log, no other file is read."""
    with Root() as root:
        root.write(root.logs("user-all/current"), "the end\n")
        reader, writer = os.pipe()
        with open(reader, "rb") as stdin:
            done = subprocess.run([RUNTIME, "exit", "--root", root.path, "9"], env=root.env, stdin=stdin,
                                  capture_output=True, timeout=PATIENCE)
        os.close(writer)
        equal("standard input that never ends is not waited for", done.returncode, 255)


def test_large_logs_are_cut_to_their_end():
    big = "package not find old\n" + "epoch 1 loss 0.5\n" * 800000
    with Root() as root:
        begin = time.monotonic()
        done, summary = explain(root, user=big, spec="openpai")
        check("a log above 10 MiB without a match", time.monotonic() - begin < PATIENCE)
        equal("a log above 10 MiB: only its end counts", done.returncode, 255)
        check("a log above 10 MiB: its tail is shown",
              summary["errorLogs"]["user"].endswith("loss 0.5\n"))


def test_planted_logs_are_not_followed():
    """Files of the author in the place of logs and of the message are not followed."""
    with Root() as root:
        root.write("/secret", "package not find secret\n")
        for name in ("user-all/current", "runtime.log"):
            path = root.at(root.logs(name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(root.at("/secret"), path)
        done, summary = explain(root)
        equal("logs that are links are not followed", (done.returncode, summary["errorLogs"]["user"]),
              (255, ""))
    with Root() as root:
        os.makedirs(root.at(root.logs("user-all")))
        os.mkfifo(root.at(root.logs("user-all/current")))
        os.mkfifo(root.at(root.logs("user-all/@4.s")))
        done, _ = explain(root)
        equal("logs that are pipes are not waited for", done.returncode, 255)
    for what, plant in (("a link", lambda p: os.symlink(p + "-other", p)), ("a pipe", os.mkfifo),
                        ("a directory", os.mkdir)):
        with Root() as root:
            plant(root.at(MESSAGE))
            done = root.run("exit", "5")
            equal(f"{what} in the place of the message: the code stays", done.returncode, 255)
            check(f"{what} in the place of the message: said", b"cannot write" in done.stderr, done.stderr)
            check(f"{what} is not followed", not root.exists(MESSAGE + "-other"))
    with Root() as root:
        root.write("/precious", "precious")
        os.link(root.at("/precious"), root.at(MESSAGE))
        root.run("exit", "5")
        equal("a file with a second name is not overwritten", root.read("/precious"), b"precious")
    with Root() as root:
        root.write(MESSAGE, "old " * 5000)
        explain(root, 7, user="u\n")
        check("an older message is replaced", root.read(MESSAGE).startswith(START) and
              root.read(MESSAGE).endswith(END))


def smi(root, script):
    root.write("/usr/bin/nvidia-smi", "#!/bin/sh\n" + script, 0o755)


ECC = ("<nvidia_smi_log><gpu><ecc_errors><volatile>{}</volatile><aggregate><double_bit><total>5</total>"
       "</double_bit></aggregate></ecc_errors></gpu></nvidia_smi_log>")


def test_gpu_memory_errors_are_128():
    cases = [
        ("older driver", "<double_bit><total>1</total></double_bit>", 128),
        ("newer driver, sram", "<sram_uncorrectable>2</sram_uncorrectable>", 128),
        ("newer driver, parity", "<sram_uncorrectable_parity>2</sram_uncorrectable_parity>", 128),
        ("newer driver, secded", "<sram_uncorrectable_secded>2</sram_uncorrectable_secded>", 128),
        ("newer driver, dram", "<dram_uncorrectable>1</dram_uncorrectable>", 128),
        ("newer driver, corrected ones", "<dram_correctable>1</dram_correctable>", 255),
        ("not counted", "<dram_uncorrectable>N/A</dram_uncorrectable>", 255),
    ]
    for name, xml, code in cases:
        with Root() as root:
            smi(root, f"cat <<'END'\n{ECC.format(xml)}\nEND\n")
            done, _ = explain(root, spec="openpai")
            equal(f"nvidia-smi: {name}", done.returncode, code)
    bad = ECC.format(cases[0][1])
    for name, script in (("fails", f"echo '{bad}'; exit 9"), ("hangs", f"echo '{bad}'; sleep 600"),
                         ("hangs silently", f"exec >/dev/null; sleep 600"),
                         ("never ends to write", "yes '<gpu>'"),
                         ("leaves something behind", f"echo '{bad}'; sleep 600 & sleep 600")):
        with Root() as root:
            smi(root, script + "\n")
            begin = time.monotonic()
            done, _ = explain(root, spec="openpai")
            equal(f"nvidia-smi that {name}", done.returncode, 255)
            check(f"nvidia-smi that {name} is not waited for", time.monotonic() - begin < PATIENCE)
    with Root() as root:
        smi(root, "touch \"$(dirname \"$0\")/asked\"\n")
        explain(root, user="package not find x\n")  # stands before the pattern that asks
        check("nvidia-smi is asked only if a pattern wants to know", not root.exists("/usr/bin/asked"))


# ---- the shipped specification -------------------------------------------------------------------

def shipped(name):
    with open(os.path.join(TOP, "runtime-assets", name)) as f:
        return f.read()


def patterns_of(text, code_key, list_key):
    """(code, number): the fields of each pattern, from the plain YAML that these files are."""
    out, code, fields, indent = {}, None, None, None
    for line in text.splitlines():
        body = line.strip()
        depth = len(line) - len(line.lstrip())
        if body.startswith("- " + code_key + ":"):
            code, number, indent = int(body.split(":")[1]), 0, None
        elif body == list_key + ":":
            indent = depth
        elif indent is not None and body and not body.startswith("#"):
            if depth < indent or (depth == indent and body[0] != "-"):
                indent = None
                continue
            if body[0] == "-":
                number, fields = number + 1, {}
                out[code, number] = fields
                body = body[1:].strip()
                if not body:
                    continue
            key, _, rest = body.partition(":")
            fields[key] = rest.strip()
    return out


def one_pattern(fields):
    lines = [f"    {key}: {rest}" if key != "nvidiaDoubleEccError" else f"      {key}: {rest}"
             for key, rest in fields.items()]
    return "- containerExitCode: 77\n  patterns:\n  -\n" + "\n".join(lines) + "\n"


def examples():
    with open(os.path.join(DATA, "exitspec-examples.tsv")) as f:
        for line in f.read().splitlines():
            if not line.startswith("#") and not line.startswith("pattern\t"):
                name, match, code, text = line.split("\t")
                pattern, number = name.split(".")
                yield (int(pattern), int(number)), match == "+", code, text.replace("\\n", "\n")


def test_shipped_specification_is_consistent():
    ours = patterns_of(shipped("runtime-exit-spec.yaml"), "containerExitCode", "patterns")
    full = patterns_of(shipped("k8s-job-exit-spec.yaml"), "code", "runtimeContainerPatterns")
    equal("runtime-exit-spec.yaml follows from k8s-job-exit-spec.yaml", ours,
          {key: fields for key, fields in full.items() if key[0] > 0})
    equal("the order of codes, too", list(ours), list(full))
    with open(os.path.join(DATA, "exitspec", "openpai.yaml")) as f:
        theirs = patterns_of(f.read(), "containerExitCode", "patterns")
    missing = {code for code, _ in theirs} - {code for code, _ in ours}
    equal("all codes of OpenPAI are there, but for two of three for segmentation faults", missing, {222, 234})
    anywhere = {key for key, fields in ours.items() if "userLogRegex" in fields and "userLogPart" not in fields}
    equal("but for those that ask for something else, too, the log's expressions are about the final error", anywhere, {(193, 2), (220, 1), (240, 4)})
    whole = os.path.join(TOP, "runtime-assets", "runtime-exit-spec.yaml")
    matched, wanted, cases = set(), [], []
    with contextlib.ExitStack() as stack:
        for key, match, code, text in examples():
            root = stack.enter_context(Root())
            log = "runtime.log" if key in ((193, 1), (247, 1), (248, 1), (249, 1)) else "user-all/current"
            if key == (193, 2):
                root.write(root.logs("runtime.log"), "killed for memory: limit 60 MiB, peak 60 MiB (1 process)\n")
            root.write(root.logs(log), f"before\n{text}\nbehind\n")
            root.write("/one.yaml", one_pattern(ours[key]))
            what = f"{key[0]}.{key[1]} {'matches' if match else 'does not match'}: {text[:60]}"
            wanted.append((what, 77 if match else 255))
            cases.append((root, "--spec", root.at("/one.yaml"), code))
            if match:
                matched.add(key)
                wanted.append((f"{what}: in the whole specification", key[0]))
                cases.append((root, "--spec", whole, code))
        for (what, code), result in zip(wanted, explain_all(cases), strict=True):
            equal(what, result, (code, b""))
    equal("every expression has a line that it must match",
          {key for key, fields in ours.items() if "userLogRegex" in fields or "platformLogRegex" in fields},
          matched)


def test_words_of_the_specification_decide():
    """The words of the specification alone decide which exception is the cause."""
    log = "".join(f"Traceback (most recent call last):\n  File\n{error}\n" for error in ("ValueError: Bad thing", "{}"))
    pattern = "- containerExitCode: 77\n  patterns:\n  - {userLogRegex: Bad thing, userLogPart: finalError}\n"
    word = "- words:\n  - kind: {}\n    texts: [Gone away]\n"
    for words, last, code in ((word.format("FOLLOWS"), "x.Error: Gone away", 77), (word.format("THREAD"), "x.Error: Gone away", 255),
                              (word.format("FOLLOWS"), "BrokenPipeError: Broken pipe", 255), ("", "BrokenPipeError: Broken pipe", 255)):
        with Root() as root:
            root.write("/words.yaml", words + pattern)
            root.write(root.logs("user-all/current"), log.format(last))
            done = root.run("exit", "--spec", root.at("/words.yaml"), "1")
            equal(f"{last} with {words or 'no words'!r}", (done.returncode, done.stderr), (code, b""))


def test_sign_of_the_network_goes_before_what_is_missing():
    """unlessWord: the code is 255 if the exception, one before it that led to it, or the output above has a sign of
    the network, and that line is quoted."""
    trace = "Traceback (most recent call last):\n  File \"x.py\", line 1\n    raise_on('Gone away')\n{}\n"
    cause = "\nThe above exception was the direct cause of the following exception:\n\n"
    handling = "\nDuring handling of the above exception, another exception occurred:\n\n"
    gone, bad = trace.format("x.Error: Gone away"), trace.format("x.Error: Bad thing")
    output = "Gone away, said x\n"
    pattern = "- words:\n  - kind: NETWORK\n    texts: [Gone away]\n- containerExitCode: 77\n  patterns:\n  - userLogRegex: Bad thing\n    userLogPart: finalError\n"
    for log, code, line in ((bad, 77, "x.Error: Bad thing"), (gone + cause + bad, 255, "x.Error: Gone away"),
                            (gone + handling + bad, 255, "x.Error: Gone away"), (gone + bad, 255, "x.Error: Gone away"),
                            (gone + "step\n" * 9 + bad, 77, "x.Error: Bad thing"),
                            (output + bad, 255, "Gone away, said x"), (output + "step\n" * 9 + bad, 77, "x.Error: Bad thing"),
                            (output + "Bad thing\n", 255, "Gone away, said x"), (bad + output, 77, "x.Error: Bad thing"),
                            ("".join("[rank0]: " + one for one in (output + bad).splitlines(True)), 77, "x.Error: Bad thing")):
        for unless in ("NETWORK", "OTHER", None):
            with Root() as root:
                root.write("/one.yaml", pattern + (f"    unlessWord: {unless}\n" if unless else ""))
                root.write(root.logs("user-all/current"), log)
                done = root.run("exit", "--spec", root.at("/one.yaml"), "1")
                message = (root.read("/tmp/pai-termination-log") or b"").decode()
                want = {"NETWORK": code, "OTHER": 255, None: 77}[unless]
                equal(f"unlessWord {unless}: {log!r}", done.returncode, want)
                equal("what it may be is said", b"unlessWord must be NETWORK" in done.stderr, unless == "OTHER")
                if unless == "NETWORK":
                    check("the line is quoted", f'matchedUserLogString: "{line}"' in message.replace("[rank0]: ", ""), message)


def test_progress_bars_do_not_hide_the_line():
    """A carriage return ends a line: the part with the error is quoted."""
    trace = "Traceback (most recent call last):\n  File \"x.py\", line 1\nKeyError: 'acc'"
    for log, line in (("10%|#\rError: bad\r20%|##\n", "Error: bad"), ("10%|#\rError: bad\r      \r\n", "Error: bad"),
                      (trace + "\r 50%|##  |\n", "KeyError: 'acc'"), (trace + "\r\n", "KeyError: 'acc'"),
                      ("10%|#\r" + trace + "\n", "KeyError: 'acc'")):
        with Root() as root:
            root.write(root.logs("user-all/current"), log)
            root.run("exit", "--spec", os.path.join(TOP, "runtime-assets", "runtime-exit-spec.yaml"), "1")
            message = (root.read("/tmp/pai-termination-log") or b"").decode()
            check(f"{log!r}: the line", f'matchedUserLogString: "{line}"\n' in message, message)


def test_words_are_in_the_specification_only():
    """Words that distinguish a cause from its consequences, an error from output, or a rank are not
    repeated in C."""
    text = shipped("k8s-job-exit-spec.yaml").split("\nwords:\n")[1].split("\nspec:\n")[0]
    words = {word.lstrip("^") for word in re.findall(r'"([^"]+)"', re.sub(r"why: .*", "", text))}
    check("there are some", len(words) > 100, words)
    for path in ("runtime-assets/exit/exit.c", "runtime-assets/exit/exitspec.c", "runtime-assets/exit/failedline.c",
                 "runtime-assets/exit/finalerror.c", "server/config/exit_spec.c", "server/jobs/first_failure.c"):
        with open(os.path.join(TOP, path), encoding="utf-8") as f:
            source = f.read()
        equal(path, sorted(words & set(re.findall(r'"((?:[^"\\\n]|\\.)*)"', source))), [])


def test_log_part_limits_an_expression():
    """An expression is applied to the whole log or to its final error."""
    log = "Bad thing\n" + "step\n" * 300 + "Traceback (most recent call last):\n  Bad thing\n{}\n"
    for part, last, code in (("", "KeyError: 1", 77), ("finalError", "KeyError: 1", 255),
                             ("finalError", "Bad\0Bad thing\nKeyError: 1", 255),
                             ("finalError", "x.Error: Bad thing", 77), ("end", "x.Error: Bad thing", 255)):
        with Root() as root:
            root.write("/one.yaml", "- containerExitCode: 77\n  patterns:\n  - userLogRegex: Bad thing\n" +
                       (f"    userLogPart: {part}\n" if part else ""))
            root.write(root.logs("user-all/current"), log.format(last))
            done = root.run("exit", "--spec", root.at("/one.yaml"), "1")
            equal(f"userLogPart {part or 'absent'}: {last!r}", done.returncode, code)
            check("what it may be is said", (b"line 4: userLogPart must be finalError" in done.stderr) == (part == "end"),
                  done.stderr)


def test_missing_log_is_reported_if_it_was_named():
    with Root() as root:
        done = root.run("exit", "--user-log", root.at("/mistyped"), "1")
        check("a log that was asked for is missed", b"mistyped is no file that can be read" in done.stderr and
              done.returncode == 255, done)
        check("others are not", b"runtime.log" not in root.run("exit", "1").stderr)


def test_openpai_specification_works_unchanged():
    """OpenPAI's own specification works unchanged."""
    for code in (1, 10, 127, 137, 255):
        with Root() as root:
            done, _ = explain(root, code, spec="openpai")
            equal(f"OpenPAI's specification has nothing to complain about, code {code}", done.stderr, b"")


def test_invalid_arguments_are_refused():
    with Root() as root:
        for args in ([], ["x"], ["1", "2"], ["256"], ["-1"], ["--spec"], ["1", "--nonsense"]):
            equal(f"exit {' '.join(args)}: usage", root.run("exit", *args).returncode, 2)
        done = root.run("exit", "--trigger", "postCommands", "7")
        check("--trigger", b'\ntrigger: "postCommands"\n' in root.read(MESSAGE), root.read(MESSAGE))


def test_recorded_failures_have_their_results():
    for case in sorted(os.listdir(os.path.join(DATA, "exit"))):
        if os.path.isdir(os.path.join(DATA, "exit", case)):
            run_case(case)


def test_table_of_ends_has_its_exit_codes():
    unescape = lambda text: "" if text == "-" else text.replace("\\n", "\n")
    with open(os.path.join(DATA, "ends.tsv"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    rows = [row for row in rows if row[5] == "-"]  # without a status of the pod
    with contextlib.ExitStack() as stack:
        cases = []
        for _, end, user, runtime, *_ in rows:
            root = stack.enter_context(Root())
            root.write(root.logs("user-all/current"), unescape(user))
            root.write(root.logs("runtime.log"), unescape(runtime))
            cases.append((root, "--spec", os.path.join(TOP, "runtime-assets", "runtime-exit-spec.yaml"), end))
        for (name, _, _, _, _, _, want, *_), (code, _) in zip(rows, explain_all(cases), strict=True):
            equal(f"ends: {name}", code, int(want))


tests(test_table_of_ends_has_its_exit_codes, test_recorded_failures_have_their_results, test_logs_and_specification_of_the_pod_are_defaults,
      test_rotated_log_precedes_a_short_one, test_standard_input_is_not_read, test_large_logs_are_cut_to_their_end,
      test_planted_logs_are_not_followed, test_gpu_memory_errors_are_128, test_shipped_specification_is_consistent,
      test_words_of_the_specification_decide, test_words_are_in_the_specification_only,
      test_sign_of_the_network_goes_before_what_is_missing, test_progress_bars_do_not_hide_the_line,
      test_log_part_limits_an_expression, test_openpai_specification_works_unchanged,
      test_missing_log_is_reported_if_it_was_named, test_invalid_arguments_are_refused)
finish()
