/* Pods of Kubernetes: a pod for each row of the allow-list, and the result. */
#include "tests/unit/translate/parse_kit.h"

#include <stdio.h>

#include "schema/schema.h"
#include "translate/dialects/raw_pod.h"

struct raw_run {
	struct arena arena;
	struct err err;
	struct notes warnings;
	struct role role;
	struct raw_found found;
	struct str text;
};

/* Reads a PodTemplateSpec in YAML, whose place is `pod`. */
static struct raw_run raw_run_main(const char *yaml, struct span main)
{
	struct raw_run r = { .text = STR_INIT(1 << 22) };
	struct settings set;
	struct doc doc = { 0 };
	translate_settings_default(&set);
	struct parse_context context = {
		.set = &set,
		.a = &r.arena,
		.job = ARENA_NEW(&r.arena, struct job, 1),
		.code = "InvalidProtocolError",
		.e = &r.err,
		.warnings = &r.warnings,
	};
	if (doc_read(span_of(yaml), &BUDGET_DEFAULT, &r.arena, &doc, &r.warnings, &r.err))
		fail_msg("%s", err_msg(&r.err));
	struct raw_source source = { { .n = &doc.root, .path = PATH_KEY(NULL, SPAN("pod")) },
		                     main };
	raw_pod_copy(&context, &source, &r.role, &r.found);
	return r;
}

static struct raw_run raw_run(const char *yaml)
{
	return raw_run_main(yaml, (struct span){ NULL, 0 });
}

static void raw_run_done(struct raw_run *r)
{
	str_done(&r->text);
	err_done(&r->err);
	notes_done(&r->warnings);
	arena_done(&r->arena);
}

/* LINE:COLUMN: SENTENCE of each note, a line each. */
static const char *raw_lines(struct raw_run *r, const struct notes *notes)
{
	r->text.n = 0;
	str_puts(&r->text, "");
	for (size_t i = 0; i < notes->n; i++) {
		str_printf(&r->text, "%u:%u: ", notes->v[i].line, notes->v[i].column);
		note_text(&r->text, &notes->v[i]);
		str_char(&r->text, '\n');
	}
	return str_c(&r->text);
}

static const char *raw_tree(struct raw_run *r)
{
	r->text.n = 0;
	node_json(&r->text, r->role.pod->tree);
	return str_c(&r->text);
}

#define POD(more)       "spec: {containers: [{name: c, image: i, command: [x]}], " more "}\n"
#define CONTAINER(more) "spec:\n  containers: [{name: c, image: i, " more ", command: [x]}]\n"
/* Beside an emptyDir `v`. */
#define VOLUMES(more, volumes)                                                                     \
	"spec:\n  containers: [{name: c, image: i, " more ", command: [x]}]\n"                     \
	"  volumes: [{name: v, emptyDir: {}}" volumes "]\n"
#define METADATA(more) "metadata: {" more "}\n" POD("")

struct raw_case {
	const char *yaml;
	const char *says; /* LINE:COLUMN: SENTENCE, or a part; NULL: there is none */
};

/* clang-format off */
static const struct raw_case REFUSED[] = {
	/* types and shapes */
	{ "[]\n", "1:1: pod: must be a mapping, is a list" },
	{ "x: 1\n", "1:1: pod: misses the key `spec`" },
	{ "spec: {}\n", "1:7: pod.spec: misses the key `containers`" },
	{ "spec: {containers: x}\n", "1:20: pod.spec.containers: must be a list, is text \"x\"" },
	{ "spec: {containers: []}\n", "1:20: pod.spec.containers" },
	{ "spec: {containers: [null]}\n", "1:21: pod.spec.containers[0]: must be a mapping, is null" },
	{ "spec: {containers: [[{name: c}]]}\n", "1:21: pod.spec.containers[0]: must be a mapping, is a list" },
	{ "spec: {containers: [{name: c}]}\n", "1:21: pod.spec.containers[0]: misses the key `image`" },
	{ "spec: {containers: [{name: C, image: i}]}\n", "1:28: pod.spec.containers[0].name: must have small letters" },
	{ "spec: {containers: [{name: c, image: 'a b'}]}\n", "1:38: pod.spec.containers[0].image: " },
	{ "metadata: x\n" POD(""), "1:11: pod.metadata: must be a mapping, is text \"x\"" },
	{ "spec:\n  containers: [{name: c, image: i, command: ls}]\n", "2:45: pod.spec.containers[0].command: must be a list, is text \"ls\"" },
	{ CONTAINER("args: [1]"), "2:43: pod.spec.containers[0].args[0]: must be text, is the number 1; put it in quotes" },
	{ CONTAINER("workingDir: a"), "2:48: pod.spec.containers[0].workingDir: must be an absolute path" },
	{ CONTAINER("env: {A: b}"), "pod.spec.containers[0].env: must be a list" },
	{ CONTAINER("env: [{name: A, value: 1}]"), "2:59: pod.spec.containers[0].env[0].value: must be text, is the number 1; put it in quotes" },
	{ CONTAINER("env: [{name: A, value: true}]"), "env[0].value: must be text, is true" },
	{ CONTAINER("env: [{name: 1A, value: b}]"), "env[0].name: is not a name of an environment variable" },
	{ CONTAINER("env: [{value: b}]"), "env[0]: misses the key `name`" },
	{ CONTAINER("ports: [{containerPort: 65536}]"), "ports[0].containerPort: must be at most 65535, is 65536" },
	{ CONTAINER("ports: [{containerPort: '80'}]"), "ports[0].containerPort: must be an integer, is text \"80\"" },
	{ CONTAINER("ports: [{name: HTTP, containerPort: 80}]"), "ports[0].name: must have small letters" },
	{ CONTAINER("ports: [{containerPort: 80, protocol: ICMP}]"), "ports[0].protocol: must be one of" },
	{ CONTAINER("resources: {limits: {cpu: abc}}"), "resources.limits.cpu: must be an amount, such as" },
	{ CONTAINER("resources: {limits: {cpu: -1}}"), "resources.limits.cpu: must be at least 0" },
	{ CONTAINER("resources: {limits: {memory: 1e99}}"), "resources.limits.memory: must be at most" },
	{ CONTAINER("resources: {limits: {memory: 9007199254740991Gi}}"), "is too large" },
	{ CONTAINER("resources: {limits: {memory: 123456789012345678}}"), "resources.limits.memory: must be" },
	{ CONTAINER("resources: {limits: {nvidia.com/gpu: 500m}}"), "must be an integer" },
	{ CONTAINER("resources: {limits: {github.com/fuse: 1}}"), "2:57: pod.spec.containers[0].resources.limits[\"github.com/fuse\"]: is refused: tasks have cpu" },
	{ POD("initContainers: [{name: a, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]"), "1:74: pod.spec.initContainers[0]: only the container of the task has devices" },
	{ POD("hostNetwork: 'yes'"), "pod.spec.hostNetwork: must be a boolean, is text \"yes\"" },
	{ POD("restartPolicy: never"), "pod.spec.restartPolicy: must be" },

	{ "spec: {containers: [{name: c, image: i}]}\n", "1:21: pod.spec.containers[0]: `command` is missing" },

	/* known to be bad */
	{ POD("hostPID: true"), "1:57: pod.spec.hostPID: is refused: tasks are isolated" },
	{ POD("hostPID: 'yes'"), "pod.spec.hostPID: is refused" },
	{ POD("hostIPC: true"), "pod.spec.hostIPC: is refused" },
	{ POD("shareProcessNamespace: true"), "pod.spec.shareProcessNamespace: is refused" },
	{ POD("ephemeralContainers: [{name: e}]"), "pod.spec.ephemeralContainers: is refused" },
	{ POD("hostAliases: [{ip: 1.2.3.4, hostnames: [a]}]"), "pod.spec.hostAliases: is refused: names and addresses" },
	{ POD("imagePullSecrets: [{name: bobs}]"), "pod.spec.imagePullSecrets: is refused: Secrets cannot be named" },
	{ POD("resourceClaims: [{name: gpu}]"), "pod.spec.resourceClaims: is refused: devices" },
	{ CONTAINER("securityContext: {privileged: true}"), "2:54: pod.spec.containers[0].securityContext.privileged: is refused: tasks are isolated" },
	{ CONTAINER("securityContext: {capabilities: {add: [SYS_ADMIN]}}"), "securityContext.capabilities.add: is refused" },
	{ POD("initContainers: [{name: a, image: i, securityContext: {privileged: true}}]"), "initContainers[0].securityContext.privileged: is refused" },
	{ CONTAINER("envFrom: [{secretRef: {name: x}}]"), "envFrom: is refused: Secrets and ConfigMaps cannot be named" },
	{ CONTAINER("env: [{name: A, valueFrom: {secretKeyRef: {name: x, key: k}}}]"), "env[0].valueFrom.secretKeyRef: is refused" },
	{ CONTAINER("env: [{name: A, valueFrom: {configMapKeyRef: {name: x, key: k}}}]"), "configMapKeyRef: is refused" },
	{ CONTAINER("env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"), "env[0]: must have at most 2 members, has 3" },
	{ CONTAINER("env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.x}}}]"), "fieldPath: is not a field that a task may read" },
	{ CONTAINER("env: [{name: PAI_X, value: b}]"), "2:49: pod.spec.containers[0].env[0].name: is reserved and cannot be set" },
	{ CONTAINER("env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"), "is reserved" },
	{ POD("initContainers: [{name: a, image: i, env: [{name: FC_X, value: b}]}]"), "is reserved" },
	{ CONTAINER("volumeDevices: [{name: v, devicePath: /dev/sda}]"), "volumeDevices: is refused" },
	{ CONTAINER("lifecycle: {postStart: {exec: {command: [id]}}}"), "lifecycle: is refused: its commands would not run" },
	{ POD("initContainers: [{name: a, image: i, restartPolicy: Always}]"), "restartPolicy: is refused" },
	{ METADATA("finalizers: [a/b]"), "1:12: pod.metadata.finalizers: is refused: pods belong to their Framework" },
	{ METADATA("ownerReferences: [{uid: x}]"), "ownerReferences: is refused" },
	{ METADATA("labels: {a: 1}"), "1:24: pod.metadata.labels.a: must be text, is the number 1" },
	{ METADATA("labels: {a: b c}"), "pod.metadata.labels.a: must have letters" },
	{ METADATA("labels: {-a: b}"), "labels[\"-a\"]: bad name \"-a\": names have letters" },
	{ METADATA("annotations: {'a b/c': d}"), "bad name \"a b/c\": names have letters" },
	{ METADATA("annotations: {a: '{{FC_TASK_INDEX}}'}"), "annotations.a: must not contain {{FC_...}}" },

	/* names */
	{ CONTAINER("workingDir: '/{{FC_POD_NAME}}'"), "workingDir: must not contain {{FC_...}}" },
	{ POD("initContainers: [{name: init, image: i}]"), "1:81: pod.spec.initContainers[0].name: must not be \"init\"" },
	{ "spec: {containers: [{name: c, image: i}, {name: app, image: i}]}\n", "1:42: pod.spec.containers[1]: is refused: a task is one container" },
	{ POD("volumes: [{name: pai-vol, emptyDir: {}}]"), "volumes[0].name: must not be \"pai-vol\"" },
	{ POD("volumes: [{name: '{{FC_X}}', emptyDir: {}}]"), "volumes[0].name: must" },

	/* volumes and mounts */
	{ POD("volumes: [{name: a}]"), "volumes[0]: must have one of emptyDir" },
	{ POD("volumes: [{name: a, emptyDir: {}, hostPath: {path: /}}]"), "volumes[0]: must have one of emptyDir" },
	{ POD("volumes: [{name: a, emptydir: {}}]"), "1:77: pod.spec.volumes[0].emptydir: is refused: volumes are of the kinds emptyDir, persistentVolumeClaim, nfs and hostPath" },
	{ POD("volumes: [{name: a, secret: {secretName: x}}]"), "volumes[0].secret: is refused: Secrets and" },
	{ POD("volumes: [{name: a, configMap: {name: x}}]"), "volumes[0].configMap: is refused" },
	{ POD("volumes: [{name: a, projected: {sources: [{secret: {name: x}}]}}]"), "volumes[0].projected: is refused" },
	{ POD("volumes: [{name: a, csi: {driver: x}}]"), "volumes[0].csi: is refused: drivers" },
	{ POD("volumes: [{name: a, flexVolume: {driver: x}}]"), "volumes[0].flexVolume: is refused: drivers" },
	{ POD("volumes: [{name: a, ephemeral: {}, emptyDir: {}}]"), "volumes[0].ephemeral: is refused: volumes are of" },
	{ POD("volumes: [{name: a, image: {reference: x}}]"), "volumes[0].image: is refused: volumes are of" },
	{ POD("volumes: [{name: a, emptyDir: {medium: HugePages}}]"), "medium: must be" },
	{ POD("volumes: [{name: a, hostPath: {path: /a/../b}}]"), "hostPath.path: must not contain empty components" },
	{ POD("volumes: [{name: a, hostPath: {path: a}}]"), "hostPath.path: must be an absolute path" },
	{ POD("volumes: [{name: a, hostPath: {path: /a, type: Socket}}]"), "hostPath.type: must be" },
	{ POD("volumes: [{name: a, nfs: {server: 'x y', path: /}}]"), "nfs.server: is not the name" },
	{ POD("volumes: [{name: a, nfs: {server: x}}]"), "nfs: misses the key `path`" },
	{ POD("volumes: [{name: a, persistentVolumeClaim: {claimName: A}}]"), "claimName: is not a name" },
	{ VOLUMES("volumeMounts: [{name: w, mountPath: /a}]", ""), "volumeMounts[0].name: the pod has no volume of this name" },
	{ VOLUMES("volumeMounts: [{name: v, mountPath: /usr/local/pai/x}]", ""), "mountPath: is reserved for the system" },
	{ VOLUMES("volumeMounts: [{name: v, mountPath: /}]", ""), "mountPath: is reserved: the root directory" },
	{ VOLUMES("volumeMounts: [{name: v, mountPath: /usr/local}]", ""), "mountPath: is reserved for the system" },
	{ VOLUMES("volumeMounts: [{name: v, mountPath: '/a:b'}]", ""), "mountPath: must not contain" },
	{ VOLUMES("volumeMounts: [{name: v, mountPath: /a, subPath: ../b}]", ""), "subPath: must be a relative path" },
	{ VOLUMES("volumeMounts: [{name: v, mountPath: /a, subPath: ./b}]", ""), "subPath: must be a relative path" },
	{ VOLUMES("volumeMounts: [{name: v, mountPath: /a, subPath: a//b}]", ""), "subPath: must be a relative path" },
	{ VOLUMES("volumeMounts: [{name: v, mountPath: /a, subPathExpr: $(X)}]", ""), "subPathExpr: is refused" },
	{ VOLUMES("volumeMounts: [{name: v, mountPath: /a, mountPropagation: Bidirectional}]", ""), "mountPropagation: must be" },
};

/* Accepted pods; NULL: no warning. */
static const struct raw_case TAKEN[] = {
	{ POD(""), NULL },
	{ METADATA("creationTimestamp: null"), NULL },
	{ METADATA("creationTimestamp: junk"), "1:12: pod.metadata.creationTimestamp: is left out: pods of tasks do not have it" },
	{ METADATA("labels: {a.b/c: d, job_type: WORKER}, annotations: {x: 'any text'}"), NULL },
	{ METADATA("labels: {app.kubernetes.io/name: x}"), "1:21: pod.metadata.labels[\"app.kubernetes.io/name\"]: is left out: names of this form" },
	{ METADATA("annotations: {container.apparmor.security.beta.kubernetes.io/c: unconfined}"), "is left out: names of this form" },
	{ METADATA("annotations: {hivedscheduler.microsoft.com/pod-bind-info: x}"), "is left out: names of this form" },
	{ METADATA("annotations: {rest-server/port-scheduling-spec: x}"), "is left out: names of this form" },
	{ METADATA("annotations: {rest-lit/submission: x}"), "is left out: names of this form" },
	{ METADATA("labels: {FC_TASK_INDEX: x}"), "is left out: names of this form" },
	{ METADATA("labels: {userName: bob}"), "is left out: names of this form" },
	{ METADATA("namespace: kube-system"), "1:12: pod.metadata.namespace: is left out: FrameworkController names pods" },
	{ POD("hostPID: false, hostIPC: false, shareProcessNamespace: false"), NULL },
	{ POD("hostNetwork: true"), NULL }, /* the dialect's */
	{ POD("restartPolicy: OnFailure"), NULL },
	{ POD("serviceAccountName: rest-server-account"), "1:57: pod.spec.serviceAccountName: is left out: pods have the account" },
	{ POD("priorityClassName: system-node-critical"), "priorityClassName: is left out: the priority" },
	{ POD("priority: 1099511627776"), "priority: is left out: the priority" },
	{ POD("schedulerName: mine"), "schedulerName: is left out: this installation chooses" },
	{ POD("schedulerName: default-scheduler"), NULL },
	{ POD("nodeName: master"), "nodeName: is left out: this installation chooses" },
	{ POD("tolerations: [{operator: Exists}]"), "tolerations: is left out: this installation chooses" },
	{ POD("nodeSelector: {a: b}"), "nodeSelector: is left out" },
	{ POD("affinity: {nodeAffinity: {}}"), "affinity: is left out" },
	{ POD("securityContext: {runAsUser: 0}"), "pod.spec.securityContext: is left out: security contexts" },
	{ POD("securityContext: {}"), NULL },
	{ POD("dnsPolicy: ClusterFirst"), NULL },
	{ POD("dnsPolicy: Default"), "dnsPolicy: is left out" },
	{ POD("hostname: a"), "hostname: is left out" },
	{ POD("terminationGracePeriodSeconds: 3"), "terminationGracePeriodSeconds: is left out" },
	{ POD("activeDeadlineSeconds: 3"), "activeDeadlineSeconds: is left out: tasks have no deadline" },
	{ POD("topologySpreadConstrants: [x]"), "is left out: pods of tasks do not have it" },
	{ CONTAINER("olumeMounts: [{}]"), "2:36: pod.spec.containers[0].olumeMounts: is left out: pods of tasks do not have it" },
	{ CONTAINER("imagePullPolicy: Always"), NULL },
	{ CONTAINER("imagePullPolicy: IfNotPresent"), "imagePullPolicy: is left out: images are always pulled" },
	{ CONTAINER("livenessProbe: {httpGet: {port: 1}}"), "livenessProbe: is left out" },
	{ CONTAINER("securityContext: {runAsUser: 0, privileged: false, capabilities: {drop: [ALL]}}"), "2:36: pod.spec.containers[0].securityContext: is left out" },
	{ CONTAINER("tty: true"), "tty: is left out" },
	{ CONTAINER("terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File"), NULL },
	{ CONTAINER("resources: {}, env: [], ports: [], volumeMounts: null, workingDir: null"), NULL },
	{ CONTAINER("ports: [{containerPort: 80, hostPort: 80}]"), "ports[0].hostPort: is left out: ports of the node" },
	{ CONTAINER("env: [{name: A, value: '{{FC_TASK_INDEX}}'}]"), "env[0].value: {{FC_...}} is replaced by" },
	{ CONTAINER("env: [{name: A, value: 2001-01-01}, {name: B}]"), NULL },
	{ CONTAINER("env: [{name: PAI_SSH_PUB_KEY, value: a}]"), NULL },
	{ CONTAINER("resources: {limits: {alpha.kubernetes.io/nvidia-gpu: 1}}"), "is taken as nvidia.com/gpu" },
	{ VOLUMES("volumeMounts: [{name: v, mountPath: /a, mountPropagation: None, readOnly: true, subPath: a/b.c}]", ""), NULL },
	{ VOLUMES("volumeMounts: [{name: v, mountPath: /a, recursiveReadOnly: Enabled}]", ""), "recursiveReadOnly: is left out" },
};
/* clang-format on */

/* All that differs, at once. */
static void raw_cases(const struct raw_case *v, size_t n, bool refused)
{
	size_t wrong = 0;
	for (size_t i = 0; i < n; i++) {
		AUTO(raw_run_done) struct raw_run r = raw_run(v[i].yaml);
		const char *lines = raw_lines(&r, refused ? &r.err.notes : &r.warnings);
		bool ok = r.err.http == (refused ? 400 : 0) &&
		          (v[i].says ? strstr(lines, v[i].says) != NULL : *lines == '\0') &&
		          (refused || r.warnings.n == (v[i].says ? 1 : 0));
		wrong += !ok;
		if (!ok)
			(void)fprintf(stderr, "%swants %s\nhas %d %s\n", v[i].yaml,
			              v[i].says ? v[i].says : "nothing", r.err.http, lines);
	}
	assert_int_equal(wrong, 0);
}

TEST(test_raw_pod_refuses_forbidden_fields)
{
	raw_cases(REFUSED, ARRAY_SIZE(REFUSED), true);
}

TEST(test_raw_pod_leaves_out_fields_with_a_warning)
{
	raw_cases(TAKEN, ARRAY_SIZE(TAKEN), false);
}

#define SECURITY                                                                                   \
	"\"securityContext\":{\"allowPrivilegeEscalation\":false,"                                 \
	"\"capabilities\":{\"drop\":[\"NET_RAW\",\"MKNOD\",\"AUDIT_WRITE\",\"SYS_CHROOT\"]}},"

/* A pod with all that is kept, in the order of the copy, and some more. */
static const char ALL[] =
    "metadata: {labels: {a: b, FC_X: y}, annotations: {c: d}, name: x}\n"
    "spec:\n"
    "  restartPolicy: OnFailure\n"
    "  hostNetwork: true\n"
    "  schedulerName: s\n"
    "  initContainers:\n"
    "  - {name: ips, image: j, command: [a, 'b c'], args: [d], tty: true, env: [{name: E, value: "
    "f}]}\n"
    "  containers:\n"
    "  - name: mxnet\n"
    "    image: i\n"
    "    command: [python]\n"
    "    args: [x.py]\n"
    "    workingDir: /w\n"
    "    env:\n"
    "    - {name: A, value: $(B)}\n"
    "    - {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}\n"
    "    ports: [{name: http, containerPort: 80, hostPort: 80, protocol: TCP}]\n"
    "    resources: {limits: {cpu: 1500m, memory: 1Gi, nvidia.com/gpu: '2'},\n"
    "                requests: {cpu: 1}}\n"
    "    volumeMounts:\n"
    "    - {name: data, mountPath: /d, readOnly: true, subPath: x}\n"
    "    - {name: nfs, mountPath: /n}\n"
    "    - {name: host, mountPath: /h}\n"
    "  volumes:\n"
    "  - {name: mem, emptyDir: {medium: Memory, sizeLimit: 1G}}\n"
    "  - {name: data, persistentVolumeClaim: {claimName: pv}}\n"
    "  - {name: nfs, nfs: {server: 10.0.0.5, path: /, readOnly: true}}\n"
    "  - {name: host, hostPath: {path: /data/x/, type: Directory}}\n";
static const char KEPT[] =
    "{\"metadata\":{\"labels\":{\"a\":\"b\"},\"annotations\":{\"c\":\"d\"}},"
    "\"spec\":{\"containers\":["
    "{\"name\":\"app\",\"workingDir\":\"/w\","
    "\"env\":[{\"name\":\"A\",\"value\":\"$(B)\"},"
    "{\"name\":\"C\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"metadata.name\"}}}],"
    "\"ports\":[{\"name\":\"http\",\"containerPort\":80,\"protocol\":\"TCP\"}],"
    "\"resources\":{\"limits\":{\"cpu\":\"1500m\",\"memory\":\"1Gi\"},"
    "\"requests\":{\"cpu\":1}},"
    "\"volumeMounts\":["
    "{\"name\":\"data\",\"mountPath\":\"/d\",\"readOnly\":true,\"subPath\":\"x\"},"
    "{\"name\":\"nfs\",\"mountPath\":\"/n\"},{\"name\":\"host\",\"mountPath\":\"/h\"}]}],"
    "\"initContainers\":[{\"name\":\"init\"},{" SECURITY
    "\"env\":[{\"name\":\"E\",\"value\":\"f\"},"
    "{\"name\":\"NVIDIA_VISIBLE_DEVICES\",\"value\":\"none\"}],"
    "\"name\":\"ips\",\"image\":\"j\",\"command\":[\"a\",\"b c\"],\"args\":[\"d\"]}],"
    "\"volumes\":["
    "{\"name\":\"mem\",\"emptyDir\":{\"medium\":\"Memory\",\"sizeLimit\":\"1G\"}},"
    "{\"name\":\"data\",\"persistentVolumeClaim\":{\"claimName\":\"pv\"}},"
    "{\"name\":\"nfs\",\"nfs\":{\"server\":\"10.0.0.5\",\"path\":\"/\","
    "\"readOnly\":true}},"
    "{\"name\":\"host\",\"hostPath\":{\"path\":\"/data/x/\",\"type\":\"Directory\"}}]}}";

/* All allowed fields are kept in their order, and no other. */
TEST(test_raw_pod_keeps_allowed_fields_in_order)
{
	AUTO(raw_run_done) struct raw_run r = raw_run_main(ALL, SPAN("mxnet"));
	assert_string_equal(raw_lines(&r, &r.err.notes), "");
	assert_string_equal(raw_tree(&r), KEPT);
	assert_span(r.role.image, "i");
	assert_int_equal(r.role.cpu, 2);
	assert_int_equal(r.role.memory_mb, 1024);
	assert_int_equal(r.role.gpu, 2);
	assert_span(r.found.restart_policy, "OnFailure");
	assert_true(r.found.host_network);
	assert_span(node_span(&r.found.command->item[0]), "python");
	assert_span(node_span(&r.found.args->item[0]), "x.py");
	assert_string_equal(path_place(&r.arena, field_path(r.found.main), NULL).at,
	                    "/pod/spec/containers/0");
	const struct raw_volume *v = r.role.pod->volumes;
	assert_int_equal(r.role.pod->n_volumes, 3);
	assert_true(v[0].claim && v[0].read_only);
	assert_span(v[0].source, "pv");
	assert_true(!v[1].claim && v[1].read_only);
	assert_span(v[1].source, "nfs://10.0.0.5");
	assert_true(!v[2].claim && !v[2].read_only);
	assert_span(v[2].source, "/data/x");
	assert_int_equal(v[2].where.line, 28);
}

/* A directory grants the paths below it, and no path beside it. */
TEST(test_volume_grants_compare_whole_path_components)
{
	static const struct storage_fact STORAGES[] = {
		{ .name = { "pv", 2 }, .share = true },
		{ .name = { "ro", 2 }, .share = true, .read_only = true },
		{ .name = { "own", 3 } },
	};
	static const struct directory_fact DIRECTORIES[] = { { { "/data", 5 }, true },
		                                             { { "/data/own", 9 }, false },
		                                             { { "nfs://fs", 8 }, false },
		                                             { { "nfs://gs/a", 10 }, true } };
	static const struct {
		struct raw_volume volume;
		enum raw_grant grant;
	} CASES[] = {
		{ { .claim = true, .source = { "pv", 2 } }, RAW_GRANTED },
		{ { .claim = true, .source = { "own", 3 } }, RAW_PRIVATE },
		{ { .claim = true, .source = { "ro", 2 } }, RAW_READ_ONLY },
		{ { .claim = true, .source = { "/data", 5 } }, RAW_NOT_GRANTED },
		{ { .source = { "pv", 2 } }, RAW_NOT_GRANTED },
		{ { .source = { "", 0 } }, RAW_NOT_GRANTED },
		{ { .source = { "/dat", 4 } }, RAW_NOT_GRANTED },
		{ { .source = { "/data", 5 } }, RAW_READ_ONLY },
		{ { .source = { "/data2", 6 } }, RAW_NOT_GRANTED },
		{ { .source = { "/data/x", 7 } }, RAW_READ_ONLY },
		{ { .source = { "/data/own", 9 } }, RAW_GRANTED },
		{ { .source = { "/data/own/x", 11 } }, RAW_GRANTED },
		{ { .source = { "nfs://fs", 8 } }, RAW_GRANTED },
		{ { .source = { "nfs://fs/x", 10 } }, RAW_GRANTED },
		{ { .source = { "nfs://fs2/x", 11 } }, RAW_NOT_GRANTED },
		{ { .source = { "nfs://gs", 8 } }, RAW_NOT_GRANTED },
		{ { .source = { "nfs://gs/a/b", 12 } }, RAW_READ_ONLY },
	};
	const struct facts f = { .storages = STORAGES,
		                 .n_storages = 3,
		                 .directories = DIRECTORIES,
		                 .n_directories = 4 };
	const struct facts none = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		assert_int_equal(raw_volume_grant(&CASES[i].volume, &f), CASES[i].grant);
		assert_int_equal(raw_volume_grant(&CASES[i].volume, &none), RAW_NOT_GRANTED);
	}
}

TEST(test_main_container_must_have_the_expected_name)
{
	struct raw_run r = raw_run_main(POD(""), SPAN("mxnet"));
	assert_within(raw_lines(&r, &r.err.notes),
	              "1:28: pod.spec.containers[0].name: must be mxnet");
	raw_run_done(&r);
	r = raw_run_main(POD(""), SPAN("c"));
	assert_string_equal(raw_tree(&r), "{\"spec\":{\"containers\":[{\"name\":\"app\"}]}}");
	assert_int_equal(r.found.command->n, 1);
	raw_run_done(&r);
}

/* The table also refuses fields that the schema refuses, all at once. */
TEST(test_raw_pod_reports_all_errors_at_once)
{
	AUTO(raw_run_done)
	struct raw_run r = raw_run("spec: {hostPID: true, containers: [{name: c, image: i, env: x, "
	                           "envFrom: [{a: b}]}]}\n");
	const char *lines = raw_lines(&r, &r.err.notes);
	assert_within(lines, "hostPID: is refused");
	assert_within(lines, "envFrom: is refused");
	assert_within(lines, "env: must be a list, is text \"x\"");
}

TEST(test_raw_pod_refuses_values_beyond_the_limits)
{
	STR_AUTO yaml = STR_INIT(1 << 22);
	str_puts(&yaml, "spec: {containers: [{name: c, image: i, env: [{name: A, value: ");
	str_many(&yaml, "x", 130001);
	str_puts(&yaml, "}]}]}\n");
	struct raw_run r = raw_run(str_c(&yaml));
	assert_within(raw_lines(&r, &r.err.notes), "value: must have at most 32767 characters");
	raw_run_done(&r);
	yaml.n = 0;
	str_puts(&yaml, "metadata: {annotations: {a: ");
	str_many(&yaml, "x", 128 << 10);
	str_puts(&yaml, "}}\nspec: {containers: [{name: c, image: i}]}\n");
	r = raw_run(str_c(&yaml));
	assert_within(raw_lines(&r, &r.err.notes),
	              "annotations.a: must have at most 2048 characters");
	raw_run_done(&r);
	yaml.n = 0;
	str_puts(&yaml, "spec: {containers: [");
	for (size_t i = 0; i < 65; i++)
		str_printf(&yaml, "{name: c%zu, image: i}, ", i);
	str_puts(&yaml, "]}\n");
	r = raw_run(str_c(&yaml));
	assert_within(raw_lines(&r, &r.err.notes), "pod.spec.containers: must have at most 64");
	raw_run_done(&r);
}

FIXTURE(set_up)
{
	schema_init();
	return 0;
}

TEST_GROUP(set_up, NULL)
