/* The architecture of an ELF program. */

#include "tests/unit/base/cmocka.h"
#include <elf.h>
#include <endian.h>

#include "server/config/setup.h"

/* The least that a program consists of: header, and two segments. */
struct program {
	Elf64_Ehdr head;
	Elf64_Phdr segment[2];
};

static struct program program(uint16_t machine)
{
	struct program p = { 0 };
	memcpy(p.head.e_ident, ELFMAG, SELFMAG);
	p.head.e_ident[EI_CLASS] = ELFCLASS64;
	p.head.e_ident[EI_DATA] = ELFDATA2LSB;
	p.head.e_type = ET_EXEC;
	p.head.e_machine = machine;
	p.head.e_entry = 0x400000;
	p.head.e_phoff = offsetof(struct program, segment);
	p.head.e_phentsize = sizeof(Elf64_Phdr);
	p.head.e_phnum = 2;
	p.segment[0].p_type = PT_LOAD;
	p.segment[1].p_type = PT_LOAD;
	return p;
}

static struct span bytes(const struct program *p)
{
	return (struct span){ (const char *)p, sizeof(*p) };
}

static void arch_is(const struct program *p, const char *want)
{
	const char *arch = elf_check_arch(bytes(p), no_err());
	if (!arch)
		fail_msg("%s", err_msg(&unit.e));
	assert_string_equal(arch, want);
	assert_int_equal(unit.e.http, 0);
}

static void refused(struct span file, const char *word)
{
	assert_null(elf_check_arch(file, no_err()));
	assert_int_equal(unit.e.http, 400);
	if (!strstr(err_msg(&unit.e), word))
		fail_msg("%s: not a word of %s", err_msg(&unit.e), word);
}

TEST(test_program_arch_names_the_architecture)
{
	struct program amd64 = program(EM_X86_64);
	struct program arm64 = program(EM_AARCH64);
	arch_is(&amd64, "amd64");
	arch_is(&arm64, "arm64");
	amd64.head.e_type = ET_DYN; /* position-independent */
	arch_is(&amd64, "amd64");
}

/* Programs of s390x have the most significant byte first. */
TEST(test_program_arch_reads_big_endian_programs)
{
	struct program p = { 0 };
	memcpy(p.head.e_ident, ELFMAG, SELFMAG);
	p.head.e_ident[EI_CLASS] = ELFCLASS64;
	p.head.e_ident[EI_DATA] = ELFDATA2MSB;
	p.head.e_type = htobe16(ET_EXEC);
	p.head.e_machine = htobe16(EM_S390);
	p.head.e_entry = htobe64(0x400000);
	p.head.e_phoff = htobe64(offsetof(struct program, segment));
	p.head.e_phentsize = htobe16(sizeof(Elf64_Phdr));
	p.head.e_phnum = htobe16(2);
	p.segment[1].p_type = htobe32(PT_LOAD);
	arch_is(&p, "s390x");
	p.segment[1].p_type = htobe32(PT_INTERP);
	refused(bytes(&p), "dynamically");
}

TEST(test_program_arch_refuses_an_unknown_machine)
{
	struct program p = program(EM_68K);
	refused(bytes(&p), "architecture");
	p = program(EM_X86_64);
	p.head.e_ident[EI_DATA] = ELFDATA2MSB;
	refused(bytes(&p), "not a program");
}

TEST(test_program_arch_refuses_files_that_are_no_programs)
{
	struct program p = program(EM_X86_64);
	p.head.e_type = ET_REL;
	refused(bytes(&p), "not a program");
	p = program(EM_X86_64);
	p.head.e_phnum = 0;
	refused(bytes(&p), "not a program");
	p = program(EM_X86_64);
	p.head.e_ident[EI_CLASS] = ELFCLASS32;
	refused(bytes(&p), "not a program");
	refused(SPAN("#!/bin/sh\n"), "not a program");
	refused(SPAN(""), "not a program");
}

/* No byte is read beyond the end of a file cut anywhere, or without its table of segments. */
TEST(test_program_arch_refuses_truncated_headers)
{
	struct program p = program(EM_X86_64);
	for (size_t n = 0; n < sizeof(Elf64_Ehdr); n++) {
		FREE_AUTO char *copy = xmalloc(n + 1);
		memcpy(copy, &p, n);
		refused((struct span){ copy, n }, "not a program");
	}
	static const uint64_t OFFSETS[] = { 1000, UINT64_MAX, UINT64_MAX - 3, sizeof(p) - 1 };
	for (size_t i = 0; i < sizeof(OFFSETS) / sizeof(*OFFSETS); i++) {
		p.head.e_phoff = OFFSETS[i];
		p.head.e_phnum = UINT16_MAX;
		refused(bytes(&p), "end is missing");
	}
}

TEST(test_program_arch_refuses_truncated_segments)
{
	struct program p = program(EM_X86_64);
	p.segment[1].p_filesz = sizeof(p);
	arch_is(&p, "amd64");
	p.segment[1].p_offset = 1;
	refused(bytes(&p), "end is missing");
}
