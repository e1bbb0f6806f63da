#pragma once
/*
 * What cached.c is made of.  Pure; any thread.
 */
#include "base/arena.h"
#include "base/str.h"

/* Of a Framework (JSON), what is ever shown: without managedFields, and of its pod templates only
 * names, labels and a few more.  One pass; what is of another type than it should be is passed on
 * as it is.  Appends. */
void job_entry_trim(struct str *out, struct span object);

/* The annotation is text, in which there is JSON: the same list of tags, or [] if it is none. */
struct span job_entry_tags(struct span annotation, struct arena *a);
/* What the job that was submitted says to HiveD: extras.hivedScheduler.jobPriorityClass; "" if
 * nothing.  Most say nothing: then it is not read. */
struct span job_entry_priority(struct span config, struct arena *a);

/* The variable PAI_USER_NAME of the first container of the first role, or "". */
struct span job_entry_maker(struct span object, struct arena *a);

/* Compressed, against a dictionary of what Frameworks are full of.  Appends; false if that would
 * be more than out->max. */
bool job_entry_pack(struct str *out, struct span text);
/* Back again, `size` bytes of it, in the arena; false if it is not that. */
bool job_entry_unpack(struct span packed, size_t size, struct arena *a, struct span *text);
/* What gzip has packed, one member, in the arena.  false: damaged, more than max bytes, or (from
 * 64 KiB on) more than `ratio` times as many as it is packed in. */
bool job_entry_gunzip(struct span packed, size_t max, size_t ratio, struct arena *a,
                      struct span *text);
