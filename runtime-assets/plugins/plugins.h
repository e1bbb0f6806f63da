#pragma once
/*
 * The plugins of a job, and its command, as steps of init.
 *
 * Thread: main
 */
#include "runtime-assets/init/init.h"

extern const struct init_plugins INIT_PLUGINS;
