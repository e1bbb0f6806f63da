/*
 * What one large job in full costs: from what is kept of it to the text of the answer, beside what
 * jansson takes to parse the same document.  Prints a table for docs/BENCH-LOG.md.
 *
 *	details [TASKS]...     default: 10 200 2000 10000
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <zlib.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "server/jobs/jobs_internal.h"

enum { TEXT_MAX = 64 << 20, ROUNDS = 31 };

static uint64_t seed = 1;

static unsigned below(unsigned n)
{
	seed = seed * 6364136223846793005U + 1442695040888963407U;
	return (unsigned)(seed >> 33) % n;
}

static void put_uid(struct str *out)
{
	str_printf(out, "\"%08x-%04x-4%03x-a%03x-%06x%06x\"", below(1u << 31), below(1 << 16),
	           below(1 << 12), below(1 << 12), below(1 << 24), below(1 << 24));
}

static void put_task(struct str *out, unsigned i, bool ended)
{
	str_printf(out, "%s{\"attemptStatus\":{\"completionStatus\":", i ? "," : "");
	if (ended)
		str_puts(out, "{\"code\":137,\"diagnostics\":\"Pod failed: PodPattern matched: "
		              "{\\\"containers\\\":[{\\\"name\\\":\\\"app\\\",\\\"reason\\\":"
		              "\\\"Error\\\",\\\"code\\\":137}]}\",\"phrase\":"
		              "\"ContainerSigKillReceived\",\"type\":{\"attributes\":["
		              "\"Transient\"],\"name\":\"Failed\"}}");
	else
		str_puts(out, "null");
	str_printf(out, ",\"completionTime\":%s,\"id\":0,\"instanceUID\":",
	           ended ? "\"2026-11-20T10:26:41Z\"" : "null");
	put_uid(out);
	str_printf(out,
	           ",\"podHostIP\":\"10.0.%u.%u\",\"podIP\":\"10.1.%u.%u\",\"podName\":"
	           "\"8f0501aa490fc9f7d4de393dbd0254ba-worker-%u\",\"podNodeName\":\"node%u\","
	           "\"podUID\":",
	           below(256), below(256), below(256), below(256), i, below(1000));
	put_uid(out);
	str_printf(out,
	           ",\"runTime\":\"2026-11-20T10:26:37Z\",\"startTime\":\"2026-11-20T10:26:33Z\"},"
	           "\"completionTime\":%s,\"deletionPending\":false,\"index\":%u,\"instanceUID\":",
	           ended ? "\"2026-11-20T10:26:41Z\"" : "null", i);
	put_uid(out);
	str_printf(out,
	           ",\"retryPolicyStatus\":{\"accountableRetriedCount\":0,\"retryDelaySec\":null,"
	           "\"totalRetriedCount\":0},\"runTime\":\"2026-11-20T10:26:37Z\",\"startTime\":"
	           "\"2026-11-20T10:26:33Z\",\"state\":\"%s\",\"transitionTime\":"
	           "\"2026-11-20T10:26:37Z\"}",
	           ended ? "Completed" : "AttemptRunning");
}

static void put_roles(struct str *out, unsigned tasks, bool ended)
{
	str_puts(out, "[{\"instanceUID\":\"a6d09ec4-d3a9-480a-8524-a195b4ade3c7\",\"name\":"
	              "\"worker\",\"taskStatuses\":[");
	for (unsigned i = 0; i < tasks; i++)
		put_task(out, i, ended);
	str_puts(out, "]}]");
}

static void put_gzip(struct str *out, struct span text)
{
	z_stream z = { 0 };
	if (deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		abort();
	size_t cap = deflateBound(&z, text.n);
	FREE_AUTO char *packed = xmalloc(cap);
	union {
		const char *text;
		unsigned char *bytes;
	} in = { .text = text.p };
	z.next_in = in.bytes;
	z.avail_in = (unsigned)text.n;
	z.next_out = (unsigned char *)packed;
	z.avail_out = (unsigned)cap;
	(void)deflate(&z, Z_FINISH);
	str_base64(out, (struct span){ packed, z.total_out });
	(void)deflateEnd(&z);
}

/* A job of one role, on its nodes' network. */
static void put_job(struct str *out, unsigned tasks, bool ended, bool packed)
{
	STR_AUTO roles = STR_INIT(TEXT_MAX);
	put_roles(&roles, tasks, ended);
	str_printf(out,
	           "{\"metadata\":{\"name\":\"8f0501aa490fc9f7d4de393dbd0254ba\",\"uid\":\"u\","
	           "\"resourceVersion\":\"7\",\"creationTimestamp\":\"2026-11-20T10:26:32Z\","
	           "\"labels\":{\"userName\":\"alice\",\"virtualCluster\":\"default\"},"
	           "\"annotations\":{\"jobName\":\"a1\"}},\"spec\":{\"executionType\":\"Start\","
	           "\"taskRoles\":[{\"name\":\"worker\",\"taskNumber\":%u,\"task\":{\"pod\":{"
	           "\"metadata\":{\"annotations\":{\"rest-server/port-scheduling-spec\":"
	           "\"{\\\"schedulePortStart\\\":15000,\\\"schedulePortEnd\\\":40000,"
	           "\\\"ports\\\":{\\\"ssh\\\":{\\\"count\\\":1},\\\"http\\\":{\\\"count\\\":1}}}\""
	           "}},\"spec\":{\"hostNetwork\":true}}}}]},\"status\":{\"state\":"
	           "\"AttemptRunning\",\"attemptStatus\":{\"id\":0,\"completionStatus\":null,",
	           tasks);
	if (packed) {
		str_puts(out, "\"taskRoleStatuses\":null,\"taskRoleStatusesCompressed\":\"");
		put_gzip(out, str_view(&roles));
		str_puts(out, "\"}}}");
	} else {
		str_puts(out, "\"taskRoleStatuses\":");
		str_span(out, str_view(&roles));
		str_puts(out, "}}}");
	}
}

static double now_ms(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* of this process: others run, too */
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), by_value);
	return v[ROUNDS / 2];
}

struct figures {
	double doc, detail, jansson; /* ms */
	size_t out;
};

static struct figures measure(const struct job_entry *job, struct span roles,
                              const struct exit_spec *spec)
{
	double doc[ROUNDS];
	double detail[ROUNDS];
	double parse[ROUNDS];
	struct figures f = { .out = 0 };
	for (int i = 0; i < ROUNDS; i++) {
		ARENA_AUTO a = { 0 };
		ERR_AUTO e = { 0 };
		STR_AUTO out = STR_INIT(TEXT_MAX);
		struct job_shown s = { .job = job, .spec = spec };
		double start = now_ms();
		if (!job_entry_doc(job, &a, &s.doc))
			abort();
		doc[i] = now_ms() - start;
		start = now_ms();
		if (job_detail(&out, &s, &a, &e) < 0)
			abort();
		detail[i] = now_ms() - start;
		f.out = out.n;
	}
	/* On its own: what it frees is others' work later. */
	for (int i = 0; i < ROUNDS; i++) {
		double start = now_ms();
		json_decref(json_loadb(roles.p, roles.n, 0, NULL));
		parse[i] = now_ms() - start;
	}
	f.doc = median(doc);
	f.detail = median(detail);
	f.jansson = median(parse);
	return f;
}

static void row(unsigned tasks, bool ended, bool packed, const struct exit_spec *spec)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	STR_AUTO roles = STR_INIT(TEXT_MAX);
	put_job(&text, tasks, ended, packed);
	put_roles(&roles, tasks, ended);
	struct job_entry *job = job_entry_new(str_view(&text));
	if (!job || job->doc.n == 0) {
		printf("| %u | %s | %s | %zu | not kept | | | |\n", tasks, ended ? "ended" : "run",
		       packed ? "yes" : "no", roles.n >> 10);
		job_entry_drop(job);
		return;
	}
	struct figures f = measure(job, str_view(&roles), spec);
	printf("| %u | %s | %s | %zu | %zu | %.2f | %.2f | %.2f | %.2f |\n", tasks,
	       ended ? "ended" : "run", packed ? "yes" : "no", roles.n >> 10, f.out >> 10, f.doc,
	       f.detail, f.jansson, (f.doc + f.detail) / f.jansson);
	job_entry_drop(job);
}

int main(int argc, char **argv)
{
	static const char *const DEFAULT[] = { "10", "200", "2000", "10000" };
	const size_t n = argc > 1 ? (size_t)argc - 1 : sizeof(DEFAULT) / sizeof(DEFAULT[0]);
	ERR_AUTO e = { 0 };
	struct exit_spec *spec = exit_spec_new("", &e);
	printf(
	    "\n| tasks | they | compressed | status, KiB | answer, KiB | inflate, ms | write, ms "
	    "| jansson parses it, ms | ratio |\n|---|---|---|---|---|---|---|---|---|\n");
	for (size_t i = 0; i < n; i++) {
		int64_t tasks = 0;
		const char *text = argc > 1 ? argv[i + 1] : DEFAULT[i];
		if (parse_i64(span_of(text), 1, 100000, &tasks) < 0)
			return 2;
		for (int k = 0; k < 4; k++)
			row((unsigned)tasks, k & 1, k & 2, spec);
	}
	exit_spec_free(spec);
	return 0;
}
