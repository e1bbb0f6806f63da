/* rest-lit controller: drives the Frameworks of a cluster. */
#include <unistd.h>

#include "server/cli/cli_internal.h"
#include "server/config/setup.h"
#include "server/config/system.h"
#include "server/controller/controller_run.h"
#include "server/state/log.h"

int cmd_controller(const struct command *c, struct options *o)
{
	ERR_AUTO e = { 0 };
	const char *file = NULL;
	(void)c;
	process_harden();
	(void)process_scrub();
	log_init(STDERR_FILENO);
	int signal_fd = wait_signals(true);
	int ended = signal_fd < 0 ? err_set(&e, UNKNOWN_ERROR, "signalfd: %m")
	                          : controller_run(o, signal_fd, &file, &e);
	if (signal_fd >= 0)
		(void)close(signal_fd); /* it was only read */
	if (ended < 0)
		return print_error_notes(&e, file, e.http == 400 ? EXIT_USAGE : EXIT_REFUSED);
	return ended ? EXIT_REFUSED : EXIT_OK;
}
