#pragma once
/* The targets in a program without libFuzzer. */
#include "base/str.h"

typedef void (*replay_fn)(struct span text);

/* Adds the target of this source file.  Called before main. */
void replay_add(const char *file, replay_fn run);
