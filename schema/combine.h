#pragma once
/* allOf, anyOf, oneOf, not, if.  For schema/ only. */
#include "schema/rule.h"
#include "schema/walk.h"

/* Are the rules told apart by a member that each of them requires, with values of
 * its own?  NULL if not. */
const struct choice *choice_find(struct arena *a, const struct rule *const *rules, size_t n);

bool check_all_of(struct walk *w, const struct test *t, const struct node *n,
                  const struct path *at);
bool check_any_of(struct walk *w, const struct test *t, const struct node *n,
                  const struct path *at);
bool check_one_of(struct walk *w, const struct test *t, const struct node *n,
                  const struct path *at);
bool check_not(struct walk *w, const struct test *t, const struct node *n, const struct path *at);
bool check_if(struct walk *w, const struct test *t, const struct node *n, const struct path *at);
