/* Finds pai-runtime, and checks its ELF headers: static, complete, of a known architecture. */
#include "server/config/setup.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/hash.h"
#include "base/posix/fd.h"
#include "server/config/system.h"

/* Kubernetes: the data of a ConfigMap, before base64. */
enum { CONFIGMAP_MAX = 1 << 20, FILE_MAX = 64 << 20, HASH_SHOWN = 16, PATH_ROOM = 4096 };

/* Architectures by the names of Go, which the label kubernetes.io/arch uses. */
static const struct {
	uint16_t machine;
	unsigned char order; /* ELFDATA2LSB, ELFDATA2MSB */
	const char *arch;
	const char *uname; /* `uname -m` */
} ARCHES[] = {
	{ EM_X86_64, ELFDATA2LSB, "amd64", "x86_64" },
	{ EM_AARCH64, ELFDATA2LSB, "arm64", "aarch64" },
	{ EM_PPC64, ELFDATA2LSB, "ppc64le", "ppc64le" },
	{ EM_S390, ELFDATA2MSB, "s390x", "s390x" },
	{ EM_RISCV, ELFDATA2LSB, "riscv64", "riscv64" },
};

/* A number of n bytes at an offset; 0 beyond the end. */
static uint64_t number_at(struct span file, unsigned char order, uint64_t at, unsigned n)
{
	uint64_t v = 0;
	if (at > file.n || file.n - at < n)
		return 0;
	for (unsigned i = 0; i < n; i++) {
		unsigned k = order == ELFDATA2MSB ? i : n - 1 - i;
		v = v << 8 | (unsigned char)file.p[at + k];
	}
	return v;
}

#define FIELD(file, order, base, type, field)                                                      \
	number_at(file, order, (base) + offsetof(type, field), sizeof(((type *)NULL)->field))

/* Returns the defect of the segments, or NULL. */
static const char *elf_check_segments(struct span file, unsigned char order)
{
	uint64_t at = FIELD(file, order, 0, Elf64_Ehdr, e_phoff);
	uint64_t step = FIELD(file, order, 0, Elf64_Ehdr, e_phentsize);
	uint64_t n = FIELD(file, order, 0, Elf64_Ehdr, e_phnum);
	bool loaded = false;
	bool dynamic = false;
	bool cut = false;
	for (uint64_t i = 0; i < n && at < file.n; i++, at += step) {
		uint64_t type = FIELD(file, order, at, Elf64_Phdr, p_type);
		uint64_t from = FIELD(file, order, at, Elf64_Phdr, p_offset);
		uint64_t size = FIELD(file, order, at, Elf64_Phdr, p_filesz);
		dynamic |= type == PT_INTERP;
		if (type == PT_DYNAMIC) /* a library asks for others, but for no loader */
			for (; size >= sizeof(Elf64_Dyn) && from < file.n;
			     size -= sizeof(Elf64_Dyn)) {
				dynamic |= FIELD(file, order, from, Elf64_Dyn, d_tag) == DT_NEEDED;
				from += sizeof(Elf64_Dyn);
			}
		if (type != PT_LOAD)
			continue;
		loaded = true;
		cut |= from > file.n || file.n - from < size;
	}
	if (dynamic)
		return "is linked dynamically and would not start in other images; build it with "
		       "musl, see runtime-assets/sources/README.md";
	return loaded && !cut ? NULL : "is incomplete: its end is missing";
}

const char *elf_check_arch(struct span file, struct err *e)
{
	if (file.n < sizeof(Elf64_Ehdr) || memcmp(file.p, ELFMAG, SELFMAG) != 0 ||
	    file.p[EI_CLASS] != ELFCLASS64) {
		(void)err_set(e, 400, NULL, "is not a program (64-bit ELF)");
		return NULL;
	}
	unsigned char order = (unsigned char)file.p[EI_DATA];
	uint64_t type = FIELD(file, order, 0, Elf64_Ehdr, e_type);
	if ((type != ET_EXEC && type != ET_DYN) || !FIELD(file, order, 0, Elf64_Ehdr, e_phnum) ||
	    !FIELD(file, order, 0, Elf64_Ehdr, e_entry)) {
		(void)err_set(e, 400, NULL, "is ELF, but not a program");
		return NULL;
	}
	uint64_t machine = FIELD(file, order, 0, Elf64_Ehdr, e_machine);
	const char *arch = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(ARCHES); i++)
		if (ARCHES[i].machine == machine && ARCHES[i].order == order)
			arch = ARCHES[i].arch;
	const char *wrong = arch ? elf_check_segments(file, order)
	                         : "is for an architecture that Kubernetes does not support";
	if (!wrong)
		return arch;
	(void)err_set(e, 400, NULL, "%s", wrong);
	return NULL;
}

/* Paths of pai-runtime in the build directory and after installation. */
static const char *const PLACES[] = { "pai-runtime", "../lib/rest-lit/pai-runtime" };

/* 0, or -1 and *e: it is of another version.  The file has the text of `pai-runtime version`; one
 * without such a text is somebody else's, and not refused here. */
static int elf_check_version(const char *path, struct err *e)
{
	static const char NAME[] = "pai-runtime ";
	static const char OURS[] = REST_LIT_VERSION ", ";
	STR_AUTO file = STR_INIT(FILE_MAX);
	if (fd_read_str(AT_FDCWD, path, &file) < 0)
		return 0; /* its reader says why */
	for (size_t at = 0; (at = span_find(str_view(&file), at, NAME)) != SIZE_MAX;) {
		at += sizeof(NAME) - 1;
		struct span rest = span_from(str_view(&file), at);
		if (rest.n > sizeof(OURS) && rest.p[0] >= '0' && rest.p[0] <= '9')
			return span_starts(rest, OURS)
			           ? 0
			           : err_set(e, 400, NULL,
			                     "%s has version %.*s, and this program has version "
			                     "%s: install both from one release",
			                     path, (int)strcspn(rest.p, ","), rest.p,
			                     REST_LIT_VERSION);
	}
	return 0;
}

static const char *elf_check_find(struct arena *a, struct err *e)
{
	char self[PATH_ROOM];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
	while (n > 0 && self[n - 1] != '/')
		n--;
	for (size_t i = 0; n > 0 && i < ARRAY_SIZE(PLACES); i++) {
		const char *path = arena_printf(a, "%.*s%s", (int)n, self, PLACES[i]);
		if (access(path, R_OK) == 0)
			return elf_check_version(path, e) == 0 ? path : NULL;
	}
	(void)err_set(e, 400, NULL,
	              "there is no pai-runtime beside this program; give its path with "
	              "--runtime-binary FILE");
	return NULL;
}

static int read_program(const char *path, struct str *file, struct err *e)
{
	FREE_AUTO char *text = NULL;
	size_t n = 0;
	struct stat st;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* reading a pipe would block */
		return err_set(e, 400, NULL, "%s: is not a regular file", path);
	if (file_read_or_stdin(path, FILE_MAX, &text, &n, e) < 0)
		return -1;
	if (n > CONFIGMAP_MAX)
		return err_set(
		    e, 400, NULL,
		    "%s: has %zu bytes, but a ConfigMap has %d at most: strip it, or use "
		    "--runtime=image",
		    path, n, CONFIGMAP_MAX);
	str_put(file, text, n);
	return 0;
}

const char *runtime_program_path(const struct options *o, struct arena *a, struct err *e)
{
	const char *path = o->runtime_binary[0] ? o->runtime_binary : elf_check_find(a, e);
	if (path == o->runtime_binary && strchr(path, ','))
		(void)err_set(e, 400, NULL,
		              "--runtime-binary %s: several files are for --runtime=configmap; on "
		              "this machine, name one",
		              path);
	else if (path && access(path, R_OK | X_OK) != 0)
		(void)err_set(e, 400, NULL, "--runtime-binary %s: %s", path,
		              strerrordesc_np(errno));
	else
		return path;
	return NULL;
}

static int program_load(const char *path, struct arena *a, struct runtime_program *out,
                        struct err *e)
{
	STR_AUTO file = STR_INIT(CONFIGMAP_MAX);
	STR_AUTO base64 = STR_INIT((size_t)2 * CONFIGMAP_MAX);
	char hash[65];
	if (read_program(path, &file, e) < 0)
		return -1;
	out->arch = elf_check_arch(str_view(&file), e);
	if (!out->arch)
		return err_wrap(e, "%s", path);
	for (size_t i = 0; i < ARRAY_SIZE(ARCHES); i++)
		if (strcmp(ARCHES[i].arch, out->arch) == 0)
			out->architecture = ARCHES[i].uname;
	sha256_hex(hash, str_view(&file));
	str_base64(&base64, str_view(&file));
	out->sha256 = arena_dup(a, span_of(hash));
	out->configmap = arena_printf(a, "pai-runtime-%s-%.*s", out->arch, HASH_SHOWN, hash);
	out->base64 = arena_span(a, str_view(&base64));
	return 0;
}

/* Several programs: of different architectures, and an image with a shell that chooses. */
static int programs_check(const struct options *o, const struct settings *s, struct span more,
                          struct err *e)
{
	if (more.n)
		return err_set(e, 400, NULL,
		               "--runtime-binary names more than %d files: one for each of two "
		               "architectures",
		               RUNTIME_PROGRAMS);
	if (s->n_programs < 2)
		return 0;
	if (strcmp(s->program[0].arch, s->program[1].arch) == 0)
		return err_set(e, 400, NULL,
		               "--runtime-binary names two files for %s; each must be for another "
		               "architecture",
		               s->program[0].arch);
	if (!o->runtime_image[0])
		return err_set(e, 400, NULL,
		               "--runtime-binary names files for %s and %s, and a shell in the pod "
		               "chooses one: set --runtime-image to an image for both with "
		               "/bin/sh and uname, for example busybox",
		               s->program[0].arch, s->program[1].arch);
	return 0;
}

static int programs_load(const struct options *o, struct arena *a, struct settings *s,
                         struct err *e)
{
	const char *paths = o->runtime_binary[0] ? o->runtime_binary : elf_check_find(a, e);
	if (!paths)
		return -1;
	struct span rest = span_of(paths);
	bool ended = paths[rest.n - 1] == ',';
	do {
		struct span path = span_trim(span_next(&rest, ','));
		if (path.n == 0 || ended)
			return err_set(e, 400, NULL,
			               "--runtime-binary %s: a name of a file is empty", paths);
		if (program_load(arena_dup(a, path), a, &s->program[s->n_programs], e) < 0)
			return -1;
		s->n_programs++;
	} while (rest.n && s->n_programs < RUNTIME_PROGRAMS);
	return programs_check(o, s, rest, e);
}

int runtime_programs_load(const struct options *o, struct arena *a, struct settings *out,
                          struct err *e)
{
	out->n_programs = 0;
	if (strcmp(o->runtime, "configmap") != 0 || programs_load(o, a, out, e) == 0)
		return 0;
	e->http = 400;
	return err_wrap(e, "--runtime=configmap");
}
