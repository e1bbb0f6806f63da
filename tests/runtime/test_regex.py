"""Regular expressions of exit specifications compared with Python's: random expressions (fixed
seed) that mean the same in both. Each is the pattern of a separate exit code in one
specification."""
import random
import re

from checks import SLOW, Root, check, finish, tests

ROUNDS, PATTERNS = (12, 40) if SLOW == 1 else (3, 40)
SOURCE = random.Random(20)
LETTERS = "abckKs_0 .-"


def atom(depth):
    kind = SOURCE.randrange(12)
    if kind < 5:
        return re.escape(SOURCE.choice(LETTERS))
    if kind < 9 or depth == 0:
        return SOURCE.choice([r"\d", r"\w", r"\s", r"\W", ".", "[a-c]", "[^ab]", r"[\w.-]", "[^\\d\\s]", r"\b", r"\B", "^", r"ab", "(?-i:é)"])
    return SOURCE.choice(["(", "(?:", "(?i:", "(?s:"]) + alternatives(depth - 1) + ")"


def repeated(depth):
    """Repeats only expressions that are never empty, because both engines treat empty rounds
    differently; and no repetitions, because Python takes exponential time for them."""
    item = atom(depth)
    count = SOURCE.choice(["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{1,3}?", "{2,}"])
    return item if re.search(r"[*+?{]|\\[bB]|\^", item.replace("(?", "(")) else item + count


def alternatives(depth):
    return "|".join("".join(repeated(depth) for _ in range(SOURCE.randrange(1, 5)))
                    for _ in range(SOURCE.choice([1, 1, 1, 2, 3])))


def pattern():
    return SOURCE.choice(["", "", "(?i)", "(?m)", "(?s)", "(?ims)"]) + alternatives(2)


def text():
    return "".join(SOURCE.choice(list("aabbcckKSs_0 .-\n") + ["é", "É", "ab"]) for _ in range(SOURCE.randrange(1, 40)))


def expected(expression, log):
    found = re.compile(expression, re.A if "é" not in expression else 0).search(log)
    return found.group() if found else None


def comparable(expression):
    # The classes \w, \d, \s and \b of Python include letters beyond ASCII, so such expressions
    # are not compared.
    return "é" not in expression or not re.search(r"\\[wWdDsSbB]", expression)


def message_text(message):
    found = re.search(rb'^matchedUserLogString: "(.*)"$', message, re.M)
    if not found:
        return None
    return found.group(1).decode().replace("\\n", "\n").replace('\\"', '"')


def spec(expressions):
    quoted = ["'" + e.replace("'", "''") + "'" for e in expressions]
    return "".join(f"- {{containerExitCode: 77, patterns: [{{exitCode: {i + 1}, userLogRegex: {q}}}]}}\n"
                   for i, q in enumerate(quoted))


def one_round():
    wrong = []
    # Python folds K and KELVIN SIGN only in texts, not for ASCII; none of them is in these logs.
    expressions = [e for e in (pattern() for _ in range(PATTERNS)) if comparable(e)]
    log = text()
    with Root() as root:
        root.write("/spec.yaml", spec(expressions))
        root.write("/log", log)
        for i, expression in enumerate(expressions):
            done = root.run("exit", "--spec", root.at("/spec.yaml"), "--user-log", root.at("/log"), str(i + 1))
            want = expected(expression, log)
            got = message_text(root.read("/tmp/pai-termination-log")) if done.returncode == 77 else None
            if got != want or done.stderr:
                wrong.append((expression, log, got, want, done.stderr))
    return len(expressions), wrong


def test_random_expressions_match_as_in_python():
    total, wrong = 0, []
    for _ in range(ROUNDS):
        count, bad = one_round()
        total += count
        wrong += bad
    check(f"{total} expressions find what Python's find", not wrong, wrong[:3])


tests(test_random_expressions_match_as_in_python)
finish()
