#!/bin/sh
# tools/check.sh [sync|pages]: everything about the sources that needs no Vulkan device (`make check`).
# With `sync` only whether dit.h is what src/ and shaders/ generate (`make check-sync`); with `pages` that, and what
# docs/ and README say of the sources (`make check-pages`).
set -u
work=build/check
passed=0 failed=0 skipped=0
mkdir -p $work

check() { # check TITLE COMMAND...: prints one line; a command that fails says why in its output
    title=$1
    shift
    if "$@" >$work/log 2>&1; then
        passed=$((passed + 1))
        printf '  ok      %s\n' "$title"
        sed -n 's/^note: /          /p' $work/log
    else
        failed=$((failed + 1))
        printf '  FAILED  %s\n' "$title"
        head -n 10 $work/log | cut -c 1-240 | sed 's/^/          | /'
    fi
}

skip() { # skip TITLE REASON
    skipped=$((skipped + 1))
    printf 'skipped: %s: %s\n' "$1" "$2"
}

have() { command -v "$1" >/dev/null 2>&1; }

# --- dit.h is what src/ generates ---
in_sync() {
    build/amalgamate src/ORDER $work/generated && cmp dit.h $work/generated && return
    echo "dit.h is not what src/ generates. Edit src/, never dit.h; then run:"
    echo "    make dit.h"
    echo "    git add dit.h"
    return 1
}
everything_listed() { # every source stands in ORDER, and ORDER names only what exists
    (cd src && find . -name '*.[ch]' -o -name '*.inc') | sed 's#^\./##' | sort >$work/present
    grep -v -e '^#' -e '^$' src/ORDER | sort >$work/listed
    diff $work/present $work/listed || { echo "src/ORDER and the files in src/ differ (< not listed, > not there)"; return 1; }
}
check 'dit.h is what src/ generates' in_sync
check 'the embedded SPIR-V is what shaders/ compiles to' build/spirv check shaders src/vk/spirv.inc src/vk/kernels.h
[ "${1:-}" != sync ] || {
    [ $failed = 0 ] || exit 1
    exit 0
}
check 'every file of src/ is listed in src/ORDER' everything_listed

cc -std=gnu99 -O1 -Wall -Wextra -o $work/tool tools/check.c || exit 1

# --- pages: what is cited exists, and what pages name ---
pages() { # every citation of a page, its section and its step, in sources and pages; every link of a page
    find src shaders tests tools examples docs .github -name fixtures -prune -o -name corpus -prune -o -type f -print 2>/dev/null |
        grep -E '\.([ch]|comp|glsl|sh|md|py|yml)$' >$work/citing
    # shellcheck disable=SC2046
    $work/tool pages $(cat $work/citing) Makefile ./*.md
}
prose() { # sentences of comments and pages
    find src shaders tests tools examples docs .github -name fixtures -prune -o -name corpus -prune -o -type f -print 2>/dev/null |
        grep -E '\.([ch]|comp|glsl|sh|md|py|yml)$' >$work/written
    # shellcheck disable=SC2046
    $work/tool prose $(cat $work/written) Makefile ./*.md
}
families() { # the file of each begins with its section and its original, and no other file's code has its name
    names=$(sed -n 's/^    {diti_\([a-z0-9]*\)_family, .*/\1/p' src/model/registry.c)
    for name in $names; do
        file=src/model/$name.c
        head -n 3 "$file" | grep -q 'models[.]md 3[.]' || { echo "$file: no section that defines it in its first lines"; return 1; }
        head -n 4 "$file" | grep -q 'https://' || { echo "$file: no address of the original in its first lines"; return 1; }
        for other in src/*/*.[ch] examples/*.[ch] examples/*/*.[ch]; do
            [ "$other" = "$file" ] || sed 's#/\*.*##' "$other" | grep -n "\"$name\"" | sed "s#^#$other:#"
        done
    done >$work/named
    echo "note: $(echo "$names" | wc -w) families"
    [ "$(echo "$names" | wc -w)" -ge 5 ] && ! cat $work/named | grep .
}
top_level() { # the list of docs/architecture.md 1
    git ls-files 2>/dev/null | sed 's#/.*##' | sort -u >$work/top
    [ -s $work/top ] || { echo "note: no repository here, nothing to compare"; return 0; }
    for name in $(cat $work/top); do
        case $name in
        .ci | .clang-format | .editorconfig | .gitattributes | .github | .gitignore | dit.h | Makefile | meson.build | CMakeLists.txt | LICENSE) ;;
        BENCHMARKS.md | CHANGELOG.md | CONTRIBUTING.md | README.md) ;;
        docs | examples | models | shaders | src | tests | tools) ;;
        *) echo "$name: the top level holds what docs/architecture.md 1 lists, and nothing else"; return 1 ;;
        esac
    done
}
check 'cited pages, sections, steps and links exist' pages
check 'files and functions that docs/ names exist' $work/tool names src docs/*.md README.md CONTRIBUTING.md
check 'sentences begin with their subject' prose
check 'families are named by their own files alone' families
check 'the top level is what docs/architecture.md lists' top_level
[ "${1:-}" != pages ] || {
    echo "check pages: $passed passed, $failed failed"
    [ $failed = 0 ]
    exit
}
printf '#include "dit.h"\n' >$work/declarations.c
printf '#define DIT_IMPLEMENTATION\n#include "dit.h"\n' >$work/implementation.c
printf '#include "dit.h"\n#include "dit.h"\n#define DIT_IMPLEMENTATION\n#include "dit.h"\n#include "dit.h"\n' >$work/twice.c
strict='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I.'

# --- warnings: no compiler has one, in any language the header claims ---
processors=$(getconf _NPROCESSORS_ONLN)
side_by_side() { # side_by_side COMMAND...: for each line of the input, put in place of {}, as many at a time as there are processors
    xargs -P "$processors" -I '{}' "$@"
}
matrix() { # matrix COMPILER LANGUAGE STANDARD [FLAG]
    # shellcheck disable=SC2086
    printf '%s\n' twice declarations | side_by_side "$1" -x "$2" -std="$3" $strict -O1 -fsyntax-only ${4:-} "$work/{}.c"
}
for compiler in gcc clang; do
    have $compiler || { skip "$compiler" "not installed"; continue; }
    for standard in c99 c11; do check "$compiler $standard: no warnings" matrix $compiler c $standard; done
    for standard in c++11 c++17 c++20; do check "$compiler $standard: no warnings" matrix $compiler c++ $standard; done
done
newest_cxx() { # the first compiler here that knows C++26
    for compiler in g++ clang++ g++-15 g++-14 clang++-20 clang++-19 clang++-18 clang++-17; do
        echo 'int main() {}' | $compiler -x c++ -std=c++2c -fsyntax-only - 2>/dev/null && echo $compiler && return
    done
    return 1
}
if cxx=$(newest_cxx); then
    check "$cxx c++26: no warnings" matrix "$cxx" c++ c++2c
else
    skip 'c++26' 'no compiler here knows it'
fi

# --- other systems: foreign compilers see Vulkan's headers, and nothing else of this one ---
mkdir -p $work/vulkan
for folder in vulkan vk_video stb; do ln -sfn /usr/include/$folder $work/vulkan/$folder; done
foreign() { # foreign TITLE PREFIX
    if have "$2gcc" && have "$2g++"; then
        check "$1 c99: no warnings" matrix "$2gcc" c c99 "-isystem $work/vulkan"
        check "$1 c++17: no warnings" matrix "$2g++" c++ c++17 "-isystem $work/vulkan"
    else
        skip "$1" "$2gcc and $2g++ are not installed"
    fi
}
foreign aarch64 aarch64-linux-gnu-
! have aarch64-linux-gnu-gcc || check 'aarch64: tests compile without warnings' sh tests/foreign.sh syntax aarch64
mingw=x86_64-w64-mingw32
have $mingw-gcc || skip Windows "$mingw-gcc is not installed"
windows_programs() { # as MinGW builds them for Windows: dit with all of dit.h in the same file, the tools with declarations alone
    windows="$mingw-gcc -std=gnu99 -Wall -Wextra -Werror -Wno-unused-function -I. -isystem $work/vulkan -fsyntax-only"
    $windows -DDIT_API=static examples/cli/txt2img.c &&
        printf '%s\n' dit-bench dit-compare dit-plan dit-convert | side_by_side $windows -Isrc -Itests/support -Ibuild -include library.h 'tools/{}.c'
}
windows_dll() { # a DLL that exports what dit.h declares; it needs nothing that Windows lacks
    make --no-print-directory lib CC=$mingw-gcc CFLAGS="-O0 -isystem $work/vulkan" && $mingw-objdump -p build/lib/$mingw/dit.dll >$work/dll.txt || return 1
    declared=$(grep -c '^DIT_API .*dit_' src/dit_api.h)
    exported=$(sed -n '/Ordinal\/Name Pointer/,/^$/p' $work/dll.txt | grep -cw 'dit_[a-z_]*')
    [ "$exported" -ge "$declared" ] || { echo "dit_api.h declares $declared functions, the DLL exports $exported"; return 1; }
    echo "note: exports $exported functions, needs $(sed -n 's/.*DLL Name: //p' $work/dll.txt | tr '\n' ' ')"
    ! sed -n 's/.*DLL Name: //p' $work/dll.txt | grep -viE '^(kernel32|msvcrt)\.dll$|^api-ms-win-'
}
if have $mingw-gcc; then
    foreign Windows $mingw-
    check 'Windows: programs compile without warnings' windows_programs
    check 'Windows: tests compile without warnings' sh tests/foreign.sh syntax windows
    check 'Windows: dit.h as a DLL' windows_dll
fi

# MSVC itself is not at hand. Clang stands in for it: with MSVC's macros, types and inline functions, Wine's headers in
# place of Microsoft's, which have no name of POSIX either, and warnings for what MSVC /W4 refuses or warns of.
# -U__clang__ shows the code for MSVC itself; Wine's headers for C++ then need their types named.
msvc_warnings="-Wpedantic -Wgnu -Wmicrosoft -Wlanguage-extension-token -Wvla -Wpointer-arith -Wzero-length-array -Wempty-translation-unit
    -Wconversion -Wno-sign-conversion -Wshorten-64-to-32 -Wcast-function-type -Wunreachable-code -Wassign-enum -Wundef -Wstrict-prototypes"
wine=$(sh tools/newest.sh windows-headers) || wine=
msvc() { # msvc ARCHITECTURE LANGUAGE STANDARD FILE FLAG...
    target=$1 language=$2 standard=$3 file=$4
    shift 4
    # shellcheck disable=SC2086
    clang --target="$target-pc-windows-msvc" -fms-compatibility-version=19.29 -U__clang__ -nostdinc -isystem "$(clang -print-resource-dir)/include" \
        -isystem "$wine/msvcrt" -isystem "$wine/windows" -isystem $work/vulkan -DWINE_UNICODE_NATIVE -D_InterlockedCompareExchange128=unused \
        -x "$language" -std="$standard" -Wall -Wextra -Wshadow $msvc_warnings -Werror -I. "$@" "$file"
}
msvc_matrix() {
    msvc x86_64 c c11 $work/twice.c -fsyntax-only && msvc i686 c c99 $work/twice.c -fsyntax-only && msvc aarch64 c++ c++20 $work/twice.c -fsyntax-only
}
msvc_programs() { # Wine's headers, or their older versions, lack some of what MSVC's declare
    printf '#include <setjmp.h>\nint __cdecl _setjmp(jmp_buf);\nint __cdecl _commit(int);\ntypedef int sig_atomic_t;\n' >$work/lacking.h
    for program in examples/cli/txt2img tools/dit-bench tools/dit-compare tools/dit-plan tools/dit-convert; do
        msvc x86_64 c c11 $program.c -fsyntax-only -Isrc -Itests/support -Ibuild -include $work/lacking.h -include library.h -Wno-unused-function \
            -Wno-undefined-inline -Wno-conversion || return 1
    done
}
msvc_words() { # words that clang takes for MSVC too, and MSVC does not, in what is left of dit.h there
    msvc x86_64 c c11 $work/implementation.c -E |
        awk '/^# [0-9]/ { ours = $3 ~ /dit[.]h"$/ } ours { gsub(/__builtin_(va_[a-z]*|offsetof)/, ""); print }' >$work/msvc.i
    [ "$(wc -l <$work/msvc.i)" -gt 10000 ] || { echo "what is left of dit.h is too short"; return 1; }
    ! grep -nE '__(attribute|builtin|typeof|extension|asm|thread)|_Pragma|\btypeof\b|\bssize_t\b|\boff_t\b|\[static ' $work/msvc.i
}
if ! have clang; then
    skip MSVC 'clang stands in for it, and is not installed'
elif [ -z "$wine" ]; then
    skip MSVC "Wine's headers stand in for its own; they are neither installed nor in reach"
else
    check 'MSVC: clang in its place has no warnings' msvc_matrix
    check 'MSVC: programs compile' msvc_programs
    check 'MSVC: no word that it does not know' msvc_words
fi
if folder=/usr/include/$(gcc -print-multiarch) && echo '#include <errno.h>' | gcc -m32 -idirafter "$folder" -E - >/dev/null 2>&1; then
    check 'gcc c99 -m32: no warnings' matrix gcc c c99 "-m32 -idirafter $folder"
    check 'gcc c++11 -m32: no warnings' matrix gcc c++ c++11 "-m32 -idirafter $folder -idirafter $folder/c++/$(gcc -dumpversion)"
else
    skip '-m32' 'this compiler has no 32-bit C library'
fi

# Words that windows.h, X11 and others define as macros; a name of dit's that is one of them does not compile there.
common_words() {
    {
        for header in vulkan/vulkan_core.h math.h stdarg.h stdio.h stdlib.h string.h errno.h fcntl.h sys/mman.h sys/stat.h unistd.h dlfcn.h time.h limits.h \
            ctype.h dirent.h stddef.h stdint.h stdbool.h float.h sched.h; do
            echo "#include <$header>"
        done
        for word in far near FAR NEAR IN OUT OPTIONAL CONST VOID ERROR NO_ERROR DELETE STRICT cdecl pascal huge hyper small interface ABSOLUTE RELATIVE OPAQUE \
            TRANSPARENT IGNORE INFINITE DIFFERENCE THIS SIZE TEXT None Bool Status Success Always Expose Complex rad1 rad2 grp1 grp2 grp3 environ \
            I check verify require; do
            echo "#undef $word"
            echo "#define $word = \"a macro of the system's\" ="
        done
        for word in min max CreateEvent CreateFile DeleteFile CopyFile MoveFile CopyMemory MoveMemory FillMemory ZeroMemory Yield GetObject \
            LoadImage GetMessage SendMessage DrawText major minor; do
            echo "#undef $word"
            echo "#define $word(...) = \"a macro of the system's\" ="
        done
        echo '#define DIT_IMPLEMENTATION'
        echo '#include "dit.h"'
    } >$work/words.c
    gcc -std=gnu99 -I. -fsyntax-only $work/words.c
}
check 'no name is a macro of windows.h or X11' common_words

# dit.h before or behind each of Vulkan's headers, with and without its prototypes. One order cannot work: volk.h behind
# the implementation, where neither it nor the application said VK_NO_PROTOTYPES; README says so.
vulkan_orders() {
    count=0
    rm -f $work/order-*
    for header in vulkan/vulkan.h volk.h vulkan/vulkan.hpp; do
        echo "#include <$header>" | g++ -x c++ -DVK_NO_PROTOTYPES -E - >/dev/null 2>&1 || { echo "note: there is no $header"; continue; }
        for prototypes in '' '#define VK_NO_PROTOTYPES'; do
            for dit in '#include "dit.h"' '#define DIT_IMPLEMENTATION
#include "dit.h"'; do
                for order in "$dit
#include <$header>" "#include <$header>
$dit"; do
                    # It takes long to compile, and the declarations show what there is to see.
                    case "$prototypes$order" in '#define DIT_IMPLEMENTATION'*volk.h* | *IMPLEMENTATION*vulkan.hpp* | *vulkan.hpp*IMPLEMENTATION*) continue ;; esac
                    for language in c++17 c99; do
                        case "$header$language$order" in vulkan/vulkan.hppc99* | *c++17*IMPLEMENTATION*) continue ;; esac
                        count=$((count + 1))
                        printf '%s\n%s\nint main(void) { dit_output out; out.view = 0; return out.view != 0; }\n' "$prototypes" "$order" >$work/order-$count.$language
                    done
                done
            done
        done
    done
    for language in c++17 c99; do
        (cd $work && ls order-*."$language") | side_by_side gcc -x ${language%[0-9][0-9]} -std=$language -Wall -Wextra -Wpedantic -Werror -I. -fsyntax-only "$work/{}" || return 1
    done
    echo "note: $count orders"
    [ $count -ge 15 ]
}
check 'dit.h before and behind vulkan.h, volk.h, vulkan.hpp' vulkan_orders

optimised() { # some warnings need the optimiser to look; without -fPIC, so that constant tables of pointers count as constant
    # shellcheck disable=SC2086
    $work/tool time 1 gcc -std=c99 -O2 -fno-pic $strict -c $work/implementation.c -o $work/plain.o >$work/seconds
}
check 'gcc c99 -O2: no warnings' optimised
fortified() { # as distributions do by default whose gcc turns on the checks of their C library
    # shellcheck disable=SC2086
    gcc -std=c99 -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 $strict -c $work/implementation.c -o $work/fortified.o
}
check 'gcc c99 -O2 -D_FORTIFY_SOURCE=3: no warnings' fortified
header_version() { # header_version [FLAG FOLDER]
    printf '#include <vulkan/vulkan_core.h>\nVK_HEADER_VERSION\n' | gcc -E "$@" - | tail -n 1
}
echo "          all this with Vulkan headers of version $(header_version) (dit.h asks for 239 or newer)"
if newest=$(sh tools/newest.sh headers); then
    strict="$strict -isystem $newest"
    check "gcc c99: no warnings with Vulkan headers of version $(header_version -isystem "$newest")" matrix gcc c c99
    strict=${strict% -isystem *}
else
    skip 'newest Vulkan headers' 'they are taken from Debian unstable, which is not in reach'
fi

# --- the object file: exported names, globals, calls ---
exported() {
    [ -s $work/plain.o ] || return 1
    nm -g --defined-only $work/plain.o | awk '{ print $3 }' >$work/exported
    [ "$(wc -l <$work/exported)" -ge 20 ] || { echo "fewer than 20 exported symbols: is this the right object?"; return 1; }
    ! grep -v '^dit_' $work/exported
}
nothing_exported() {
    gcc -std=c99 -O1 -I. -DDIT_API=static -Wno-unused-function -c $work/implementation.c -o $work/static.o || return 1
    ! nm -g --defined-only $work/static.o | grep .
}
no_globals() {
    nm $work/plain.o | awk '$2 ~ /^[BbDdCcGgSs]$/ { print "mutable: " $3; bad = 1 } END { exit bad }'
}
forbidden='abort|exit|_exit|_Exit|quick_exit|atexit|assert|__assert_fail|printf|fprintf|vprintf|vfprintf|puts|fputs|putc|putchar|fputc|perror'
forbidden="$forbidden|getenv|secure_getenv|setenv|putenv|setlocale|localeconv|chdir|fchdir|signal|sigaction|raise|kill|pthread_.*|thrd_.*|fork|vfork|system|popen|exec.*"
forbidden="$forbidden|stdin|stdout|stderr|rand|srand|random|time|clock|localtime|gmtime|strtok|strerror|setjmp|_setjmp|longjmp|strtof|strtold|atof|sscanf|fscanf|__isoc99_.*scanf|alloca|gets"
no_forbidden() {
    nm -u $work/plain.o | awk '{ print $2 }' >$work/called
    [ "$(wc -l <$work/called)" -ge 5 ] || { echo "fewer than 5 undefined symbols: is this the right object?"; return 1; }
    ! grep -E -x "$forbidden" $work/called
}
check 'only dit_* is exported' exported
check 'nothing is exported with DIT_API=static' nothing_exported
check 'no mutable globals' no_globals
check 'no call that ends, prints, reads the environment, starts threads, depends on the locale' no_forbidden

# --- what a build leaves out: each switch of src/ORDER alone, and all together, which offers the same functions ---
switches=$(sed -n 's/^#ifndef \(DIT_NO_[A-Z0-9_]*\)$/\1/p' src/ORDER | sort -u)
quick=gcc # clang reads the header in a third of the time
! have clang || quick=clang
each_left_out() {
    for switch in $switches; do
        grep -qE "^       (DIT_NO_[A-Z0-9]+, )*$switch[ ,:]" src/dit_api.h || { echo "$switch: the manual does not have it"; return 1; }
    done
    # shellcheck disable=SC2086
    printf '%s\n' $switches | side_by_side $quick -std=c99 $strict '-D{}' -fsyntax-only $work/implementation.c || return 1
    echo "note: $(echo "$switches" | wc -l) switches"
    [ "$(echo "$switches" | wc -l)" -ge 9 ]
}
all_left_out() {
    least=$(printf -- '-D%s ' $switches)
    # shellcheck disable=SC2086
    gcc -std=c99 $strict $least -fsyntax-only $work/implementation.c && g++ -x c++ -std=c++11 $strict $least -fsyntax-only $work/implementation.c &&
        $quick -std=c99 -O0 $strict $least -c $work/implementation.c -o $work/least.o || return 1
    nm -g --defined-only $work/least.o | awk '{ print $3 }' >$work/offered
    diff $work/exported $work/offered || { echo "< is a function that the whole library offers, and this build does not"; return 1; }
    printf '#include "dit.h"\nint main(void) { return dit_version() != DIT_VERSION; }\n' >$work/least.c
    gcc -std=c99 -I. $work/least.c $work/least.o -o $work/least -lm -ldl && $work/least
}
check 'each part can be left out, and the manual says how' each_left_out
check 'all parts can be left out: no warnings, the same functions, nothing undefined' all_left_out

# --- the text: rooms, documentation, budgets ---
alone() {
    count=$(ls src/*/*.c | wc -l)
    # shellcheck disable=SC2086
    ls src/*/*.c | side_by_side gcc -std=c99 $strict -Isrc -fsyntax-only '{}' || return 1
    echo "note: $count files"
    [ $count -gt 0 ]
}
unfinished() { # words that a finished text does not hold
    grep -rnwE 'TO''DO|FIX''ME|XX''X|HA''CK|/wo''rk' --include='*.[ch]' --include='*.comp' --include='*.glsl' --include='*.md' --include='*.sh' \
        --include=Makefile . >$work/unfinished
    ! grep -v -e '^./build/' -e '^./dit.h' $work/unfinished
}
formatted() { # shaders as C, which formats GLSL well
    find src examples tools tests -name '*.[ch]' -exec clang-format --dry-run -Werror {} + || return 1
    for shader in shaders/*.comp shaders/*.glsl; do
        clang-format --assume-filename="$shader.c" <"$shader" | cmp -s - "$shader" || { echo "$shader: make tidy formats it"; return 1; }
    done
}
check 'every file of src/ compiles alone' alone
check 'includes go up the table of rooms' $work/tool rooms src
check 'no files of a room call each other in a circle' $work/tool circles src
check 'the manual and every public function are documented' $work/tool api dit.h
check 'size of dit.h (tests/vk/spirv.c judges the modules)' $work/tool budget dit.h
check 'what compilers say of kernels is read right' sh tests/feigned.sh
check 'functions are short' $work/tool functions src
check 'nothing is left unfinished' unfinished
if have clang-format && clang-format --version | grep -q 'version 14'; then
    check 'format' formatted
else
    skip 'format' 'clang-format 14 is not installed (other versions format differently)'
fi

# --- README and docs/: their C compiles, their commands exist ---
page_c() { # the C of every page, each block a file of its own
    count=0
    for page in README.md CONTRIBUTING.md docs/*.md; do
        grep -q '^```c$' "$page" || continue
        folder=$work/c/$(basename "$page" .md)
        rm -rf "$folder" && mkdir -p "$folder" && $work/tool readme "$page" "$folder" || return 1
        for file in "$folder"/readme_*.c; do
            # shellcheck disable=SC2086
            gcc -std=c99 $strict -Wno-unused-parameter -Wno-unused-function -fsyntax-only "$file" || return 1
            count=$((count + 1))
        done
    done
    echo "note: $count blocks"
    $work/tool contains README.md examples/minimal.c
}
readme_commands() { # each make target and each flag of build/dit-* that README shows is real
    bad=0
    sed -n '/^```sh/,/^```$/p' README.md CONTRIBUTING.md docs/*.md | grep -v '^```' >$work/commands
    [ -s $work/commands ] || { echo "README.md has no shell commands"; return 1; }
    for target in $(sed -n 's/^make \([a-z-]*\).*/\1/p' $work/commands); do
        grep -qE "^([a-z-]+ )*$target( [a-z-]+)*:" Makefile || { echo "make $target: no such target"; bad=1; }
    done
    for program in dit dit-compare dit-convert dit-bench dit-plan; do
        grep -q "^build/$program " $work/commands || continue
        build/$program --help >$work/help 2>&1
        [ $program != dit ] || build/dit --help-all >$work/help 2>&1
        for flag in $(grep "^build/$program " $work/commands | sed 's/ | .*//' | tr ' =' '\n\n' | grep -E '^--?[a-zA-Z][a-z-]*$' | sort -u); do
            grep -qE -e "(^|[ ,/])$flag([ ,=/]|\$)" $work/help || { echo "build/$program $flag: not in its --help"; bad=1; }
        done
    done
    return $bad
}
check 'the C of README.md and docs/ compiles, README.md has examples/minimal.c' page_c
check 'the commands of README.md and docs/ exist' readme_commands

# --- compile times: 6 s at -O1 and 12 s at -O2, where five of stb's headers take 3.54 s at -O2. These stand beside dit.h
# as a measure of the machine and the compiler, so that the limits hold on any. make test-all judges ---
printf '#define STB_%s_IMPLEMENTATION\n' IMAGE IMAGE_WRITE IMAGE_RESIZE TRUETYPE DXT >$work/measure.c
printf '#include <stb/stb_%s.h>\n' image image_write image_resize truetype dxt >>$work/measure.c
compile_seconds() { # compile_seconds LEVEL FILE: of the processor
    $work/tool time 1 gcc -std=gnu99 -w "$1" -I. -c "$2" -o $work/time.o | sed 's/ s$//'
}
compiles_within() { # compiles_within LEVEL LIMIT: the median of three
    for try in 1 2 3; do
        echo "$(compile_seconds "$1" $work/implementation.c) $(compile_seconds -O2 $work/measure.c)"
    done | awk '{ print 3.54 * $1 / $2, $1 }' | sort -n | awk -v level="$1" -v limit="$2" 'NR == 2 {
        printf "note: %s: %.1f s of %g, here %.1f s\n", level, $1, limit, $2
        exit !($1 > 0 && $1 <= limit) }'
}
clone_size() { # of what a clone has at most
    packs=$(git count-objects -v 2>/dev/null | sed -n 's/^size-pack: //p') # KiB
    [ -n "$packs" ] || { echo "note: no repository here, nothing to measure"; return 0; }
    echo "note: packs of $((packs * 1024 / 1000000)) MB of 100"
    [ $((packs * 1024)) -lt 100000000 ]
}
if [ "${DIT_TEST_ALL:-0}" = 1 ]; then
    check 'a clone has less than 100 MB' clone_size
    check 'dit.h compiles in 6 s at -O1' compiles_within -O1 6
    check 'dit.h compiles in 12 s at -O2' compiles_within -O2 12
fi
echo "  compile times (processor seconds) with $(gcc --version | head -n 1):"
echo "          declarations -O2: $($work/tool time 1 gcc -std=c99 -O2 -I. -c $work/declarations.c -o $work/time.o)"
echo "          implementation -O2, all warnings: $(cat $work/seconds)"

echo
if [ $skipped = 0 ]; then echo "check: $passed passed, $failed failed"; else echo "check: $passed passed, $failed failed, $skipped skipped"; fi
[ $failed = 0 ]
