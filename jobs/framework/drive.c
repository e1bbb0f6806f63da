#include "jobs/framework/drive.h"

int64_t drive_backoff_ms(unsigned failures, int64_t most_ms)
{
	int64_t ms = failures < 20 ? (int64_t)5 << failures : most_ms;
	return ms < most_ms ? ms : most_ms;
}

int64_t drive_next_ms(const struct framework_result *r, unsigned *failures, int64_t now_ms,
                      int64_t wall_ms, int64_t most_ms)
{
	int64_t next_ms = INT64_MAX;
	if (r->wake_s < INT64_MAX / 1000)
		next_ms = r->wake_s * 1000 - wall_ms + now_ms;
	if (!r->failed && !r->delete_framework) {
		if (!r->pending) /* else it may fail still */
			*failures = 0;
		return next_ms;
	}
	int64_t again_ms = now_ms + drive_backoff_ms(*failures, most_ms);
	*failures += *failures < UINT32_MAX;
	return again_ms < next_ms ? again_ms : next_ms;
}
