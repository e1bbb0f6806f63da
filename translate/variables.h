#pragma once
/*
 * The variables that the containers of a job see, whoever makes them: for docs/TRANSLATION.md, and
 * for the tests, which compare the table with the templates and with what pai-runtime writes.
 */
#include <stddef.h>

enum maker {
	BY_REST_LIT,   /* in the pod template, when the job is submitted */
	BY_RUNTIME,    /* pai-runtime, when the task runs */
	BY_CONTROLLER, /* FrameworkController, when it makes the pod */
	BY_KUBERNETES, /* the kubelet */
	MAKER_MAX
};

struct variable {
	enum maker maker;
	/* $role is the name of a role, $index of a task in it, $label of a port, $number the
	 * position of a role in the job, $device a name in --hived-device-env */
	const char *name;
	const char *generations; /* "1" the first guide, "2" kube-runtime, "3" protocol 2, "ours" */
	const char *where;       /* the containers that see it */
	const char *doc;         /* its value; "v1" is for jobs of the first two generations */
};
extern const struct variable VARIABLES[];
extern const size_t N_VARIABLES;
