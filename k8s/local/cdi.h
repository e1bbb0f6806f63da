#pragma once
/* CDI files (Container Device Interface): YAML or JSON in which the driver's tools say what a
 * container with a GPU needs.  Hooks, which need a container runtime, are ignored. */
#include "k8s/local/resources.h"

struct gpu_list {
	struct gpu *v; /* texts in the inventory's arena */
	size_t n, cap;
};

/* A new GPU at the end, zeroed. */
struct gpu *gpu_list_add(struct gpu_list *l);

/* Adds the GPUs of all files *.yaml and *.json of a directory, of kind VENDOR/gpu.  A device that
 * is there already, under this name or another, is not added again.  What cannot be read becomes a
 * note with file, line and column; the others go on. */
void cdi_read(const char *dir, struct gpu_list *l, struct inventory *out);
