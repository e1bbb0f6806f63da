#pragma once
/* Between a job that was understood and its submission: do its images exist? */
#include "server/submit/submit.h"

/*
 * Ask for the images of s->job, as --check-images says; the request waits.  false: there is nothing
 * to ask.  true: `then` is called later, on this thread: with e->http set if the job is to be
 * refused, and else with what is to be said to its author added to s->warnings.
 */
bool image_check(struct submit *s, void (*then)(void *arg, const struct err *e), void *arg);
