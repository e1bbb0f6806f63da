#pragma once
/* What a loop knows of the store, for /readyz.  On the loop's thread. */

struct readiness;

struct readiness *readiness_new(void);
/* The store has ended, and with it all probes. */
void readiness_free(struct readiness *known);
