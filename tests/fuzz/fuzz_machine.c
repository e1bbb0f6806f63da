/*
 * Any text as a Framework with a status, for FrameworkController's machine.  What it refuses has a
 * reason; what it takes it can sync, whatever the world is like, and its status can be read again.
 */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/jobs/machine_kit.h"

FUZZ(text)
{
	ERR_AUTO e = { 0 };
	struct framework_config *c =
	    framework_config_read(SPAN("largeFrameworkCompression: true"), &e);
	assert(c);
	struct framework *f = toy_machine(c, text, &e);
	if (f) {
		toy_run(f, 2);
		(void)toy_sync(f, TOY_LIVE, 1700000000);
	} else {
		assert(e.http && err_msg(&e)[0]);
	}
	framework_free(f);
	framework_config_free(c);
}
