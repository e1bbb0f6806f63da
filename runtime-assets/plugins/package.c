#include "runtime-assets/plugins/package.h"

#include <stdlib.h>

#include "base/clock.h"
#include "runtime-assets/files.h"
#include "runtime-assets/plugins/child.h"
#include "runtime-assets/say.h"

enum { PACKAGE_TRIES = 3, APT_WORDS = 4 };

int package_install(const struct package *p, struct err *e)
{
	static const char *const UPDATE[] = { "apt-get", "update", NULL };
	const char *argv[APT_WORDS + PACKAGE_NAMES_MAX + 1] = { "apt-get", "install", "-y",
		                                                "--no-install-recommends" };
	for (size_t i = 0; p->names[i]; i++)
		argv[APT_WORDS + i] = p->names[i];
	if (!child_exists("apt-get"))
		return err_set(e, FAILED,
		               "%s is not in the image, and there is no apt-get to install it",
		               p->what);
	if (setenv("DEBIAN_FRONTEND", "noninteractive", 1) != 0)
		return err_set(e, FAILED, "out of memory");
	for (int try = 1; try <= PACKAGE_TRIES; try++) {
		say(SAY_INFO, "%s: %s is not in the image; apt-get, try %d of %d", p->plugin,
		    p->what, try, PACKAGE_TRIES);
		struct child update = { UPDATE, NULL, STREAM_OURS, STREAM_OURS };
		struct child install = { argv, NULL, STREAM_OURS, STREAM_OURS };
		if (child_run(&update) == 0 && child_run(&install) == 0 && p->complete(p->of))
			return 0;
		if (try < PACKAGE_TRIES)
			clock_sleep(p->pause_ms * try);
	}
	return err_set(e, FAILED, "%s is not in the image, and apt-get cannot install it", p->what);
}
