"""Programs with the environment of their Deployment's pod: its arguments, its files at their paths,
its user, and a read-only root."""
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

from harness import BINARY, PATIENCE, SLOW, Closing, Server, free_port, wait_until

SERVICES = "/api/v1/namespaces/rest-lit/services"

# $1: folder with the files of the volumes, in their places; $2: user; then the command.  The folders
# of the machine are not changed: an empty /etc and /run hide them in this mount namespace.
IN_POD = """#!/bin/sh
set -e
files=$1 user=$2
shift 2
mount --make-rprivate /
mount --bind "$files" /mnt
mount -t tmpfs tmpfs /run
mkdir /run/image /run/secrets
mount --bind "$(dirname "$BINARY")" /run/image
cp -a /mnt/var/run/secrets/. /run/secrets
mount -t tmpfs tmpfs /etc
cp -a /mnt/etc/. /etc
umount /mnt
mount -o remount,bind,ro / 2>/dev/null || true
mount -o remount,ro /etc
mount -o remount,ro /run
export PATH=/run/image:$PATH HOME=/
exec setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs --bounding-set=-all "$@"
"""


def service_variables(cluster, services):
    """The variables that the kubelet sets for these Services in the containers of their
    namespace."""
    found = {}
    for name in services:
        spec = cluster.api("GET", f"{SERVICES}/{name}")[1]["spec"]
        name, host = name.upper().replace("-", "_"), spec["clusterIP"]
        found[f"{name}_SERVICE_HOST"] = host
        for port in reversed(spec["ports"]):  # the first one stands for the Service
            number, way = str(port["port"]), f"{name}_PORT_{port['port']}_TCP"
            url = f"tcp://{'[' + host + ']' if ':' in host else host}:{number}"
            found.update({f"{name}_SERVICE_PORT": number, f"{name}_SERVICE_PORT_{port['name'].upper()}": number,
                          f"{name}_PORT": url, way: url, f"{way}_PROTO": "tcp", f"{way}_PORT": number, f"{way}_ADDR": host})
    return found


def own_address(cluster, service):
    """This machine answers at the address of the Service, as nodes do.  Another cluster of this
    machine may have the same one, so the Service gets a new one then.  Returns it."""
    for _ in range(20):
        value = cluster.api("GET", f"{SERVICES}/{service}")[1]
        address = value["spec"]["clusterIP"]
        if subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], capture_output=True,
                          check=False).returncode == 0:
            return address
        spec = {k: v for k, v in value["spec"].items() if not k.startswith("clusterIP")}
        cluster.api("DELETE", f"{SERVICES}/{service}")
        cluster.api("POST", SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": service}, "spec": spec})
    raise RuntimeError("no address for the Service")


class Pod:
    """The pod of a Deployment among these objects, on this machine."""

    def __init__(self, cluster, values, name, secrets):
        deployment = next(v for v in values if v["kind"] == "Deployment" and v["metadata"]["name"] == name)
        self.spec, self.space = deployment["spec"]["template"]["spec"], deployment["metadata"]["namespace"]
        self.cluster, self.values, self.secrets = cluster, values, secrets
        self.user = str(self.spec["securityContext"]["runAsUser"])
        self.token = self.new_token(3600)
        self.container, = self.spec["containers"]
        self.files = tempfile.mkdtemp(prefix="rest-lit-deployed.")
        os.chmod(self.files, 0o755)
        os.mkdir(os.path.join(self.files, "etc"))
        self.script = os.path.join(self.files, "in-pod")
        with open(self.script, "w", encoding="utf-8") as f:
            f.write(IN_POD)
        os.chmod(self.script, 0o755)
        for mount in self.container["volumeMounts"]:
            self.put(mount["mountPath"], self.content(mount["name"]))
        host, port = cluster.url.split("//")[1].split(":")
        self.environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "BINARY": BINARY,
                            **{v["name"]: v["value"] for v in self.container.get("env", ()) if "value" in v}}

    def new_token(self, seconds):
        return self.cluster.account_token(self.space, self.spec["serviceAccountName"], seconds)

    def content(self, name):
        """The files of a volume."""
        volume, = (v for v in self.spec["volumes"] if v["name"] == name)
        if "configMap" in volume:
            return next(v["data"] for v in self.values if v["kind"] == "ConfigMap" and
                        v["metadata"]["namespace"] == self.space and v["metadata"]["name"] == volume["configMap"]["name"])
        if "secret" in volume:
            return self.secrets[volume["secret"]["secretName"]]
        found = {}
        for source in volume["projected"]["sources"]:
            if "serviceAccountToken" in source:
                of = source["serviceAccountToken"]
                found[of["path"]] = self.new_token(of["expirationSeconds"])
            elif "configMap" in source:
                assert source["configMap"]["name"] == "kube-root-ca.crt"
                with open(self.cluster.ca, encoding="utf-8") as f:
                    found[source["configMap"]["items"][0]["path"]] = f.read()
            else:
                found[source["downwardAPI"]["items"][0]["path"]] = self.space
        return found

    def put(self, place, content):
        folder = self.files + place
        os.makedirs(folder, exist_ok=True)
        for name, text in content.items():
            path = os.path.join(folder, name)
            with open(path, "wb") as f:
                f.write(text if isinstance(text, bytes) else text.encode())
            os.chown(path, 0, int(self.user))
            os.chmod(path, 0o440)

    def command(self, *command):
        """The command as a process of the pod."""
        return ["unshare", "-m", self.script, self.files, self.user, *command]

    def remove(self):
        shutil.rmtree(self.files, ignore_errors=True)

    @staticmethod
    def obstacle():
        """Why this machine cannot run it, or None."""
        if os.getuid() != 0 or subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/run"],
                                              capture_output=True, check=False).returncode != 0:
            return "may not mount here"
        return None


class Deployed(Server):
    """The server."""

    def __init__(self, cluster, values, secrets):
        self.place = Pod(cluster, values, "rest-lit", secrets)
        self.pod, self.token = self.place.spec, self.place.token
        container = self.place.container
        command, first, *arguments = container["command"] + container["args"]
        assert (command, first) == ("rest-lit", "serve"), container
        # The ports of the configuration may be in use on this machine.
        config = self.place.content("config")["config.yaml"]
        if "metrics-listen: :9187\n" in config:
            self.metrics_port = free_port()
            arguments += ["--metrics-listen", f"127.0.0.1:{self.metrics_port}"]
        # The port is that of the Service, at the Service's address.
        assert "output-listen: :9188\n" in config, config
        self.output_address = own_address(cluster, "rest-lit-output")
        arguments += ["--output-listen", f"{self.output_address}:9188"]
        services = [v["metadata"]["name"] for v in values if v["kind"] == "Service"] if self.pod["enableServiceLinks"] else []
        self.place.environment.update(service_variables(cluster, services))
        super().__init__(*arguments, who=[], program=self.place.command(command), environment=self.place.environment)

    def run_beside(self, command):
        """A command in this pod, as an exec probe."""
        return subprocess.run(self.place.command(*command), capture_output=True, check=False, timeout=PATIENCE * SLOW,
                              env={**os.environ, **self.place.environment})

    def remove(self):
        super().remove()
        subprocess.run(["ip", "address", "del", f"{self.output_address}/32", "dev", "lo"], capture_output=True, check=False)
        self.place.remove()


class DeployedController(Closing):
    """A pod of the controller."""

    def __init__(self, cluster, values):
        self.place = Pod(cluster, values, "rest-lit-controller", {})
        self.port, container = free_port(), self.place.container
        arguments = [f"127.0.0.1:{self.port}" if a == ":9187" else a for a in container["command"] + container["args"]]
        self.log_file = os.path.join(self.place.files, "log")
        with open(self.log_file, "wb") as log:
            self.process = subprocess.Popen(self.place.command(*arguments), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, env={**os.environ, **self.place.environment})

    def get(self, path):
        """(status, text); (0, why) if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60 * SLOW) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except OSError as e:
            return 0, str(e)

    def leads(self):
        return wait_until(lambda: "\nrest_lit_controller_leader 1\n" in self.get("/metrics")[1])

    def log(self):
        with open(self.log_file, encoding="utf-8") as f:
            return f.read()

    def stop(self):
        """Its exit status, after SIGTERM."""
        self.process.terminate()
        return self.process.wait(timeout=PATIENCE * SLOW)

    def close(self):
        """Lets it end by itself, as it gives the Lease back then, for which the next one waits."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(timeout=PATIENCE * SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.place.remove()
