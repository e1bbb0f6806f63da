#pragma once
/*
 * The cluster of OpenPAI's recorded results (tests/corpus/README.md), with the settings of tests.
 */
#include "tests/lib/auto.h"
#include "translate/translate.h"

enum setting_name {
	SETTING_BASE,  /* profile openpai, priority class, no user extension */
	SETTING_EXT,   /* profile openpai, no priority class, user extension with ssh keys */
	SETTING_PLAIN, /* profile plain, priority class, no user extension */
	SETTING_HIVED, /* profile openpai, priority class, no user extension, HiveD (setting.c: its
	                  cells) */
	SETTING_MAX
};

struct setting {
	struct translator *translator;
	struct facts facts;
	struct arena arena; /* of the facts */
};

/* The user and the submission time of all tests. */
#define TEST_USER "alice"
enum { TEST_PRIORITY = -2125464066 }; /* what OpenPAI computes for that time */

/* Ends the program if the templates do not compile.  Free with setting_done. */
void setting_init(struct setting *s, enum setting_name name);
void setting_done(struct setting *s);
