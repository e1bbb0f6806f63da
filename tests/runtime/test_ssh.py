"""The plugin ssh: sshd and the barrier, with a fake sshd, the one of pai-runtime and that of Debian."""
import concurrent.futures
import contextlib
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "http"))

from checks import PATIENCE, RUNTIME, TOP, check, equal, eventually, finish, tests
from harness import free_port
from plugin_kit import PAI, SHELLS, Pod

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJob job"
EXTENSION = "jobSSH: {key: \"PRIVATE\\nKEY\\n\", pubKey: '" + KEY + "'}\nsshKeys: [{value: ssh-rsa AAAAUSER u@h}]\n"
HOME = "/root/.pai-ssh"
# A fake sshd: it writes its pid when it listens.
FAKE_SSHD = """
conf=$2 log=$4
echo "$@" >"$(dirname "$conf")/called"
env >"$(dirname "$conf")/sshd-env"
[ ! -e "$(dirname "$conf")/fail" ] || { echo "Cannot bind any address." >"$log"; exit 0; }
pid=$(sed -n 's/^PidFile "\\(.*\\)"$/\\1/p' "$conf")
( exec >/dev/null 2>&1; while sleep 1; do :; done ) &
echo $! >"$pid"
"""
FAKE_KEYGEN = 'while [ "$1" != -f ]; do shift; done; echo made >>"$2.made"; echo key >"$2"\n'
SSHD_USER = "sshd:x:105:65534::/run/sshd:/usr/sbin/nologin\n"


def pod_with_sshd(plugins="[{plugin: ssh, parameters: {jobssh: true, userssh: {value: ssh-rsa AAAAMINE it's}}}]",
                  **env):
    pod = Pod(plugins, extension=EXTENSION, **dict({
        "PAI_CONTAINER_SSH_PORT": "2222,2223", "PAI_TASK_ROLE_INSTANCES": "ps:0,worker:0,worker:1",
        "PAI_HOST_IP_ps_0": "10.0.0.1", "PAI_ps_0_ssh_PORT": "1111,1112", "PAI_HOST_IP_worker_0": "10.0.0.2",
        "PAI_worker_0_ssh_PORT": "2222,2223", "PAI_HOST_IP_worker_1": "10.0.0.3", "PAI_worker_1_ssh_PORT": "3333"}, **env))
    pod.fake("sshd", FAKE_SSHD, where="/usr/sbin/sshd")
    pod.write("/etc/passwd", SSHD_USER)
    pod.fake("ssh-keygen", FAKE_KEYGEN)
    pod.fake("ssh", "exit 1\n")
    return pod


def end(pod):
    """The fake sshd continues in the background."""
    number = pod.read(HOME + "/sshd.pid")
    if number and number.strip().isdigit():
        try:
            os.kill(int(number), signal.SIGKILL)
        except ProcessLookupError:
            pass


def mode(pod, path):
    return stat.S_IMODE(os.stat(pod.at(path)).st_mode)


def script(pod, shell="bash", **env):
    """All files are below the root, none in the home directory of the user."""
    return pod.sh(shell, **env)


def test_files_of_sshd_contain_no_secrets():
    secrets = {"MY_TOKEN": "S3CRET-VALUE", "PAI_API_KEY": "S3CRET-VALUE", "FC_SECRET": "S3CRET-VALUE",
               "AWS_ID": "S3CRET-VALUE", "PAI_PASSWORD": "S3CRET-VALUE", "NCCL_DEBUG": "INFO",
               "PAI_TWO_LINES": "a\nb", "PAI_HOST_IP_keys_0": "10.9.9.9"}
    with pod_with_sshd(**secrets) as pod:
        equal("files: init", pod.init.returncode, 0)
        equal("files: the private key, for any user", mode(pod, PAI + "/ssh-secret/ssh-privatekey"), 0o644)
        pod.write("/root/.ssh/config", "Compression yes\nHost mine\n  Port 7\n")
        pod.write("/root/.ssh/authorized_keys", "ssh-rsa OFTHEIMAGE\n")
        done = script(pod)
        equal("files: sshd", done.returncode, 0)
        equal("files: the private key, when root has started sshd", mode(pod, PAI + "/ssh-secret/ssh-privatekey"), 0o600)
        equal("files: authorized keys", pod.read(HOME + "/authorized_keys").decode(),
              KEY + "\nssh-rsa AAAAUSER u@h\nssh-rsa AAAAMINE it's\n")
        for name in (HOME + "/authorized_keys", HOME + "/job_key", HOME + "/sshd_config", "/root/.ssh/environment",
                     "/root/.ssh/id_rsa", "/root/.ssh/config"):
            equal(f"files: mode of {name}", mode(pod, name), 0o600)
        for name in (HOME, "/root/.ssh"):
            equal(f"files: mode of {name}", mode(pod, name), 0o700)
        config = pod.read(HOME + "/sshd_config").decode()
        equal("files: only the first port", re.findall("^Port.*", config, re.M), ["Port 2222"])
        check("files: permissions are checked", "StrictModes yes\n" in config, config)
        check("files: root by key only", "PermitRootLogin prohibit-password\n" in config and
              "PasswordAuthentication no\n" in config, config)
        equal("files: how sshd was called", pod.read(HOME + "/called").decode().split(),
              ["-f", pod.at(HOME + "/sshd_config"), "-E", pod.at(HOME + "/sshd.log")])
        check("files: sshd knows nothing of our environment", b"S3CRET" not in pod.read(HOME + "/sshd-env") and
              b"PAI_" not in pod.read(HOME + "/sshd-env"))
        environment = pod.read("/root/.ssh/environment").decode().splitlines()
        check("files: no secret in sessions", "S3CRET" not in "".join(environment), environment)
        for line in ("NCCL_DEBUG=INFO", "PAI_CONTAINER_SSH_PORT=2222,2223", "PAI_HOST_IP_keys_0=10.9.9.9",
                     "FC_TASK_INDEX=0"):
            check(f"files: sessions get {line}", line in environment, environment)
        check("files: what has two lines is left out", not any("TWO_LINES" in line for line in environment))
        equal("files: addresses of tasks come last", environment[-1].split("=")[0] in
              ("PAI_HOST_IP_keys_0", "PAI_HOST_IP_ps_0", "PAI_ps_0_ssh_PORT", "PAI_HOST_IP_worker_0",
               "PAI_worker_0_ssh_PORT", "PAI_HOST_IP_worker_1", "PAI_worker_1_ssh_PORT"), True)
        hosts = pod.read(HOME + "/ssh_config").decode()
        check("files: hosts by role and index", "Host worker-1\n  HostName 10.0.0.3\n  Port 3333\n  User root\n" in hosts
              and "Host ps-0\n  HostName 10.0.0.1\n  Port 1111\n" in hosts, hosts)
        users = pod.read("/root/.ssh/config").decode()
        check("files: they are in the user's configuration, which stays", hosts in users and
              users.endswith("Host *\n# end of what pai-runtime writes\nCompression yes\nHost mine\n  Port 7\n"), users)
        check("files: nothing was written to /etc", os.listdir(pod.at("/etc")) == ["passwd"])
        again(pod, users)
        end(pod)


def again(pod, users):
    first = int(pod.read(HOME + "/sshd.pid"))
    done = pod.sh("bash")
    equal("again: sshd", done.returncode, 0)
    equal("again: the host key stays", pod.read(HOME + "/host_key.made"), b"made\n")
    equal("again: the user's configuration is the same", pod.read("/root/.ssh/config").decode(), users)

    def gone():
        try:
            with open(f"/proc/{first}/stat") as f:
                return f.read().split()[2] == "Z"  # the test does not wait for it; in a pod, `run` does
        except OSError:
            return True
    check("again: the earlier sshd is gone", eventually(gone))


def test_missing_parts_of_ssh_are_explained():
    with pod_with_sshd("[{plugin: ssh, parameters: {userssh: {value: ssh-rsa AAAAMINE}}}]") as pod:
        equal("without jobssh: the private key", mode(pod, PAI + "/ssh-secret/ssh-privatekey"), 0o600)
        os.chmod(pod.at("/root"), 0o775)
        done = script(pod)
        check("a home directory of others: said, and accepted", done.returncode == 0 and
              b"other users may write" in done.stderr and b"StrictModes no\n" in pod.read(HOME + "/sshd_config"), done)
        end(pod)
    with pod_with_sshd(PAI_CONTAINER_SSH_PORT="") as pod:
        done = script(pod)
        check("without a port: said and done", done.returncode == 0 and b"no port for ssh" in done.stderr, done)
        check("without a port: nothing is written", not pod.exists(HOME))
    with pod_with_sshd() as pod:
        os.makedirs(pod.at(HOME))
        pod.write(HOME + "/fail", "")
        done = pod.run("sshd", "true")
        check("sshd that does not listen is a failure, with its words", done.returncode == 1 and
              b"did not start on port 2222" in done.stderr and b"Cannot bind any address" in done.stderr, done)
    if not delivered_there():
        with pod_with_sshd() as pod:
            os.remove(pod.at("/usr/sbin/sshd"))
            done = pod.run("sshd", "true")
            check("neither openssh nor dropbear", done.returncode == 1 and b"openssh is not in the image" in done.stderr, done)


def test_invalid_arguments_are_refused():
    with pod_with_sshd() as pod:
        for args in ((), ("maybe",), ("true", "custom"), ("true", "other", "x"), ("true", "system", "../x"), ("--x", "y")):
            equal(f"sshd: usage {args}", pod.run("sshd", *args).returncode, 2)
        for args in (("x",), ("0",), ("--round", "x", "1"), ("1", "2", "3")):
            equal(f"ssh-barrier: usage {args}", pod.run("ssh-barrier", *args).returncode, 2)


def test_keys_that_are_invalid_are_left_out():
    with pod_with_sshd() as pod:
        pod.write(PAI + "/ssh-secret/more", "# note\nssh-rsa AAAAMORE\ncommand=\"x\" ssh-rsa AAAABAD\n")
        done = pod.run("sshd", "false", "custom", "ssh-rsa AAAAONE\nrubbish", "system", "more")
        equal("keys: status", done.returncode, 0)
        equal("keys: only lines that are keys", pod.read(HOME + "/authorized_keys"), b"ssh-rsa AAAAONE\nssh-rsa AAAAMORE\n")
        check("keys: the others by number, not by text", b"key 2 of userssh" in done.stderr and
              b"rubbish" not in done.stderr and b"AAAABAD" not in done.stderr, done.stderr)
        check("keys: no key of the job", not pod.exists(HOME + "/job_key"))
        end(pod)
    with pod_with_sshd() as pod:
        pod.write("/root/.ssh/id_rsa", "of the image", 0o600)
        pod.run("sshd", "true")
        equal("keys: the image's own id_rsa stays", pod.read("/root/.ssh/id_rsa"), b"of the image")
        equal("keys: the job's is beside", pod.read(HOME + "/job_key"), b"PRIVATE\nKEY\n")
        end(pod)
    with pod_with_sshd() as pod:
        os.makedirs(pod.at("/root/.ssh"), exist_ok=True)
        pod.write("/victim", "precious")
        os.symlink(pod.at("/victim"), pod.at("/root/.ssh/environment"))
        pod.run("sshd", "true")
        equal("keys: planted links are not followed", pod.read("/victim"), b"precious")
        end(pod)


FAKE_SSH = """
while [ "$1" != -- ]; do shift; done
echo "$2" >>"$SAW"
printf '%s\\n' "$SAID" >&2
case "$2" in
ps-0) exit 0 ;;
worker-1) [ "$(grep -c worker-1 "$SAW")" -gt "${GOOD_AFTER:-0}" ] ;;
esac
"""


def pod_with_key(**env):
    """The files after `sshd true`."""
    pod = pod_with_sshd(**env)
    pod.write(HOME + "/job_key", "key", 0o600)
    return pod


def test_ssh_barrier_waits_for_all_tasks():
    with pod_with_sshd() as pod:
        done = pod.run("ssh-barrier")
        check("barrier: without a key it does not wait", done.returncode == 10 and b"no key to log in with" in done.stderr, done)
    with pod_with_key() as pod:
        pod.fake("ssh", FAKE_SSH)
        pod.env.update(SAW=pod.at("/saw"), GOOD_AFTER="2", SAID="a banner\nssh: connect to host: Connection refused\n")
        done = pod.run("ssh-barrier", "--round", "0", "1")
        equal("barrier: all are reached", done.returncode, 0)
        check("barrier: ssh's last words", done.stderr.count(b": 1 tasks are not reached yet: ssh: connect to host: Connection refused\n") == 2 and
              b"banner" not in done.stderr, done.stderr)
        equal("barrier: each is asked until it answers, not oneself",
              sorted(pod.read("/saw").decode().split()), ["ps-0", "worker-1", "worker-1", "worker-1"])
    with pod_with_key() as pod:
        pod.fake("ssh", FAKE_SSH)
        pod.env.update(SAW=pod.at("/saw"), GOOD_AFTER="99")
        done = pod.run("ssh-barrier", "--round", "0", "1")
        equal("barrier: not in time", done.returncode, 10)
        check("barrier: the text that explains it, and only the missing tasks",
              done.stderr.endswith(b"SSH barrier reaches max retry count: 1 not reached: worker-1\n"), done.stderr)
        equal("barrier: six rounds a minute", pod.read("/saw").count(b"worker-1"), 6)
    with pod_with_key(PAI_HOST_IP_ps_0="") as pod:
        done = pod.run("ssh-barrier", "--round", "0", "1")
        check("barrier: a task without an address", done.returncode == 10 and b"1 without an address" in done.stderr, done)
    with pod_with_key(PAI_TASK_ROLE_INSTANCES="") as pod:
        equal("barrier: alone", pod.run("ssh-barrier").returncode, 0)
    with pod_with_key() as pod:
        os.remove(os.path.join(pod.bin, "ssh"))
        pod.env["PATH"] = pod.bin
        check("barrier: no ssh", pod.run("ssh-barrier").returncode == 1)
    instances = ",".join(f"w:{i}" for i in range(200))
    env = {f"PAI_HOST_IP_w_{i}": "10.0.0.1" for i in range(200)}
    env.update({f"PAI_w_{i}_ssh_PORT": str(1000 + i) for i in range(200)})
    with pod_with_key(PAI_TASK_ROLE_INSTANCES=instances, **env) as pod:
        pod.fake("ssh", "exit 0\n")
        equal("barrier: 200 tasks", pod.run("ssh-barrier").returncode, 0)
        pod.fake("ssh", "echo x >>\"$SAW\"; sleep 0.5; exit 255\n")
        pod.env["SAW"] = pod.at("/saw")
        done = pod.run("ssh-barrier", "--round", "1", "1")
        equal("barrier: slow rounds: not in time", done.returncode, 10)
        # 200 of them take 6.5 s, 16 at once.
        check("barrier: slow rounds: they are not longer than all rounds together", len(pod.read("/saw")) < 2 * 300)


def test_script_works_in_each_shell():
    plugin = "[{plugin: ssh, parameters: {jobssh: true, sshbarrier: true, sshbarrierTimeout: 1, userssh: {value: ssh-rsa AAAA it's $(x)}}}]"
    for shell in SHELLS:
        with pod_with_sshd(plugin) as pod:
            pod.fake("ssh", "exit 0\n")
            done = script(pod, shell)
            equal(f"script: {shell}", done.returncode, 0)
            check(f"script: the key is one word, {shell}", b"ssh-rsa AAAA it's $(x)\n" in pod.read(HOME + "/authorized_keys"))
            end(pod)


# ---- real containers -----------------------------------------------------------------------------

def real_pods(folder, ports, key=("ed25519",), command="true"):
    """Two tasks on one machine.  The role's name sounds like a secret, and others may write to the second home."""
    subprocess.run(["ssh-keygen", "-q", "-N", "", "-f", folder + "/job", "-t", *key], check=True)
    private, public = (open(folder + name).read() for name in ("/job", "/job.pub"))
    extension = f"jobSSH:\n  key: |\n{''.join('    ' + line for line in private.splitlines(True))}  pubKey: {public}"
    plugin = "[{plugin: ssh, parameters: {jobssh: true, sshbarrier: true}}]"
    env = {"PAI_TASK_ROLE_INSTANCES": "tokenizer:0,tokenizer:1", "PAI_HOST_IP_tokenizer_0": "127.0.0.1",
           "PAI_HOST_IP_tokenizer_1": "127.0.0.1", "PAI_tokenizer_0_ssh_PORT": str(ports[0]),
           "PAI_tokenizer_1_ssh_PORT": str(ports[1])}
    pods = []
    for i in (0, 1):
        pods.append(Pod(plugin, extension=extension, FC_TASK_INDEX=str(i), USER_CMD=command,
                        PAI_CONTAINER_SSH_PORT=str(ports[i]), **env))
    os.makedirs(pods[1].at("/root"), exist_ok=True)
    os.chmod(pods[1].at("/root"), 0o777)
    return pods


# The capabilities that containerd gives a container; templates remove some and add others.
USUAL = """CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL
           AUDIT_WRITE""".split()
# The key exchange of OpenSSH's clients: their first choice takes ten times as long.
QUICK = "KexAlgorithms=curve25519-sha256"
# The script runs as root of new namespaces and prepares the root of a container with the files of a
# pod.
FILES = """
set -e
read -r mapped
pod=$1 image=$2 root=$1/root-of-container
mount -t tmpfs none "$root"
for name in bin sbin lib lib32 lib64 etc dev proc; do
    if [ -L /$name ]; then cp -P /$name "$root"; elif [ -d /$name ]; then mkdir "$root/$name"; mount --rbind /$name "$root/$name"; fi
done
mkdir "$root/usr" "$root/root" "$root/home" "$root/run" "$root/tmp"
if [ "$image" ]; then mount -t overlay -o "lowerdir=$image/usr:/usr" none "$root/usr"; else mount --rbind /usr "$root/usr"; fi
for name in usr/local root home tmp; do mount --bind "$pod/$name" "$root/$name"; done
mount --bind "$pod/passwd" "$root/etc/passwd"
[ ! -e "$root/etc/ssh/ssh_config" ] || mount --bind "$pod/ssh_config" "$root/etc/ssh/ssh_config"
for name in bin/ssh bin/ssh-keygen bin/scp sbin/sshd; do
    [ "$image" ] || [ ! -e "$root/usr/$name" ] || mount --bind /dev/null "$root/usr/$name"
done
exec chroot "$root" sh -c 'echo ready; exec sleep 1000000'
"""


class Container:
    """A process that holds the namespaces of a container: 65536 ids and its own files."""

    def __init__(self, pod, profile, image, passwd, ids):
        text = open(os.path.join(TOP, "translate/templates", profile, "taskrole.yaml")).read().split("- name: app")[1]
        names = {verb: re.search(rf"{verb}:([\sA-Z_,\[-]*)", text) for verb in ("add", "drop")}
        more, less = (set(re.findall(r"[A-Z_]+", names[v][1])) if names[v] else set() for v in ("add", "drop"))
        check(f"the template of {profile} has capabilities", less, text)
        self.pod = pod
        self.bounds = ",".join(["-all"] + ["+" + c.lower() for c in sorted((set(USUAL) | more) - less)])
        self.bound = ["--no-new-privs"] if "allowPrivilegeEscalation: false" in text else []
        pod.write("/passwd", passwd)
        pod.write("/ssh_config", "Host *\n" + QUICK + "\n")
        for folder in ("root-of-container", "home/alice", "usr/local/bin"):
            os.makedirs(pod.at(folder), exist_ok=True)
        for folder in ("usr/local/pai", "usr/local/pai/logs", "tmp"):
            os.chmod(pod.at(folder), 0o777)  # as emptyDir
        os.chown(pod.at("home/alice"), 1000, 1000)
        self.holder = subprocess.Popen(["unshare", "--user", "--mount", "--propagation", "private", "sh", "-c", FILES, "sh",
                                        pod.path, image], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for kind in ("uid_map", "gid_map"):
            self.map(kind, f"0 0 {ids}")
        self.holder.stdin.write(b"mapped\n")
        self.holder.stdin.close()
        if self.holder.stdout.readline() != b"ready\n":
            raise RuntimeError("no container")
        # Init runs again, with the paths of the container.
        pod.write("/tmp/framework.json", pod.read("/framework.json"))
        with self.start("/usr/local/pai/runtime", "init", "--framework", "/tmp/framework.json", "--steps",
                        "install,config,plugins,command") as init:
            check("init in a container", init.wait() == 0, init.stderr.read() if init.returncode else "")

    def map(self, kind, text):
        """unshare begins in the user namespace of this process."""
        path = f"/proc/{self.holder.pid}/"
        eventually(lambda: os.readlink(path + "ns/user") != os.readlink("/proc/self/ns/user"))
        with open(path + kind, "w") as f:
            f.write(text)

    def start(self, *command, user=None):
        who = ["--reuid", "1000", "--regid", "1000", "--clear-groups"] if user else []
        return subprocess.Popen(
            ["nsenter", "--target", str(self.holder.pid), "--user", "--mount", "--root", "setpriv", "--bounding-set",
             self.bounds, "--inh-caps=-all", *self.bound, *who, "env", "-C", "/", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self.pod.env | {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, stdin=subprocess.DEVNULL)

    def end(self):
        """Ends all processes in it: sshd, too, has left its session."""
        inside = os.readlink(f"/proc/{self.holder.pid}/ns/mnt")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # it has ended
                if os.readlink(f"/proc/{pid}/ns/mnt") == inside:
                    os.kill(int(pid), signal.SIGKILL)
        self.holder.wait()


# Each task ends when the other one has logged in to it, with a terminal too, and could not without the key.
COMMAND = r"""other=tokenizer-$((1 - FC_TASK_INDEX))
eval "port=\$PAI_tokenizer_$((1 - FC_TASK_INDEX))_ssh_PORT"
if [ -x /usr/bin/ssh ]; then
    ssh -F /etc/ssh/ssh_config -o BatchMode=yes -o IdentitiesOnly=yes -i /dev/null -o StrictHostKeyChecking=no -p $port 127.0.0.1 true && exit 1
    mkfifo /tmp/no-end
    ssh -tt $other tty <>/tmp/no-end | grep ^/dev/pts/
fi
ssh $other 'echo "on $FC_TASK_INDEX as $(id -u)"; touch /tmp/seen'
while [ ! -e /tmp/seen ]; do sleep 0.1; done
"""


def meet(name, openssh, profile, sshd_user=True, image=True, user=None, theirs=False, ids=65536):
    """Two tasks of a job in containers, as the template creates them. `theirs`: sshd is that of the
    image."""
    folder = tempfile.mkdtemp(prefix="pai-ssh-")
    passwd = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n" + SSHD_USER * sshd_user
    containers = []
    try:
        for pod in real_pods(folder, [free_port(), free_port()], command=COMMAND):
            containers.append(Container(pod, profile, openssh if image else "", passwd, ids))
        running = [one.start("/usr/local/pai/runtime", "run", user=user) for one in containers]
        for one, process, other in zip(containers, running, (1, 0)):
            out, err = process.communicate(timeout=PATIENCE)
            log = one.pod.read(one.pod.logs("runtime.log")).decode()
            check(f"{name}: the command logs in to the other task", process.returncode == 0 and
                  out.decode().endswith(f"on {other} as {1000 if user else 0}\n"), (process.returncode, out, err, log))
            check(f"{name}: the right sshd", f"sshd{'' if theirs else ' of pai-runtime'} listens on port" in log, log)
            check(f"{name}: the time once in a line", len(re.findall(r"\d\dZ", log)) == log.count("\n"), log)
    finally:
        for one in containers:
            one.end()
        shutil.rmtree(folder)


def test_ssh_works_between_containers():
    """The cases are both profiles; images with and without openssh-server and its user; root and
    another user; and a single id, as in a sandbox, where rules about capabilities have no
    effect."""
    for _ in range(3):  # the kernel may kill apt-get where memory is short
        kit = subprocess.run([os.path.join(TOP, "tests/tools/kit"), "openssh-server"], capture_output=True, text=True, check=False)
        if kit.returncode == 0:
            break
    if not check("openssh-server is at hand", kit.returncode == 0, kit.stderr):
        return
    openssh = kit.stdout.strip()
    cases = []
    for profile in ("plain", "openpai"):
        cases += [(f"{profile}: openssh-server", {"theirs": profile == "openpai"}),
                  (f"{profile}: openssh-server without its user", {"sshd_user": False}),
                  (f"{profile}: no openssh", {"image": False})]
    cases += [("plain: openssh-server, not root", {"user": "alice"}), ("plain: no openssh, not root", {"image": False, "user": "alice"}),
              ("openpai: openssh-server, one id", {"ids": 1})]
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        for future in [pool.submit(meet, name, openssh, name.split(":")[0], **more) for name, more in cases]:
            future.result()


# ---- sshd, ssh and scp of pai-runtime ------------------------------------------------------------

def delivered_there():
    return b"dropbear" in subprocess.run([RUNTIME, "version"], capture_output=True, check=True).stdout


def session(one, *command):
    """OpenSSH's ssh and scp, as a person outside uses them, or another program with these arguments."""
    return subprocess.run(command, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, env=one.env | {
        "PATH": os.environ["PATH"]} if command[0] in ("ssh", "scp") else one.env)


def delivered(name, *key):
    """An image without openssh."""
    usual, folder = tempfile.tempdir, tempfile.mkdtemp(dir="/var/lib", prefix="pai-ssh-")
    tempfile.tempdir = folder  # sshd refuses keys below directories that others may write
    pods = []
    try:
        pods = real_pods(folder, [free_port(), free_port()], (name, *key))
        one, two = pods
        for pod in pods:
            pod.env |= {"PATH": f"{pod.bin}:{pod.at('/usr/local/bin')}", "NCCL_DEBUG": "INFO", "MY_TOKEN": "S3CRET"}
            begun = time.monotonic()
            done = pod.run("sshd", "true")
            print(f"     sshd with a key {name}: {1000 * (time.monotonic() - begun):.0f} ms")
            check(f"{name}: sshd starts", done.returncode == 0 and b"of pai-runtime listens" in done.stderr, done)
        for pod in pods:
            done = pod.run("ssh-barrier", "--round", "1", "60")
            check(f"{name}: each reaches the other", done.returncode == 0, done)
        # One kind of keys meets the key exchange that OpenSSH chooses.
        quick = () if name == "ed25519" else ("-o", QUICK)
        outside = ("-F", one.at("/root/.ssh/config"), "-o", "BatchMode=yes", *quick)
        done = session(one, "ssh", *outside, "tokenizer-1", "/usr/bin/env; exit 7")
        lines = done.stdout.decode().splitlines()
        check(f"{name}: OpenSSH runs a command", done.returncode == 7 and any(
            line.startswith("PATH=") and two.env["PATH"] in line for line in lines), done)  # a profile may add to it
        check(f"{name}: the environment of sessions", {"NCCL_DEBUG=INFO", "FC_TASK_INDEX=1"} <= set(lines) and
              "S3CRET" not in str(lines), lines)
        ssh, scp = one.at("/usr/local/bin/ssh"), one.at("/usr/local/bin/scp")
        done = session(one, ssh, "-x", "root@tokenizer-1", "echo", "$FC_TASK_INDEX; exit 5")
        check(f"{name}: its own client", (done.returncode, done.stdout) == (5, b"1\n") and
              b"known" not in done.stderr, done)
        done = session(one, ssh, "tokenizer-1", "ssh tokenizer-0 echo '$FC_TASK_INDEX'")
        check(f"{name}: from there on to another task", (done.returncode, done.stdout) == (0, b"0\n"), done)
        one.write("/file", os.urandom(3 << 20))
        for program, *options in (["scp", "-O", *outside], [scp]):
            done = session(one, program, *options, one.at("/file"), f"tokenizer-1:{two.at('/copy')}")
            check(f"{name}: {program} there", done.returncode == 0 and two.read("/copy") == one.read("/file"), done)
            done = session(one, program, *options, f"tokenizer-1:{two.at('/copy')}", one.at("/back"))
            check(f"{name}: {program} and back", done.returncode == 0 and one.read("/back") == one.read("/file"), done)
            os.remove(two.at("/copy"))
            os.remove(one.at("/back"))
        done = session(one, "ssh", "-F", "none", *quick, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                       "-o", "IdentitiesOnly=yes", "-i", "/dev/null", "-p", two.env["PAI_CONTAINER_SSH_PORT"],
                       "root@127.0.0.1", "true")
        check(f"{name}: not without the key, and no passwords", done.returncode == 255 and
              b"Permission denied (publickey)." in done.stderr, done)
        done = two.run("sshd", "true")
        check(f"{name}: started again", done.returncode == 0 and one.run("ssh-barrier", "4").returncode == 0, done)
        done = one.run("sshd", "false", "custom", KEY)
        check(f"{name}: another start, with other keys", done.returncode == 0 and
              two.run("ssh-barrier", "--round", "0", "1").returncode == 10, done)
        one.env["PAI_CONTAINER_SSH_PORT"] = two.env["PAI_CONTAINER_SSH_PORT"]
        done = one.run("sshd", "true")
        check(f"{name}: a port in use is a failure, with its words", done.returncode == 1 and
              b"did not start" in done.stderr and b"in use" in done.stderr, done)
    finally:
        for pod in pods:
            end(pod)
        tempfile.tempdir = usual
        shutil.rmtree(folder)


def test_links_to_ssh_have_another_place():
    """A file is in the place of the link to ssh, as for a user who may not write there."""
    with pod_with_sshd(PAI_CONTAINER_SSH_PORT=str(free_port())) as pod:
        for name in ("ssh", "ssh-keygen"):
            os.remove(os.path.join(pod.bin, name))
        pod.env |= {"PATH": pod.bin}
        pod.write("/usr/local/bin", "")
        done = pod.run("sshd", "true")
        check("links: ssh is where run looks for it", done.returncode == 0 and pod.exists(PAI + "/bin/ssh") and
              b"so there is no ssh" not in done.stderr, done)
        end(pod)
        os.makedirs(pod.at(PAI + "/bin"), exist_ok=True)
        shutil.rmtree(pod.at(PAI + "/bin"))
        pod.write(PAI + "/bin", "")
        done = pod.run("sshd", "true")
        check("links: nowhere: sshd starts, and this is said", done.returncode == 0 and b"so there is no ssh" in done.stderr, done)
        end(pod)


def test_sshd_starts_for_another_user():
    """Init ran as root, and the image has another user: sshd finds the job's key and starts."""
    user = pwd.getpwnam("games")
    with pod_with_sshd(PAI_CONTAINER_SSH_PORT=str(free_port())) as pod:
        pod.write(user.pw_dir + "/file", "")
        os.chown(pod.at(user.pw_dir), user.pw_uid, user.pw_gid)
        os.chmod(pod.path, 0o755)
        done = pod.run("sshd", "true", user=user.pw_uid, group=user.pw_gid, extra_groups=[])
        check("another user: sshd starts", done.returncode == 0 and b"listens" in done.stderr, done)
        equal("another user: the key of the job", pod.read(user.pw_dir + "/.ssh/id_rsa"), b"PRIVATE\nKEY\n")
        subprocess.run(["pkill", "-f", pod.path + "/"], check=False)


def test_delivered_sshd_accepts_ed25519_keys():
    delivered("ed25519")


def test_delivered_sshd_accepts_rsa_keys():
    delivered("rsa", "-b", "2048", "-m", "PEM")


def test_delivered_sshd_accepts_ecdsa_keys():
    delivered("ecdsa")


if os.getuid() == 0:
    tests(test_files_of_sshd_contain_no_secrets, test_missing_parts_of_ssh_are_explained,
          test_keys_that_are_invalid_are_left_out, test_script_works_in_each_shell)
    if delivered_there():
        tests(test_links_to_ssh_have_another_place, test_sshd_starts_for_another_user,
              test_ssh_works_between_containers, test_delivered_sshd_accepts_ed25519_keys,
              test_delivered_sshd_accepts_rsa_keys, test_delivered_sshd_accepts_ecdsa_keys)
else:
    print("skipped: sshd needs root")
tests(test_invalid_arguments_are_refused, test_ssh_barrier_waits_for_all_tasks)
finish()
