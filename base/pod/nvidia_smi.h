#pragma once
/*
 * The places of the program nvidia-smi: it comes with the driver, from a package, from the runtime
 * of containers, or from Windows (WSL).
 *
 * Thread: any
 */
#include "base/arena.h"

/* The path of the program below the root, in the arena; NULL if there is none.  PATH is not used:
 * an image, or a user, sets it. */
const char *nvidia_smi_find(const char *root, struct arena *a);
