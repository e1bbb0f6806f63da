#pragma once
/* The allow-list of raw_pod.h. */
#include "translate/dialects/raw_pod.h"

#define RAW_OLD_DEVICE "alpha.kubernetes.io/nvidia-gpu"

/*
 * Copies the members that the table keeps, with the places of the original; null is left out, and
 * the items of a list keep their index.  Their values can have any type: schema/pod.schema.json
 * checks them afterwards.  Devices are left out without a warning.
 */
struct node raw_template_copy(struct parse_context *r, const struct field *template);
