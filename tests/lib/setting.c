#include "tests/lib/setting.h"

#include <stdio.h>
#include <stdlib.h>

#include "schema/schema.h"
#include "translate/hived/hived.h"
#include "translate/translate.h"

static const struct storage_fact STORAGES[] = {
	/* clang-format off */
	{ .name = { "confignfs", 9 }, .share = true, .is_default = true },
	{ .name = { "nfs", 3 }, .share = true },
	{ .name = { "nfs-storage1", 12 }, .share = true },
	{ .name = { "nfs-storage2", 12 }, .share = true },
	{ .name = { "azure-file-storage", 18 }, .share = true },
	{ .name = { "azurefile", 9 }, .share = true },
	{ .name = { "azureblob", 9 }, .share = true },
	{ .name = { "storage1", 8 }, .share = true },
	{ .name = { "storage2", 8 }, .share = true },
	{ .name = { "privatenfs", 10 }, .share = false },
	{ .name = { "readonlynfs", 11 }, .share = true, .read_only = true },
	{ .name = { "PAI_SHARE", 9 }, .share = true },
	{ .name = { "TEST_CONFIG", 11 }, .share = true },
	/* of examples/taskrole_1.yaml */
	{ .name = { "share", 5 }, .share = true },
	/* of tests/hostile/cases */
	{ .name = { "pv", 2 }, .share = true },
	{ .name = { "p1", 2 }, .share = true },
	{ .name = { "p2", 2 }, .share = true },
	{ .name = { "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp", 60 }, .share = true },
	/* clang-format on */
};

static const struct directory_fact DIRECTORIES[] = {
	{ { "/data/share", 11 }, false },
	{ { "/data/readonly", 14 }, true },
	{ { "nfs://10.0.0.5/export", 21 }, false },
};

static const char EXTENSION[] = "sshKeys:\n"
				"  - title: k1\n"
				"    value: ssh-rsa AAAAB3NzaC1yc2E alice@x\n"
				"jobSSH:\n"
				"  key: |-\n"
				"    -----BEGIN RSA PRIVATE KEY-----\n"
				"    MIIE\n"
				"    -----END RSA PRIVATE KEY-----\n"
				"  pubKey: ssh-rsa AAAAB3 pai-job-ssh\n";

/* The virtual clusters default and vc1 have 12 and 4 cells. */
static const char HIVED[] =
    "physicalCluster:\n"
    "  skuTypes:\n"
    "    K80: {gpu: 1, cpu: 4, memory: 8192Mi}\n"
    "  cellTypes:\n"
    "    NODE: {childCellType: K80, childCellNumber: 4, isNodeLevel: true}\n"
    "  physicalCells:\n"
    "    - {cellType: NODE, cellAddress: worker1}\n"
    "    - {cellType: NODE, cellAddress: worker2, pinnedCellId: node-worker2}\n"
    "    - {cellType: NODE, cellAddress: worker3, pinnedCellId: pc1}\n"
    "    - {cellType: NODE, cellAddress: worker4}\n"
    "virtualClusters:\n"
    "  default:\n"
    "    virtualCells: [{cellType: NODE, cellNumber: 1}]\n"
    "    pinnedCells: [{pinnedCellId: node-worker2}, {pinnedCellId: pc1}]\n"
    "  vc1:\n"
    "    virtualCells: [{cellType: NODE, cellNumber: 1}]\n";

enum { ALL_GRANTS = GRANT_FUSE | GRANT_HOST_NETWORK | GRANT_INFINIBAND };

/* 2026-11-20T10:25:38Z */
static const int64_t SUBMITTED_MS = 1795170338000;

static void give_up(const struct err *e)
{
	(void)printf("%s\n0 passed, 1 failed\n", err_msg(e));
	exit(1); /* NOLINT(concurrency-mt-unsafe): one thread */
}

static const struct node *extension(struct arena *a)
{
	ERR_AUTO e = { 0 };
	struct doc *doc = ARENA_NEW(a, struct doc, 1);
	if (doc_read(span_of(EXTENSION), &BUDGET_DEFAULT, a, doc, NULL, &e))
		give_up(&e);
	return &doc->root;
}

static const struct hived *hived(struct arena *a)
{
	ERR_AUTO e = { 0 };
	const struct hived *h = hived_read(span_of(HIVED), a, &e);
	if (!h)
		give_up(&e);
	return h;
}

static struct translator *translator(enum setting_name name)
{
	struct settings s;
	translate_settings_default(&s);
	s.profile = name == SETTING_PLAIN ? PROFILE_PLAIN : PROFILE_OPENPAI;
	s.priority_class = name != SETTING_EXT;
	s.hived = name == SETTING_HIVED;
	s.runtime_image = "openpai/openpai-runtime:v1.8.0";
	s.runtime_pull_secret = "pai-secret";
	s.apiserver_uri = "http://127.0.0.1:8080";
	s.rest_server_uri = "http://127.0.0.1:9186";
	s.device = "nvidia.com/gpu";
	s.fs_uri = "hdfs://127.0.0.1:9000";
	s.port_start = 15000;
	s.port_end = 40000;
	ERR_AUTO e = { 0 };
	struct translator *t = translator_new(&s, NULL, &e);
	if (!t)
		give_up(&e);
	return t;
}

void setting_init(struct setting *s, enum setting_name name)
{
	*s = (struct setting){ 0 };
	schema_init();
	s->translator = translator(name);
	s->facts = (struct facts){
		.any_virtual_cluster = true,
		.storages = STORAGES,
		.n_storages = sizeof(STORAGES) / sizeof(*STORAGES),
		.directories = DIRECTORIES,
		.n_directories = sizeof(DIRECTORIES) / sizeof(*DIRECTORIES),
		.grants = ALL_GRANTS,
		.submitted_ms = SUBMITTED_MS,
		.key_seed = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
	};
	if (name == SETTING_EXT)
		s->facts.extension = extension(&s->arena);
	if (name == SETTING_HIVED)
		s->facts.hived = hived(&s->arena);
}

void setting_done(struct setting *s)
{
	translator_free(s->translator);
	arena_done(&s->arena);
}
