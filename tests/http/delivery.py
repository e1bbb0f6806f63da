"""Delivery of pai-runtime into pods: the checks of `serve` at start, and --runtime=configmap."""
import base64
import json
import os
import re
import signal
import tempfile

from fakeapi import FakeApi, fake_server, served
from harness import ROOT, Server, database_objects, framework_name, in_threads, job_v2, run, wait_until
from program import OTHER, configmap_name, configmaps_of, exist, lines, missing, program, programs

EXIT_SPEC = "runtime-exit-spec-configuration"
THERE = "the ConfigMap with pai-runtime is ready"
NOT_YET = "jobs are refused until"


def by_configmap(api, *arguments, **more):
    return fake_server(api, "--runtime", "configmap", "--runtime-binary", program(), *arguments, **more)


# ---- what is looked for -----------------------------------------------------------------------
def test_start_reports_that_all_pod_objects_exist(check):
    api = FakeApi()
    api.put("serviceaccounts", {"metadata": {"name": "runtime-account"}})
    api.put("configmaps", {"metadata": {"name": EXIT_SPEC}})
    with fake_server(api) as server:
        check.ok("all there: is said", exist(server), server.log())
        check.equal("all there: nothing is missing", missing(server), [])


def test_start_names_missing_pod_objects_and_remedies(check):
    for profile, means in (("plain", "failures are not explained"), ("openpai", "no pod can start")):
        with served("--profile", profile) as (api, server):
            more = ["PriorityClass pai-job-minimal-priority"] if profile == "openpai" else []
            found = {" ".join(line["found"].split(":")[0].split()[3:5]): line for line in missing(server, 2 + len(more))}
            check.equal(f"{profile}: all are named", sorted(found), [
                f"ConfigMap {EXIT_SPEC}", *more, "ServiceAccount runtime-account"])
            for what in more:
                check.ok(f"{profile}: the remedy of {what}", "kubectl create priorityclass pai-job-minimal-priority" in
                         found.pop(what, {"mend": ""})["mend"], found)
            check.equal(f"{profile}: as warnings", {m["level"] for m in found.values()}, {"warn"})
            check.ok(f"{profile}: what it means", found[f"ConfigMap {EXIT_SPEC}"]["found"].endswith(f"in namespace default: {means}"), found)
            check.equal(f"{profile}: and the remedy", [m["mend"] for _, m in sorted(found.items())], [
                f"sed -e 's/namespace: pai-jobs/namespace: default/' k8s/deploy/jobs/{file} | kubectl apply -f -"
                for file in ("exit-spec-configmap.yaml", "runtime-account.yaml")])
            check.equal(f"{profile}: jobs are taken all the same", server.submit(job_v2("m")).status, 202)
        api.close()


UNKNOWN = "FrameworkController does not know"


def controller_config(*without):
    """The ConfigMap of the manifests, without the entries of these codes."""
    with open(os.path.join(ROOT, "k8s/deploy/options/frameworkcontroller/config.yaml"), encoding="utf-8") as f:
        text = f.read().split("  frameworkcontroller.yaml: |\n", 1)[1]
    head, *entries = re.split(r"^    (?=- code: )", text, flags=re.M)
    text = head + "".join("    " + e for e in entries if int(e.split()[2]) not in without)
    return {"metadata": {"name": "frameworkcontroller", "namespace": "frameworkcontroller"},
            "data": {"frameworkcontroller.yaml": "\n".join(line[4:] for line in text.splitlines())}}


def test_start_names_codes_that_the_controller_lacks(check):
    for without, wanted in (((), None), ((248, 251), "248, 251")):
        api = FakeApi()
        api.put("configmaps", controller_config(*without))
        with fake_server(api) as server:
            check.equal("all else is missing", len(missing(server, 2)), 2)
            check.ok("the configuration is asked for", wait_until(lambda: any(
                "/namespaces/frameworkcontroller/configmaps/" in r[1] for r in api.requests)))
            said = lines(server, UNKNOWN, 1 if wanted else 0, "found")
            check.equal(f"without {without}", [f"({wanted}):" in line["found"] for line in said], [True] if wanted else [])
            check.ok("and the remedy", all("k8s/deploy/options/frameworkcontroller/config.yaml" in line["mend"] for line in said), said)
        api.close()


def test_log_names_a_code_that_the_controller_lacked(check):
    def ended(job, code, phrase):
        return {"metadata": {"name": framework_name(job), "labels": {"userName": "alice"}, "annotations": {"jobName": f"alice~{job}"}},
                "spec": {"executionType": "Start", "taskRoles": []},
                "status": {"state": "Completed", "attemptStatus": {"completionStatus": {"code": code, "phrase": phrase}}}}
    with served() as (api, server):
        check.ok("ready", server.ready())
        api.put("frameworks", ended("known", 251, "JobGangAllocationTimeout"))
        api.put("frameworks", ended("user", 7, "ContainerUnrecognizedFailed"))
        api.put("frameworks", ended("first", 250, "ContainerUnrecognizedFailed"))
        api.put("frameworks", ended("second", 251, "ContainerUnrecognizedFailed"))
        api.put("frameworks", ended("last", 0, "Succeeded"))
        check.ok("all are known", wait_until(lambda: "last" in server.request("GET", "/api/v2/jobs").body.decode()))
        said = lines(server, UNKNOWN, 1, "found")
        check.equal("at the first", [f"(250, of Framework {framework_name('first')}):" in line["found"] for line in said], [True])


GPU = "nvidia.com/gpu"


def test_start_names_a_label_that_no_node_has(check):
    """The cases are those of `rest-lit check` (checking.py)."""
    with served("--profile", "openpai") as (_, server):
        said, = lines(server, "no node", 1, "found")
        check.equal("the label", said["found"], "no node has the label that pods ask for: pai-worker=true")
        check.ok("what all pods ask for", "no pod is ever scheduled" in said["mend"], said)


def test_job_larger_than_all_nodes_waits_with_a_reason(check):
    """A job whose tasks fit no node is accepted, since nodes may be added; its reason has the numbers."""
    api = FakeApi()
    for i, gpus in enumerate((4, 8)):
        api.put("nodes", {"metadata": {"name": f"n{i}"}, "status": {"allocatable": {GPU: str(gpus)}}})
    with fake_server(api, "--profile", "openpai") as server:
        wait_until(lambda: any(r[1] == "/api/v1/nodes" for r in api.requests))
        for name, gpus, why in (("large", 16, "asks for 16 GPUs a task; the largest node had 8 when the server last looked"),
                                ("fits", 8, None)):
            text = re.sub(r'"gpu": \d+', f'"gpu": {gpus}', job_v2(name))
            check.equal(f"{name} is accepted", server.submit(text).status, 202)
            def reason():
                status = server.request("GET", f"/api/v2/jobs/alice~{name}").json["jobStatus"]
                return (status.get("waitingReason") or {}).get("message")
            check.ok(name, wait_until(lambda: reason() == why), reason())


def test_remedy_uses_the_configured_names(check):
    with served("--service-account", "robot", "--namespace", "jobs") as (api, server):
        line = [m for m in missing(server, 2) if "ServiceAccount robot" in m["found"]]
        check.equal("remedy for other names", line and line[0]["mend"],
                    "sed -e 's/runtime-account/robot/' -e 's/namespace: pai-jobs/namespace: jobs/' "
                    "k8s/deploy/jobs/runtime-account.yaml | kubectl apply -f -")


def test_missing_right_to_check_is_no_fault(check):
    api = FakeApi()
    api.fault("GET", "serviceaccounts", status=403)
    api.fault("GET", "configmaps", status=403)
    with fake_server(api) as server:
        said = lines(server, "get ", 2, "found")
        check.equal("403: is said", [m["found"].split(":")[0] for m in said], ["get serviceaccounts", "get configmaps"])
        check.equal("403: is no fault", {(m["level"], m["msg"]) for m in said}, {("info", "check: skipped")})
        check.ok("403: names the right", all("k8s/deploy/rbac/rbac.yaml" in m["mend"] for m in said), said)
        check.equal("403: nothing is missing", missing(server), [])
        check.equal("403: jobs are taken", server.submit(job_v2("m")).status, 202)


def test_unresponsive_api_server_does_not_delay_the_start(check):
    """An unresponsive API server does not delay the start or jobs; the checks are repeated when it
    is available."""
    api = FakeApi()
    api.fault("GET", "serviceaccounts", hang="before")
    api.fault("GET", "configmaps", times=2, status=503)
    with fake_server(api, "--in-flight", "1", "--loops", "1") as server:
        check.equal("hangs: jobs are taken", server.submit(job_v2("m")).status, 202)
        check.ok("503 twice: asked again", missing(server, 1), server.log())
        check.equal("hangs: stops at once", server.stop(5), 0)


# ---- the program --------------------------------------------------------------------------------
def test_configmap_of_the_runtime_is_created(check):
    api = FakeApi()
    path = program()
    name = configmap_name(path)
    with by_configmap(api) as server:
        check.ok("made: is said", lines(server, THERE, 1), server.log())
        there = api.objects.get(("configmaps", name))
        if check.ok("made: is there", there, list(api.objects)):
            with open(path, "rb") as f:
                check.equal("made: byte by byte", base64.b64decode(there["binaryData"]["pai-runtime"]),
                            f.read())
            check.ok("made: for good", there.get("immutable") is True, there.get("immutable"))
        check.ok("made: /readyz", server.ready())
        check.equal("made: jobs are taken", server.submit(job_v2("m")).status, 202)
        pod = api.objects["frameworks", framework_name("m")]["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
        check.equal("made: jobs refer to it", configmaps_of(pod), [name])
        check.equal("made: init runs it", pod["initContainers"][0]["command"],
                    ["/usr/local/pai-bin/pai-runtime", "init"])
    with by_configmap(api) as server:
        check.ok("second start: finds it", lines(server, THERE, 1), server.log())
        check.equal("second start: as it was", [m["how"] for m in lines(server, THERE)],
                    ["was there, and is the same"])


def test_configmap_that_cannot_be_read_is_accepted_by_name(check):
    """The server has the right to create the ConfigMap, but not to read it."""
    api = FakeApi()
    api.put("configmaps", {"metadata": {"name": configmap_name(program())}})
    api.fault("GET", "configmaps", status=403)
    with by_configmap(api) as server:
        check.ok("not compared: taken by its name", lines(server, THERE, 1), server.log())
        check.equal("not compared: jobs are taken", server.submit(job_v2("m")).status, 202)


def test_configmap_created_by_hand_is_found(check):
    """Created by `rest-lit translate --with-runtime`, for a server that may read but not create
    it."""
    api = FakeApi()
    both = run("translate", "--runtime", "configmap", "--runtime-binary", program(), "--with-runtime",
               "examples/hello-world.yaml")
    api.fault("POST", "configmaps", status=403)
    with by_configmap(api) as server:
        check.ok("by hand: not there yet", lines(server, NOT_YET, 1), server.log())
        check.ok("by hand: says which right it wants", '"create"' in server.submit(job_v2("m")).message)
        api.put("configmaps", json.loads(both.stdout)["items"][0])
        check.ok("by hand: found", lines(server, THERE, 1), server.log())
        check.equal("by hand: jobs are taken", server.submit(job_v2("m")).status, 202)


def test_configmap_with_other_content_is_refused(check):
    """An object with its name and other content, or a mutable one."""
    path = program()
    with open(path, "rb") as f:
        same = base64.b64encode(f.read()).decode()
    for what, body in (("other content", {"binaryData": {"pai-runtime": "AAAA"}, "immutable": True}),
                       ("more content", {"binaryData": {"pai-runtime": same, "x": "AAAA"}, "immutable": True}),
                       ("not immutable", {"binaryData": {"pai-runtime": same}})):
        api = FakeApi()
        api.put("configmaps", {"metadata": {"name": configmap_name(path)}, **body})
        with by_configmap(api) as server:
            check.ok(f"{what}: is said", lines(server, NOT_YET, 1), server.log())
            reply = server.submit(job_v2("m"))
            check.equal(f"{what}: no job is taken", reply.status, 503)
            check.ok(f"{what}: says why", "other content" in reply.message, reply)
            api.remove("configmaps", configmap_name(path))
            check.ok(f"{what}: made when that is gone", lines(server, THERE, 1))
            check.equal(f"{what}: then jobs are taken", server.submit(job_v2("m")).status, 202)
        api.close()


REFUSALS = [("403", {"status": 403}, "create"), ("422", {"status": 422}, "refuses"),
            ("503", {"status": 503}, "does not answer"), ("hangs", {"hang": "before"}, "does not answer"),
            ("cut", {"cut": "body"}, "does not answer")]


def refused(check, what, fault, word):
    api = FakeApi()
    api.fault("POST", "configmaps", **fault)
    with by_configmap(api) as server:
        reply = server.submit(job_v2("m"))
        check.equal(f"{what}: no job is taken", (reply.status, reply.code), (503, "UnavailableError"))
        check.ok(f"{what}: to be tried again", "retry-after" in reply.headers, reply)
        check.ok(f"{what}: says what it waits for", "pai-runtime" in reply.message, reply)
        check.equal(f"{what}: /readyz", server.request("GET", "/readyz").status, 503)
        check.equal(f"{what}: /healthz", server.request("GET", "/healthz").status, 200)
        check.ok(f"{what}: is logged", lines(server, NOT_YET, 1), server.log())
        check.ok(f"{what}: says why", word in server.submit(job_v2("m")).message)
        check.ok(f"{what}: no Framework", ("frameworks", framework_name("m")) not in api.objects)
        with api.lock:
            api.faults.clear()
        check.ok(f"{what}: made in the end", lines(server, THERE, 1), server.log())
        check.equal(f"{what}: then jobs are taken", server.submit(job_v2("m")).status, 202)
        check.equal(f"{what}: said once", len(lines(server, NOT_YET)), 1)


def test_configmap_that_cannot_be_created_blocks_jobs(check):
    """Until it exists, jobs are refused with the reason, and the server retries."""
    in_threads(len(REFUSALS), lambda i: check.run(lambda c: refused(c, *REFUSALS[i])))


def test_configmap_with_a_lost_answer_is_found(check):
    """A lost response to its creation: the object exists with the same content."""
    api = FakeApi()
    api.fault("POST", "configmaps", times=1, cut="done")
    with by_configmap(api) as server:
        check.ok("lost answer: found", lines(server, THERE, 1), server.log())
        check.equal("lost answer: jobs are taken", server.submit(job_v2("m")).status, 202)


def test_configmap_exists_for_each_architecture(check):
    """A ConfigMap each; without one of them no job is accepted."""
    api = FakeApi()
    first, second = programs().split(",")
    names = [configmap_name(first), configmap_name(second, OTHER[0])]
    api.put("configmaps", {"metadata": {"name": names[1]}, "binaryData": {"pai-runtime": "AAAA"}, "immutable": True})
    two = ("--runtime", "configmap", "--runtime-binary", f"{first},{second}", "--runtime-image", "busybox:1.36")
    with fake_server(api, *two) as server:
        check.ok("two: the first is made", lines(server, THERE, 1)[0]["object"] == f"ConfigMap {names[0]}", server.log())
        check.ok("two: the second is another's", lines(server, NOT_YET, 1)[0]["object"] == f"ConfigMap {names[1]}", server.log())
        reply = server.submit(job_v2("m"))
        check.ok("two: no job is taken", reply.status == 503 and "other content" in reply.message, reply)
        check.equal("two: /readyz", server.request("GET", "/readyz").status, 503)
        api.remove("configmaps", names[1])
        check.ok("two: both are made", len(lines(server, THERE, 2)) == 2, server.log())
        check.equal("two: jobs are taken", server.submit(job_v2("m")).status, 202)
        pod = api.objects["frameworks", framework_name("m")]["spec"]["taskRoles"][0]["task"]["pod"]["spec"]
        check.equal("two: jobs refer to both", configmaps_of(pod), names)
        check.ok("two: any node", "kubernetes.io/arch" not in pod.get("nodeSelector", {}), pod)
        for name in names:
            check.ok(f"two: {name} is a program", ("configmaps", name) in api.objects and
                     api.objects["configmaps", name]["immutable"], name)


def test_configmap_is_stored_on_one_machine(check):
    name = configmap_name(program())
    with Server("--engine=none", "--local", "jobs", "--runtime", "configmap", "--runtime-binary", program()) as server:
        check.ok("directory: made", lines(server, THERE, 1), server.log())
        check.ok("directory: stored", database_objects(os.path.join(server.directory, "jobs"), name))
        check.equal("directory: jobs are taken", server.submit(job_v2("m")).status, 202)
        check.equal("directory: nothing is looked for", lines(server, "pods", key="item"), [])


def test_sighup_repeats_the_checks_of_pod_objects(check):
    """The signal is sent after an object was repaired or deleted."""
    api = FakeApi()
    with by_configmap(api) as server:
        check.ok("SIGHUP: before", lines(server, THERE, 1) and missing(server, 2))
        api.put("serviceaccounts", {"metadata": {"name": "runtime-account"}})
        api.remove("configmaps", configmap_name(program()))
        for n in range(1, 1000):  # what is being looked for is not looked for twice
            server.process.send_signal(signal.SIGHUP)
            if "checking the objects of pods again" in lines(server, "SIGHUP: ", n)[-1]["msg"]:
                break
        check.ok("SIGHUP: what is still missing", len(missing(server, 3)) == 3, server.log())
        check.ok("SIGHUP: and that alone", f"ConfigMap {EXIT_SPEC}" in missing(server)[-1]["found"], server.log())
        check.ok("SIGHUP: what is gone is made again", wait_until(
            lambda: ("configmaps", configmap_name(program())) in api.objects), server.log())
        check.equal("SIGHUP: jobs are taken", server.submit(job_v2("m")).status, 202)


# ---- what is no program ------------------------------------------------------------------------
def test_invalid_runtime_programs_are_refused(check):
    big = os.path.join(tempfile.mkdtemp(prefix="rest-lit-test."), "big")
    with open(big, "wb") as f:
        f.truncate((1 << 20) + 1)
    pipe = os.path.join(os.path.dirname(big), "pipe")
    os.mkfifo(pipe)
    # Programs of all kinds: tests/unit/server/config/test_elf_check.c.
    for what, path, word in (("a text", __file__, "not a program"), ("nothing", "/nonexistent", "No such file"),
                             ("needs libraries", program("-nostartfiles", name="dynamic"), "dynamically"),
                             ("too large", big, "1048576"), ("a pipe", pipe, "not a regular file")):
        where = os.path.join(tempfile.mkdtemp(prefix="rest-lit-test."), "jobs")
        for command, more in (
                ("serve", ["--listen", "127.0.0.1:0", "--no-auth", "--user", "alice", "--local", where, "--engine", "none"]),
                ("translate", ["examples/hello-world.yaml"])):
            result = run(command, "--runtime", "configmap", "--runtime-binary", path, *more)
            check.equal(f"{what}: {command} ends", result.returncode, 2)
            check.ok(f"{what}: {command} says so", word.encode() in result.stderr, result.stderr.decode())


def test_invalid_pairs_of_runtime_programs_are_refused(check):
    first, second = programs().split(",")
    for what, paths, more, words in (
            ("two for one", f"{first},{first}", ["--runtime-image", "busybox"], "another architecture"),
            ("three", f"{first},{second},{second}", ["--runtime-image", "busybox"], "more than 2 files"),
            ("no second", f"{first},/nonexistent", ["--runtime-image", "busybox"], "/nonexistent: No such file"),
            ("an empty name", f"{first},,{second}", ["--runtime-image", "busybox"], "a name of a file is empty"),
            ("an empty name at the end", f"{first},", ["--runtime-image", "busybox"], "a name of a file is empty"),
            ("no shell", f"{first},{second}", [], "set --runtime-image to an image for both with /bin/sh")):
        result = run("translate", "--runtime", "configmap", "--runtime-binary", paths, *more, "examples/hello-world.yaml")
        check.equal(f"{what}: ends", result.returncode, 2)
        check.ok(f"{what}: says so", words.encode() in result.stderr, result.stderr.decode())


def test_translate_prints_the_runtime_configmap(check):
    arguments = ["--runtime", "configmap", "--runtime-binary", program()]
    plain = run("translate", *arguments, "examples/hello-world.yaml")
    both = run("translate", *arguments, "--with-runtime", "examples/hello-world.yaml")
    kinds = [[o["kind"] for o in json.loads(r.stdout)["items"]] for r in (plain, both)]
    check.equal("translate: the job alone", kinds[0], ["Framework"])
    check.equal("translate --with-runtime: the ConfigMap first", kinds[1], ["ConfigMap", "Framework"])
    two = run("translate", "--runtime", "configmap", "--runtime-binary", programs(), "--runtime-image", "busybox",
              "--with-runtime", "examples/hello-world.yaml")
    check.equal("translate --with-runtime: both ConfigMaps", [o["kind"] for o in json.loads(two.stdout)["items"]],
                ["ConfigMap", "ConfigMap", "Framework"])
    image = run("translate", "--with-runtime", "examples/hello-world.yaml")
    check.equal("translate --with-runtime by image: nothing more",
                [o["kind"] for o in json.loads(image.stdout)["items"]], ["Framework"])
