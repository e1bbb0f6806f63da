// A client generated from /openapi.json reads a real answer of each operation.  Every call below compiles
// only if the document has its path, parameters and body, and each member that is read of the answer.
// Prints the operations that answered.  Its argument: {"jobs": URL, "people": URL, "skus": URL, "token": ADMIN'S}.
import createClient from "openapi-fetch";
import type { components, operations, paths } from "./api.js";

declare const process: { argv: string[] };
type Schemas = components["schemas"];

const where = JSON.parse(process.argv[2]!) as { jobs: string; people: string; skus: string; token: string };
const api = createClient<paths>({ baseUrl: where.jobs });
const skus = createClient<paths>({ baseUrl: where.skus });
const people = createClient<paths>({ baseUrl: where.people, headers: { Authorization: `Bearer ${where.token}` } });

type Answer<T> = { data?: T | undefined; error?: unknown; response: Response };

// The values that `read` takes from an answer: undefined is one that the document promises and the server lacks.
async function answer<T>(operation: string, call: Promise<Answer<T>>, read: (a: NonNullable<T>) => unknown[]): Promise<NonNullable<T>> {
	const { data, response } = await call;
	if (!response.ok || data === undefined || data === null)
		throw new Error(`${operation}: ${response.status} ${await response.text().catch(() => "")}`);
	if (read(data).some((value) => value === undefined))
		throw new Error(`${operation}: undefined in ${JSON.stringify(data)}`);
	console.log(operation);
	return data;
}

// An answer that is an error, of which the code is known.
async function refusal(operation: string, call: Promise<Answer<unknown> & { error?: Schemas["Error"] | undefined }>, code: string) {
	const { error, response } = await call;
	if (response.ok || error?.code !== code || !error.message)
		throw new Error(`${operation}: ${response.status} ${JSON.stringify(error)}`);
	console.log(`${operation} ${code}`);
}

const text = { bodySerializer: (body: unknown) => body as string, headers: { "Content-Type": "application/yaml" } };
const file = (name: string, commands: string[]): Schemas["JobFileV2"] => ({
	protocolVersion: 2, name, type: "job",
	prerequisites: [{ type: "dockerimage", name: "image", uri: "ubuntu:22.04" }],
	taskRoles: { main: { instances: 1, dockerImage: "image", commands, resourcePerInstance: { cpu: 1, gpu: 0, memoryMB: 512 } } },
});
const fileV1 = (jobName: string): Schemas["JobFileV1"] => ({
	jobName, image: "ubuntu:22.04", taskRoles: [{ name: "main", command: "sleep 1000", taskNumber: 1, cpuNumber: 1, memoryMB: 512 }],
});

const STOP: NonNullable<operations["stopJob"]["requestBody"]>["content"]["application/json"] = { value: "STOP" };
const changed = (a: Schemas["Changed"]) => [a.message];
const message = (a: Schemas["Message"]) => [a.message];
const noted = (a: Schemas["SubmittedV1"]) => [a.success, a.status, a.message, ...(a.warnings ?? []).map((w) => w.message)];
const tried = (a: { items?: unknown[] } | object) => ["items" in a ? a.items : undefined];
const rowV1 = (rows: Schemas["JobRowV1"][]) => rows.flatMap((r) => [r.name, r.state, r.retries, r.appExitCode, r.completedTime]);
const row = (r: Schemas["JobRow"]) => [r.name, r.state, r.totalTaskNumber, r.tags.length, r.retryDetails.user, r.jobPriority];
const job = (j: Schemas["Job"]) => [
	j.name, j.debugId, j.tags.length, j.jobStatus.state, j.jobStatus.retryDetails.platform, j.jobStatus.appExitCode,
	j.jobStatus.appExitMessages, j.jobStatus.appExitSpec,
	...Object.values(j.taskRoles).flatMap((r) => [r.taskRoleStatus.name, ...r.taskStatuses.flatMap((t) => [
		t.taskIndex, t.taskState, t.containerLog, t.containerPorts, t.containerExitSpec])]),
];
const attempt = (a: Schemas["JobAttempt"]) => [a.jobName, a.attemptIndex, a.isLatest, a.exitDiagnostics, Object.keys(a.taskRoles).length];
const config = (c: unknown) => [c];
const info = (i: Schemas["Info"]) => [i.name, i.version, i.authnMethod, i.hostFiles, i.code.maxBytes, i.code.maxUnpackedBytes, i.code.maxEntries];
const authn = (a: Schemas["Authn"]) => [a.authn_type, a.loginURI, a.passwords];
const loggedIn = (l: Schemas["LoggedIn"]) => [l.user, l.token, l.admin];
const claims = (c: Schemas["Claims"]) => [c.username, c.application, c.admin];
const user = (u: Schemas["User"]) => [u.username, u.admin, u.grouplist.length, u.virtualCluster.length, u.storageConfig.length, u.overlays.length];
const users = (all: Schemas["Users"]) => all.map((u) => u.username);
const cluster = (c: Schemas["VirtualCluster"]) => [c.usedCapacity, c.resourcesTotal.gpu, c.resourcesUsed.memory, c.resourcesGuaranteed.cpu];

async function jobs() {
	const named = (name: string) => ({ params: { path: { user: "alice", job: name } } });
	const known = (name: string) => ({ params: { path: { job: `alice~${name}` } } });
	await answer("POST /api/v2/jobs", api.POST("/api/v2/jobs", {
		body: { ...file("failed", ["echo 1 >results/loss", "echo broken >&2", "exit 3"]), extras: { results: true } } }), (a) =>
		["status" in a ? a.status : undefined, "message" in a ? a.message : undefined]);
	await answer("POST /api/v2/jobs?dryRun", api.POST("/api/v2/jobs", {
		body: file("tried", ["true"]), params: { query: { dryRun: "true" } } }), tried);
	await answer("POST /api/v2/jobs", api.POST("/api/v2/jobs", {
		body: JSON.stringify(file("runs", ["sleep 1000"])) as never, ...text }), (a) => ["message" in a ? a.message : undefined]);
	await refusal("POST /api/v2/jobs", api.POST("/api/v2/jobs", { body: { ...file("no", []), name: "no no" } }), "InvalidProtocolError");
	for (const [operation, call] of [
		["POST /api/v1/jobs", () => api.POST("/api/v1/jobs", { body: fileV1("one") })],
		["POST /api/v1/user/{user}/jobs", () => api.POST("/api/v1/user/{user}/jobs", { params: { path: { user: "alice" } }, body: fileV1("two") })],
		["POST /api/v1/user/{user}/jobs/{job}", () => api.POST("/api/v1/user/{user}/jobs/{job}", { ...named("three"), body: fileV1("three") })],
		["PUT /api/v1/user/{user}/jobs/{job}", () => api.PUT("/api/v1/user/{user}/jobs/{job}", { ...named("four"), body: fileV1("four") })],
		["PUT /api/v1/jobs/{job}", () => api.PUT("/api/v1/jobs/{job}", { params: { path: { job: "five" } }, body: fileV1("five") })],
	] as const)
		await answer(operation, call(), (a) => "success" in a ? noted(a) : [undefined]);

	const ended = await answer("GET /api/v2/jobs/{job}", api.GET("/api/v2/jobs/{job}", {
		params: { path: { job: "alice~failed" }, query: { wait: 60, for: "completed" } } }), job);
	if (ended.jobStatus.state !== "FAILED" || !ended.jobStatus.firstFailure?.lines.length || ended.jobStatus.appExitSpec === null)
		throw new Error(`not as failed: ${JSON.stringify(ended)}`);
	await answer("GET /api/v2/jobs/{job}", api.GET("/api/v2/jobs/{job}", {
		params: { path: { job: "alice~runs" }, query: { wait: 60, for: "running" } } }), job);
	await answer("GET /api/v2/jobs/{job}/attempts/{attempt}", api.GET("/api/v2/jobs/{job}/attempts/{attempt}", {
		params: { path: { job: "alice~failed", attempt: 0 } } }), job);
	await answer("GET /api/v1/user/{user}/jobs/{job}", api.GET("/api/v1/user/{user}/jobs/{job}", named("failed")), job);
	await answer("GET /api/v1/jobs/{job}", api.GET("/api/v1/jobs/{job}", known("failed")), job);
	await answer("GET /api/v2/jobs", api.GET("/api/v2/jobs"), (a) => Array.isArray(a) ? [a[0], ...a.flatMap(row)] : [undefined]);
	await answer("GET /api/v2/jobs", api.GET("/api/v2/jobs", { params: { query: { withTotalCount: "true", state: "FAILED", limit: 1 } } }),
		(a) => Array.isArray(a) ? [undefined] : [a.totalCount, ...a.data.flatMap(row)]);
	await answer("GET /api/v1/jobs", api.GET("/api/v1/jobs"), rowV1);
	await answer("GET /api/v1/user/{user}/jobs", api.GET("/api/v1/user/{user}/jobs", { params: { path: { user: "alice" } } }), rowV1);
	await answer("GET /api/v2/jobs/{job}/config", api.GET("/api/v2/jobs/{job}/config", known("failed")), config);
	await answer("GET /api/v1/user/{user}/jobs/{job}/config", api.GET("/api/v1/user/{user}/jobs/{job}/config", named("failed")), config);
	await answer("GET /api/v1/jobs/{job}/config", api.GET("/api/v1/jobs/{job}/config", known("failed")), config);
	await answer("GET /api/v2/jobs/{job}/job-attempts", api.GET("/api/v2/jobs/{job}/job-attempts", known("failed")), (a) => a.flatMap(attempt));
	await answer("GET /api/v2/jobs/{job}/job-attempts/{attempt}", api.GET("/api/v2/jobs/{job}/job-attempts/{attempt}", {
		params: { path: { job: "alice~failed", attempt: 0 } } }), attempt);
	await answer("GET /api/v2/jobs/{job}/results", api.GET("/api/v2/jobs/{job}/results", known("failed")), (a) => typeof a === "string"
		? [undefined] : [a.more, a.token, ...a.results.flatMap((r) => [r.path, r.href, r.kind, r.size, r.modified])]);
	await answer("GET /api/v2/jobs/{job}/events", api.GET("/api/v2/jobs/{job}/events", known("failed")),
		(a) => [a.totalCount, ...a.data.flatMap((e) => [e.type, e.reason, e.message, e.lastTimestamp, e.taskIndex])]);
	const logs: operations["listLogs"]["parameters"]["path"] = { job: "alice~failed", attempt: 0, role: "main", index: 0, retry: 0 };
	const task: operations["getTask"]["parameters"]["path"] = { ...logs, attempt: "latest" };
	const attempts = "/api/v2/jobs/{job}/attempts/{attempt}/taskRoles/{role}/taskIndex/{index}/attempts" as const;
	await answer(`GET ${attempts}`, api.GET(attempts, { params: { path: task } }),
		(a) => [a.taskRoleName, a.taskState, ...a.attempts.flatMap((t) => [t.attemptState, t.containerExitCode])]);
	await answer(`GET ${attempts}/{retry}/logs`, api.GET(`${attempts}/{retry}/logs`, { params: { path: logs } }),
		(a) => a.locations.flatMap((l) => [l.name, l.uri]));

	await answer("PUT /api/v2/jobs/{job}/tag", api.PUT("/api/v2/jobs/{job}/tag", { ...known("runs"), body: { value: "x" } }), changed);
	await answer("DELETE /api/v2/jobs/{job}/tag", api.DELETE("/api/v2/jobs/{job}/tag", { ...known("runs"), body: { value: "x" } }), changed);
	await refusal("DELETE /api/v2/jobs/{job}/tag", api.DELETE("/api/v2/jobs/{job}/tag", { ...known("runs"), body: { value: "x" } }), "NoTagError");
	await answer("PATCH /api/v2/jobs/{job}/taskRoles/{role}", api.PATCH("/api/v2/jobs/{job}/taskRoles/{role}", {
		params: { path: { job: "alice~runs", role: "main" } }, body: { instances: 2 } }), (a) => [a.status, a.message, a.instances]);
	await answer("POST /api/v2/jobs/{job}/exec", api.POST("/api/v2/jobs/{job}/exec", {
		...known("runs"), body: { role: "main", index: 0, command: ["true"] } }), (a) => [a.id]);
	await answer("PUT /api/v2/jobs/{job}/keep", api.PUT("/api/v2/jobs/{job}/keep", {
		...known("runs"), body: { hours: 1, reason: "a test" } }), (a) => [a.status, a.message, a.keptUntil]);
	await answer("GET /api/v2/machine", api.GET("/api/v2/machine"), (m) => [m.gpus, m.cpus, m.memoryMBHeld, m.jobsRunning,
		...m.running.flatMap((r) => [r.name, r.gpuIndexes.length]), ...m.queue.flatMap((q) => [q.name, q.message])]);
	await answer("GET /api/v2/jobs/{job}/usage", api.GET("/api/v2/jobs/{job}/usage", known("runs")), (u) => [u.tasksTotal, ...u.notes,
		...u.tasks.flatMap((t) => [t.taskRole, t.running, t.figures?.memoryAtMost ?? null, t.curves?.cpus.period ?? null])]);
	await answer("GET /api/v2/report", api.GET("/api/v2/report", { params: { query: { since: "2026-11-01" } } }), (a) => [a.more,
		...a.rows.flatMap((r) => [r.user, r.gpuHours, r.attempts])]);
	await answer("PUT /api/v2/jobs/{job}/executionType", api.PUT("/api/v2/jobs/{job}/executionType", {
		...known("runs"), body: STOP }), changed);
	await answer("PUT /api/v1/user/{user}/jobs/{job}/executionType", api.PUT("/api/v1/user/{user}/jobs/{job}/executionType", {
		...named("one"), body: STOP }), changed);
	await answer("PUT /api/v1/jobs/{job}/executionType", api.PUT("/api/v1/jobs/{job}/executionType", {
		...known("two"), body: STOP }), changed);
	await answer("DELETE /api/v1/user/{user}/jobs/{job}", api.DELETE("/api/v1/user/{user}/jobs/{job}", named("failed")), changed);
	await refusal("GET /api/v2/jobs/{job}", api.GET("/api/v2/jobs/{job}", known("none")), "NoJobError");
	await refusal("GET /api/v2/jobs/{job}/ssh", api.GET("/api/v2/jobs/{job}/ssh", known("runs")), "NoJobSshInfoError");
	await refusal("GET /api/v2/jobs/protocolversion/config", api.GET("/api/v2/jobs/protocolversion/config"), "NoJobError");
}

async function code() {
	// The archive of an empty directory.
	const packed = Uint8Array.from(atob("H4sIAAAAAAACA2NgGAWjYBSMVAAALq+17wAEAAA="), (c) => c.charCodeAt(0));
	const path = { sha256: "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef" };
	const kept = (c: Schemas["Code"]) => [c.sha256, c.bytes, c.unpackedBytes, c.entries];
	await answer("PUT /api/v2/code/{sha256}", api.PUT("/api/v2/code/{sha256}", {
		params: { path }, body: "", bodySerializer: () => packed, headers: { "Content-Type": "application/gzip" } }), kept);
	await answer("GET /api/v2/code/{sha256}", api.GET("/api/v2/code/{sha256}", { params: { path } }), kept);
}

async function server() {
	for (const path of ["/api/v1", "/api/v2", "/api/v2/info"] as const)
		await answer(`GET ${path}`, api.GET(path), info);
	for (const path of ["/api/v1/authn/info", "/api/v2/authn/info"] as const)
		await answer(`GET ${path}`, api.GET(path), authn);
	await answer("GET /openapi.json", api.GET("/openapi.json"), (a) => [a]);
	await answer("GET /api/v2/schemas/{schema}", api.GET("/api/v2/schemas/{schema}", { params: { path: { schema: "v2" } } }), (a) => [a]);
	await answer("GET /api/v2/cluster/sku-types", skus.GET("/api/v2/cluster/sku-types"), (a) =>
		[Object.values(a)[0], ...Object.values(a).flatMap((s) => [s.cpu, s.gpu, s.memory])]);
	for (const path of ["/api/v1/virtual-clusters", "/api/v2/virtual-clusters"] as const)
		await answer(`GET ${path}`, skus.GET(path), (a) => [Object.values(a)[0], ...Object.values(a).flatMap((c) => "capacity" in c ? cluster(c) : [c.gpuTotal])]);
	await answer("GET /api/v2/virtual-clusters/{cluster}", skus.GET("/api/v2/virtual-clusters/{cluster}", {
		params: { path: { cluster: "default" } } }), cluster);
}

async function accounts() {
	const login = { body: { username: "alice", password: "alice-password" } };
	for (const path of ["/api/v2/authn/basic/login", "/api/v1/authn/basic/login", "/api/v2/tokens", "/api/v1/token"] as const)
		await answer(`POST ${path}`, people.POST(path, login), loggedIn);
	await refusal("POST /api/v2/tokens", people.POST("/api/v2/tokens", { body: { username: "alice", password: "wrong-password" } }), "IncorrectPasswordError");
	for (const path of ["/api/v2/tokens/check", "/api/v1/token/check"] as const)
		await answer(`GET ${path}`, people.GET(path), claims);
	for (const path of ["/api/v2/tokens/application", "/api/v1/token/application"] as const) {
		const made = await answer(`POST ${path}`, people.POST(path, { body: { name: "ci" } }), (t) => [t.token, t.application]);
		const gone = { params: { path: { token: made.token } } };
		if (path === "/api/v2/tokens/application")
			await answer("DELETE /api/v2/tokens/{token}", people.DELETE("/api/v2/tokens/{token}", gone), message);
		else
			await answer("DELETE /api/v1/token/{token}", people.DELETE("/api/v1/token/{token}", gone), message);
	}
	for (const path of ["/api/v2/tokens", "/api/v1/token"] as const)
		await answer(`GET ${path}`, people.GET(path), (t) => [t.tokens[0]]);

	const alice = { params: { path: { user: "alice" } } };
	for (const path of ["/api/v2/users/{user}", "/api/v2/user/{user}", "/api/v1/user/{user}"] as const)
		await answer(`GET ${path}`, people.GET(path, alice), user);
	for (const [all, me, one, member] of [
		["/api/v2/users", "/api/v2/users/me", "/api/v2/users/{user}", "/api/v2/users/{user}/{member}"],
		["/api/v2/user", "/api/v2/user/me", "/api/v2/user/{user}", "/api/v2/user/{user}/{member}"],
	] as const) {
		await answer(`POST ${all}`, people.POST(all, { body: { username: "new", password: "new-password" } }), message);
		await answer(`PUT ${all}`, people.PUT(all, { body: { data: { username: "new", email: "n@example.com" } } }), message);
		await answer(`PUT ${me}`, people.PUT(me, { body: { data: { email: "r@example.com" } } }), message);
		await answer(`PUT ${member}`, people.PUT(member, { params: { path: { user: "new", member: "email" } }, body: { email: "" } }), message);
		await answer(`GET ${all}`, people.GET(all), users);
		await answer(`DELETE ${one}`, people.DELETE(one, { params: { path: { user: "new" } } }), message);
	}
	await refusal("GET /api/v2/users/{user}", people.GET("/api/v2/users/{user}", { params: { path: { user: "nobody" } } }), "NoUserError");
	await answer("GET /api/v2/groups", people.GET("/api/v2/groups"), (g) => g.flatMap((one) => [one.groupname, one.extension.acls]));
	await answer("GET /api/v2/alerts", people.GET("/api/v2/alerts"), (a) => [a.length]);
	await answer("GET /api/v2/kubernetes/nodes", people.GET("/api/v2/kubernetes/nodes"), (a) => [a]);
	await answer("GET /api/v2/kubernetes/pods", people.GET("/api/v2/kubernetes/pods"), (a) => [a]);
	await answer("GET /api/v2/storages", people.GET("/api/v2/storages"), (s) => s.storages.flatMap((one) => [one.name, one.share, one.default]));
	await answer("GET /api/v2/storages/{storage}", people.GET("/api/v2/storages/{storage}", { params: { path: { storage: "nfs" } } }),
		(s) => [s.name, s.type, s.data, s.readOnly]);
	for (const path of ["/api/v2/authn/basic/logout", "/api/v1/authn/basic/logout"] as const) {
		const own = await answer("POST /api/v2/tokens", people.POST("/api/v2/tokens", login), loggedIn);
		await answer(`DELETE ${path}`, people.DELETE(path, { headers: { Authorization: `Bearer ${own.token}` } }), message);
	}
}

await jobs();
await code();
await server();
await accounts();
