#pragma once
/*
 * A file of the source tree as constant bytes of the program:
 *
 *	EMBED(v2_schema, "schema/pai-v2.schema.json");
 *	use(embed_v2_schema, (size_t)(embed_v2_schema_end - embed_v2_schema));
 *
 * The path is relative to the top of the source tree, where the compiler runs.
 * A NUL follows the bytes.
 *
 * Thread: any
 */
#include "base/str.h"

/* clang-format off */
#define EMBED(name, path)                                                                          \
	__asm__(".pushsection .rodata\n"                                                           \
		".balign 16\n"                                                                     \
		"embed_" #name ":\n"                                                               \
		".incbin \"" path "\"\n"                                                           \
		"embed_" #name "_end:\n"                                                           \
		".byte 0\n"                                                                        \
		".popsection\n");                                                                  \
	extern const char embed_##name[] __attribute__((visibility("hidden")));                    \
	extern const char embed_##name##_end[] __attribute__((visibility("hidden")))
/* clang-format on */

/* Subtracts integers: the compiler treats the symbols as two unrelated objects. */
#define EMBEDDED(name)                                                                             \
	((struct span){ embed_##name,                                                              \
	                (size_t)((uintptr_t)embed_##name##_end - (uintptr_t)embed_##name) })
