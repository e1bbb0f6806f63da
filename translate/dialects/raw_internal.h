#pragma once
/* The allow-list of raw_pod.h: the copy of a pod template by the table of docs/DIALECTS.md. */
#include "translate/dialects/raw_pod.h"

enum { RAW_TEXT_MAX = 130000 /* bytes; 131071 with the name of a variable */ };

/*
 * Copies the members that the table keeps, with the places of the original; null is left out, and
 * the items of a list keep their index.  Their values can have any type: schema/pod.schema.json
 * checks them afterwards.
 */
struct node raw_template_copy(struct parse_context *r, const struct path *p,
                              const struct node *template);
