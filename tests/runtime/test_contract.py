"""Inputs of the runtime from a pod: in the profile openpai, all inputs of openpai-runtime, so that
both runtimes work; in the profile plain, all inputs of pai-runtime; with both ways of delivery.
And the image of the Dockerfile."""
import glob
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile

from checks import TOP, check, equal, finish, tests

REST_LIT = os.path.abspath(os.environ.get("REST_LIT", os.path.join(TOP, os.environ.get("B", "build"), "rest-lit")))
GOLDEN = os.path.join(TOP, "tests/golden/examples")

# ---- the contract ------------------------------------------------------------------------------
FRAMEWORK_ENV = ["PAI_FRAMEWORK_NAME", "PAI_JOB_NAME", "PAI_USER_NAME", "PAI_DEFAULT_FS_URI",
                 "PAI_TASK_ROLE_COUNT", "PAI_TASK_ROLE_LIST", "PAI_VIRTUAL_CLUSTER", "PAI_USERNAME",
                 "PAI_TASKS_NUM", "PAI_JOB_TASK_COUNT", "PAI_TASK_ROLES_NUM", "PAI_JOB_TASK_ROLE_COUNT",
                 "PAI_JOB_TASK_ROLE_LIST"]
ROLE_ENV = ["PAI_TASK_ROLE_TASK_COUNT_", "PAI_RESOURCE_", "PAI_MIN_FAILED_TASK_COUNT_",
            "PAI_MIN_SUCCEEDED_TASK_COUNT_"]
TASK_ENV = ["PAI_CURRENT_TASK_ROLE_NAME", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"]
INIT_ENV = ["USER_CMD", "KUBE_APISERVER_ADDRESS", "REST_SERVER_URI", "GANG_ALLOCATION"]
APP_ENV = ["PAI_TASK_INDEX"]
SECRETS = {"-configcred": "/usr/local/pai/secrets", "-usercred": "/usr/local/pai/user-extension-secrets"}
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"


def env(container):
    return {v["name"]: v for v in container["env"]}


def mounts(container):
    return {m["mountPath"]: m for m in container["volumeMounts"]}


def volume(pod, container, path):
    """The volume mounted at this path, or {}."""
    name = mounts(container).get(path, {}).get("name")
    return next((v for v in pod["volumes"] if v["name"] == name), {})


def sections(objects):
    """(role, pod template, init, app) of every role of the Framework."""
    for role in objects[-1]["spec"]["taskRoles"]:
        pod = role["task"]["pod"]
        yield role, pod, pod["spec"]["initContainers"][0], pod["spec"]["containers"][0]


def check_environment(what, objects):
    """The environment has the names that both runtimes, plugins and commands use."""
    roles = None
    for role, _, init, app in sections(objects):
        for name, container, own in (("init", init, INIT_ENV), ("app", app, APP_ENV)):
            there = env(container)
            roles = there["PAI_TASK_ROLE_LIST"]["value"].split(",")
            suffixes = [re.sub(r"[-.~]", "_", r) if is_v1(objects) else r for r in roles]
            wanted = FRAMEWORK_ENV + TASK_ENV + own + [p + r for p in ROLE_ENV for r in suffixes]
            equal(f"{what}: {role['name']}: environment of {name}", [n for n in wanted if n not in there], [])
        check(f"{what}: {role['name']}: the command is init's alone", "USER_CMD" not in env(app))
        index = env(app)["PAI_TASK_INDEX"].get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        equal(f"{what}: {role['name']}: index, from FrameworkController", index,
              "metadata.annotations['FC_TASK_INDEX']")
        check(f"{what}: {role['name']}: the role's own name", env(app)["PAI_CURRENT_TASK_ROLE_NAME"]["value"] in roles)
    equal(f"{what}: all roles are named", len(roles), len(objects[-1]["spec"]["taskRoles"]))


def is_v1(objects):
    return '"jobName"' in objects[-1]["metadata"]["annotations"]["config"]


def check_framework(what, objects):
    """The Framework has the members that the runtime reads."""
    metadata = objects[-1]["metadata"]
    job = env(next(sections(objects))[3])["PAI_FRAMEWORK_NAME"]["value"]
    equal(f"{what}: name", metadata["name"], hashlib.md5(job.encode()).hexdigest())
    check(f"{what}: the job, for plugins", metadata["annotations"].get("config"))
    for role, pod, _, _ in sections(objects):
        ports = json.loads(pod["metadata"]["annotations"]["rest-server/port-scheduling-spec"])
        equal(f"{what}: {role['name']}: ports", sorted(ports), ["ports", "schedulePortEnd", "schedulePortStart"])
        check(f"{what}: {role['name']}: ports for ssh and http", {"ssh", "http"} <= set(ports["ports"]), ports)
        check(f"{what}: {role['name']}: number of tasks", isinstance(role["taskNumber"], int))
        equal(f"{what}: {role['name']}: as Kubernetes calls it", re.sub("[a-z0-9]", "", role["name"]), "")


def check_volumes(what, objects, logs):
    secrets = {o["metadata"]["name"][32:] for o in objects if o["kind"] == "Secret"}
    name = objects[-1]["metadata"]["name"]
    for role, pod, init, app in sections(objects):
        where, pod = f"{what}: {role['name']}", pod["spec"]
        check(f"{where}: one work volume", volume(pod, init, "/usr/local/pai") == volume(pod, app, "/usr/local/pai")
              and "emptyDir" in volume(pod, init, "/usr/local/pai"))
        check(f"{where}: one place for logs", mounts(init).get("/usr/local/pai/logs") ==
              mounts(app).get("/usr/local/pai/logs") and logs in volume(pod, app, "/usr/local/pai/logs"))
        equal(f"{where}: exit specification", volume(pod, init, "/usr/local/pai-config").get("configMap", {}).get("name"),
              "runtime-exit-spec-configuration")
        check(f"{where}: ... for init only", "/usr/local/pai-config" not in mounts(app))
        for suffix, path in SECRETS.items():
            for container in (init, app):
                equal(f"{where}: {container['name']}: {path}",
                      volume(pod, container, path).get("secret", {}).get("secretName"),
                      name + suffix if suffix in secrets else None)
        check(f"{where}: shared memory", volume(pod, app, "/dev/shm").get("emptyDir", {}).get("medium") == "Memory")


def check_containers(what, objects):
    for role, pod, init, app in sections(objects):
        where, pod = f"{what}: {role['name']}", pod["spec"]
        equal(f"{where}: containers", [c["name"] for c in pod["initContainers"] + pod["containers"]], ["init", "app"])
        equal(f"{where}: never restarted in place", pod["restartPolicy"], "Never")
        equal(f"{where}: account", pod["serviceAccountName"], "runtime-account")
        equal(f"{where}: the runtime starts the task", app["command"], ["/usr/local/pai/runtime"])
        equal(f"{where}: where failures are explained", app.get("terminationMessagePath"), "/tmp/pai-termination-log")
        check(f"{where}: init's own message goes the usual way", "terminationMessagePath" not in init)


def check_openpai(what, objects):
    check_environment(what, objects)
    check_framework(what, objects)
    check_volumes(what, objects, "hostPath")
    check_containers(what, objects)
    framework = objects[-1]["metadata"]
    for role, pod, init, app in sections(objects):
        where, pod = f"{what}: {role['name']}", pod["spec"]
        check(f"{where}: network of the host", pod.get("hostNetwork") is True)
        check(f"{where}: token in every container", "automountServiceAccountToken" not in pod)
        equal(f"{where}: logs", (volume(pod, app, "/usr/local/pai/logs")["hostPath"]["path"],
                                 mounts(app)["/usr/local/pai/logs"]["subPath"]),
              ("/var/log/pai", "/".join((framework["labels"]["userName"],
                                         framework["annotations"]["logPathInfix"], role["name"]))))
        check(f"{where}: nothing optional", "optional" not in volume(pod, init, "/usr/local/pai-config")["configMap"])
        equal(f"{where}: time to end", role["task"]["podGracefulDeletionTimeoutSec"], 600)


def check_plain(what, objects):
    check_environment(what, objects)
    check_framework(what, objects)
    check_volumes(what, objects, "emptyDir")
    check_containers(what, objects)
    for role, pod, init, app in sections(objects):
        where, pod = f"{what}: {role['name']}", pod["spec"]
        check(f"{where}: addresses of their own", "hostNetwork" not in pod)
        check(f"{where}: the token is mounted by hand", pod["automountServiceAccountToken"] is False)
        sources = volume(pod, init, TOKEN).get("projected", {}).get("sources", [])
        equal(f"{where}: token, authority and namespace for init", sorted(k for s in sources for k in s),
              ["configMap", "downwardAPI", "serviceAccountToken"])
        check(f"{where}: and nothing of it for the app", TOKEN not in mounts(app) and
              volume(pod, init, TOKEN)["name"] not in [m["name"] for m in app["volumeMounts"]])
        check(f"{where}: settings of init", {"BARRIER_CHECK_INTERVAL_SEC", "BARRIER_CHECK_TIMEOUT_SEC"} <= set(env(init)))
        equal(f"{where}: the runtime ends what is left just before the kubelet does",
              env(app)["PAI_TERM_GRACE_SEC"]["value"], str(pod["terminationGracePeriodSeconds"]))
        check(f"{where}: and FrameworkController later still",
              role["task"]["podGracefulDeletionTimeoutSec"] > pod["terminationGracePeriodSeconds"])


# ---- delivery by ConfigMap -----------------------------------------------------------------------
def standin():
    """A program that rest-lit accepts as pai-runtime; the one under test may have another build."""
    directory = tempfile.mkdtemp(prefix="pai-runtime-")
    path = os.path.join(directory, "pai-runtime")
    subprocess.run(["gcc", "-x", "c", "-static", "-nostdlib", "-o", path, "-"], check=True,
                   input=b"void _start(void);\nvoid _start(void) { for (;;) __asm__ volatile(\"\"); }\n")
    return path


def translated(path, *arguments):
    result = subprocess.run([REST_LIT, "translate", "--user", "alice", "--facts", "tests/e2e/facts.json", *arguments,
                             path], capture_output=True, cwd=TOP, check=False)
    return json.loads(result.stdout)["items"] if check(f"translate {path} {arguments}", result.returncode == 0,
                                                       result.stderr) else None


def settings_of_init():
    """Names of all variables that configure init."""
    found = set()
    for path in glob.glob(os.path.join(TOP, "runtime-assets/**/*.c"), recursive=True):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        if os.path.basename(path) == "code.c":  # its other variables count only beside this one
            found.add("PAI_CODE_SHA256")
            continue
        found |= set(re.findall(r'env_get\("([A-Z0-9_]+)"\)', text))
        found |= set(re.findall(r'"(BARRIER_[A-Z0-9_]+)"', text))
    return found


def check_settings_of_init(what, objects, settings):
    """With a ConfigMap, init runs in an image of the author, so the pod sets all variables of init,
    which the ENV of the image could set otherwise."""
    for role, pod, init, _ in sections(objects):
        # FrameworkController gives FC_*, the kubelet KUBERNETES_*, both to every container.
        left = [n for n in settings if not n.startswith(("FC_", "KUBERNETES_")) and n not in env(init)]
        equal(f"{what}: {role['name']}: settings that an image could make", left, [])
        equal(f"{what}: {role['name']}: nothing of the image is run", init["command"],
              ["/usr/local/pai-bin/pai-runtime", "init"])
        check(f"{what}: {role['name']}: read-only", mounts(init)["/usr/local/pai-bin"].get("readOnly"))
        names = [v["name"] for v in init["env"]]
        equal(f"{what}: {role['name']}: no variable twice", [n for n in names if names.count(n) > 1], [])
        check(f"{what}: {role['name']}: of one architecture", "kubernetes.io/arch" in pod["spec"]["nodeSelector"])


def test_program_of_the_architecture_is_chosen():
    """With two architectures, the shell selects the program by the output of `uname -m`."""
    program = standin()
    other = program + ".other"
    with open(program, "rb") as f:
        data = bytearray(f.read())
    data[18:20] = {62: 183, 183: 62}[data[18]].to_bytes(2, "little")  # e_machine: x86_64, aarch64
    with open(other, "wb") as f:
        f.write(data)
    objects = translated("examples/distributed.yaml", "--runtime", "configmap", "--runtime-binary", f"{program},{other}",
                         "--runtime-image", "busybox:1.36")
    for role, pod, init, _ in sections(objects):
        with tempfile.TemporaryDirectory(prefix="pai-runtime-") as where:
            for source in volume(pod["spec"], init, "/usr/local/pai-bin")["projected"]["sources"]:
                for item in source["configMap"]["items"]:
                    script(os.path.join(where, item["path"]), f'echo "{source["configMap"]["name"]} $*"')
            command = [word.replace("/usr/local/pai-bin", where) for word in init["command"]]
            for machine, arch in (("x86_64", "amd64"), ("aarch64", "arm64"), ("riscv64", None)):
                script(os.path.join(where, "bin/uname"), f'[ "$1" = -m ] && echo {machine}')
                done = subprocess.run(command, capture_output=True, check=False, text=True,
                                      env={"PATH": os.path.join(where, "bin")})
                what = f"two architectures: {role['name']}: {machine}"
                if arch:
                    check(what, re.fullmatch(f"pai-runtime-{arch}-[0-9a-f]{{16}} init\n", done.stdout), done)
                else:
                    check(what, done.returncode == 127 and f"{machine}/pai-runtime" in done.stderr, done)
    shutil.rmtree(os.path.dirname(program))


def script(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\n{text}\n")
    os.chmod(path, 0o755)


# ---- the image --------------------------------------------------------------------------------------
def instructions():
    """(INSTRUCTION, arguments) of the stage `runtime` of the Dockerfile."""
    with open(os.path.join(TOP, "Dockerfile"), encoding="utf-8") as f:
        text = "\n".join(line for line in f.read().splitlines() if not line.startswith("#"))
    text = re.search(r"^(FROM scratch AS runtime\n.*?)^FROM ", text, re.M | re.S)[1]
    return [tuple(line.split(None, 1)) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def asked_image():
    with open(os.path.join(TOP, "translate/job/settings.h"), encoding="utf-8") as f:
        return re.search(r'RUNTIME_IMAGE "([^"]+)"', f.read())[1]


def made_image():
    with open(os.path.join(TOP, "Makefile"), encoding="utf-8") as f:
        text = f.read()
    version = re.search(r"^VERSION := (\S+)$", text, re.M)[1]
    return re.search(r"^runtime-image: IMAGE \?= (\S+)$", text, re.M)[1].replace("$(VERSION)", version)


def test_image_contains_the_program_alone():
    """By the Dockerfile; tests/images builds it, and test_static.py runs the program in an empty root."""
    steps = instructions()
    equal("image: from nothing, one file", [n for n, _ in steps if n not in ("ARG", "LABEL")],
          ["FROM", "COPY", "ENTRYPOINT", "CMD"])
    values = dict(steps)
    stage, source, target = shlex.split(values["COPY"])
    equal("image: what is copied is the program", (stage, source), ("--from=build", "/src/build/pai-runtime"))
    equal("image: the name that make runtime-image gives is the one that pods ask for", made_image(), asked_image())
    command = json.loads(values["ENTRYPOINT"]) + json.loads(values["CMD"])
    equal("image: pods give no command, and get init", command, [target, "init"])


def check_builder():
    """The image builder gets the arguments of the version and the base."""
    with tempfile.TemporaryDirectory(prefix="pai-runtime-") as where:
        tool = [os.path.join(TOP, "tests/tools/image"), "runtime", "here/it:1", "1.2.3"]
        for name in ("buildah", "docker"):
            builder = os.path.join(where, name)
            with open(builder, "w", encoding="utf-8") as f:
                f.write('#!/bin/sh\necho "$@"\n')
            os.chmod(builder, 0o755)
            done = subprocess.run(tool, capture_output=True, check=False, text=True,
                                  env={**os.environ, "BUILDER": builder, "SOURCE_DATE_EPOCH": "7", "BASE": "mine"})
            times = "--build-arg SOURCE_DATE_EPOCH" if name == "docker" else "--timestamp 7"
            check(f"builder: {name}", done.returncode == 0 and re.match(
                f"build {times} --target runtime --build-arg VERSION=1.2.3 --build-arg REVISION=[0-9a-f]* "
                "--build-arg BASE=mine -t here/it:1 .\n", done.stdout), done)
        done = subprocess.run(tool, capture_output=True, check=False, text=True,
                              env={"PATH": nothing_but(where, "dirname", "cat", "bash", "env")})
        check("builder: none, and what to do then", done.returncode == 1 and "--runtime=configmap" in done.stderr, done)


def nothing_but(where, *names):
    """A PATH on which these are, and no builder."""
    folder = os.path.join(where, "bin")
    os.makedirs(folder)
    for name in names:
        os.symlink(shutil.which(name), os.path.join(folder, name))
    return folder


def test_recorded_pods_have_all_inputs():
    for profile, test in (("openpai", check_openpai), ("plain", check_plain)):
        files = sorted(glob.glob(os.path.join(GOLDEN, f"*.{profile}.json")))
        check(f"{profile}: there are examples", len(files) >= 8, files)
        for path in files:
            with open(path, encoding="utf-8") as f:
                test(os.path.basename(path), json.load(f))


def test_translated_pods_have_all_inputs():
    program, settings = standin(), settings_of_init()
    check("init has settings", {"USER_CMD", "INIT_CONFIG", "BARRIER_CHECK_TIMEOUT_SEC"} <= settings, settings)
    for profile, test in (("openpai", check_openpai), ("plain", check_plain)):
        for job in ("examples/distributed.yaml", "examples/tfDemo.json"):
            objects = translated(job, "--profile", profile, "--runtime", "configmap", "--runtime-binary", program)
            if objects:
                test(f"{job} {profile} configmap", objects)
                check_settings_of_init(f"{job} {profile} configmap", objects, settings)
    check_builder()
    shutil.rmtree(os.path.dirname(program))


tests(test_recorded_pods_have_all_inputs, test_translated_pods_have_all_inputs,
      test_program_of_the_architecture_is_chosen, test_image_contains_the_program_alone)
finish()
