#pragma once
/* Tests of one keyword each; see struct keyword.  For schema/ only. */
#include "schema/rule.h"

struct walk;

bool check_values(struct walk *w, const struct test *t, const struct node *n,
                  const struct path *at);
bool check_minimum(struct walk *w, const struct test *t, const struct node *n,
                   const struct path *at);
bool check_maximum(struct walk *w, const struct test *t, const struct node *n,
                   const struct path *at);
bool check_above(struct walk *w, const struct test *t, const struct node *n, const struct path *at);
bool check_below(struct walk *w, const struct test *t, const struct node *n, const struct path *at);
bool check_multiple(struct walk *w, const struct test *t, const struct node *n,
                    const struct path *at);
bool check_min_length(struct walk *w, const struct test *t, const struct node *n,
                      const struct path *at);
bool check_max_length(struct walk *w, const struct test *t, const struct node *n,
                      const struct path *at);
bool check_min_count(struct walk *w, const struct test *t, const struct node *n,
                     const struct path *at);
bool check_max_count(struct walk *w, const struct test *t, const struct node *n,
                     const struct path *at);
bool check_pattern(struct walk *w, const struct test *t, const struct node *n,
                   const struct path *at);
