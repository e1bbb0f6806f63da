#pragma once
/*
 * Figures of AMD GPUs, from files of the kernel (amdgpu, kfd) in /sys.
 *
 * Thread: own
 */
#include "machine/resources/resources.h"
#include "machine/usage/smi.h"

/* The number of the card ("card1" among its files: 1), or -1: it is none of AMD's.  root: "" unless
 * a test has its own tree. */
int amd_card(const char *root, const struct gpu *g);
/* As smi_take; watts: of hwmon, if it is there.  known: its compute processes can be listed. */
void amd_take(const char *root, int card, struct smi_sample *out);
/* Up to `room` compute processes on the card; gpu and first_ms of each are not set. */
size_t amd_processes(const char *root, int card, struct smi_process *v, size_t room);
