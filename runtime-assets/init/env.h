#pragma once
/*
 * The variables that tell a task about the others: docs/RUNTIME.md lists them.  Each role of the
 * status in its order, in it each task, in that each label of its ports; then what concerns the
 * own task.  A role whose name in the job is not the one in Kubernetes has each of its variables
 * twice, one behind the other: PAI_HOST_IP_psserver_0 and PAI_HOST_IP_ps_server_0.
 */
#include "runtime-assets/init/init.h"
#include "runtime-assets/init/portspec.h"

struct env_text {
	struct str shell; /* lines export NAME='VALUE', with ' as '\'' */
	struct str nul;   /* the same: NAME=VALUE, each ended by a NUL */
};

enum { ENV_TEXT_MAX = 64 << 20 };

/* Write both; fills in->port.  What has to be left out is named in `warnings`.  -1 and *e: the
 * ports of the own role cannot be read, or it is more than ENV_TEXT_MAX bytes. */
int env_write(struct init *in, struct env_text *out, struct notes *warnings, struct err *e);

/* What the files env*.c share: writing variables, and the ports of tasks.  For them only. */
struct role_env {
	const struct fw_role *r;
	const char *name[2]; /* as Kubernetes has it; as the job has it, if that differs */
	size_t names;
	struct portspec ports;
	bool has_ports; /* known, perhaps none */
	bool own;
};

struct writer {
	struct init *in;
	struct env_text *out;
	struct notes *warnings;
	size_t count;   /* variables written */
	size_t longest; /* of them, in bytes */
	bool own_seen;
	struct str name, rest, value; /* of the variable that is being written */
	struct str hosts;             /* of the role: ip:port,ip:port */
	struct str instances;         /* role:0,role:1 */
};

#define WARN(w, ...) notes_add((w)->warnings, NOWHERE, __VA_ARGS__)

/* One variable.  Its name is made of parts that were checked before: [a-z0-9]+ of roles
 * (framework.h), labels by portspec_name_ok, what job_role_spelling gives, and numbers. */
void env_put(struct writer *w, struct span name, struct span value);
/* A variable with the role's name in its own, under each of the names: PREFIX name w->rest. */
void env_put_role(struct writer *w, const struct role_env *r, const char *prefix,
                  struct span value);

/* By which uid the ports of a task are; NULL: not known.  For the own task the status may not
 * have it yet; then that of FC_POD_UID. */
const char *env_uid(const struct writer *w, const struct role_env *r, const struct fw_task *t);
/* Can the ports of a task with this uid (or NULL) be told? */
bool env_has_ports(const struct role_env *r, const char *uid);
/* All ports of a label, with commas; borrowed until the next call. */
struct span env_port_list(struct writer *w, const struct role_env *r, const struct port_label *l,
                          const char *uid, int64_t index);
/* The first port of that label; 0 if there is none. */
int64_t env_first_port(const struct role_env *r, const char *label, const char *uid, int64_t index);

/* The variables about the own task, and in->port.  address and uid may be NULL. */
void env_put_own(struct writer *w, const struct role_env *r, const char *address, const char *uid);
