# dit.h. The header needs no build; this file builds what stands around it.
#   make            build/dit (the command line program) and the tools
#   make image      a first picture, build/image.png; installs what is missing first (as root or with sudo)
#   make test       what CI runs;  make test NAMES="gguf kernels"  only these;  make test-all  the full sweeps, resumable
#   make check      dit.h in step with src/, warnings, symbols, budgets, README;  make check-pages  docs/ and prose alone
#   make tidy       formats the C and brings dit.h up to date, before a commit
#   make fuzz       each parser, FUZZ_SECONDS=2
#   make gpus       compiles every kernel with the drivers of GPUs that are not here; GPUS="dg2 bmg" these alone
#   make shaders    SPIR-V from shaders/ (needs glslang);  make clean
#   make cards      the tables of what fits which card, in README.md and docs; make check-cards compares them
#   make godot      the extension for Godot 4: build/godot/dit-godot.zip, and a demo (CC= another compiler adds its system)
#   make install PREFIX=/usr/local;  make lib, make install-lib  the shared library, for pkg-config, CMake and Python; with
#                   LIBDIR=lib64 where the system has it so, CC=x86_64-w64-mingw32-gcc for Windows

CC       = cc
CFLAGS   = -O2
PREFIX   = /usr/local
LIBDIR   = lib
FUZZ_SECONDS = 2
NAMES    =
GPUS     =

COMPILE  = $(CC) -std=gnu99 -Wall -Wextra -I. $(SUPPORT)
SUPPORT  = -Isrc -Itests -Itests/support
LIBS     = -lm -ldl -lpthread
# Linked as C++, so that what drivers and layers allocate with new is seen as theirs. Not optimised: the optimizer takes
# five times as long over what the sanitizers insert.
SANITIZE = clang++ -x c -std=gnu99 -I. $(SUPPORT) -Wno-unused-function -gline-tables-only \
           -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
JOBS     = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell getconf _NPROCESSORS_ONLN))

SOURCES  = $(patsubst %,src/%,$(shell sed 's/\#.*//' src/ORDER))
# A test is tests/ROOM/NAME.c, and no other room has one of that name.
WRITTEN  = $(filter-out tests/drivers/%,$(wildcard tests/*/*.c))
HEADERS  = $(wildcard tests/*/*.h)
TESTS    = $(filter-out fuzz_%,$(basename $(notdir $(WRITTEN))))
SANITIZED = $(filter $(TESTS),$(basename $(notdir $(shell grep -L 'test-runs:' $(WRITTEN); \
               grep -l 'test-runs:$(if $(filter test-all,$(MAKECMDGOALS)),.,[a-z0-9 ])*sanitize' $(WRITTEN)))))
vpath %.c $(sort $(dir $(WRITTEN)))
# These tests compute so much themselves that gcc's better code pays for the time of compiling it; drivers do the work
# of the others, which clang, where it is installed, compiles in less than half of the time.
QUICK   := $(shell command -v clang >/dev/null && echo clang || echo $(CC))
COMPUTING = attention bench golden int8 kernels kernels_rows layers model split_matrix text w8a8
FUZZERS  = $(addprefix build/fuzz/,$(filter fuzz_%,$(basename $(notdir $(WRITTEN)))))
PROGRAMS = $(patsubst examples/cli/txt2img.c,build/dit,$(wildcard examples/cli/txt2img.c)) \
           $(patsubst examples/%.c,build/%,$(wildcard examples/minimal.c)) \
           $(patsubst tools/%.c,build/%,$(wildcard tools/dit-*.c))

all: $(PROGRAMS)
	@:
$(PROGRAMS): | needs
needs:
	@sh tools/setup.sh list

# dit.h is compiled once, with its internal functions for the tests that call them; each program is linked with what it
# calls. A test may have a file of src/ within itself (tests/support/library.h): its functions are taken then, so that
# gcc must not assume which registers the library's own leave alone (-fno-ipa-ra).
ALONE    = $(if $(findstring clang,$(shell $(CC) --version)),,-fno-ipa-ra)
LINKED   = -Wno-unused-function
PROGRAM  = $(LINKED) -include library.h
LINK     = -Wl,--gc-sections $(LIBS)
build/library.c: Makefile
	@mkdir -p $(@D) && printf '#define DIT_IMPLEMENTATION\n#define DIT_INTERNAL extern\n#include "dit.h"\n' >$@
build/library.o: build/library.c dit.h
	$(COMPILE) $(CFLAGS) $(ALONE) -ffunction-sections -c $< -o $@
build/asan/library.o: build/library.c dit.h
	@mkdir -p $(@D) && echo '  $@'
	@$(SANITIZE) -O0 -fsanitize=fuzzer-no-link -c $< -o $@
build/dit: examples/cli/txt2img.c $(wildcard examples/cli/*.h) build/page.inc build/library.o
	$(COMPILE) $(CFLAGS) $(PROGRAM) $< build/library.o -o $@ $(LINK)
build/dit-%: tools/dit-%.c $(wildcard tools/*.h tools/*.inc tools/convert/*.h) examples/cli/programs.h build/library.o
	$(COMPILE) $(CFLAGS) $(PROGRAM) $< build/library.o -o $@ $(LINK)
# dit-compare does what dit does, with fewer libraries, and writes a page with its plots.
build/dit-compare: build/compare_page.inc $(wildcard examples/cli/*.h) examples/cli/txt2img.c
build/dit-compare: LINKED += -Ibuild
build/compare_page.inc: $(wildcard tools/compare/*)
	@mkdir -p $(@D)
	@for part in page:page.html sheet_page:sheet.html license:LICENSE plot_style:uPlot.min.css plot_script:uPlot.iife.min.js; do \
	    echo "static const unsigned char compare_$${part%%:*}[] = {"; od -An -v -tx1 tools/compare/$${part##*:} | sed 's/ \(..\)/0x\1,/g'; echo "0};"; \
	done >$@
# README's program, and dit.h as everyone has it.
build/minimal: examples/minimal.c dit.h
	$(COMPILE) -O1 $< -o $@ $(LIBS)
# The engine: with a window where GLFW is, with VMA where its header is.
VMA      = $(firstword $(wildcard /usr/include/vk_mem_alloc.h /usr/include/vma/vk_mem_alloc.h build/vma/vk_mem_alloc.h))
build/engine: $(wildcard examples/engine/*) build/library.o
	$(if $(VMA),c++ -std=c++17 -w -O1 -I$(dir $(VMA)) -c examples/engine/memory.cpp -o build/engine_memory.o)
	$(COMPILE) $(CFLAGS) $(LINKED) $(if $(VMA),-DENGINE_VMA) \
	    $$(pkg-config --exists glfw3 2>/dev/null && echo -DENGINE_WINDOW $$(pkg-config --cflags glfw3)) $(wildcard examples/engine/*.c) \
	    build/library.o $(if $(VMA),build/engine_memory.o -lstdc++) -o $@ $(LINK) -lvulkan \
	    $$(pkg-config --exists glfw3 2>/dev/null && pkg-config --libs glfw3)
# VMA's header from Debian unstable, where the distribution has none: for the full tests, which do without where it cannot be had.
vma:
	@[ -n "$(VMA)" ] || { sh tools/newest.sh unpack unstable build/vma/root libvulkan-memory-allocator-dev && \
	    mv build/vma/root/usr/include/vk_mem_alloc.h build/vma/; rm -rf build/vma/root; }
build/realtime: examples/realtime.c $(wildcard examples/engine/*) build/library.o
	$(COMPILE) $(CFLAGS) $(LINKED) examples/realtime.c examples/engine/renderer.c examples/engine/device.c build/library.o -o $@ $(LINK) -lvulkan
# Programs that write clips: with animated WebP where libwebp is.
WEBP     = libwebpmux libwebpdemux libwebp
build/clip build/tests/clips build/asan/clips: LINKED += $(shell pkg-config --exists $(WEBP) 2>/dev/null && echo -DDIT_WEBP && pkg-config --cflags $(WEBP))
build/clip build/tests/clips build/asan/clips: LIBS += $(shell pkg-config --libs $(WEBP) 2>/dev/null)
# The command line program has more where the distribution's libraries are: WebP, JPEG, Sixel, a prompt with history, JSON
# that is read, and the server, with its page. A missing one is refused in a sentence.
define optional
$(if $(shell pkg-config --exists $(2) 2>/dev/null && echo yes),$(1)_FLAGS := -D$(1) $(shell pkg-config --cflags $(2))
$(1)_LIBS := $(shell pkg-config --libs $(2)))
endef
OPTIONAL = DIT_WEBP DIT_JPEG DIT_SIXEL DIT_EDIT DIT_JSON DIT_HTTP
$(eval $(call optional,DIT_WEBP,$(WEBP)))
$(eval $(call optional,DIT_JPEG,libjpeg))
$(eval $(call optional,DIT_SIXEL,libsixel))
$(eval $(call optional,DIT_EDIT,libedit))
$(eval $(call optional,DIT_JSON,jansson))
$(eval $(call optional,DIT_HTTP,libmicrohttpd))
build/dit build/asan/dit: LINKED += $(foreach part,$(OPTIONAL),$($(part)_FLAGS)) -Ibuild
build/dit build/asan/dit: LIBS += $(foreach part,$(OPTIONAL),$($(part)_LIBS))
# A machine that lacks those libraries gets one that asks for none (tools/gpu-day.sh).
build/alone/dit: LINKED += -Ibuild
build/alone/dit: examples/cli/txt2img.c $(wildcard examples/cli/*.h) build/page.inc build/library.o
	@mkdir -p $(@D)
	$(COMPILE) $(CFLAGS) $(PROGRAM) $< build/library.o -o $@ $(LINK)
build/page.inc: examples/cli/page.html
	@mkdir -p $(@D) && od -An -v -tx1 $< | sed 's/ \(..\)/0x\1,/g' >$@
build/asan/dit: examples/cli/txt2img.c $(wildcard examples/cli/*.h) build/page.inc build/asan/library.o
	@echo '  $@'
	@$(SANITIZE) $(PROGRAM) $< -x none build/asan/library.o -o $@ $(LIBS)
build/tests/clips build/asan/clips: $(wildcard examples/cli/*.h)
build/clip: examples/clip.c $(wildcard examples/cli/*.h) build/library.o
	$(COMPILE) $(CFLAGS) $(PROGRAM) $(LINKED) -Iexamples $< build/library.o -o $@ $(LINK)
build/mpi_split: examples/mpi_split.c build/library.o
	PATH=$$PATH:/usr/lib64/openmpi/bin:/usr/lib64/mpi/gcc/openmpi4/bin mpicc -std=gnu99 -Wall -Wextra -I. $(SUPPORT) $(CFLAGS) $(PROGRAM) $< build/library.o -o $@ $(LINK)
# The tables of what fits which card, in the pages of families and in README.md: made from headers of made-up files.
build/cards: tools/cards.c $(HEADERS) build/library.o
	$(COMPILE) -O1 $< build/library.o -o $@ $(LINK)
cards: build/cards
	@build/cards write $$(grep -l '<!-- cards: ' README.md BENCHMARKS.md docs/*.md)
check-cards: build/cards
	@build/cards check $$(grep -l '<!-- cards: ' README.md BENCHMARKS.md docs/*.md)
build/tests/%: %.c $(HEADERS) build/library.o
	@mkdir -p $(@D) && echo '  $@'
	@$(if $(filter $*,$(COMPUTING)),$(COMPILE) -O1,$(COMPILE:$(CC)%=$(QUICK)%) -O0) $(LINKED) $< build/library.o -o $@ -Wl,-z,muldefs $(LINK)
build/asan/%: %.c $(HEADERS) build/asan/library.o
	@echo '  $@'
	@$(SANITIZE) $(LINKED) $< -x none build/asan/library.o -o $@ -Wl,-z,muldefs $(LIBS)
build/tests/bench build/asan/bench: tools/dit-bench.c $(wildcard tools/*.h tools/*.inc) examples/cli/programs.h
build/tests/plan build/asan/plan: tools/dit-plan.c $(wildcard tools/*.h) examples/cli/programs.h
build/tests/convert build/asan/convert build/tests/w8a8 build/tests/calibrate build/asan/calibrate: tools/dit-convert.c $(wildcard tools/convert/*.h) examples/cli/programs.h
# Quantized bytes are float sums in an order that is part of the format.
build/tests/compare build/asan/compare: tools/compare_stats.h
build/dit-convert build/tests/convert build/asan/convert build/tests/w8a8 build/tests/calibrate build/asan/calibrate: LINKED += -ffp-contract=off
build/dit-convert: LINKED += -O3
build/tests/terminal build/asan/terminal: LIBS += -lutil
build/tests/cli build/tests/parameters build/asan/parameters build/fuzz/fuzz_picture build/fuzz/fuzz_parameters build/fuzz/fuzz_frames: \
    $(wildcard examples/cli/*.h)
build/fuzz/fuzz_%: fuzz_%.c $(HEADERS) build/asan/library.o
	@mkdir -p $(@D) && echo '  $@'
	@$(SANITIZE) -O1 -fsanitize=fuzzer $< -x none build/asan/library.o -o $@ $(LIBS)

# Written only when the text changes, so that a fresh clone does not rebuild everything.
dit.h: build/amalgamate src/ORDER $(SOURCES)
	@build/amalgamate src/ORDER $@
build/amalgamate build/spirv: build/%: tools/%.c
	@mkdir -p build
	@$(CC) -std=c99 -O1 $< -o $@

setup:
	@sh tools/setup.sh test
# Before each commit: no commit of its own for formatting or for dit.h.
tidy: build/amalgamate
	@find src examples tools tests -name '*.[ch]' -exec clang-format -i {} +
	@for shader in shaders/*.comp shaders/*.glsl; do \
	    clang-format --assume-filename=$$shader.c <$$shader >build/shader && cp build/shader $$shader; done
	@$(MAKE) --no-print-directory dit.h
image:
	@sh tools/setup.sh image
	@$(MAKE) --no-print-directory build/dit
	build/dit --prompt "fox, fluent style on a purple background" -o build/image.png
# Two seconds that loop, as an animated PNG, as raw frames, and as MP4 where ffmpeg is.
clip:
	@sh tools/setup.sh image
	@$(MAKE) --no-print-directory build/clip
	build/clip -o build/clip.apng -o build/clip.y4m $$(command -v ffmpeg >/dev/null && echo -o build/clip.mp4) \
	    "fox, fluent style on a purple background" "orca, fluent style on a teal background" "unicorn, fluent style on a orange background"
test test-all: build/amalgamate build/spirv
	@sh tools/setup.sh $@
	@$(if $(filter test-all,$@),$(MAKE) --no-print-directory vma || :)
	@$(MAKE) --no-print-directory $(JOBS) all $(if $(filter test-all,$@),build/asan/dit) build/mpi_split build/engine build/realtime build/clip $(TESTS:%=build/tests/%) $(SANITIZED:%=build/asan/%) $(FUZZERS)
	@$(if $(filter test-all,$@),DIT_TEST_ALL=1) FUZZ_SECONDS=$(FUZZ_SECONDS) sh tests/run.sh $(NAMES)
check check-sync check-pages: build/amalgamate build/spirv build/compare_page.inc
	@sh tools/check.sh $(@:check-%=%)
fuzz: $(FUZZERS)
	@sh tests/fuzz.sh $(FUZZ_SECONDS)
build/feigned: tools/feigned.c $(wildcard tools/*.h tools/*.inc) examples/cli/programs.h dit.h
	@mkdir -p $(@D) && echo '  $@'
	@$(COMPILE) -O1 -DDIT_API=static -Wno-unused-function $< -o $@ $(LIBS)
gpus: build/feigned
	@sh tools/feigned.sh gpus $(GPUS) || { [ $$? = 77 ] && echo "make gpus: skipped, nothing was compiled"; }
shaders: build/spirv
	@sh tools/setup.sh shaders
	build/spirv build shaders src/vk/spirv.inc src/vk/kernels.h
	@for kind in vert frag; do \
	    glslangValidator -V --target-env vulkan1.3 -Os --vn cube_$$kind examples/engine/cube.$$kind -o build/cube_$$kind.inc >/dev/null || exit 1; done
	@{ echo '/* Made by make shaders from cube.vert and cube.frag. */'; \
	    sed -e '/^[[:space:]]*\/\//d' -e '/#pragma/d' -e 's/^const/static const/' build/cube_vert.inc build/cube_frag.inc; } >examples/engine/shaders.inc
	@$(MAKE) --no-print-directory dit.h
# The shared library. Until version 1 its name has the minor version: structs may grow with it. A patch changes none.
VERSION  = $(shell sed -n 's,.*define DIT_VERSION.*/\* \(.*\) \*/.*,\1,p' dit.h)
ABI      = $(basename $(VERSION))
MACHINE  = $(shell $(CC) -dumpmachine)
WINDOWS  = $(findstring mingw,$(MACHINE))$(findstring windows,$(MACHINE))
# Each cross compiler has a folder, so that none takes what another made for made.
LIBRARY  = build/lib/$(if $(findstring -,$(CC)),$(MACHINE)/)$(if $(WINDOWS),dit.dll,libdit.so.$(VERSION))
LINK_LIBRARY = -fPIC -fvisibility=hidden '-DDIT_API=__attribute__((visibility("default")))' -Wl,-soname,libdit.so.$(ABI) -Wl,-z,defs $(LIBS)
LINK_DLL = '-DDIT_API=__declspec(dllexport)' -static -Wl,--out-implib,$(@D)/libdit.dll.a
lib: $(LIBRARY)
$(LIBRARY): dit.h
	@mkdir -p $(@D)
	$(CC) -std=gnu99 $(CFLAGS) -DDIT_IMPLEMENTATION -shared -x c $< -x none -o $@ $(if $(WINDOWS),$(LINK_DLL),$(LINK_LIBRARY))
	@$(if $(WINDOWS),:,cd $(@D) && ln -sf libdit.so.$(VERSION) libdit.so.$(ABI) && ln -sf libdit.so.$(ABI) libdit.so)
# Folders may have spaces in their names, and begin with the ~ that some shells leave in PREFIX=~/.local.
FOLDER   = $(if $(filter ~/%,$(firstword $(PREFIX))),$(patsubst ~/%,$(HOME)/%,$(PREFIX)),$(PREFIX))
INTO     = '$(DESTDIR)$(FOLDER)'
install-lib: $(LIBRARY)
	install -d $(addprefix $(INTO)/,include $(LIBDIR)/pkgconfig $(LIBDIR)/cmake/dit share/dit $(if $(WINDOWS),bin))
	install -m 644 dit.h $(INTO)/include
	install -m 755 $(LIBRARY) $(INTO)/$(if $(WINDOWS),bin,$(LIBDIR))
	cp -P $(dir $(LIBRARY))libdit$(if $(WINDOWS),.dll.a,.so $(dir $(LIBRARY))libdit.so.$(ABI)) $(INTO)/$(LIBDIR)
	@for file in pkgconfig/dit.pc cmake/dit/ditConfig.cmake cmake/dit/ditConfigVersion.cmake; do \
	    sed 's|@PREFIX@|$(FOLDER)|; s|@LIBDIR@|$(LIBDIR)|; s,@VERSION@,$(VERSION),; s,@ABI@,$(ABI),; s,@MAJOR@,$(word 1,$(subst ., ,$(VERSION))),; s,@MINOR@,$(word 2,$(subst ., ,$(VERSION))),' \
	        tools/package/$${file##*/}.in >$(INTO)/$(LIBDIR)/$$file; done
	install -m 644 examples/python/dit.py examples/csharp/dit.cs $(INTO)/share/dit
install: $(PROGRAMS)
	install -d $(addprefix $(INTO)/,include bin share/dit)
	install -m 644 dit.h $(INTO)/include
	install -m 755 $(filter build/dit%,$(PROGRAMS)) $(INTO)/bin
	install -m 644 $(wildcard models/*.gguf) $(INTO)/share/dit
	install -d $(addprefix $(INTO)/share/dit/,clip t5)
	install -m 644 $(wildcard models/clip/*) $(INTO)/share/dit/clip
	install -m 644 $(wildcard models/t5/*) $(INTO)/share/dit/t5
	install -d $(addprefix $(INTO)/share/,man/man1 bash-completion/completions zsh/site-functions fish/vendor_completions.d)
	build/dit --man >$(INTO)/share/man/man1/dit.1
	build/dit --completion bash >$(INTO)/share/bash-completion/completions/dit
	build/dit --completion zsh >$(INTO)/share/zsh/site-functions/_dit
	build/dit --completion fish >$(INTO)/share/fish/vendor_completions.d/dit.fish
# Godot's extension. The header of its interface comes from Godot itself, whichever is there; the zip has the libraries of
# all compilers that this was called with.
GODOT    = $(firstword $(shell command -v godot4 || command -v godot) $(CURDIR)/tools/newest.sh)
ARCH     = $(patsubst aarch64,arm64,$(firstword $(subst -, ,$(MACHINE))))
EXTENSION = build/godot/bin/$(if $(findstring mingw,$(MACHINE)),dit_godot.windows.$(ARCH).dll,$(if $(findstring \
                darwin,$(MACHINE)),libdit_godot.macos.dylib,libdit_godot.linux.$(ARCH).so))
build/godot/gdextension_interface.h:
	@mkdir -p $(@D)
	@run() { $(if $(findstring newest.sh,$(GODOT)),sh $(GODOT) godot,$(GODOT)) --headless "$$@"; }; run --version && \
	    cd $(@D) && run --dump-gdextension-interface
$(EXTENSION): build/godot/gdextension_interface.h dit.h $(wildcard examples/godot/*.[ch])
	@mkdir -p $(@D)
	$(CC) -std=gnu99 -O1 -fPIC -fvisibility=hidden -I. -Ibuild/godot -shared $(wildcard examples/godot/*.c) -o $@ \
	    $(if $(findstring mingw,$(MACHINE)),-I$$(sh tools/newest.sh headers) -static -lpthread,$(LIBS))
godot: $(EXTENSION)
	@rm -rf build/godot/demo build/godot/dit-godot.zip && mkdir -p build/godot/demo/models
	@cp -R examples/godot/demo/* examples/godot/addons build/godot/demo/ && cp -R build/godot/bin build/godot/demo/addons/dit/
	@cp examples/godot/README.md LICENSE build/godot/demo/addons/dit/ && cp models/emoji-q8_0.gguf build/godot/demo/models/
	@cd build/godot/demo && zip -qr ../dit-godot.zip addons && echo build/godot/dit-godot.zip, demo: build/godot/demo
clean:
	rm -rf build

.PHONY: all cards check-cards lib vma needs setup tidy image clip test test-all check check-sync check-pages fuzz gpus shaders install install-lib godot clean
