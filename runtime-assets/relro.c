/* Read-only after relocation; see relro.h. */
#include "runtime-assets/relro.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>

static int protect(struct dl_phdr_info *program, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	uintptr_t page = getauxval(AT_PAGESZ);
	for (unsigned i = 0; i < program->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &program->dlpi_phdr[i];
		if (part->p_type != PT_GNU_RELRO)
			continue;
		/* Whole pages: nothing that is written to stands before it on its first one. */
		uintptr_t from = program->dlpi_addr + part->p_vaddr;
		uintptr_t to = (from + part->p_memsz) & -page;
		from &= -page;
		/* The kernel gives places as numbers.  NOLINTNEXTLINE(performance-no-int-to-ptr) */
		if (to > from && mprotect((void *)from, to - from, PROT_READ) != 0)
			break; /* everything works without, too */
	}
	return 1; /* the program comes first; libraries are none of our business */
}

void relro_apply(void)
{
	(void)dl_iterate_phdr(protect, NULL);
}
