#pragma once
/* A look-up of a user in an OpenPAI cluster: private to account_openpai.c, which asks, and to
 * account_stages.c, which knows what to ask for and what the answers mean. */
#include "server/accounts/account_inner.h"
#include "server/accounts/account_objects.h"

enum stage { STAGE_USER, STAGE_GROUPS, STAGE_STORAGES, STAGE_END };

struct waiter {
	struct waiter *next;
	account_callback *done;
	void *arg;
};

/* One thing that must be known. */
struct part {
	struct search *search;
	enum object_kind kind;
	struct span name;   /* as people call it */
	const char *object; /* that says it */
	int64_t asked_ms;
	bool found;
	bool is_default;        /* of a storage */
	struct pai_group group; /* these two live in the arena of the look-up */
	struct pai_storage storage;
};

struct search {
	struct search *next, **at; /* in the list: what points here */
	struct searches *in;       /* NULL: given up; it goes when the store has answered */
	char name[ACCOUNT_NAME];
	struct account *account; /* in the making */
	struct waiter *waiters;
	struct waiter **last_waiter;
	bool started;
	enum stage stage;
	struct part *parts;
	size_t n_parts, next_part, pending;
	int64_t deadline_ms;
	int64_t until_ms; /* so long will all of it be believed */
	struct arena arena;
	struct err e;
};

struct searches {
	struct accounts *all;
	struct store *store;
	struct memo *groups, *storages; /* struct kept */
	struct search *head, **last;    /* by age */
	size_t active, waiting;
	bool closing;
};

struct stage_steps {
	/* What an object says of the part that it was asked for. */
	enum pai_read (*read)(struct part *p, struct span body, const char **why);
	void (*end)(struct search *l); /* all parts are there; plans those of the next */
	const char *skipped;           /* for the log: a part is not there, or not fit */
};
extern const struct stage_steps STAGES[STAGE_END];

void search_plan_user(struct search *l);

/* Groups and storages are remembered by name. */
bool search_recall(struct search *l, struct part *p);
void search_remember(const struct search *l, const struct part *p);
void search_forget(void *value); /* of their memos */
/* How long what was read of this part is believed. */
int64_t search_believed_until(const struct search *l, const struct part *p);

/* A line in the log, once per hour: it stays like that until somebody mends it. */
void search_tell(const struct search *l, const char *what, struct span name, const char *why);
