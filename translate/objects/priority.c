/* The value of a job's PriorityClass. */
#include "translate/render/bindings.h"

int64_t priority_value(int64_t submitted_ms, int64_t priority)
{
	/* As OpenPAI: the priority from the top in the high byte, the time in units of 16 s below
	 * it.  It wraps after 8.5 years, far behind any queue. */
	int64_t units = submitted_ms / 16000 & 0xffffff;
	return -((HIVED_HIGHEST - priority) * (1 << 24) + units);
}
