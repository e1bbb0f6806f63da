#pragma once
/*
 * The results of a job, `extras.results`: the templates name the volume, and the engine of one
 * machine knows it by this name.
 *
 * Thread: any
 */

/* Claim of the machine's directory for the results of a job, a name that no storage can have; in a
 * storage of a cluster, the directory with those of all users. */
#define RESULTS_CLAIM "rest-lit-results"
