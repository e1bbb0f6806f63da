/* Resources of a machine: fake /proc, /dev and CDI files; locks. */

#include "tests/unit/base/cmocka.h"

#include "machine/resources/resources.h"
#include "tests/unit/machine/machine_tree.h"

/* Reads the tree; --gpus and --gpu-devices. */
static int read_tree(struct inventory *v, const char *gpus, const char *pattern, struct err *e)
{
	struct inventory_settings s = { .gpus = gpus, .gpu_devices = pattern, .root = tree_root };
	return inventory_read(&s, v, e);
}

/* The inventory as text: a line for each GPU with name, index, node, files, variables; then the
 * notes.  The tree's own path is left out. */
static char *describe(const struct inventory *v)
{
	STR_AUTO out = STR_INIT(100000);
	for (size_t i = 0; i < v->gpus_n; i++) {
		const struct gpu *g = &v->gpus[i];
		str_printf(&out, "%s %u %s lock %s", g->name, g->index, g->uuid ? g->uuid : "-",
		           g->node);
		for (size_t f = 0; f < g->files_n; f++)
			str_printf(&out, " %s%s:%s:%s", f == g->own_n ? "+ " : "",
			           g->files[f].source, g->files[f].path,
			           g->files[f].device     ? "dev"
			           : g->files[f].writable ? "rw"
			                                  : "ro");
		for (size_t k = 0; k < g->env.n; k++)
			str_printf(&out, " %s", g->env.v[k]);
		str_char(&out, '\n');
	}
	for (size_t i = 0; i < v->notes.n; i++)
		str_printf(&out, "! %s\n", v->notes.v[i].msg);
	STR_AUTO plain = STR_INIT(100000);
	size_t from = 0;
	size_t at;
	while ((at = span_find(str_view(&out), from, tree_root)) != SIZE_MAX) {
		str_put(&plain, out.p + from, at - from);
		from = at + strlen(tree_root);
	}
	str_put(&plain, str_c(&out) + from, out.n - from);
	return str_take(&plain);
}

static void expect(const char *gpus, const char *pattern, const char *wanted)
{
	AUTO(inventory_done) struct inventory v;
	if (read_tree(&v, gpus, pattern, no_err()) != 0)
		fail_msg("%s", err_msg(&unit.e));
	FREE_AUTO char *is = describe(&v);
	assert_string_equal(is, wanted);
	assert_int_equal(v.total.gpus, v.gpus_n);
}

static void expect_error(const char *gpus, const char *pattern, const char *part)
{
	AUTO(inventory_done) struct inventory v;
	assert_int_equal(read_tree(&v, gpus, pattern, no_err()), -1);
	if (strstr(err_msg(&unit.e), part) == NULL)
		fail_msg("%s", err_msg(&unit.e));
}

TEST_WITH(test_machine_has_memory_and_cpus_within_its_cgroup, tree_setup, tree_teardown)
{
	struct inventory v;
	assert_int_equal(read_tree(&v, NULL, NULL, no_err()), 0);
	assert_int_equal(v.total.memory, sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
	assert_true(v.total.cpus >= 1000 && v.total.cpus % 1000 == 0);
	inventory_done(&v);
	tree_put("proc/self/cgroup", "0::/\n");
	tree_put("sys/fs/cgroup/cgroup.controllers", "");
	tree_put("sys/fs/cgroup/cpu.max", "50000 100000\n");
	tree_put("sys/fs/cgroup/memory.max", "1073741824\n");
	assert_int_equal(read_tree(&v, NULL, NULL, no_err()), 0);
	assert_int_equal(v.total.memory, 1 << 30);
	assert_int_equal(v.total.cpus, 500);
	inventory_done(&v);
	struct inventory_settings s = { .cpus = 7000, .memory = 5, .gpus = "none" };
	assert_int_equal(inventory_read(&s, &v, no_err()), -1);
	assert_string_equal(err_msg(&unit.e), "--memory must be 0 or at least 1MiB");
	inventory_done(&v);
	s.memory = 1 << 20;
	assert_int_equal(inventory_read(&s, &v, no_err()), 0);
	assert_int_equal(v.total.memory, 1 << 20);
	assert_int_equal(v.total.cpus, 7000);
	assert_int_equal(v.total.gpus, 0);
	inventory_done(&v);
}

TEST_WITH(test_gpus_are_found_by_nvidia_device_nodes, tree_setup, tree_teardown)
{
	expect(NULL, NULL, "");
	expect("none", NULL, "");
	static const char *const NODES[] = { "nvidia10",  "nvidia2",    "nvidia0",
		                             "nvidiactl", "nvidia-uvm", "nvidia3x" };
	for (size_t i = 0; i < 6; i++) {
		FREE_AUTO char *path = xasprintf("dev/%s", NODES[i]);
		tree_put(path, "");
	}
	tree_put("proc/driver/nvidia/gpus/0000:01:00.0/information",
	         "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-5a1b\nDevice Minor: \t 2\n");
#define CONTROL "+ /dev/nvidiactl:/dev/nvidiactl:dev /dev/nvidia-uvm:/dev/nvidia-uvm:dev\n"
#define ZERO    "/dev/nvidia0 0 - lock /dev/nvidia0 /dev/nvidia0:/dev/nvidia0:ro " CONTROL
#define TWO     "/dev/nvidia2 2 GPU-5a1b lock /dev/nvidia2 /dev/nvidia2:/dev/nvidia2:ro " CONTROL
#define TEN     "/dev/nvidia10 10 - lock /dev/nvidia10 /dev/nvidia10:/dev/nvidia10:ro " CONTROL
	expect("auto", NULL, ZERO TWO TEN);
	expect("2", NULL, ZERO TWO);
	expect("0", NULL, "");
	expect("auto", "/dev/nvidia2", TWO);
	expect_error("4", NULL, "--gpus 4: only 3 GPUs were found in CDI files and /dev/nvidia*");
	expect_error("many", NULL,
	             "--gpus must be a number from 0 to 1024, auto or none, is \"many\"");
	expect_error("-1", NULL, "--gpus must be a number");
	expect_error("auto", "/none*", "no device or file has such a name");
}

TEST_WITH(test_gpus_are_found_by_a_pattern_of_device_nodes, tree_setup, tree_teardown)
{
	tree_put("fake/gpu10", "");
	tree_put("fake/gpu9", "");
	tree_dirs("fake/gpu-dir/x");
	assert_int_equal(mkfifo(AT("fake/gpu-fifo"), 0600), 0);
	assert_int_equal(symlink("gpu9", AT("fake/gpu-link")), 0);
	expect(NULL, "/fake/gpu*",
	       "/fake/gpu9 0 - lock /fake/gpu9 /fake/gpu9:/fake/gpu9:ro\n"
	       "/fake/gpu10 1 - lock /fake/gpu10 /fake/gpu10:/fake/gpu10:ro\n"
	       "! /fake/gpu-dir is no GPU: it is neither a character device nor a regular file\n"
	       "! /fake/gpu-fifo is no GPU: it is neither a character device nor a regular file\n"
	       "! /fake/gpu-link is no GPU: it is neither a character device nor a regular file\n");
}

/* A file of nvidia-ctk. */
static const char NVIDIA[] = "---\n"
			     "cdiVersion: 0.5.0\n"
			     "kind: nvidia.com/gpu\n"
			     "containerEdits:\n"
			     "  deviceNodes:\n"
			     "  - path: /dev/nvidiactl\n"
			     "  env:\n"
			     "  - NVIDIA_VISIBLE_DEVICES=void\n"
			     "  hooks:\n"
			     "  - hookName: createContainer\n"
			     "    path: /usr/bin/nvidia-ctk\n"
			     "  mounts:\n"
			     "  - containerPath: /usr/bin/nvidia-smi\n"
			     "    hostPath: /usr/bin/nvidia-smi\n"
			     "    options: [ro, nosuid, nodev, bind]\n"
			     "devices:\n"
			     "- name: \"0\"\n"
			     "  containerEdits:\n"
			     "    deviceNodes:\n"
			     "    - path: /dev/nvidia0\n"
			     "    - {path: /dev/dri/card1, hostPath: /dev/dri/card5}\n"
			     "- name: GPU-77aa\n"
			     "  containerEdits:\n"
			     "    deviceNodes:\n"
			     "    - {path: /dev/dri/card1, hostPath: /dev/dri/card5}\n"
			     "    - path: /dev/nvidia0\n"
			     "- name: 1\n"
			     "  containerEdits:\n"
			     "    env: [ONE=1]\n"
			     "    deviceNodes:\n"
			     "    - path: /dev/nvidia1\n"
			     "- name: all\n"
			     "  containerEdits:\n"
			     "    deviceNodes:\n"
			     "    - path: /dev/nvidia0\n"
			     "    - path: /dev/nvidia1\n";
#define SMI "/usr/bin/nvidia-smi:/usr/bin/nvidia-smi:ro"

TEST_WITH(test_gpus_are_found_by_cdi_files, tree_setup, tree_teardown)
{
	tree_put("etc/cdi/nvidia.yaml", NVIDIA);
	tree_put("etc/cdi/nvidia.yaml.bak", "{");
	tree_put("etc/cdi/nic.json", "{\"kind\": \"vendor.com/nic\", \"devices\": 5}");
	/* The device is in both folders: that of /var/run/cdi counts. */
	tree_put("var/run/cdi/amd.json",
	         "{\"kind\": \"amd.com/gpu\", \"devices\": [{\"name\": \"x\", \"containerEdits\": "
	         "{\"deviceNodes\": [{\"path\": \"/dev/kfd7\"}]}}]}");
	tree_put("dev/nvidia5", "");
	expect(NULL, NULL,
	       "amd.com/gpu=x 0 - lock /dev/kfd7 /dev/kfd7:/dev/kfd7:dev\n"
	       "nvidia.com/gpu=0 0 GPU-77aa lock /dev/nvidia0 /dev/nvidia0:/dev/nvidia0:dev "
	       "/dev/dri/card5:/dev/dri/card1:dev + /dev/nvidiactl:/dev/nvidiactl:dev " SMI
	       " NVIDIA_VISIBLE_DEVICES=void\n"
	       "nvidia.com/gpu=1 1 - lock /dev/nvidia1 /dev/nvidia1:/dev/nvidia1:dev "
	       "+ /dev/nvidiactl:/dev/nvidiactl:dev " SMI " ONE=1 NVIDIA_VISIBLE_DEVICES=void\n"
	       "! /etc/cdi/nvidia.yaml: hooks are not executed; images need the libraries of the "
	       "driver under their sonames\n");
}

/* Parts of one GPU have nodes of their own besides its node. */
TEST_WITH(test_parts_of_a_gpu_have_their_own_nodes, tree_setup, tree_teardown)
{
	tree_put("etc/cdi/mig.yaml", "kind: nvidia.com/gpu\n"
	                             "devices:\n"
	                             "- name: \"0:0\"\n"
	                             "  containerEdits: {deviceNodes: [{path: /dev/nvidia0}, "
	                             "{path: /dev/nvidia-caps/nvidia-cap12}]}\n"
	                             "- name: \"0:1\"\n"
	                             "  containerEdits: {deviceNodes: [{path: /dev/nvidia0}, "
	                             "{path: /dev/nvidia-caps/nvidia-cap21}]}\n");
	AUTO(inventory_done) struct inventory v;
	assert_int_equal(read_tree(&v, NULL, NULL, no_err()), 0);
	assert_int_equal(v.gpus_n, 2);
	assert_string_equal(v.gpus[0].node, "/dev/nvidia-caps/nvidia-cap12");
	assert_string_equal(v.gpus[1].node, "/dev/nvidia-caps/nvidia-cap21");
}

#define GOOD "- {name: good, containerEdits: {deviceNodes: [{path: /dev/g}]}}\n"
static const struct {
	const char *text, *note;
	bool good; /* the device beside it is found all the same */
} BROKEN[] = {
	{ "kind: [", "line 2, column 1: ", false },
	{ "- kind", "line 1, column 1: a CDI file is a mapping with `kind`", false },
	{ "kind: 5", "line 1, column 1: a CDI file is a mapping with `kind`", false },
	{ "kind: a.b/gpu\ndevices: {}\n", "line 2, column 10: devices must be a list of", false },
	{ "kind: a.b/gpu\ndevices:\n- {containerEdits: {}}\n" GOOD,
	  "line 3, column 3: a device needs a `name`", true },
	{ "kind: a.b/gpu\ndevices:\n- {name: a, containerEdits: 5}\n" GOOD,
	  "line 3, column 29: containerEdits must be a mapping", true },
	{ "kind: a.b/gpu\ndevices:\n- {name: a}\n" GOOD,
	  "line 3, column 3: the device has no device node of its own", true },
	{ "kind: a.b/gpu\ndevices:\n- {name: a, containerEdits: {deviceNodes: [{path: "
	  "dev/x}]}}\n" GOOD,
	  "line 3, column 51: path must be an absolute path, is \"dev/x\"", true },
	{ "kind: a.b/gpu\ndevices:\n- {name: a, containerEdits: {deviceNodes: [5]}}\n" GOOD,
	  "line 3, column 44: a device node needs `path`", true },
	{ "kind: a.b/gpu\ndevices:\n- {name: a, containerEdits: {env: [x]}}\n" GOOD,
	  "line 3, column 36: a variable must be NAME=value", true },
	{ "kind: a.b/gpu\ncontainerEdits: {mounts: [{hostPath: /x}]}\ndevices:\n" GOOD,
	  "line 2, column 27: a mount needs `hostPath` and `containerPath`", false },
};

TEST_WITH(test_broken_cdi_files_are_reported, tree_setup, tree_teardown)
{
	tree_put("etc/cdi/z.yaml",
	         "kind: z.z/gpu\ndevices:\n"
	         "- {name: z, containerEdits: {deviceNodes: [{path: /dev/z}]}}\n");
	for (size_t i = 0; i < sizeof(BROKEN) / sizeof(BROKEN[0]); i++) {
		tree_put("etc/cdi/a.yaml", BROKEN[i].text);
		AUTO(inventory_done) struct inventory v;
		assert_int_equal(read_tree(&v, NULL, NULL, no_err()), 0);
		FREE_AUTO char *is = describe(&v);
		STR_AUTO wanted = STR_INIT(1000);
		str_printf(&wanted, "! /etc/cdi/a.yaml, %s", BROKEN[i].note);
		if (strstr(is, str_c(&wanted)) == NULL || v.gpus_n != (BROKEN[i].good ? 2 : 1))
			fail_msg("row %zu: %zu GPUs, %s", i, v.gpus_n, is);
	}
	/* A FIFO in place of the file. */
	(void)unlink(AT("etc/cdi/a.yaml"));
	assert_int_equal(mkfifo(AT("etc/cdi/a.yaml"), 0600), 0);
	expect(NULL, NULL,
	       "z.z/gpu=z 0 - lock /dev/z /dev/z:/dev/z:dev\n"
	       "! /etc/cdi/a.yaml: is not a file of at most 4 MiB\n");
}

TEST_WITH(test_gpu_take_locks_a_gpu_until_all_copies_are_closed, tree_setup, tree_teardown)
{
	tree_put("fake/gpu0", "");
	AUTO(inventory_done) struct inventory v;
	assert_int_equal(read_tree(&v, NULL, "/fake/gpu*", no_err()), 0);
	int fd = gpu_take(&v.gpus[0], no_err());
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(gpu_take(&v.gpus[0], no_err()), -1);
	/* The lock is that of the open file: a copy keeps it. */
	int copy = dup(fd);
	(void)close(fd);
	assert_int_equal(gpu_take(&v.gpus[0], no_err()), -1);
	(void)close(copy);
	fd = gpu_take(&v.gpus[0], no_err());
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(unit.e.http, 0);
	/* A different file in its place is not opened, or closed at once. */
	assert_int_equal(unlink(AT("fake/gpu0")), 0);
	assert_int_equal(gpu_take(&v.gpus[0], no_err()), -2);
	assert_non_null(strstr(err_msg(&unit.e), "No such file"));
	assert_int_equal(mkfifo(AT("fake/gpu0"), 0600), 0);
	assert_int_equal(gpu_take(&v.gpus[0], no_err()), -2);
	assert_int_equal(unlink(AT("fake/gpu0")), 0);
	assert_int_equal(symlink("/dev/null", AT("fake/gpu0")), 0);
	assert_int_equal(gpu_take(&v.gpus[0], no_err()), -2);
}

TEST(test_gpu_environment_depends_on_the_gpus_of_the_task)
{
	static const char *VOID[] = { "NVIDIA_VISIBLE_DEVICES=void", "A=1", "B=x", NULL };
	static const char *OTHER[] = { "A=2", "AB=3", NULL };
	struct gpu one = { .index = 4, .uuid = "GPU-1", .env.v = VOID };
	struct gpu two = { .index = 6, .env.v = OTHER };
	struct gpu three = { .index = 7, .uuid = "GPU-3", .env.v = OTHER };
	const struct {
		const struct gpu *gpus[3];
		size_t n;
		bool alone;
		const char *wanted;
	} rows[] = {
		{ { NULL }, 0, false, "NVIDIA_VISIBLE_DEVICES=void CUDA_VISIBLE_DEVICES=" },
		{ { &one, &two },
		  2,
		  false,
		  "A=1 AB=3 NVIDIA_VISIBLE_DEVICES=4,6 B=x CUDA_VISIBLE_DEVICES=4,6 "
		  "CUDA_DEVICE_ORDER=PCI_BUS_ID" },
		{ { &two },
		  1,
		  true,
		  "A=2 AB=3 NVIDIA_VISIBLE_DEVICES=6 CUDA_VISIBLE_DEVICES=0 "
		  "CUDA_DEVICE_ORDER=PCI_BUS_ID" },
		{ { &three, &one },
		  2,
		  true,
		  "NVIDIA_VISIBLE_DEVICES=GPU-3,GPU-1 A=2 B=x AB=3 "
		  "CUDA_VISIBLE_DEVICES=GPU-3,GPU-1" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		STR_AUTO is = STR_INIT(1000);
		const char *const *env = gpu_env(rows[i].gpus, rows[i].n, rows[i].alone, &unit.a);
		for (size_t k = 0; env[k]; k++)
			str_printf(&is, "%s%s", k ? " " : "", env[k]);
		assert_string_equal(str_c(&is), rows[i].wanted);
	}
}
