#pragma once
/*
 * `rest-lit controller`: from options to a running controller.
 *
 * Thread: main
 */
#include "base/err.h"

struct options;

/*
 * Runs the controller until SIGTERM or SIGINT comes from signal_fd (struct signalfd_siginfo; the
 * signals are blocked): 0.  1: it has ended by itself, and the log says why; 2: so has it, it has
 * paused, and the program is to be executed anew, with the signals blocked.  -1, *e (400: wrong
 * usage, else 500) and perhaps *file, which the error is about.  Before there are threads.
 */
int controller_run(struct options *o, int signal_fd, const char **file, struct err *e);

/* Appends the keys of a frameworkcontroller.yaml, which is valid, that mean nothing here, with
 * commas between.  Thread: any. */
void controller_ignored_keys(struct str *out, struct span yaml);
