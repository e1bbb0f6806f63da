/* The figures and curves of one task: a sample is added, they are written, and read back after a
 * restart of the server. */
#include <stdlib.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "machine/usage/usage_internal.h"

enum { FORMAT = 1, MOST_DT_MS = 2 * USAGE_ROUND_MS, RECENT_MS = 600000 };

static const double MIB = 1 << 20;
static const double MOST_MIB = 1 << 30;

/* ---- samples --------------------------------------------------------------------------------- */

enum device_look { LOOK_UNKNOWN, LOOK_IDLE, LOOK_WORKS };

/* Unknown is not idle; without a process of the task on it, a GPU does nothing for it. */
static enum device_look look_of(const struct usage_look *g)
{
	if (g->listed && !g->has_own)
		return LOOK_IDLE;
	if (g->of.busy >= 0)
		return g->of.busy > 0 ? LOOK_WORKS : LOOK_IDLE;
	return g->listed ? LOOK_WORKS : LOOK_UNKNOWN;
}

/* dt_ms: since the last sample, at most MOST_DT_MS. */
static enum device_look device_sample(struct usage_device *d, const struct usage_look *g,
                                      int64_t at_ms, int64_t dt_ms)
{
	enum device_look look = look_of(g);
	curve_add(&d->busy, at_ms, g->of.busy);
	curve_add(&d->memory, at_ms, (double)g->of.memory);
	d->total = g->of.total >= 0 ? g->of.total : d->total;
	if (g->of.watts >= 0)
		d->joules = (d->joules < 0 ? 0 : d->joules) + g->of.watts * (double)dt_ms / 1000;
	if (look != LOOK_UNKNOWN && d->idle_ms < 0)
		d->idle_ms = 0;
	d->idle_ms += look == LOOK_IDLE ? dt_ms : 0;
	d->used |= look == LOOK_WORKS;
	return look;
}

void figures_sample(struct usage_entry *t, const struct procs_task *procs,
                    const struct usage_look *gpus, int64_t boot_ms)
{
	int64_t at_ms = boot_ms - t->begin_boot_ms;
	int64_t since_ms = boot_ms - (t->looked_ms ?: t->begin_boot_ms);
	int64_t dt_ms = since_ms < MOST_DT_MS ? since_ms : MOST_DT_MS;
	size_t idle = 0;
	size_t works = 0;
	/* After a restart, the time of the first sample is not that since the one before. */
	if (procs->cpu_ms >= 0 && since_ms > 0 && (t->looked_ms || t->cpus.samples == 0))
		curve_add(&t->cpus, at_ms,
		          (double)(procs->cpu_ms - (t->cpu_ms > 0 ? t->cpu_ms : 0)) /
		              (double)since_ms);
	if (procs->memory >= 0)
		curve_add(&t->bytes, at_ms, (double)procs->memory);
	t->cpu_ms = procs->cpu_ms > t->cpu_ms ? procs->cpu_ms : t->cpu_ms;
	t->memory = procs->memory;
	t->peak = procs->memory_most > t->peak ? procs->memory_most : t->peak;
	t->looked_ms = boot_ms;
	for (size_t i = 0; i < t->gpus_n; i++) {
		enum device_look look = device_sample(&t->gpu[i], &gpus[i], at_ms, dt_ms);
		idle += look == LOOK_IDLE;
		works += look == LOOK_WORKS;
	}
	t->not_idle = works || boot_ms - t->known_ms > USAGE_GAP_MS;
	if (t->not_idle)
		t->idle_run_ms = 0;
	if (works || (idle && idle == t->gpus_n)) {
		t->idle_run_ms += works ? 0 : dt_ms;
		t->known_ms = boot_ms;
	}
}

/* ---- writing --------------------------------------------------------------------------------- */

static double curve_most(const struct curve *c)
{
	return c->samples ? c->most : -1;
}

/* The mean of the last ten minutes, by whole points; -1: unknown. */
static double curve_recent(const struct curve *c, int64_t at_ms)
{
	double sum = 0;
	uint64_t n = 0;
	for (size_t i = c->n; i-- > 0 && (int64_t)(i + 1) * c->period_ms > at_ms - RECENT_MS;) {
		sum += (double)c->v[i].mean * c->v[i].n;
		n += c->v[i].n;
	}
	return n ? sum / (double)n : -1;
}

static void device_put(const struct usage_device *d, const struct gpu *g, struct str *out)
{
	double last = d->memory.n ? (double)d->memory.v[d->memory.n - 1].mean : -1;
	json_put_open(out, NULL, '{');
	json_put_int(out, "index", d->gpu);
	json_put_word(out, "name", g->name);
	json_put_figure(out, "busy", d->busy.samples ? d->busy.sum / (double)d->busy.samples : -1);
	json_put_figure(out, "busyMost", curve_most(&d->busy));
	json_put_int(out, "samples", (int64_t)d->busy.samples);
	json_put_figure(out, "memoryMB", last / MIB);
	json_put_figure(out, "memoryMostMB", curve_most(&d->memory) / MIB);
	json_put_figure(out, "totalMB", (double)d->total / MIB);
	json_put_figure(out, "energyWh", d->joules / 3600);
	json_put_known(out, "idleSeconds", d->idle_ms >= 0, d->idle_ms / 1000);
	if (d->used || d->idle_ms >= 0)
		json_put_bool(out, "used", d->used);
	else
		json_put_null(out, "used");
	str_char(out, '}');
}

void figures_put(const struct usage_entry *t, const struct gpu *gpus, struct str *out,
                 struct str *curves)
{
	double peak = t->peak >= 0 ? (double)t->peak : curve_most(&t->bytes);
	json_put_open(out, NULL, '{');
	json_put_figure(out, "cpuSeconds", (double)t->cpu_ms / 1000);
	json_put_figure(out, "memoryMB", (double)t->memory / MIB);
	json_put_figure(out, "memoryMostMB", peak / MIB);
	json_put_bool(out, "memoryAtMost", !t->procs.cgroup);
	json_put_known(out, "seconds", t->looked_ms > 0, (t->looked_ms - t->begin_boot_ms) / 1000);
	json_put_open(out, "gpus", '[');
	for (size_t i = 0; i < t->gpus_n; i++)
		device_put(&t->gpu[i], &gpus[t->gpu[i].gpu], out);
	str_char(out, ']');
	json_put_int(out, "idleRunMs", t->idle_run_ms);
	json_put_int(out, "sampledBootMs", t->known_ms);
	str_char(out, '}');
	if (!curves)
		return;
	str_char(curves, FORMAT);
	str_char(curves, (char)(t->gpus_n < UINT8_MAX ? t->gpus_n : UINT8_MAX));
	curve_pack(curves, &t->cpus);
	curve_pack(curves, &t->bytes);
	for (size_t i = 0; i < t->gpus_n && i < UINT8_MAX; i++) {
		curve_pack(curves, &t->gpu[i].busy);
		curve_pack(curves, &t->gpu[i].memory);
	}
}

void figures_state(const struct usage_entry *t, struct usage_state *out)
{
	int64_t at_ms = t->looked_ms - t->begin_boot_ms;
	double busy = 0;
	double joules = 0;
	*out = (struct usage_state){ .cpu_ms = t->cpu_ms,
		                     .idle_ms = t->gpus_n ? 0 : -1,
		                     .gpus_idle_ms = t->idle_run_ms,
		                     .gpus_not_idle = t->not_idle,
		                     .cpus = curve_recent(&t->cpus, at_ms),
		                     .busy = t->gpus_n ? 0 : -1,
		                     .memory = t->memory,
		                     .gpu_memory = t->gpus_n ? 0 : -1,
		                     .memory_at_most = !t->procs.cgroup };
	for (size_t i = 0; i < t->gpus_n; i++) {
		const struct usage_device *d = &t->gpu[i];
		double recent = curve_recent(&d->busy, at_ms);
		busy = busy < 0 || recent < 0 ? -1 : busy + recent;
		joules = joules < 0 || d->joules < 0 ? -1 : joules + d->joules;
		out->idle_ms = out->idle_ms < 0 || d->idle_ms < 0 ? -1 : out->idle_ms + d->idle_ms;
		out->gpu_memory =
		    out->gpu_memory < 0 || !d->memory.n
			? -1
			: out->gpu_memory + (int64_t)d->memory.v[d->memory.n - 1].mean;
		out->gpus_used |= d->used;
	}
	out->busy = busy < 0 || !t->gpus_n ? -1 : busy / (double)t->gpus_n;
	out->energy_j = joules < 0 || !t->gpus_n ? -1 : (int64_t)joules;
}

/* ---- after a restart ------------------------------------------------------------------------- */

void figures_restore(struct usage_entry *t, struct span figures, struct span curves)
{
	bool good = scan_valid(figures, SCAN_DEPTH_MAX) && curves.n > 1 && curves.p[0] == FORMAT &&
	            (uint8_t)curves.p[1] == t->gpus_n;
	struct span rest = span_from(curves, good ? 2 : curves.n);
	struct scan gpus = scan_begin(good ? scan_get(figures, "gpus") : SPAN(""));
	good = good && curve_unpack(&rest, &t->cpus) && curve_unpack(&rest, &t->bytes);
	for (size_t i = 0; i < t->gpus_n && good; i++) {
		struct usage_device *d = &t->gpu[i];
		struct span of;
		good = curve_unpack(&rest, &d->busy) && curve_unpack(&rest, &d->memory) &&
		       scan_item(&gpus, &of);
		if (!good)
			break;
		int64_t idle_s = -1;
		double wh = scan_figure(scan_get(of, "energyWh"));
		double total = scan_figure(scan_get(of, "totalMB"));
		(void)scan_int(scan_get(of, "idleSeconds"), 0, INT32_MAX, &idle_s);
		d->idle_ms = idle_s < 0 ? -1 : idle_s * 1000;
		d->joules = wh < 0 ? -1 : wh * 3600;
		d->total = total < 0 || total > MOST_MIB ? -1 : (int64_t)(total * MIB);
		d->used = span_is(scan_get(of, "used"), "true");
	}
	if (!good) { /* it begins anew */
		figures_free(t);
		return;
	}
	(void)scan_int(scan_get(figures, "idleRunMs"), 0, INT64_MAX / 2, &t->idle_run_ms);
	(void)scan_int(scan_get(figures, "sampledBootMs"), 0, INT64_MAX / 2, &t->known_ms);
}

void figures_free(struct usage_entry *t)
{
	struct curve *own[] = { &t->cpus, &t->bytes };
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		curve_done(own[i]);
		*own[i] = (struct curve){ 0 };
	}
	for (size_t i = 0; i < t->gpus_n; i++) {
		struct usage_device *d = &t->gpu[i];
		curve_done(&d->busy);
		curve_done(&d->memory);
		*d = (struct usage_device){
			.gpu = d->gpu, .total = -1, .joules = -1, .idle_ms = -1
		};
	}
}
