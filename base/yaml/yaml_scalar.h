#pragma once
/* The scalar rules of js-yaml 3.13, part by part; for the YAML reader only. */
#include "base/tree.h"

/* Each: true, and *n of that type, if the text is one; else *n is untouched. */
bool plain_null(struct node *n, struct span t);
bool plain_bool(struct node *n, struct span t);
/* Nearly all numbers of jobs: up to 15 decimal digits without a 0 before them. */
bool plain_small_int(struct node *n, struct span t);
bool plain_int(struct node *n, struct span t);
bool plain_float(struct node *n, struct span t);
/* It is text; false also for text that begins like a number. */
bool plain_surely_text(struct span t);
/* Looks like a date, or date and time. */
bool plain_is_date(struct span t);

/* A number that is in the document: NODE_INT if it has no fraction and is within 2^53. */
void node_set_number(struct node *n, double v);

/* ---- how a scalar was written: enum spelling ---- */

/* Mark a scalar without quotes by the text that it was read from. */
void spelling_mark(struct node *n, struct span text);
