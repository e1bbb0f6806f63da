/* extras.distributed: refused values, and the resulting job. */
#include "tests/unit/translate/parse_kit.h"

#define ROLE_WITH(name, n, gpus)                                                                   \
	"  " name ": {instances: " #n ", dockerImage: i, commands: [x], "                          \
	"resourcePerInstance: {cpu: 1, memoryMB: 8, gpu: " #gpus "}}\n"
#define ROLE_OF(name, n) ROLE_WITH(name, n, 0)
/* Roles a, b and c. */
#define JOB(extras)                                                                                \
	HEAD IMAGE "taskRoles:\n" ROLE_OF("a", 1) ROLE_OF("b", 2) ROLE_OF("c", 2) "extras:"        \
										  "\n" extras
#define TF(roles, extras) HEAD IMAGE "taskRoles:\n" roles "extras:\n" extras
/* Behind "distributed: " in the tenth line. */
#define WITH(text) JOB("  distributed: {" text "}\n")

TEST(test_distributed_refuses_wrong_values)
{
	static const struct refusal CASES[] = {
		{ WITH("framework: pytorch"),
		  "10:28: extras.distributed.framework: must be torch, deepspeed, mpi, tensorflow "
		  "or jax, is \"pytorch\"" },
		{ WITH("taskRoles: [a]"), "extras.distributed: misses the key `framework`" },
		{ WITH("framework: torch, taskRole: [a]"), "did you mean `taskRoles`?" },
		{ WITH("framework: torch, taskRoles: []"),
		  "names no task role; leave it out for all roles of the job" },
		{ WITH("framework: torch, taskRoles: [a, aa]"),
		  "extras.distributed.taskRoles[1]: there is no task role \"aa\"" },
		{ WITH("framework: torch, taskRoles: [a, 1]"),
		  "extras.distributed.taskRoles[1]: must be the name of a task role, is " },
		{ WITH("framework: torch, taskRoles: [a, b, a]"),
		  "extras.distributed.taskRoles[2]: role \"a\" is named twice" },
		{ WITH("framework: torch, procPerNode: 0"),
		  "extras.distributed.procPerNode: must be at least 1, is 0" },
		{ WITH("framework: torch, procPerNode: 2000"), "must be at most 1024, is 2000" },
		{ WITH("framework: torch, procPerNode: all"),
		  "extras.distributed.procPerNode: must be `auto` or a number of processes, "
		  "is \"all\"" },
		{ WITH("framework: torch, procPerNode: '4'"), "is \"4\"; leave out the quotes" },
		{ WITH("framework: torch, taskRoles: a"),
		  "extras.distributed.taskRoles: must be a list of task roles, is \"a\": write "
		  "[a]" },
		{ WITH("framework: torch, procPerNode: [2]"),
		  "extras.distributed.procPerNode: must be `auto` or a number of processes" },
		{ WITH("framework: jax, procPerNode: 2"),
		  "must be 1, is 2: with framework jax, each task is one process" },
		{ JOB("  distributed: {framework: mpi}\n  gangAllocation: false\n"),
		  "extras.distributed: needs gang allocation" },
		{ WITH("framework: tensorflow"), "6:3: taskRoles.a: role \"a\" has no part in "
		                                 "TF_CONFIG: with framework tensorflow" },
		{ NULL, NULL },
	};
	assert_all_refused(CASES);
}

TEST(test_distributed_allows_only_one_chief)
{
	static const struct refusal CASES[] = {
		{ TF(ROLE_OF("chief", 2) ROLE_OF("worker", 2),
		     "  distributed: {framework: tensorflow}\n"),
		  "there is one chief: role \"chief\" must have 1 instance, has 2" },
		{ TF(ROLE_OF("master", 1) ROLE_OF("chief", 1),
		     "  distributed: {framework: tensorflow, taskRoles: [chief, master]}\n"),
		  "taskRoles[1]: there is one chief, and role \"chief\" is it" },
		{ NULL, NULL },
	};
	assert_all_refused(CASES);
	assert_quiet(TF(ROLE_OF("chief", 1) ROLE_OF("worker", 2) ROLE_OF("ps", 2)
	                    ROLE_OF("evaluator", 1) ROLE_OF("tensorboard", 3),
	                "  distributed: {framework: tensorflow, taskRoles: [worker, chief, ps, "
	                "evaluator]}\n"));
}

/* Returns the number of ports of the role with this label; -1: none is declared. */
static int64_t ports_of(const struct run *r, size_t role, const char *label)
{
	int64_t count = -1;
	for (size_t i = 0; i < r->job->roles[role].n_ports; i++) {
		const struct port_request *p = &r->job->roles[role].ports[i];
		if (!span_is(p->label, label))
			continue;
		assert_int_equal(count, -1);
		count = p->count;
	}
	return count;
}

#define WITH_LAUNCHER(more)                                                                        \
	TF(ROLE_OF("a", 1) ROLE_WITH("b", 1, 2) ROLE_WITH("c", 1, 1),                              \
	   "  distributed: {framework: " more "}\n")

/* The first role in the list that has processes has the port; with TensorFlow all have one. */
TEST(test_distributed_adds_a_port_to_the_right_roles)
{
	static const struct {
		const char *text;
		int64_t a, b, c;
	} CASES[] = {
		{ JOB("  {}\n"), -1, -1, -1 },
		{ WITH("framework: torch"), 1, -1, -1 },
		{ WITH("framework: jax, procPerNode: 1"), 1, -1, -1 },
		{ WITH("framework: mpi, taskRoles: [c, a]"), -1, -1, 1 },
		{ WITH_LAUNCHER("mpi"), -1, 1, -1 },
		{ WITH_LAUNCHER("deepspeed, taskRoles: [c, a, b]"), -1, -1, 1 },
		{ WITH_LAUNCHER("mpi, taskRoles: [a, c, b]"), -1, -1, 1 },
		{ WITH_LAUNCHER("mpi, procPerNode: 2"), 1, -1, -1 },
		{ WITH_LAUNCHER("torch"), 1, -1, -1 },
		{ TF(ROLE_OF("worker", 1) ROLE_OF("ps", 1) ROLE_OF("chief", 1),
		     "  distributed: {framework: tensorflow, taskRoles: [chief, worker]}\n"),
		  1, -1, 1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		RUN_AUTO r = run_good(CASES[i].text);
		assert_int_equal(ports_of(&r, 0, "distributed"), CASES[i].a);
		assert_int_equal(ports_of(&r, 1, "distributed"), CASES[i].b);
		assert_int_equal(ports_of(&r, 2, "distributed"), CASES[i].c);
		assert_int_equal(ports_of(&r, 0, "ssh"), 1);
	}
}

#define OWN_PORT(count)                                                                            \
	HEAD IMAGE "taskRoles:\n  w: {dockerImage: i, commands: [x], resourcePerInstance: "        \
		   "{cpu: 1, memoryMB: 8, gpu: 0, ports: {distributed: " #count "}}}\n"            \
		   "extras: {distributed: {framework: torch}}\n"

TEST(test_distributed_uses_the_port_of_the_job)
{
	struct run r = run_good(OWN_PORT(3));
	assert_int_equal(ports_of(&r, 0, "distributed"), 3);
	run_done(&r);
	assert_refused(OWN_PORT(0),
	               "taskRoles.w.resourcePerInstance.ports.distributed: must be at least 1: "
	               "extras.distributed needs a port with this label");
	assert_refused(HEAD IMAGE
	               "taskRoles:\n  w: {dockerImage: i, commands: [x], "
	               "resourcePerInstance: {cpu: 1, memoryMB: 8, gpu: 0, ports: {a: 24998}}}\n"
	               "extras: {distributed: {framework: torch}}\n",
	               "at most 25000 ports per task, here are 25001 with ssh, http and that of "
	               "extras.distributed");
}

TEST(test_distributed_needs_a_key_for_some_frameworks)
{
	static const struct {
		const char *text;
		bool needs;
	} CASES[] = {
		{ WITH("framework: torch"), false },
		{ WITH("framework: jax"), false },
		{ WITH("framework: deepspeed"), true },
		{ WITH("framework: mpi, procPerNode: 2"), true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		RUN_AUTO r = run_good(CASES[i].text);
		assert_int_equal(job_needs_key(r.job, &(struct facts){ 0 }), CASES[i].needs);
	}
}

TEST(test_distributed_misspelt_gives_a_suggestion)
{
	assert_warned(JOB("  distribute: {framework: torch}\n"),
	              "has no effect; did you mean `distributed`?");
}
