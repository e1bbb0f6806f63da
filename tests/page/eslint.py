"""No findings of eslint in the modules.  It comes from npm, in the version of the lock file; `make lint` uses it once
it is there."""
import os
import shutil
import subprocess

from axe import FOLDER, HERE, installed
from harness import ROOT

PROGRAM = os.path.join(FOLDER, "node_modules", ".bin", "eslint")
CONFIG = "eslint.config.mjs"
FAULTS = (("no-undef", "\nlookHere();\n"), ("no-unused-vars", "\nconst forgotten = 1;\n"), ("eqeqeq", "\nif (location.hash == 1) location.reload();\n"),
          ("no-shadow", "\nexport const outer = (el) => el;\n"), ("max-lines-per-function", "\nexport function long() {\n" + "\tdocument.title += 1;\n" * 60 + "}\n"))


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
    for rule, fault in FAULTS:
        with open(os.path.join(ROOT, "server", "web", "page", "tabs.js"), encoding="utf-8") as f:
            text = f.read()
        with open(os.path.join(modules, "tabs.js"), "w", encoding="utf-8") as f:
            f.write(text + fault)
        code, said = found(modules)
        check.ok(f"a seeded fault: {rule}", code == 1 and rule in said and "tabs.js" in said, said)


CORE = []
WHOLE = [test_page_modules_have_no_findings_of_eslint]
