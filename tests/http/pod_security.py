"""The levels `baseline` and `restricted` of the Pod Security Standards of Kubernetes, as
https://kubernetes.io/docs/concepts/security/pod-security-standards/ describes them, for a pod
{metadata, spec}.  A rule yields what it forbids; KEYS are containers of all kinds."""

KEYS = ("containers", "initContainers", "ephemeralContainers")
CAPABILITIES = {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
                "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
SYSCTLS = {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
           "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
           "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
           "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
SECCOMP = ("RuntimeDefault", "Localhost")
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def at(value, *keys):
    """The value at these keys, or None."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def containers(pod):
    return [c for key in KEYS for c in at(pod, "spec", key) or ()]


def contexts(pod):
    """The security contexts of the pod and of its containers."""
    return [at(pod, "spec", "securityContext") or {}, *(c.get("securityContext") or {} for c in containers(pod))]


def each(pod, *keys):
    """(container, the value at these keys)"""
    return [(c["name"], at(c, *keys)) for c in containers(pod)]


def own_or_pod(pod, *keys):
    """(container, the value of its security context, else that of the pod)"""
    return [(name, at(pod, "spec", "securityContext", *keys) if value is None else value)
            for name, value in each(pod, "securityContext", *keys)]


# ---- baseline ---------------------------------------------------------------------------------
def host_process(pod):
    return [c for c in contexts(pod) if at(c, "windowsOptions", "hostProcess")]


def host_namespaces(pod):
    return [key for key in ("hostNetwork", "hostPID", "hostIPC") if at(pod, "spec", key)]


def privileged(pod):
    return [name for name, value in each(pod, "securityContext", "privileged") if value]


def added_capabilities(pod):
    return [(name, value) for name, value in each(pod, "securityContext", "capabilities", "add")
            if not set(value or ()) <= CAPABILITIES]


def host_paths(pod):
    return [v for v in at(pod, "spec", "volumes") or () if v.get("hostPath") is not None]


def host_ports(pod):
    return [(name, port) for name, ports in each(pod, "ports") for port in ports or () if port.get("hostPort")]


def host_probes(pod):
    handlers = [(name, at(c, *keys)) for keys in (("livenessProbe",), ("readinessProbe",), ("startupProbe",), (
        "lifecycle", "postStart"), ("lifecycle", "preStop")) for name, c in each(pod)]
    return [(name, h) for name, h in handlers if at(h, "httpGet", "host") or at(h, "tcpSocket", "host")]


def apparmor(pod):
    notes = at(pod, "metadata", "annotations") or {}
    return [(k, v) for k, v in notes.items() if k.startswith(APPARMOR) and v != "runtime/default" and
            not v.startswith("localhost/")] + [
                c for c in contexts(pod) if at(c, "appArmorProfile", "type") not in (None, *SECCOMP)]


def selinux(pod):
    types = (None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
    return [c for c in contexts(pod) if at(c, "seLinuxOptions", "type") not in types or
            at(c, "seLinuxOptions", "user") or at(c, "seLinuxOptions", "role")]


def proc_mount(pod):
    return [c for c in contexts(pod) if at(c, "procMount") not in (None, "Default")]


def seccomp_baseline(pod):
    return [c for c in contexts(pod) if at(c, "seccompProfile", "type") not in (None, *SECCOMP)]


def sysctls(pod):
    return [s for s in at(pod, "spec", "securityContext", "sysctls") or () if s["name"] not in SYSCTLS]


# ---- restricted -------------------------------------------------------------------------------
def volume_types(pod):
    return [v for v in at(pod, "spec", "volumes") or () if not {k for k in v if v[k] is not None} & VOLUMES]


def privilege_escalation(pod):
    return [name for name, value in each(pod, "securityContext", "allowPrivilegeEscalation") if value is not False]


def non_root(pod):
    return [name for name, value in own_or_pod(pod, "runAsNonRoot") if value is not True]


def non_root_user(pod):
    return [c for c in contexts(pod) if at(c, "runAsUser") == 0]


def seccomp_restricted(pod):
    return [name for name, value in own_or_pod(pod, "seccompProfile", "type") if value not in SECCOMP]


def dropped_capabilities(pod):
    return [name for name, value in each(pod, "securityContext", "capabilities", "drop") if "ALL" not in (value or ())]


def capabilities_restricted(pod):
    return [(name, value) for name, value in each(pod, "securityContext", "capabilities", "add")
            if not set(value or ()) <= {"NET_BIND_SERVICE"}]


BASELINE = (host_process, host_namespaces, privileged, added_capabilities, host_paths, host_ports, host_probes, apparmor, selinux,
            proc_mount, seccomp_baseline, sysctls)
RESTRICTED = (*BASELINE, volume_types, privilege_escalation, non_root, non_root_user, seccomp_restricted, dropped_capabilities,
              capabilities_restricted)


def broken(pod, rules=RESTRICTED):
    """{name of the rule: what it forbids} of the rules that the pod breaks."""
    found = {rule.__name__: rule(pod) for rule in rules}
    return {name: what for name, what in found.items() if what}
