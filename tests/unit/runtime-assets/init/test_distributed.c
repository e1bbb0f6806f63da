/* The variables of extras.distributed for each task of jobs with several roles. */
#include "runtime-assets/init/init_internal.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include "tests/unit/runtime-assets/world.h"

enum { ROLES_MAX = 5 };

/* The interfaces of this machine: lo and some of the others. */
static size_t interfaces;

static struct ifaddrs *interface_new(unsigned i)
{
	static struct sockaddr_in at[3];
	static struct ifaddrs v[3];
	static struct {
		char name[8], address[16];
		unsigned flags;
	} ALL[] = {
		{ "lo", "127.0.0.1", IFF_UP | IFF_LOOPBACK },
		{ "eth0", "10.0.0.1", IFF_UP },
		{ "docker0", "172.17.0.1", IFF_UP },
	};
	at[i].sin_family = AF_INET;
	assert_int_equal(inet_pton(AF_INET, ALL[i].address, &at[i].sin_addr), 1);
	v[i] = (struct ifaddrs){ .ifa_name = ALL[i].name,
		                 .ifa_flags = ALL[i].flags,
		                 .ifa_addr = (struct sockaddr *)&at[i] };
	return &v[i];
}

/* Replacements for the functions of the C library, for all tests of the folder. */
int(getifaddrs)(struct ifaddrs **out)
{
	struct ifaddrs **end = out;
	for (unsigned i = 0; i <= interfaces; i++) {
		*end = interface_new(i);
		end = &(*end)->ifa_next;
	}
	return 0;
}

void(freeifaddrs)(struct ifaddrs *all)
{
	(void)all;
}

struct seen {
	struct arena a;
	struct init in;
	struct env_text out;
	struct notes warnings;
};

static void seen_done(struct seen *s)
{
	str_done(&s->out.shell);
	str_done(&s->out.nul);
	str_done(&s->out.hosts);
	notes_done(&s->warnings);
	arena_done(&s->a);
}

#define SEEN_AUTO __attribute__((cleanup(seen_done))) struct seen
/* That of a call of see, to the end of the block. */
#define SEEN(s, ...)                                                                               \
	SEEN_AUTO s;                                                                               \
	see(&s, __VA_ARGS__)

/* A role of the Framework: `address` has a %d for the index, NULL: not known. */
struct fake_role {
	const char *name; /* in Kubernetes */
	int tasks;
	const char *ports; /* labels, sequential from this port on; NULL: no annotation */
	const char *address;
	bool host_network;
};

/* "distributed" from 20000 on: task 1 has 20001. */
#define MEET(start) "{\"distributed\":{\"start\":" #start ",\"count\":1}}"

static void fake_framework(struct seen *s, const struct fake_role *roles)
{
	struct init_framework *f = ARENA_NEW(&s->a, struct init_framework, 1);
	f->role = ARENA_NEW(&s->a, struct init_role, ROLES_MAX);
	for (; roles->name; roles++) {
		struct init_role *r = &f->role[f->n++];
		*r = (struct init_role){ .name = roles->name,
			                 .in_spec = true,
			                 .task_number = roles->tasks,
			                 .host_network = roles->host_network,
			                 .ports = roles->ports,
			                 .n = (size_t)roles->tasks };
		r->task = ARENA_NEW(&s->a, struct init_task, r->n);
		for (size_t i = 0; i < r->n; i++) {
			const char *text =
			    roles->address ? arena_printf(&s->a, "%s%zu", roles->address, i) : NULL;
			r->task[i] = (struct init_task){ .index = (int64_t)i,
				                         .pod_ip = text,
				                         .host_ip = text ? "192.0.2.77" : NULL,
				                         .pod_uid = "uid" };
		}
	}
	s->in.framework = f;
}

static void see(struct seen *s, const struct fake_role *roles, const char *config, const char *role,
                int64_t index)
{
	STR_AUTO problem = STR_INIT(1000);
	*s = (struct seen){
		.out = { STR_INIT(ENV_TEXT_MAX), STR_INIT(ENV_TEXT_MAX), STR_INIT(ENV_TEXT_MAX) },
	};
	s->in = (struct init){ .a = &s->a, .role_name = role, .task_index = index };
	s->in.at.runtime_d = "/d";
	fake_framework(s, roles);
	job_parse_config(&s->in.job, span_of(config), &s->a, &problem);
	assert_string_equal(str_c(&problem), "");
	distributed_write(&s->in, &s->out, &s->warnings);
}

/* The value of a variable; "(none)". */
static const char *value(struct seen *s, const char *name)
{
	struct span rest = str_view(&s->out.nul);
	while (rest.n > 0) {
		struct span one = span_next(&rest, '\0');
		size_t n = span_chr(one, '=');
		if (span_is(span_to(one, n), name))
			return arena_dup(&s->a, span_from(one, n + 1));
	}
	return "(none)";
}

#define WANT(s, name, text) assert_string_equal(value(s, name), text)

static void want_warning(const struct seen *s, const char *text)
{
	for (size_t i = 0; i < s->warnings.n; i++) {
		if (strstr(s->warnings.v[i].msg, text))
			return;
	}
	fail_msg("no warning of %s", text);
}

#define ROLE(name, gpu) "  " name ": {resourcePerInstance: {gpu: " #gpu "}}\n"
#define CONFIG(roles, distributed)                                                                 \
	"protocolVersion: 2\ntaskRoles:\n" roles "extras: {distributed: {" distributed "}}\n"

/* 127.0.0.N: the interface lo has the first of them. */
static const struct fake_role TWO[] = {
	{ "bigone", 2, MEET(20000), "127.0.0.", false },
	{ "small", 3, MEET(30000), "127.0.1.", false },
	{ NULL, 0, NULL, NULL, false },
};
#define BIG_SMALL ROLE("big_one", 4) ROLE("small", 0)

/* ---- torch ----------------------------------------------------------------------------------- */

TEST(test_torch_ranks_count_tasks_of_unequal_roles)
{
	static const struct {
		const char *role;
		int64_t index;
		const char *rank, *processes;
	} CASES[] = {
		{ "bigone", 0, "0", "4" },
		{ "bigone", 1, "1", "4" },
		{ "small", 0, "2", "1" },
		{ "small", 2, "4", "1" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		SEEN(s, TWO, CONFIG(BIG_SMALL, "framework: torch"), CASES[i].role, CASES[i].index);
		WANT(&s, "MASTER_ADDR", "127.0.0.0");
		WANT(&s, "MASTER_PORT", "20000");
		WANT(&s, "NNODES", "5");
		WANT(&s, "NODE_RANK", CASES[i].rank);
		WANT(&s, "NPROC_PER_NODE", CASES[i].processes);
		WANT(&s, "WORLD_SIZE", "11");
		WANT(&s, "PET_MASTER_ADDR", "127.0.0.0");
		WANT(&s, "PET_MASTER_PORT", "20000");
		WANT(&s, "PET_NNODES", "5");
		WANT(&s, "PET_NODE_RANK", CASES[i].rank);
		WANT(&s, "PET_NPROC_PER_NODE", CASES[i].processes);
		WANT(&s, "PET_MONITOR_INTERVAL", "0.1");
		WANT(&s, "RANK", "(none)");
		WANT(&s, "OMPI_MCA_plm_rsh_agent", "(none)");
		assert_null(s.in.ssh_roles);
		assert_int_equal(s.out.hosts.n, 0);
	}
}

/* There is no torchrun, so the variables give each process its rank. */
TEST(test_torch_process_knows_its_rank_without_torchrun)
{
	SEEN(s, TWO, CONFIG(BIG_SMALL, "framework: torch, procPerNode: 1"), "small", 1);
	WANT(&s, "RANK", "3");
	WANT(&s, "LOCAL_RANK", "0");
	WANT(&s, "WORLD_SIZE", "5");
}

TEST(test_jobs_without_distributed_get_no_variables)
{
	static const char *const CONFIGS[] = {
		"taskRoles: {small: {}}",
		"{taskRoles: {small: {}}, extras: {distributed: null}}",
		"{taskRoles: {small: {}}, extras: {distributed: {framework: other}}}",
		"{taskRoles: {small: {}}, extras: {distributed: {taskRoles: [small]}}}",
		"{taskRoles: {small: {}}, extras: {distributed: {framework: jax, taskRoles: [1]}}}",
		"{jobName: j, taskRoles: [{name: small}], extras: {distributed: {framework: jax}}}",
	};
	for (size_t i = 0; i < ARRAY_SIZE(CONFIGS); i++) {
		SEEN(s, TWO, CONFIGS[i], "small", 0);
		assert_int_equal(s.out.nul.n + s.out.shell.n + s.out.hosts.n, 0);
	}
}

/* ---- addresses ------------------------------------------------------------------------------- */

TEST(test_interface_is_that_of_the_own_address)
{
	static const struct fake_role ROLES[] = {
		{ "big", 2, MEET(20000), "127.0.0.", false },
		{ NULL, 0, NULL, NULL, false },
	};
	SEEN(s, ROLES, CONFIG(ROLE("big", 0), "framework: jax"), "big", 1);
	WANT(&s, "GLOO_SOCKET_IFNAME", "lo");
	WANT(&s, "NCCL_SOCKET_IFNAME", "=lo");
	assert_int_equal(s.warnings.n, 0);
	SEEN(none, ROLES, CONFIG(ROLE("big", 0), "framework: jax"), "big", 0);
	WANT(&none, "GLOO_SOCKET_IFNAME", "(none)");
	WANT(&none, "NCCL_SOCKET_IFNAME", "(none)");
	want_warning(&none, "no network interface has the address of this task, 127.0.0.0");
}

TEST(test_ipv6_addresses_are_written_in_brackets)
{
	static const struct fake_role ROLES[] = {
		{ "worker", 2, MEET(20000), "fd00::", false },
		{ NULL, 0, NULL, NULL, false },
	};
	SEEN(s, ROLES, CONFIG(ROLE("worker", 0), "framework: jax"), "worker", 1);
	WANT(&s, "JAX_COORDINATOR_ADDRESS", "[fd00::0]:20000");
	SEEN(torch, ROLES, CONFIG(ROLE("worker", 0), "framework: torch"), "worker", 1);
	WANT(&torch, "MASTER_ADDR", "fd00::0");
	SEEN(tf, ROLES, CONFIG(ROLE("worker", 0), "framework: tensorflow"), "worker", 1);
	WANT(&tf, "TF_CONFIG",
	     "{\"cluster\":{\"worker\":[\"[fd00::0]:20000\",\"[fd00::1]:20001\"]},"
	     "\"task\":{\"type\":\"worker\",\"index\":1}}");
}

TEST(test_unknown_address_or_port_gives_a_warning)
{
	static const struct fake_role ROLES[] = {
		{ "big", 1, NULL, NULL, false },
		{ "small", 2, MEET(20000), "127.0.0.", false },
		{ NULL, 0, NULL, NULL, false },
	};
	SEEN(s, ROLES, CONFIG(ROLE("big", 0) ROLE("small", 0), "framework: torch"), "small", 1);
	WANT(&s, "MASTER_ADDR", "(none)");
	WANT(&s, "MASTER_PORT", "(none)");
	WANT(&s, "NODE_RANK", "2");
	want_warning(&s, "the address of task 0 of role big is not known");
	SEEN(jax, ROLES, CONFIG(ROLE("big", 0) ROLE("small", 0), "framework: jax"), "small", 1);
	WANT(&jax, "JAX_COORDINATOR_ADDRESS", "(none)");
	WANT(&jax, "JAX_PROCESS_ID", "2");
}

/* ---- the other frameworks -------------------------------------------------------------------- */

TEST(test_tensorflow_gets_the_cluster_in_tf_config)
{
	static const struct fake_role ROLES[] = {
		{ "master", 1, MEET(20000), "10.0.0.", false },
		{ "worker", 2, MEET(21000), "10.0.1.", false },
		{ "ps", 1, MEET(22000), "10.0.2.", false },
		{ "evaluator", 1, MEET(23000), "10.0.3.", false },
		{ NULL, 0, NULL, NULL, false },
	};
	static const struct {
		const char *role;
		int64_t index;
		const char *type;
	} CASES[] = {
		{ "master", 0, "chief" },
		{ "worker", 1, "worker" },
		{ "ps", 0, "ps" },
		{ "evaluator", 0, "evaluator" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		SEEN(s, ROLES,
		     CONFIG(ROLE("master", 0) ROLE("worker", 1) ROLE("ps", 0) ROLE("evaluator", 0),
		            "framework: tensorflow"),
		     CASES[i].role, CASES[i].index);
		WANT(&s, "TF_CONFIG",
		     arena_printf(&s.a,
		                  "{\"cluster\":{\"chief\":[\"10.0.0.0:20000\"],"
		                  "\"worker\":[\"10.0.1.0:21000\",\"10.0.1.1:21001\"],"
		                  "\"ps\":[\"10.0.2.0:22000\"]},"
		                  "\"task\":{\"type\":\"%s\",\"index\":%lld}}",
		                  CASES[i].type, (long long)CASES[i].index));
	}
}

TEST(test_tensorflow_without_all_addresses_gets_no_tf_config)
{
	static const struct fake_role ROLES[] = {
		{ "worker", 1, MEET(20000), "10.0.0.", false },
		{ "ps", 1, MEET(20000), NULL, false },
		{ NULL, 0, NULL, NULL, false },
	};
	SEEN(s, ROLES, CONFIG(ROLE("worker", 0) ROLE("ps", 0), "framework: tensorflow"), "worker",
	     0);
	WANT(&s, "TF_CONFIG", "(none)");
	want_warning(&s, "task 0 of role ps is not known: TF_CONFIG is not set");
}

TEST(test_mpi_and_deepspeed_get_a_hostfile)
{
	static const char *const CONFIGS[] = { CONFIG(BIG_SMALL, "framework: mpi"),
		                               CONFIG(BIG_SMALL, "framework: deepspeed") };
	for (size_t i = 0; i < 2; i++) {
		SEEN(s, TWO, CONFIGS[i], "bigone", 1);
		WANT(&s, "OMPI_MCA_orte_default_hostfile", "/d/hostfile");
		WANT(&s, "OMPI_MCA_plm_rsh_agent", "ssh");
		WANT(&s, "NODE_RANK", "1");
		WANT(&s, "WORLD_SIZE", i == 0 ? "(none)" : "11");
		assert_string_equal(str_c(&s.out.hosts), "bigone-0 slots=4\nbigone-1 slots=4\n"
		                                         "small-0 slots=1\nsmall-1 slots=1\n"
		                                         "small-2 slots=1\n");
		assert_string_equal(s.in.ssh_roles, "bigone,small");
		assert_false(s.in.ssh_first);
		SEEN(first, TWO, CONFIGS[i], "bigone", 0);
		assert_true(first.in.ssh_first);
	}
}

/* Open MPI would use all interfaces, and the commands of many jobs exclude some. */
TEST(test_mpi_chooses_among_several_interfaces)
{
	static const struct fake_role ROLES[] = {
		{ "worker", 2, MEET(20000), "10.0.0.", false },
		{ NULL, 0, NULL, NULL, false },
	};
	static const char *const EXPECTED[] = { "(none)", "(none)", "eth0" };
	for (interfaces = 0; interfaces < 3; interfaces++) {
		SEEN(s, ROLES, CONFIG(ROLE("worker", 0), "framework: mpi"), "worker", 1);
		WANT(&s, "NCCL_SOCKET_IFNAME", interfaces ? "=eth0" : "(none)");
		WANT(&s, "OMPI_MCA_btl_tcp_if_include", EXPECTED[interfaces]);
		WANT(&s, "OMPI_MCA_oob_tcp_if_include", EXPECTED[interfaces]);
	}
	interfaces = 0;
}
