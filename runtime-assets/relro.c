/* Read-only after relocation; see relro.h. */
#include "runtime-assets/relro.h"

#ifdef __GLIBC__
void relro_apply(void)
{
}
#else
#include <link.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>

/* Of the linker: where the file begins in memory. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

void relro_apply(void)
{
	const ElfW(Ehdr) *file = (const void *)__ehdr_start;
	const ElfW(Phdr) *part = (const void *)(__ehdr_start + file->e_phoff);
	uintptr_t page = getauxval(AT_PAGESZ);
	for (unsigned i = 0; i < file->e_phnum; i++) {
		if (part[i].p_type != PT_GNU_RELRO)
			continue;
		/* Whole pages: nothing that is written to stands before it on its first one. */
		uintptr_t from = (uintptr_t)__ehdr_start + part[i].p_vaddr;
		uintptr_t to = (from + part[i].p_memsz) & -page;
		from &= -page;
		if (to > from)
			(void)mprotect((void *)from, to - from, PROT_READ); /* works without, too */
	}
}
#endif
