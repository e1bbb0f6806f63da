"""A server with jobs in all states, for pictures and for tests of all pages."""
import re
import time

from harness import wait_until
from machine import Machine, role
from selenium.webdriver.common.keys import Keys
from signin import PASSWORD, Cluster
from tokens import token

FOREVER = "while sleep 1; do :; done"
# The text of the editor is included.
RESNET = r"""# ResNet-50 on CIFAR-10: two workers with two GPUs each, and a parameter server.
protocolVersion: 2
name: resnet-cifar10
type: job
jobRetryCount: 1
prerequisites:
  - {name: image, type: dockerimage, uri: "debian:12-slim"}
taskRoles:
  worker:
    instances: 2
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 2}
    commands:
      - printf '\033[1mLoading\033[0m cifar-10 ... \033[32mok\033[0m, 50000 images\n'
      - |
        for epoch in 1 2 3; do
          for step in 20 40 60 80; do
            printf '\repoch %s  [%3s%%]' $epoch $step; sleep 0.05
          done
          printf '\repoch %s  [100%%]  loss 0.%s  \033[33maccuracy 0.%s\033[0m\n' \
            $epoch $((800 - epoch * 200)) $((700 + epoch * 60))
        done
      - echo 'saved checkpoint-3.pt' >&2
      - while sleep 1; do :; done
  ps:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}
    commands:
      - while sleep 1; do :; done
"""
FAIL = ("printf 'epoch 1, loss 0.93\\n'; printf '\\033[31mTraceback (most recent call last):\\033[0m\\n  File \"train.py\", line 12\\n"
        "RuntimeError: CUDA error: out of memory\\n' >&2; exit 1")


class Scene(Machine):
    def __init__(self, **more):
        super().__init__(gpus=8, **more)
        self.cluster = Cluster()
        self.cluster.store("alice", token("alice", application=True, exp=int(time.time()) + 30 * 86400))
        reply = self.submit(RESNET)
        if reply.status != 202:
            raise RuntimeError(reply)
        self.start("bert-large-pretraining", {"main": role(FOREVER, gpu=3)})
        self.start("mnist", {"main": role("echo done; exit 0")})
        self.start("out-of-memory", {"main": role(FAIL)})
        self.start("tuning-7", {"main": role(FOREVER)})
        wait_until(lambda: self.state("mnist") == "SUCCEEDED" and self.state("out-of-memory") == "FAILED")
        self.stop_job("tuning-7")
        self.start("gpt-finetune", {"main": role("true", gpu=8)})
        self.start("ablation-1", {"main": role("true", gpu=2)})
        wait_until(lambda: self.state("tuning-7") == "STOPPED")
        for tag in ("cifar", "baseline"):
            self.request("PUT", "/api/v2/jobs/alice~resnet-cifar10/tag", f'{{"value": "{tag}"}}', {"Content-Type": "application/json"})

    def of(self, name):
        """The server of this row of PAGES: that of the sign-in and of the account has passwords."""
        return self.cluster.server if name in ("sign-in", "account") else self

    def remove(self):
        self.cluster.__exit__()
        super().remove()


def with_mistake(page):
    """The text of a job, with a key that does not exist."""
    mistake = re.compile(r"\d mistake")
    if not mistake.search(page.body()):
        page.shows("No mistakes")
        page.find("textbox", "Job").send_keys(Keys.CONTROL, Keys.END, Keys.NULL, "priority: high")
    return page.shows(mistake)


def account(page):
    """The account, after signing in."""
    if page.find("textbox", "Password"):
        page.type("textbox", "User", "alice")
        page.type("textbox", "Password", PASSWORD + Keys.ENTER)
    return page.find("table", "Tokens")


# (name, hash, whether it is shown completely)
PAGES = [
    ("jobs", "#/jobs", lambda p: p.shows("stopped on request") and p.shows("CUDA error") and p.shows("gpt-finetune")),
    ("submit", "#/submit?from=alice~resnet-cifar10", with_mistake),
    ("job", "#/jobs/alice~resnet-cifar10", lambda p: p.shows("RUNNING") and p.shows(re.compile("checkpoint|epoch 3"))),
    ("failed", "#/jobs/alice~out-of-memory", lambda p: p.shows("FAILED") and p.shows("out of memory")),
    ("compare", "#/compare?jobs=alice~mnist,alice~tuning-7", lambda p: p.shows("commands") and p.shows("STOPPED")),
    ("machine", "#/machine", lambda p: p.shows("gpt-finetune") and p.shows("7 in use by jobs")),
    ("account", "#/account", account),
    ("sign-in", "#/sign-in", lambda p: p.find("textbox", "Password")),
]
