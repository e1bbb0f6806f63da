# rest-lit: the whole build in one file.
#
#   make            build/rest-lit and build/pai-runtime
#   make demo       build, start a server, submit the examples, show the jobs
#   make check      the tests for every change
#   make help       all targets

.DEFAULT_GOAL := all
SHELL := /bin/bash
# One job per core.
MAKEFLAGS += --no-builtin-rules $(if $(filter 0,$(MAKELEVEL)),-j$(shell nproc))

# By default, make prints a short note per step; V=1 prints the commands.
Q := $(if $(V),,@)
note = @$(if $(V),:,printf '  %-4s %s\n' $(1) $(2))

# ---- flavours: release (build/), asan (build/asan), fuzz (build/fuzz), cov (build/cov) ------------
FLAVOUR ?= release
B := $(if $(filter release,$(FLAVOUR)),build,build/$(FLAVOUR))

# make ARCH=arm64 (or amd64) on another machine compiles only pai-runtime, into build/ARCH.
CPU_amd64 := x86_64
CPU_arm64 := aarch64
MACHINE := $(shell dpkg --print-architecture)
ifneq ($(origin ARCH),command line)
ARCH := $(MACHINE)
endif
ifneq ($(ARCH),$(MACHINE))
$(if $(CPU_$(ARCH)),,$(error ARCH=$(ARCH): amd64 and arm64 are supported))
B := build/$(ARCH)
CROSS := $(CPU_$(ARCH))-linux-gnu-
endif

# If it is installed; make CCACHE= does without it.
CCACHE := $(notdir $(shell command -v ccache))
CC := $(strip $(CCACHE) gcc)
# The installed version: 14 in Debian 12, 19 in Debian 13.
CLANG := $(notdir $(firstword $(shell command -v clang-14 clang-19)))
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wold-style-definition -Wwrite-strings -Wcast-qual -Wpointer-arith -Wformat=2 -Wvla \
	-Wundef -Wconversion -Wno-sign-conversion
WARN_GCC := -Wlogical-op -Wduplicated-cond -Warith-conversion
ifdef DEVELOPER
WARN += -Werror
endif
HARDEN := -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection \
	$(if $(filter arm64,$(MACHINE)),-mbranch-protection=standard,-fcf-protection)
LINK_HARDEN := -pie -Wl,--as-needed -Wl,-z,relro,-z,now,-z,noexecstack

# The same bytes in every directory.
SAME_BYTES := -ffile-prefix-map=$(CURDIR)=.
CFLAGS_release := -O2 -g $(HARDEN) $(SAME_BYTES) -fPIE -ftrivial-auto-var-init=zero $(WARN_GCC)
LDFLAGS_release := $(LINK_HARDEN)
CFLAGS_asan := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all \
	-fno-omit-frame-pointer $(WARN_GCC)
LDFLAGS_asan := -fsanitize=address,undefined
# Counters of lines, for make cov.
CFLAGS_cov := -O0 -g1 --coverage -fprofile-update=atomic $(WARN_GCC)
LDFLAGS_cov := --coverage
CFLAGS_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
LDFLAGS_fuzz := -fsanitize=address,undefined
ifeq ($(FLAVOUR),fuzz)
override CC := $(strip $(CCACHE) $(CLANG))
endif

# ---- required packages: packages.txt (before the first call of pkg-config) -----------------
GOALS := $(filter-out clean help dist image runtime-image released slice,$(or $(MAKECMDGOALS),all))
ifneq ($(GOALS),)
SECTIONS := build
SECTIONS += $(if $(CROSS),$(ARCH))
# All targets except the program, demo, install and packages need the test packages.
ifneq ($(filter-out all demo install dist deb repository portable wheel,$(GOALS))$(filter-out release,$(FLAVOUR)),)
SECTIONS += test
endif
SECTIONS += $(if $(filter fuzz check-long,$(GOALS) $(FLAVOUR)),fuzz) $(filter demo bench bench-long deb repository training,$(GOALS)) $(if $(filter portable wheel,$(GOALS)),portable) $(if $(filter check-long,$(GOALS)),long deb repository portable training) $(if $(filter check-long arm64,$(GOALS)),arm64 emulator) $(filter screenshots,$(GOALS))
DEPS := $(shell tests/tools/deps $(SECTIONS) >&2 || echo failed)
ifneq ($(DEPS),)
$(error packages are missing, see above)
endif
endif

# libjwt has two flavours; use the installed one.  Version 3 has other functions (tests/tools/deps).
JWT := $(shell pkg-config --exists 'libjwt-gnutls < 3' 2>/dev/null && echo libjwt-gnutls || echo libjwt)
PKGS_base := yaml-0.1 zlib
PKGS_jobs := jansson
PKGS_k8s := libcurl
PKGS_machine := sqlite3
PKGS_server := libmicrohttpd $(JWT) gnutls jansson
PKGS := $(PKGS_base) $(PKGS_jobs) $(PKGS_k8s) $(PKGS_machine) $(PKGS_server)

CPPFLAGS += -I. -D_GNU_SOURCE -MMD -MP
CFLAGS := -std=gnu17 $(CFLAGS_$(FLAVOUR)) $(WARN) $(CFLAGS)
LDFLAGS := $(LDFLAGS_$(FLAVOUR)) $(LDFLAGS)
CPPFLAGS += $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIBS_base := $(shell pkg-config --libs $(PKGS_base) 2>/dev/null) -lm -lpthread
LIBS_jobs := $(shell pkg-config --libs $(PKGS_jobs) 2>/dev/null)
LIBS_k8s := $(shell pkg-config --libs $(PKGS_k8s) 2>/dev/null)
LIBS_machine := $(shell pkg-config --libs $(PKGS_machine) 2>/dev/null)
LIBS_server := $(shell pkg-config --libs $(PKGS_server) 2>/dev/null)

VERSION := 0.2.0

# ---- layers: one archive per folder; USES lists the layers that a layer may use ----------------
LAYERS := base schema translate jobs k8s machine server runtime-assets
USES_base := base
USES_schema := schema base
USES_translate := translate schema base
USES_jobs := jobs base
USES_k8s := k8s jobs base
USES_machine := machine jobs base
USES_server := server machine k8s jobs translate schema base
USES_runtime-assets := runtime-assets mbedtls base
LIBS_test := $(shell pkg-config --libs jansson 2>/dev/null) -lcmocka
LINK_base := $(LIBS_base)
LINK_schema := $(LIBS_base)
LINK_translate := $(LIBS_base)
LINK_jobs := $(LIBS_jobs) $(LIBS_base)
LINK_k8s := $(LIBS_k8s) $(LINK_jobs)
LINK_machine := $(LIBS_machine) $(LINK_jobs)
LINK_server := $(LIBS_server) $(LIBS_machine) $(LINK_k8s)
LINK_runtime-assets := $(LIBS_base)

sources = $(filter-out %/main.c,$(wildcard $(foreach d,/ /*/ /*/*/,$(addsuffix $(d)*.c,$(1)))))
objects = $(patsubst %.c,$(B)/%.o,$(sources))
archives = $(foreach l,$(USES_$(1)),$(B)/lib$(l).a)

all: $(if $(CROSS),,$(B)/rest-lit) $(B)/pai-runtime

# Thin archives: the linker names the objects that it takes from them.
define LAYER
$(B)/lib$(1).a: $(call objects,$(1))
	$$(call note,AR,$$@)
	@rm -f $$@
	$(Q)ar rcs --thin $$@ $$^
endef
$(foreach l,$(LAYERS),$(eval $(call LAYER,$(l))))

$(B)/%.o: %.c Makefile
	$(call note,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(VERSIONS) $(CFLAGS) -c -o $@ $<

# -MMD does not list files that EMBED() embeds.
$(call objects,schema): $(wildcard schema/*.json)
$(call objects,jobs): $(wildcard jobs/*.txt)
$(call objects,translate): $(wildcard translate/templates/*.yaml translate/templates/*/*.yaml)
$(B)/server/config/exit_spec.o: runtime-assets/k8s-job-exit-spec.yaml
$(B)/server/serve/openapi.o: server/openapi.json
$(B)/server/check/hand_back.o: server/check/framework_1_16.json
$(B)/server/serve/health.o: server/index.txt

# The files of the web page, compressed.  The assembler finds them below $(B).
WEB_EXAMPLES := $(patsubst %,examples/%,hello-world.yaml two-gpus.yaml pytorch-mnist.yaml parameter-server.yaml \
	distributed.yaml out-of-memory.yaml storage-plugins.yaml pytorch-mnist.json tfDemo.json)
$(B)/web/examples.json: server/web/examples.sh $(WEB_EXAMPLES)
	@mkdir -p $(@D)
	$(Q)$^ >$@
# Of scripts and styles: indentation, and comments that have lines of their own.
WEB_DROPPED := -e 's/^[[:blank:]]+//' -e '/^\/\//d' -e '/^\/\*.*\*\/$$$$/d' \
	-e '/^\/\*([^*]|\*[^/])*$$$$/,/\*\/$$$$/d'
define WEB
$(B)/web/$(notdir $(1)).gz: $(1) Makefile
	@mkdir -p $$(@D)
	$(Q)sed -E -e '' $(if $(filter server/web/page/%.js server/web/page/%.css,$(1)),$(WEB_DROPPED)) <$$< | gzip -9n >$$@
endef
WEB_FILES := $(wildcard server/web/page/*.*) server/web/vendor/codemirror.js $(B)/web/examples.json \
	server/web/llms.txt docs/SKILL.md docs/JOBS.md docs/CODES.md
$(foreach f,$(WEB_FILES),$(eval $(call WEB,$(f))))
# One after the other, each behind a line with its name and size.
$(B)/web/files: $(patsubst %,$(B)/web/%.gz,$(notdir $(WEB_FILES))) server/web/page
	$(Q)for f in $(filter %.gz,$^); do basename $$f .gz; stat -c %s $$f; cat $$f; done >$@
$(B)/server/web/web.o: $(B)/web/files
$(B)/server/web/web.o: CPPFLAGS += -Wa,-I$(B)

$(B)/rest-lit: $(B)/server/main.o $(call archives,server)
	$(call note,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LINK_server)

# ---- the static runtime: pai-runtime with musl, one file that runs in any image ----------------
# Debian's archives are for glibc, so its libraries are compiled from runtime-assets/sources (see
# README.md there) and optimized together by the linker.  All output is below $(STATIC).
STATIC := $(B)/static
MUSL := /usr/lib/$(or $(CPU_$(ARCH)),$(shell uname -m))-linux-musl
MUSL_CC := $(strip $(CCACHE) $(if $(CROSS),$(CROSS)gcc -specs=$(MUSL)/musl-gcc.specs,musl-gcc))
STATIC_CFLAGS := -Oz -flto -g -fPIE -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fno-unwind-tables \
	-U_FORTIFY_SOURCE -fstack-protector-strong -fstack-clash-protection
STATIC_OURS = -std=gnu17 $(STATIC_CFLAGS) -ftrivial-auto-var-init=zero $(WARN) $(WARN_GCC) -I. -D_GNU_SOURCE -MMD -MP \
	-isystem $(UNPACKED)/libyaml-0.2.5/include -isystem $(UNPACKED)/zlib-1.2.13.dfsg \
	$(VERSIONS) $(VERSIONS_STATIC)
# The folder that texts name; debian/rules has another.
DOCDIR ?= docs
VERSIONS = -DREST_LIT_VERSION='"$(VERSION)"' -DREST_LIT_DOCS='"$(DOCDIR)"' -DMBEDTLS_VERSION='"$(MBEDTLS_VERSION)"'
VERSIONS_STATIC := -DDROPBEAR_VERSION='"2025.89"' -DMUSL_VERSION='"$(shell dpkg-query -W -f '$${source:Upstream-Version}' musl-dev:$(ARCH) 2>/dev/null)"'

# The sources, verified by the hashes that Debian signs, then unpacked.  Only the patch modifies them.
UNPACKED := $(STATIC)/sources
$(UNPACKED)/checked: $(wildcard runtime-assets/sources/*.orig.tar.*) runtime-assets/sources/SHA256SUMS runtime-assets/sources/mbedtls.patch
	$(call note,TAR,$(@D))
	@cd runtime-assets/sources && sha256sum --quiet --strict -c SHA256SUMS
	@rm -rf $(@D) && mkdir -p $(@D)
	$(Q)for archive in runtime-assets/sources/*.orig.tar.*; do tar -xf $$archive -C $(@D) --exclude='mbedtls-*/tests' || exit; done
	$(Q)patch -s -p1 -d $(MBEDTLS) <runtime-assets/sources/mbedtls.patch
	@touch $@

# mbedTLS is not in Debian 12, so that all flavours compile it.
MBEDTLS_VERSION := 3.6.7
MBEDTLS := $(UNPACKED)/mbedtls-$(MBEDTLS_VERSION)
MBEDTLS_FLAGS := -DMBEDTLS_CONFIG_FILE='"runtime-assets/sources/mbedtls.options"' -iquote $(CURDIR)
$(B)/runtime-assets/net/tls.o: CPPFLAGS += -isystem $(MBEDTLS)/include $(MBEDTLS_FLAGS)
$(STATIC)/runtime-assets/net/tls.o: STATIC_OURS += -isystem $(MBEDTLS)/include $(MBEDTLS_FLAGS)
$(B)/runtime-assets/net/tls.o: $(UNPACKED)/checked
$(B)/libmbedtls.a: $(UNPACKED)/checked runtime-assets/sources/mbedtls.options
	$(call note,CC,$@)
	@rm -rf $(B)/mbedtls $@ && mkdir -p $(B)/mbedtls
	$(Q)cd $(B)/mbedtls && printf '%s\n' $(addprefix $(CURDIR)/$(MBEDTLS)/library/,*.c) | \
		xargs -P$(shell nproc) -n20 $(CC) $(CFLAGS_$(FLAVOUR)) -w $(MBEDTLS_FLAGS) -I$(CURDIR)/$(MBEDTLS)/include -c
	$(Q)ar rcs $@ $(B)/mbedtls/*.o

# VENDORED(name, sources, flags, hot sources): one archive, with a section per function.  The hot
# sources take most of the time and are compiled with -O2.  The archives do not depend on the Makefile:
# after a change of the flags, run `make clean`.
# Z_TESTW=0 omits 8 KiB of CRC tables, which only speed up large files; BUILDFIXED makes another table at
# run time.
define VENDORED
$(STATIC)/lib$(1).a: $(UNPACKED)/checked
	$$(call note,CC,$$@)
	@rm -rf $(STATIC)/$(1) $$@ && mkdir -p $(STATIC)/$(1)
	$(Q)cd $(STATIC)/$(1) && printf '%s\n' $(addprefix ../sources/,$(2)) | \
		xargs -P$(shell nproc) -n20 $(MUSL_CC) $(STATIC_CFLAGS) -w $(3) -c
	$(if $(4),$(Q)cd $(STATIC)/$(1) && $(MUSL_CC) $(STATIC_CFLAGS) -O2 -w $(3) -c $(addprefix ../sources/,$(4)))
	$(Q)$(CROSS)gcc-ar rcs $$@ $(STATIC)/$(1)/*.o
endef
$(eval $(call VENDORED,yaml,libyaml-0.2.5/src/*.c,-I../sources/libyaml-0.2.5/include \
	-DYAML_VERSION_MAJOR=0 -DYAML_VERSION_MINOR=2 -DYAML_VERSION_PATCH=5 -DYAML_VERSION_STRING='"0.2.5"'))
$(eval $(call VENDORED,z,$(patsubst %,zlib-1.2.13.dfsg/%.c,adler32 crc32 deflate inffast inflate inftrees trees zutil),-DHAVE_UNISTD_H -DZ_TESTW=0 -DBUILDFIXED))
$(eval $(call VENDORED,mbedtls,mbedtls-$(MBEDTLS_VERSION)/library/*.c,-I../sources/mbedtls-$(MBEDTLS_VERSION)/include $(MBEDTLS_FLAGS),\
	$(patsubst %,mbedtls-$(MBEDTLS_VERSION)/library/%.c,bignum bignum_core ecp_curves)))
$(STATIC)/libmbedtls.a: runtime-assets/sources/mbedtls.options

# dropbear has sshd, ssh and scp for images without openssh.  Its own makefile compiles it.
DROPBEAR := dropbear-2025.89
# Not the flags of this make: dpkg-buildpackage exports them.
DROPBEAR_ENV := env -u MAKEFLAGS -u MAKELEVEL -u CPPFLAGS -u LDFLAGS -u LIBS AR=$(CROSS)gcc-ar RANLIB=$(CROSS)gcc-ranlib
$(STATIC)/libdropbear.a: $(UNPACKED)/checked $(wildcard runtime-assets/sources/dropbear.*)
	$(call note,CC,$@)
	@rm -rf $(STATIC)/dropbear $@ && mkdir -p $(STATIC)/dropbear
	@cp runtime-assets/sources/dropbear.options $(STATIC)/dropbear/localoptions.h
	$(Q)cd $(STATIC)/dropbear && { $(DROPBEAR_ENV) ../sources/$(DROPBEAR)/configure $(if $(CROSS),--host=$(CROSS:-=)) CC='$(MUSL_CC)' CFLAGS='$(STATIC_CFLAGS) -w' \
		--enable-bundled-libtom --disable-harden --disable-zlib --disable-syslog --disable-loginfunc ac_cv_header_shadow_h=no \
		$(patsubst %,--disable-%,lastlog utmp utmpx wtmp wtmpx pututline pututxline) && \
		$(DROPBEAR_ENV) make -j$(shell nproc) -f Makefile -f $(CURDIR)/runtime-assets/sources/dropbear.mk \
		MULTI=1 'LTM_CFLAGS=$$(CFLAGS)' PROGRAMS='dropbear dbclient scp dropbearconvert' parts; \
		} >log 2>&1 || { tail -n 30 log; exit 1; }
	$(Q)cd $(STATIC)/dropbear && $(CROSS)gcc-ar qcs ../libdropbear.a $$(find . -name '*.o' | sort)

$(STATIC)/%.o: %.c Makefile $(UNPACKED)/checked
	$(call note,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(MUSL_CC) $(STATIC_OURS) -c -o $@ $<

# The functions that take most of the time of a large job.
$(patsubst %,$(STATIC)/base/%.o,doc/json hash doc/doc str): STATIC_OURS += -O2
STATIC_OBJECTS := $(patsubst %.c,$(STATIC)/%.o,$(call sources,base runtime-assets))
STATIC_LIBS := $(patsubst %,$(STATIC)/lib%.a,yaml z mbedtls)
# One partition is 2 KiB smaller than several.  With -static-pie, musl-gcc adds an interpreter to the
# program, so the start files are named here.
STATIC_LINK = $(MUSL_CC) $(STATIC_CFLAGS) -flto-partition=one -static -nostartfiles -o $@ $(MUSL)/rcrt1.o $(MUSL)/crti.o \
	$(shell $(CROSS)gcc -print-file-name=crtbeginS.o) $^ $(shell $(CROSS)gcc -print-file-name=crtendS.o) $(MUSL)/crtn.o \
	-Wl,-Map=$@.map,-pie,--no-dynamic-linker,--gc-sections,-z,noseparate-code,-z,common-page-size=4096,-z,text,-z,relro,-z,now,-z,noexecstack
$(STATIC)/pai-runtime: $(STATIC)/runtime-assets/main.o $(STATIC_OBJECTS) $(STATIC)/libdropbear.a $(STATIC_LIBS)
	$(call note,LD,$@)
	$(Q)$(STATIC_LINK)
# The HTTP client as a program, for tests.
FETCH := tests/runtime/http/fetch.c $(patsubst %,runtime-assets/%.c,net/http net/net net/tls common/files common/say) $(call sources,base)
# `pai-runtime exit` for a table of cases in one process, for tests.
EXPLAIN := tests/runtime/exit/explain.c $(wildcard runtime-assets/exit/*.c runtime-assets/common/*.c) $(call sources,base)
$(STATIC)/fetch: $(FETCH:%.c=$(STATIC)/%.o) $(STATIC_LIBS)
$(STATIC)/explain: $(EXPLAIN:%.c=$(STATIC)/%.o) $(STATIC_LIBS)
$(STATIC)/fetch $(STATIC)/explain:
	$(call note,LD,$@)
	$(Q)$(STATIC_LINK)

RUNTIME_TOOLS := $(B)/tests/runtime/fetch $(B)/tests/runtime/explain
ifeq ($(FLAVOUR),release)
# The files in $(STATIC) keep their symbols, for debuggers.
$(B)/pai-runtime: $(STATIC)/pai-runtime
$(RUNTIME_TOOLS): $(B)/tests/runtime/%: $(STATIC)/%
$(B)/pai-runtime $(RUNTIME_TOOLS):
	@mkdir -p $(@D)
	$(Q)$(CROSS)strip -R .comment -o $@ $<
else
# Sanitizers and fuzzers need glibc and use Debian's libraries.
$(B)/pai-runtime: $(B)/runtime-assets/main.o $(call archives,runtime-assets)
$(B)/tests/runtime/fetch: $(FETCH:%.c=$(B)/%.o) $(B)/libmbedtls.a
$(B)/tests/runtime/explain: $(EXPLAIN:%.c=$(B)/%.o)
$(B)/pai-runtime $(RUNTIME_TOOLS):
	$(call note,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LINK_runtime-assets)
endif

# ---- unit tests: a program per folder, of tests/unit/LAYER/[FOLDER/]test_*.c, linked with its layer only ----
unit_folders = $(patsubst %/,%,$(sort $(dir $(wildcard tests/unit/$(1)/test_*.c tests/unit/$(1)/*/test_*.c))))
define UNIT
$(B)/$(2)/unit: $(patsubst %.c,$(B)/%.o,$(wildcard $(2)/test_*.c)) $(B)/tests/unit/main.o $(call archives,$(1))
	$$(call note,LD,$$@)
	$(Q)$$(CC) $$(CFLAGS) $$(LDFLAGS) -o $$@ $$^ $$(LINK_$(1)) $$(LIBS_test)
endef
$(foreach l,$(LAYERS),$(foreach f,$(call unit_folders,$(l)),$(eval $(call UNIT,$(l),$(f)))))
UNIT_TESTS := $(foreach l,$(LAYERS),$(patsubst %,$(B)/%/unit,$(call unit_folders,$(l))))
# The tests themselves, not what they test: optimizing them takes longer than running them.  The warnings
# that need it come in the other flavours.
ifeq ($(FLAVOUR),release)
$(B)/tests/unit/%.o: CFLAGS += -O0 -U_FORTIFY_SOURCE
endif

# ---- golden, hostile, differential, bench: a program per folder, linked with translate only ---------------
# tests/lib is their common library.
$(B)/libtest.a: $(patsubst %.c,$(B)/%.o,$(wildcard tests/lib/*.c))
	@rm -f $@
	ar rcs $@ $^
TEST_PROGRAMS := golden hostile differential bench
define TEST_PROGRAM
$(B)/tests/$(1)/$(1): $(patsubst %.c,$(B)/%.o,$(wildcard tests/$(1)/*.c)) $(B)/libtest.a $(call archives,translate)
	$$(call note,LD,$$@)
	$(Q)$$(CC) $$(CFLAGS) $$(LDFLAGS) -o $$@ $$^ $$(LINK_translate) $$(LIBS_test)
endef
$(foreach p,$(TEST_PROGRAMS),$(eval $(call TEST_PROGRAM,$(p))))
# Recorded traces against FrameworkController's machine.
$(B)/tests/machine/replay: $(patsubst %.c,$(B)/%.o,$(wildcard tests/machine/*.c)) $(B)/libtest.a $(call archives,jobs)
	$(call note,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LINK_jobs)
# The same against the rules of the controller.
$(B)/tests/controller/traces/traces: $(patsubst %.c,$(B)/%.o,$(wildcard tests/controller/traces/*.c)) $(patsubst %,$(B)/tests/machine/%.o,scene compare symbols trace_file) $(B)/libtest.a $(call archives,k8s)
	$(call note,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LINK_k8s)
# All states of one Framework, with the rules themselves; with few buckets, since each state is copied.
EXPLORE := $(patsubst %.c,$(B)/%.o,$(wildcard tests/controller/explore/*.c)) \
	$(patsubst k8s/controller/%.c,$(B)/tests/controller/explore/%.o,$(wildcard k8s/controller/rules/*.c))
$(EXPLORE): CFLAGS += -O2 -DRULES_BUCKETS=16 -fno-builtin-malloc
$(B)/tests/controller/explore/rules/%.o: k8s/controller/rules/%.c Makefile
	$(call note,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
$(B)/tests/controller/explore/explore: $(EXPLORE) $(call archives,k8s)
	$(call note,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LINK_k8s)
$(B)/tests/machine/traces/unpacked: tests/machine/traces.tar.xz
	$(call note,TAR,$(@D))
	@rm -rf $(@D) && mkdir -p $(@D)
	$(Q)tar -xJf $< -C $(@D)
	@touch $@
# Programs of the controller's tests beside an API server.
$(B)/tests/controller/stand: $(patsubst %.c,$(B)/%.o,$(wildcard tests/controller/stand*.c)) $(call archives,k8s)
$(B)/tests/controller/raw: $(B)/tests/controller/raw.o $(call archives,k8s)
$(B)/tests/controller/stand $(B)/tests/controller/raw:
	$(call note,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LINK_k8s)
TEST_TOOLS := $(B)/tests/machine/replay $(B)/tests/controller/traces/traces $(if $(filter release,$(FLAVOUR)),$(B)/tests/controller/explore/explore) $(B)/tests/controller/stand $(B)/tests/controller/raw $(RUNTIME_TOOLS) $(foreach p,$(TEST_PROGRAMS),$(if $(wildcard tests/$(p)/*.c),$(B)/tests/$(p)/$(p)))
# Static, because these programs must use little memory.
$(B)/tests/bench/measure/measure $(B)/tests/bench/stub/stub: $(B)/%: %.c
	$(call note,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(MUSL_CC) -std=gnu17 -D_GNU_SOURCE -Os -static -Wall -Wextra -o $@ $<

# ---- fuzzing: tests/fuzz/fuzz_*.c ------------------------------------------------------------
# Fuzzers that include runtime headers are linked with the runtime, the others with the server.
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/bin/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZERS_RUNTIME := $(patsubst tests/fuzz/%.c,$(B)/bin/%,$(shell grep -l '"runtime-assets/' tests/fuzz/fuzz_*.c))
define FUZZER
$(2): $(B)/bin/%: tests/fuzz/%.c $(B)/libtest.a $(call archives,$(1)) Makefile
	$$(call note,CC,$$@)
	@mkdir -p $$(@D)
	$(Q)$$(CC) $$(CPPFLAGS) $$(CFLAGS) -fsanitize=fuzzer $$(LDFLAGS) -MF $$@.d -o $$@ $$< $(B)/libtest.a $(call archives,$(1)) $$(LINK_$(1))
endef
$(eval $(call FUZZER,server,$(filter-out $(FUZZERS_RUNTIME),$(FUZZERS))))
$(eval $(call FUZZER,runtime-assets,$(FUZZERS_RUNTIME)))
# All targets in one program, which runs them on files.
REPLAYED := $(patsubst %.c,$(B)/%.o,$(wildcard tests/fuzz/fuzz_*.c))
$(REPLAYED): CPPFLAGS += -DREPLAY
$(B)/tests/fuzz/replay: $(REPLAYED) $(B)/tests/fuzz/replay.o $(B)/libtest.a $(B)/libruntime-assets.a $(B)/libmbedtls.a $(call archives,server)
	$(call note,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LINK_server) $(LIBS_test)

# Benchmarks: memory of many jobs, lists of many jobs, details of a large job.
$(B)/tests/bench/kept/kept: %: %.o $(call archives,machine)
	$(call note,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LINK_k8s)
$(B)/tests/bench/lists/lists $(B)/tests/bench/details/details: %: %.o $(call archives,server)
	$(call note,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LINK_server)

tests: $(UNIT_TESTS) $(TEST_TOOLS) $(B)/tests/bench/stub/stub
fuzzers: $(FUZZERS)
asan:
	$(MAKE) FLAVOUR=asan all tests
.PHONY: all tests fuzzers asan

# ---- targets for users -------------------------------------------------------------------------
help:
	@echo 'make            build/rest-lit, build/pai-runtime'
	@echo 'make ARCH=arm64 pai-runtime for arm64 nodes, in build/arm64 (or ARCH=amd64)'
	@echo 'make demo       build, start the server on a directory, submit the examples'
	@echo 'make check      the tests for every change: 6 minutes on two cores (SUITES="unit http": these alone)'
	@echo 'make check-asan the C programs under AddressSanitizer and UBSan'
	@echo 'make check-long all suites that are not green for this commit: about an hour'
	@echo 'make released   fails unless all suites are green for this commit'
	@echo 'make slice      what CI runs of check-long after this commit (SLICE=0 to 7: another eighth)'
	@echo 'make SUITE      one suite: $(ALL_SUITES)'
	@echo '                TEST=WORD: only tests with WORD in their names (lint: only this file);'
	@echo '                FLAVOUR=asan: under AddressSanitizer and UBSan;'
	@echo '                for example: make http TEST=framing, make unit FLAVOUR=asan TEST=yaml'
	@echo 'make bare/trixie   make demo and make check in a minimal Debian 13; or bare/bookworm'
	@echo 'make debian/trixie make deb in a minimal Debian 13, and the packages in another; or debian/bookworm'
	@echo 'make asan       build the programs and tests with AddressSanitizer and UBSan'
	@echo 'make cov        covered and uncovered lines per folder (SUITES="unit http": of these suites)'
	@echo 'make fuzz       every fuzz target for 60 s (SECONDS=n, TEST=target)'
	@echo 'make golden-update         record the expected translations of the examples again'
	@echo 'make differential-update   record the verdicts of js-yaml and ajv again (needs npm)'
	@echo 'make bench      benchmarks, for docs/BENCH.md; make bench-long: also jobs on this machine'
	@echo 'make bench-machine         jobs on this machine beside bubblewrap, SQLite and Slurm alone'
	@echo 'make pages      generate OPTIONS, ROUTES, TRANSLATION and manifests'
	@echo 'make screenshots           the pictures of docs/PAGE.md'
	@echo 'make image      the image of the server, with docker, podman or buildah (IMAGE=name:tag,'
	@echo '                BASE=debian:12-slim); then docker push, or kind load docker-image'
	@echo 'make runtime-image         the image of pai-runtime (PLATFORMS=linux/amd64,linux/arm64)'
	@echo 'make manifests  build/manifests/install.yaml and try.yaml, for kubectl apply -f (IMAGE=registry/name:tag)'
	@echo 'make fmt        clang-format all C files'
	@echo 'make install    PREFIX=/usr/local, DESTDIR='
	@echo 'make deb        Debian packages in build/deb; make dist: the sources in build/dist'
	@echo 'make repository an apt repository of them in build/repository (KEY=FINGERPRINT, URL=http://HOST/PATH,'
	@echo '                DEBS="bookworm=FOLDER trixie=FOLDER")'
	@echo 'make portable   one file for any Linux with glibc 2.34, in build/portable; make wheel: for pip'
	@echo '                (SOURCES=DIR, of packaging/portable fetch DIR, at the first time; Debian 12)'
	@echo 'As root, make installs missing packages of packages.txt.'
	@echo 'DEVELOPER=1 turns warnings into errors; V=1 shows the commands'

# A line a step; what the compiler says is in a log, which is shown when it fails.
demo:
	@mkdir -p $(B)/logs
	@echo 'rest-lit: compiling ($(B)/logs/make.log has the details)'
	@$(MAKE) all >$(B)/logs/make.log 2>&1 || { tail -n 30 $(B)/logs/make.log; exit 1; }
	@tests/tools/demo $(B)/rest-lit

check:
	tests/tools/check $(SUITES)
check-asan:
	tests/tools/check asan
check-long:
	tests/tools/check long
released:
	tests/tools/check released
slice:
	tests/tools/slice $(SLICE)

# ---- single suites ---------------------------------------------------------------------------
ALL_SUITES := unit machine rules explore controller takeover mutants golden hostile differential replay http e2e runtime arm64 local training page monitoring kill steps trouble upgrade growth soak packages tables tools docs facts lint analyze images layers
NEEDS_unit := $(UNIT_TESTS) $(B)/pai-runtime
NEEDS_machine := $(B)/tests/machine/replay $(B)/tests/machine/traces/unpacked
NEEDS_rules := $(B)/tests/controller/traces/traces $(B)/tests/machine/traces/unpacked
NEEDS_explore := $(B)/tests/controller/explore/explore
NEEDS_mutants := $(NEEDS_machine) $(NEEDS_rules) $(NEEDS_explore) $(B)/tests/unit/main.o $(call archives,server)
$(foreach p,golden hostile differential,$(eval NEEDS_$(p) := $(B)/tests/$(p)/$(p)))
NEEDS_replay := $(B)/tests/fuzz/replay
NEEDS_growth := $(B)/rest-lit
NEEDS_soak := $(B)/rest-lit $(B)/tests/bench/stub/stub
$(foreach s,http e2e runtime arm64 local training page monitoring kill steps trouble upgrade packages pages tables docs images,$(eval NEEDS_$(s) := all))
NEEDS_runtime += $(RUNTIME_TOOLS)
NEEDS_layers := all
NEEDS_fuzz := $(FUZZERS)
ALL_SUITES += modern controller-modern
NEEDS_modern := all
$(foreach s,controller controller-modern takeover,$(eval NEEDS_$(s) := all $(B)/tests/controller/stand))

IN_FLAVOUR := unit machine rules controller takeover golden hostile differential replay http e2e runtime local kill steps trouble soak
define SUITE
needs-$(1): $$(NEEDS_$(1))
$(1): needs-$(1)
	TEST='$(TEST)' tests/tools/suites $(if $(filter $(IN_FLAVOUR),$(1)),$(if $(filter asan,$(FLAVOUR)),asan/))$(1)
.PHONY: needs-$(1) $(1)
endef
$(foreach s,$(ALL_SUITES),$(eval $(call SUITE,$(s))))
needs-pages: $(NEEDS_pages)
needs-fuzz: $(NEEDS_fuzz)
needs-portable: all
bare/bookworm bare/trixie debian/bookworm debian/trixie:
	tests/tools/suites $@

# Record the translations of the examples again and show the differences.
golden-update: $(NEEDS_golden)
	$(B)/tests/golden/golden --update
	git --no-pager diff --stat -p -- tests/golden/examples

fmt:
	@command -v clang-format-14 >/dev/null || { echo "make fmt needs clang-format-14 (Debian 12)"; exit 1; }
	clang-format-14 -i $(wildcard */*.[ch] */*/*.[ch] k8s/*/*/*.[ch] tests/*/*/*.[ch] tests/*/*/*/*.[ch])

SECONDS ?= 60
fuzz:
	$(MAKE) FLAVOUR=fuzz fuzzers
	tests/tools/fuzz $(SECONDS) $(TEST)

# Only this test needs js-yaml and ajv, from npm in the versions of the lock file.
NPM := build/differential
differential-update: $(NEEDS_differential)
	@mkdir -p $(NPM)
	cp tests/differential/package*.json $(NPM)
	npm ci --prefix $(NPM) --ignore-scripts --no-audit --no-fund
	B=$(B) tests/differential/run record
	B=$(B) tests/differential/run live

# Lines that run, in programs of their own.
cov: SUITES ?= unit
cov:
	tests/tools/cov build/cov $(SUITES)

bench: all tests $(B)/tests/bench/measure/measure $(B)/tests/bench/lists/lists $(B)/tests/bench/details/details $(B)/tests/bench/kept/kept
	tests/tools/bench

# Ten minutes: real jobs on this machine, a browser.
bench-long: bench all
	tests/tools/bench long

# Real jobs beside bubblewrap and SQLite alone, and beside 64 000 that have ended.
bench-machine: all $(B)/tests/bench/bench
	tests/tools/bench machine

pages: all
	tests/tools/pages write

# The pictures of docs/PAGE.md, from a real browser.
screenshots: all
	tests/page/screenshots

# They compile in a container.  The runtime's name is the same as in translate/job/settings.h.
image: IMAGE ?= rest-lit:$(VERSION)
runtime-image: IMAGE ?= rest-lit/pai-runtime:$(VERSION)
image runtime-image:
	tests/tools/image $(if $(filter image,$@),server,runtime) $(IMAGE) $(VERSION)

# What a release has for kubectl apply -f.
manifests: IMAGE ?= rest-lit:$(VERSION)
manifests:
	packaging/manifests $(IMAGE) $(VERSION) build/manifests
	@ls build/manifests/*.yaml

# ---- installing, packages -----------------------------------------------------------------------
# The manual pages, from the tables of commands and options: rest-lit(1), rest-lit-submit(1), ...
$(B)/pages/man: $(B)/rest-lit
	@rm -rf $@ && mkdir -p $@.new
	$(Q)$< page man >$@.new/rest-lit.1 && for command in $$($< complete '' | cut -f 1); do \
		$< page man $$command >$@.new/rest-lit-$$command.1 || exit; done && mv $@.new $@

# Units and examples name /usr/bin, /etc and /var.  A changed configuration is not replaced.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
UNITS := rest-lit.service rest-lit-local.service
ZSH := $(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
put = install -D -m $(1) $(2) $(DESTDIR)$(PREFIX)/$(3)
install: all $(B)/pages/man
	$(call put,755,$(B)/rest-lit,bin/rest-lit)
	$(call put,755,$(B)/pai-runtime,bin/pai-runtime)
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 && install -m 644 $(B)/pages/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	$(call put,644,packaging/pai-runtime.1,share/man/man1/pai-runtime.1)
	$(call put,644,packaging/pai-runtime.apparmor,share/pai-runtime/apparmor)
	$(call put,644,packaging/completion.bash,share/bash-completion/completions/rest-lit)
	$(call put,644,packaging/completion.zsh,share/zsh/$(ZSH)/_rest-lit)
	$(call put,644,packaging/completion.fish,share/fish/vendor_completions.d/rest-lit.fish)
	for unit in $(UNITS); do $(call put,644,packaging/$$unit,lib/systemd/system/$$unit) && \
		sed -i 's,/usr/bin/,$(PREFIX)/bin/,' $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit || exit; done
	$(call put,644,packaging/rest-lit.sysusers,lib/sysusers.d/rest-lit.conf)
	for file in cluster local; do [ -e $(DESTDIR)$(SYSCONFDIR)/rest-lit/$$file.yaml ] || \
		install -D -m 644 packaging/$$file.yaml $(DESTDIR)$(SYSCONFDIR)/rest-lit/$$file.yaml || exit; done
	for file in $(wildcard examples/*.*); do $(call put,644,$$file,share/doc/rest-lit/$$file) || exit; done

# ---- the one file, with all libraries but the C library inside, and the wheel: any Linux with glibc 2.34 ----
# The same objects as in rest-lit.  SOURCES=DIR: what packaging/portable compiles, once.
PORTABLE := $(B)/portable
PORTABLE_OBJECTS := $(B)/server/main.o $(call archives,server)
PORTABLE_NAME := rest-lit-$(VERSION)-linux-$(ARCH)
STAMP = $(shell dpkg-parsechangelog -S Timestamp)
$(PORTABLE)/rest-lit: $(PORTABLE_OBJECTS) $(wildcard packaging/portable*) $(B)/pai-runtime
	$(Q)OBJECTS='$(abspath $(PORTABLE_OBJECTS))' CC='$(CC)' CFLAGS='-O2 $(HARDEN) $(SAME_BYTES) -fPIC -ffunction-sections -fdata-sections' \
		packaging/portable libraries '$(abspath $(SOURCES))' $(PORTABLE)
	$(call note,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -Wl,--gc-sections -o $@.linked $(PORTABLE_OBJECTS) $(PORTABLE)/libraries.o -lm -lpthread
	$(Q)packaging/portable check $@.linked
	@cp --remove-destination $(B)/pai-runtime $(PORTABLE)
	$(Q)strip -R .comment -o $@.new $@.linked && mv $@.new $@
# Beside the programs: licences and notices.
$(PORTABLE)/$(PORTABLE_NAME).tar.gz: $(PORTABLE)/rest-lit LICENSE docs/NOTICES.md
	@rm -rf $(PORTABLE)/$(PORTABLE_NAME) && mkdir $(PORTABLE)/$(PORTABLE_NAME)
	@cp -r $(PORTABLE)/rest-lit $(PORTABLE)/pai-runtime $(PORTABLE)/licences LICENSE docs/NOTICES.md $(PORTABLE)/$(PORTABLE_NAME)
	$(Q)tar -C $(PORTABLE) --create --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s --mtime=@$(STAMP) $(PORTABLE_NAME) | gzip -9n >$@
portable: $(PORTABLE)/$(PORTABLE_NAME).tar.gz
	@ls $(PORTABLE)/rest-lit $(PORTABLE)/pai-runtime $^
wheel: portable
	$(Q)SOURCE_DATE_EPOCH=$(STAMP) packaging/wheel $(VERSION) manylinux_2_34_$(CPU_$(ARCH)) $(PORTABLE)/$(PORTABLE_NAME) $(PORTABLE)

# The sources, as one file whose bytes depend on nothing else.
DIST := rest-lit-$(VERSION)
dist:
	@mkdir -p build/dist
	$(Q){ git ls-files 2>/dev/null || find . -not -type d -not -path './build/*' -printf '%P\n'; } | LC_ALL=C sort | \
		tar --create --files-from=- --transform='s,^,$(DIST)/,S' --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
			--mtime="$$(dpkg-parsechangelog -S Date)" | gzip -n >build/dist/$(DIST).tar.gz
	@echo build/dist/$(DIST).tar.gz

# The packages for this Debian release, from the sources of dist.
deb: dist
	rm -rf build/deb && mkdir -p build/deb
	tar -xf build/dist/$(DIST).tar.gz -C build/deb
	[ ! -d build/manifests ] || cp -r build/manifests build/deb/$(DIST)/debian
	cd build/deb/$(DIST) && env -u MAKEFLAGS -u MAKELEVEL dpkg-buildpackage -b -uc -us >../build.log 2>&1 || { tail -n 30 ../build.log; exit 1; }
	rm -rf build/deb/$(DIST)
	@ls build/deb/*.deb

# An apt repository of them: DEBS='CODENAME=FOLDER ...', KEY and URL as packaging/repository says.
DEBS ?= $(shell . /etc/os-release && echo $$VERSION_CODENAME)=build/deb
repository: $(filter deb,$(MAKECMDGOALS))
	packaging/repository build/repository $(DEBS)

clean:
	rm -rf build

.PHONY: help demo check check-asan check-long released slice golden-update differential-update screenshots bare/bookworm bare/trixie debian/bookworm debian/trixie needs-pages needs-fuzz needs-portable fmt fuzz cov bench bench-long bench-machine pages image runtime-image manifests install dist deb repository portable wheel clean

-include $(shell find $(B) -path $(B)/kit -prune -o -path $(B)/old -prune -o -path $(B)/portable -prune -o -path $(B)/release -prune -o -type f -name '*.d' -print 2>/dev/null)
