/* Figures and processes of an AMD GPU, from a tree with the names and texts of /sys of a machine
 * with two of them beside the card of its board. */
#include "tests/unit/base/cmocka.h"

#include "machine/usage/amd.h"
#include "tests/unit/machine/machine_tree.h"

#define ROOM 4

/* In /sys the directories of class/drm are links to these, which makes no difference. */
static const char *const FILES[][2] = {
	{ "sys/class/drm/card0/device/vendor", "0x1a03\n" },
	{ "sys/class/drm/card0/device/drm/card0/dev", "226:0\n" },
	{ "sys/class/drm/card1/device/vendor", "0x1002\n" },
	{ "sys/class/drm/card1/device/drm/card1/dev", "226:1\n" },
	{ "sys/class/drm/card1/device/drm/renderD128/dev", "226:128\n" },
	{ "sys/class/drm/card1/device/gpu_busy_percent", "37\n" },
	{ "sys/class/drm/card1/device/mem_info_vram_used", "12884901888\n" },
	{ "sys/class/drm/card1/device/mem_info_vram_total", "68702699520\n" },
	{ "sys/class/drm/card1/device/hwmon/hwmon3/power1_average", "140500000\n" },
	{ "sys/class/drm/renderD128/device/vendor", "0x1002\n" },
	{ "sys/class/drm/renderD128/device/drm/card1/dev", "226:1\n" },
	{ "sys/class/drm/card2/device/vendor", "0x1002\n" },
	{ "sys/class/drm/card2/device/drm/card2/dev", "226:2\n" },
	{ "sys/class/drm/card2/device/drm/renderD129/dev", "226:129\n" },
	{ "sys/class/drm/card2/device/hwmon/hwmon4/power1_input", "41000000\n" },
	{ "sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n" },
	{ "sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 64\nsimd_count 0\n" },
	{ "sys/class/kfd/kfd/topology/nodes/1/gpu_id", "50150\n" },
	{ "sys/class/kfd/kfd/topology/nodes/1/properties",
	  "cpu_cores_count 0\nsimd_count 416\nvendor_id 4098\nlocation_id 768\n"
	  "drm_render_minor 128\nhive_id 0\nnum_sdma_engines 2\n" },
	{ "sys/class/kfd/kfd/topology/nodes/2/gpu_id", "4000000000\n" },
	{ "sys/class/kfd/kfd/topology/nodes/2/properties",
	  "simd_count 416\ndrm_render_minor 129\n" },
	{ "sys/class/kfd/kfd/proc/4711/vram_50150", "1073741824\n" },
	{ "sys/class/kfd/kfd/proc/4711/vram_4000000000", "0\n" },
	{ "sys/class/kfd/kfd/proc/4711/pasid", "32770\n" },
	{ "sys/class/kfd/kfd/proc/12/vram_50150", "0\n" },
	{ "sys/class/kfd/kfd/proc/12/vram_4000000000", "4096\n" },
};

FIXTURE(amd_setup)
{
	if (tree_setup(state) != 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(FILES); i++)
		tree_put(FILES[i][0], FILES[i][1]);
	return 0;
}

static int card_of(const char *node)
{
	const struct sandbox_mount files[] = { { .source = "/dev/kfd" }, { .source = node } };
	return amd_card(tree_root, &(struct gpu){ .files = files, .files_n = 2, .own_n = 2 });
}

TEST_WITH(test_amd_card_is_that_of_a_node, amd_setup, tree_teardown)
{
	assert_int_equal(card_of("/dev/dri/card1"), 1);
	assert_int_equal(card_of("/dev/dri/renderD128"), 1);
	assert_int_equal(card_of("/dev/dri/card2"), 2);
	assert_int_equal(card_of("/dev/dri/card0"), -1); /* another vendor */
	assert_int_equal(card_of("/dev/dri/card7"), -1);
	assert_int_equal(card_of("/dev/nvidia0"), -1);
	assert_int_equal(card_of("card1"), 1);
	/* Files that all GPUs need are not its own. */
	const struct sandbox_mount files[] = { { .source = "/dev/dri/card1" } };
	assert_int_equal(amd_card(tree_root, &(struct gpu){ .files = files, .files_n = 1 }), -1);
}

TEST_WITH(test_amd_figures_are_those_of_the_driver, amd_setup, tree_teardown)
{
	struct smi_sample is;
	amd_take(tree_root, 1, &is);
	assert_true(is.known && !is.mig);
	assert_float_equal(is.busy, 37, 0.001);
	assert_float_equal(is.watts, 140.5, 0.001);
	assert_int_equal(is.memory, INT64_C(12884901888));
	assert_int_equal(is.total, INT64_C(68702699520));
	/* Most files are missing; power has another name. */
	amd_take(tree_root, 2, &is);
	assert_true(is.known);
	assert_float_equal(is.busy, -1, 0.001);
	assert_float_equal(is.watts, 41, 0.001);
	assert_int_equal(is.memory, -1);
	assert_int_equal(is.total, -1);
	amd_take(tree_root, 0, &is);
	assert_true(!is.known && is.busy < 0 && is.watts < 0 && is.memory < 0 && is.total < 0);
}

TEST_WITH(test_amd_numbers_out_of_range_are_unknown, amd_setup, tree_teardown)
{
	static const char *const TEXTS[] = {
		"", "101\n", "-1\n", "x\n", "37 %\n", "1e1\n", "99999999999999999999\n"
	};
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
		struct smi_sample is;
		unit_row = TEXTS[i];
		tree_put("sys/class/drm/card1/device/gpu_busy_percent", TEXTS[i]);
		amd_take(tree_root, 1, &is);
		assert_float_equal(is.busy, -1, 0.001);
	}
	struct smi_sample is;
	tree_put("sys/class/drm/card1/device/mem_info_vram_used", "17592186044417\n");
	tree_put("sys/class/drm/card1/device/hwmon/hwmon3/power1_average", "10000000001\n");
	amd_take(tree_root, 1, &is);
	assert_int_equal(is.memory, -1);
	assert_float_equal(is.watts, -1, 0.001);
}

TEST_WITH(test_amd_processes_have_memory_of_the_card, amd_setup, tree_teardown)
{
	struct smi_process v[ROOM];
	assert_int_equal(amd_processes(tree_root, 1, v, ROOM), 1);
	assert_int_equal(v[0].pid, 4711);
	assert_int_equal(v[0].memory, 1 << 30);
	assert_int_equal(amd_processes(tree_root, 2, v, ROOM), 1);
	assert_int_equal(v[0].pid, 12);
	assert_int_equal(amd_processes(tree_root, 0, v, ROOM), 0);
	assert_int_equal(amd_processes(tree_root, 1, v, 0), 0);
	for (size_t i = 0; i < 2UL * ROOM; i++) {
		FREE_AUTO char *path = xasprintf("sys/class/kfd/kfd/proc/%zu/vram_50150", 100 + i);
		tree_put(path, "5\n");
	}
	assert_int_equal(amd_processes(tree_root, 1, v, ROOM), ROOM);
}

TEST_WITH(test_amd_without_a_list_is_not_known, amd_setup, tree_teardown)
{
	struct smi_sample is;
	struct smi_process v[ROOM];
	assert_int_equal(rename(AT("sys/class/kfd/kfd/proc"), AT("sys/class/kfd/kfd/other")), 0);
	amd_take(tree_root, 1, &is);
	assert_false(is.known);
	assert_float_equal(is.busy, 37, 0.001);
	assert_int_equal(amd_processes(tree_root, 1, v, ROOM), 0);
	assert_int_equal(rename(AT("sys/class/kfd/kfd/other"), AT("sys/class/kfd/kfd/proc")), 0);
	assert_int_equal(unlink(AT("sys/class/kfd/kfd/topology/nodes/1/properties")), 0);
	amd_take(tree_root, 1, &is);
	assert_false(is.known);
	amd_take(tree_root, 2, &is);
	assert_true(is.known);
}
