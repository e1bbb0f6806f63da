/* cgroup v2 on a fake tree of ordinary files: the texts written into each, and the messages. */

#include "tests/unit/base/cmocka.h"

#include "machine/resources/resources.h"
#include "tests/unit/machine/machine_tree.h"

static void put_group(const char *dir)
{
	FREE_AUTO char *leaf = xasprintf("%s/rest-lit-server/cgroup.procs", dir);
	static const char *const FILES[][2] = { { "cgroup.controllers",
		                                  "cpuset cpu io memory pids\n" },
		                                { "cgroup.procs", "" },
		                                { "cgroup.subtree_control", "" } };
	for (size_t i = 0; i < 3; i++) {
		FREE_AUTO char *path = xasprintf("%s/%s", dir, FILES[i][0]);
		tree_put(path, FILES[i][1]);
	}
	tree_put(leaf, "");
}

static void expect_why(const char *part)
{
	STR_AUTO why = STR_INIT(2000);
	assert_null(cgroup_open(tree_root, &why));
	if (strstr(str_c(&why), part) == NULL)
		fail_msg("`%s`, not `%s`", str_c(&why), part);
}

TEST_WITH(test_cgroup_open_says_why_there_is_no_cgroup, tree_setup, tree_teardown)
{
	expect_why("no cgroup v2 that can be seen here");
	tree_put("proc/self/cgroup", "5:memory:/x\n1:cpu:/\n");
	expect_why("no cgroup v2 that can be seen here");
	tree_put("proc/self/cgroup", "5:memory:/x\n0::/../../host\n");
	expect_why("no cgroup v2 that can be seen here");
	tree_put("proc/self/cgroup", "0::/user/app\n");
	expect_why("no cgroup v2 that can be seen here");
	tree_put("sys/fs/cgroup/user/app/cgroup.controllers", "cpu pids memory_not\n");
	expect_why("sys/fs/cgroup/user/app has no memory controller");
	tree_put("sys/fs/cgroup/user/app/cgroup.controllers", "cpu memory pids\n");
	expect_why("sys/fs/cgroup/user/app is not delegated to this user (a systemd unit needs "
	           "Delegate=yes)");
}

TEST_WITH(test_cgroup_writes_the_limits_of_tasks, tree_setup, tree_teardown)
{
	tree_put("proc/self/cgroup", "3:x:/\n0::/user/app\n");
	put_group("sys/fs/cgroup/user/app");
	STR_AUTO why = STR_INIT(2000);
	FREE_AUTO char *g = cgroup_open(tree_root, &why);
	assert_non_null(g);
	assert_int_equal(why.n, 0);
	tree_holds("sys/fs/cgroup/user/app/rest-lit-server/cgroup.procs", "0");
	tree_holds("sys/fs/cgroup/user/app/cgroup.subtree_control", "+cpu");

	static const char *const FILES[] = {
		"memory.max",   "cpu.max",          "memory.swap.max",        "cgroup.kill",
		"cgroup.procs", "memory.oom.group", "cgroup.max.descendants", NULL
	};
	for (size_t i = 0; FILES[i]; i++) {
		FREE_AUTO char *path = xasprintf("sys/fs/cgroup/user/app/task-u1/%s", FILES[i]);
		tree_put(path, "");
	}
	FREE_AUTO char *dir = NULL;
	struct amounts limits = { .memory = 1 << 30, .cpus = 1500 };
	assert_int_equal(cgroup_make(g, "u1", &limits, &dir, no_err()), 0);
	assert_string_equal(dir, AT("sys/fs/cgroup/user/app/task-u1/run"));
	assert_int_equal(access(dir, F_OK), 0);
	tree_holds("sys/fs/cgroup/user/app/task-u1/cgroup.max.descendants", "1");
	tree_holds("sys/fs/cgroup/user/app/task-u1/memory.max", "1073741824");
	tree_holds("sys/fs/cgroup/user/app/task-u1/memory.swap.max", "0");
	tree_holds("sys/fs/cgroup/user/app/task-u1/cpu.max", "150000 100000");
	FREE_AUTO char *again = NULL;
	assert_int_equal(cgroup_make(g, "u1", &(struct amounts){ 0 }, &again, no_err()), 0);
	tree_holds("sys/fs/cgroup/user/app/task-u1/memory.max", "max");
	tree_holds("sys/fs/cgroup/user/app/task-u1/cpu.max", "max");

	bool oom = true;
	assert_true(cgroup_end(g, "u1", &oom));
	assert_false(oom);
	tree_holds("sys/fs/cgroup/user/app/task-u1/cgroup.kill", "1");
	tree_put("sys/fs/cgroup/user/app/task-u1/memory.events",
	         "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 1\n");
	assert_true(cgroup_end(g, "u1", &oom));
	assert_true(oom);
	tree_dirs("sys/fs/cgroup/user/app/task-u3/run/x");
	assert_false(cgroup_end(g, "u3", &oom));
	assert_false(oom);
	assert_int_equal(access(AT("sys/fs/cgroup/user/app/task-u3"), F_OK), -1);
	assert_false(cgroup_end(g, "u2", &oom));

	/* A leaf without the files of a cgroup, and an invalid name. */
	FREE_AUTO char *none = NULL;
	assert_int_equal(cgroup_make(g, "u4", &limits, &none, no_err()), -1);
	assert_non_null(strstr(err_msg(&unit.e), "task-u4/memory.max: No such file"));
	assert_int_equal(cgroup_make(g, "../u4", &limits, &none, no_err()), -1);
}

/* The group is found beside groups of version 1, and again after an exec in the leaf. */
TEST_WITH(test_cgroup_is_found_beside_version_1_and_after_an_exec, tree_setup, tree_teardown)
{
	tree_put("proc/self/cgroup", "4:memory:/\n0::/app/rest-lit-server");
	put_group("sys/fs/cgroup/app");
	tree_put("sys/fs/cgroup/app/rest-lit-server/cgroup.controllers", "memory");
	STR_AUTO why = STR_INIT(2000);
	char *g = cgroup_open(tree_root, &why);
	assert_string_equal(str_c(&why), "");
	assert_non_null(g);
	tree_holds("sys/fs/cgroup/app/cgroup.subtree_control", "+cpu");
	free(g);
	/* Every file is writable for root. */
	tree_put("sys/fs/cgroup/app/cgroup.controllers", "memory\n");
	g = cgroup_open(tree_root, &why);
	tree_holds("sys/fs/cgroup/app/cgroup.subtree_control", "+cpu");
	free(g);
}

TEST_WITH(test_cgroup_limits_of_the_server_bound_the_machine, tree_setup, tree_teardown)
{
	const struct amounts plenty = { .cpus = 64000, .memory = INT64_C(1) << 40 };
	struct amounts most = plenty;
	cgroup_limit(tree_root, &most);
	assert_memory_equal(&most, &plenty, sizeof(most));
	tree_put("proc/self/cgroup", "0::/a/b\n");
	tree_put("sys/fs/cgroup/a/b/cgroup.controllers", "");
	tree_put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	tree_put("sys/fs/cgroup/a/b/memory.max", "8589934592\n");
	cgroup_limit(tree_root, &most);
	assert_int_equal(most.cpus, 64000);
	assert_int_equal(most.memory, 8589934592);
	tree_put("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
	tree_put("sys/fs/cgroup/a/memory.max", "max\n");
	tree_put("sys/fs/cgroup/memory.max", "4294967296\n");
	cgroup_limit(tree_root, &most);
	assert_int_equal(most.cpus, 2500);
	assert_int_equal(most.memory, 4294967296);
}
