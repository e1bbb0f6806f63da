/* Events of pods, as the components of a cluster write them. */
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/time.h"
#include "machine/engine/engine_internal.h"

enum { EVENT_MAX = 16 << 10, EVENT_TEXT = 1024 };

void pod_event(struct engine_pod *p, const char *type, const char *reason, const char *fmt, ...)
{
	const struct engine *e = p->e;
	char text[EVENT_TEXT];
	char when[RFC3339_MAX];
	char id[17];
	va_list args;
	if (!e->set.event)
		return;
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args); /* may be cut */
	va_end(args);
	(void)rfc3339_put(when, clock_wall_ms(), 0);
	random_hex(id, 8);
	STR_AUTO out = STR_INIT(EVENT_MAX);
	str_printf(&out,
	           "{\"kind\":\"Event\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s.%s\","
	           "\"namespace\":\"%s\",\"uid\":\"%s\",\"creationTimestamp\":\"%s\"},"
	           "\"involvedObject\":{\"kind\":\"Pod\",\"namespace\":\"%s\",\"name\":\"%s\","
	           "\"uid\":\"%s\"},\"type\":\"%s\",\"reason\":\"%s\",\"message\":",
	           p->name, id, e->set.namespace_name, id, when, e->set.namespace_name, p->name,
	           p->uid, type, reason);
	str_json(&out, span_cut(span_of(text), EVENT_TEXT));
	str_printf(&out,
	           ",\"source\":{\"component\":\"rest-lit\",\"host\":\"%s\"},\"firstTimestamp\":"
	           "\"%s\",\"lastTimestamp\":\"%s\",\"count\":1}",
	           e->node, when, when);
	if (!out.full)
		e->set.event(e->set.arg, str_view(&out));
}
