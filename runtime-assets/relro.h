#pragma once
/*
 * Make read-only what only the start of the program had to write: addresses in tables.  With
 * glibc the loader has done that; a static program with musl has no loader, and must do it itself.
 * First thing in main(); a second time does no harm.
 */
void relro_apply(void);
