"""Common parts of test_plugins.py and test_ssh.py: pods after init, fake programs, shells."""
import json
import os
import shutil
import subprocess

from checks import PATIENCE, Root

PAI = "/usr/local/pai"
D = PAI + "/runtime.d"
# Shells of job images.  busybox needs the name of its applet.
SHELLS = {name: argv for name, argv in {"bash": ["bash"], "dash": ["dash"], "busybox": ["busybox", "sh"]}.items()
          if shutil.which(argv[0])}


def framework(config, roles):
    spec = [{"name": name, "taskNumber": n, "task": {"pod": {"spec": {}, "metadata": {}}}} for name, n in roles]
    return {"kind": "Framework", "metadata": {"name": "fw", "namespace": "default", "annotations": {"config": config}},
            "spec": {"taskRoles": spec}, "status": {"attemptStatus": {"taskRoleStatuses": []}}}


class Pod(Root):
    """A task after init, of a job with these plugins (list as YAML)."""

    def __init__(self, plugins="[]", more="", secrets=None, extension=None, raw=None, **env):
        super().__init__(**dict({"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "0", "USER_CMD": "true",
                                 "PAI_CURRENT_TASK_ROLE_NAME": "worker", "PAI_TASK_ROLE_LIST": "worker",
                                 "GANG_ALLOCATION": "true"}, **env))
        self.bin = self.at("/fake")
        os.makedirs(self.bin)
        self.env["PATH"] = self.bin + ":" + self.env["PATH"]
        if secrets:
            self.write(PAI + "/secrets/secrets.yaml", secrets)
        if extension:
            self.write(PAI + "/user-extension-secrets/userExtensionSecrets.yaml", extension)
        config = "taskRoles: {worker: {instances: 1}}\n" + more + \
            "extras: {com.microsoft.pai.runtimeplugin: " + plugins + "}\n"
        self.write("/framework.json", json.dumps(framework(raw or config, [("worker", 1)])))
        self.init = self.run("init", "--framework", self.at("/framework.json"),
                             "--steps", "install,config,plugins,command")

    def fake(self, name, script, where=None):
        """Creates a program from this POSIX script on PATH or at a path."""
        path = self.at(where) if where else os.path.join(self.bin, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)

    def sh(self, shell, script="precommands.sh", **env):
        """Runs a script of runtime.d like `run`.  PAI_SHELL must be one word, so it is a program
        that starts this shell."""
        word = shutil.which(shell)
        if shell == "busybox":
            word = os.path.join(self.bin, "ash")
            if not os.path.exists(word):
                os.symlink(os.path.realpath(shutil.which("busybox")), word)
        return subprocess.run([word, self.at(D + "/" + script)], env=dict(self.env, PAI_SHELL=word, **env),
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE,
                              cwd=self.path)


def indent(text, n):
    return "".join(" " * n + line + "\n" for line in text.splitlines())
