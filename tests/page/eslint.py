"""No findings of eslint in the modules.  It comes from npm, in the version of the lock file; `make lint` uses it once
it is there."""
import os
import re
import shutil
import subprocess

from axe import FOLDER, HERE, installed
from harness import ROOT

PROGRAM = os.path.join(FOLDER, "node_modules", ".bin", "eslint")
CONFIG = "eslint.config.mjs"
FAULTS = {
    "no-undef": "lookHere();\n", "no-unused-vars": "const forgotten = 1;\n", "eqeqeq": "if (location.hash == 1) location.reload();\n",
    "no-shadow": "export const outer = (el) => el;\n", "prefer-const": "export let more = 1;\nlet less = more++;\nexport { less };\n",
    "max-lines-per-function": "export function long() {\n" + "\tdocument.title += 1;\n" * 60 + "}\n"}


def found(folder):
    """What eslint prints about the modules of a folder: `FILE: line 1, col 2, Error - TEXT (RULE)`."""
    shutil.copy(os.path.join(HERE, CONFIG), FOLDER)
    done = subprocess.run([PROGRAM, "-c", os.path.join(FOLDER, CONFIG), "."], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=600, check=False)
    return done.returncode, done.stdout.decode()


def test_page_modules_have_no_findings_of_eslint(check):
    if not installed("eslint"):
        return
    modules = os.path.join(FOLDER, "modules")
    shutil.rmtree(modules, ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, "server", "web", "page"), modules)
    check.equal("no findings", found(modules), (0, ""))
    with open(os.path.join(modules, "tabs.js"), "a", encoding="utf-8") as f:
        f.writelines(FAULTS.values())
    code, said = found(modules)
    for rule in FAULTS:
        check.ok(f"a seeded fault: {rule}", code == 1 and re.search(rf"tabs\.js\n(.+\n)*.* {rule}\n", said), said)


CORE = []
WHOLE = [test_page_modules_have_no_findings_of_eslint]
