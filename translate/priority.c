/* The value of a job's PriorityClass. */
#include "translate/bindings.h"

int64_t priority_value(int64_t submitted_ms)
{
	/* As OpenPAI: the class of the job in the high byte (always 0 here, 126 the highest), the
	 * time in units of 16 s below it.  It wraps after 8.5 years, far behind any queue. */
	int64_t units = submitted_ms / 16000 & 0xffffff;
	return -(((int64_t)126 << 24) + units);
}
