#include "server/http/sse.h"

#include <assert.h>

void sse_event(struct str *out, const char *event, int64_t id, struct span data)
{
	assert(!data.n || (!memchr(data.p, '\n', data.n) && !memchr(data.p, '\r', data.n)));
	if (id)
		str_printf(out, "id: %ld\n", (long)id);
	str_puts(out, "event: ");
	str_puts(out, event);
	str_puts(out, "\ndata: ");
	str_span(out, data);
	str_puts(out, "\n\n");
}

void sse_gone(struct str *out, const struct cached *job)
{
	STR_AUTO data = STR_INIT(out->max);
	str_puts(&data, "{\"name\":");
	str_json(&data, span_of(job->job));
	str_puts(&data, ",\"username\":");
	str_json(&data, span_of(cached_shown_user(job)));
	str_char(&data, '}');
	sse_event(out, "gone", 0, str_view(&data));
	out->full = out->full || data.full;
}

void sse_end(struct str *out, const char *reason)
{
	str_printf(out, "event: end\ndata: {\"reason\":\"%s\"}\n\n", reason);
}
