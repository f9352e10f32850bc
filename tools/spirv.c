/* Compiles the shaders, or checks that they were compiled.

   spirv build SHADERS INC ENUM   compiles what changed of SHADERS/MODULES with glslang and spirv-opt, and writes INC
                                  (the text form that src/vk/spirv.c decodes), ENUM (diti_kernel, a name for each
                                  kernel) and SHADERS/spirv.lock
   spirv check SHADERS INC ENUM   needs no compiler: the lock fits the sources, INC fits the lock, ENUM fits MODULES.
                                  Where a compiler of the lock is installed, it compiles the modules again and
                                  compares bytes
   spirv raw SHADERS DIR          compiles without spirv-opt to DIR/NAME.spv: the tests compare both forms */
#define _POSIX_C_SOURCE 200809L /* popen */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MODULES 64
#define MAX_PATH 1024
static const char compile_flags[] = "-V --target-env vulkan1.2";
/* The passes of -O without unrolling: drivers unroll, and know the sizes. */
static const char optimize_flags[] =
    "--strip-debug --eliminate-dead-branches --merge-return --inline-entry-points-exhaustive --eliminate-dead-functions "
    "--eliminate-dead-code-aggressive --private-to-local --eliminate-local-single-block --eliminate-local-single-store "
    "--eliminate-dead-code-aggressive --scalar-replacement=100 --convert-local-access-chains --eliminate-local-single-block "
    "--eliminate-local-single-store --eliminate-dead-code-aggressive --ssa-rewrite --eliminate-dead-code-aggressive --ccp "
    "--eliminate-dead-branches --redundancy-elimination --combine-access-chains --simplify-instructions --scalar-replacement=100 "
    "--convert-local-access-chains --eliminate-local-single-block --eliminate-local-single-store --eliminate-dead-code-aggressive "
    "--ssa-rewrite --eliminate-dead-code-aggressive --vector-dce --eliminate-dead-inserts --eliminate-dead-branches "
    "--simplify-instructions --copy-propagate-arrays --eliminate-dead-code-aggressive --merge-blocks --redundancy-elimination "
    "--eliminate-dead-branches --merge-blocks --simplify-instructions --remove-duplicates --eliminate-dead-code-aggressive "
    "--unify-const --compact-ids";

typedef struct bytes {
    unsigned char *data;
    size_t size, capacity;
} bytes;

typedef struct module {
    char name[64], source[128], defines[256];
    int glslang; /* the oldest that can compile it */
    char source_hash[65], spirv_hash[65];
    uint32_t kept; /* functions that are not inlined, as bits, see shared_functions */
    bytes spirv;
} module;

typedef struct kernel_list { /* names, and which module each has: several may have the same one */
    char names[MAX_MODULES][64];
    int modules[MAX_MODULES], count;
} kernel_list;

typedef struct compiler {
    const char *prefix; /* what stands before its commands: nothing, or the script that runs them */
    char version[512];  /* empty: there is none */
    int glslang;
} compiler;

typedef struct lock_entry {
    char name[64], source_hash[65], spirv_hash[65];
    unsigned size, kept;
} lock_entry;

typedef struct lock {
    char compilers[2][512]; /* the compilers of modules for the old and for the new glslang */
    lock_entry entries[MAX_MODULES];
    int count;
} lock;

static int fail(const char *what, const char *name) {
    fprintf(stderr, "spirv: %s: %s\n", what, name);
    return 1;
}

static void append(bytes *b, const void *data, size_t size) {
    if (b->size + size > b->capacity) {
        b->capacity = (b->size + size) * 2 + 4096;
        b->data = (unsigned char *)realloc(b->data, b->capacity);
        if (!b->data) exit(fail("no memory", "buffer"));
    }
    if (size) memcpy(b->data + b->size, data, size);
    b->size += size;
}

static int read_file(const char *path, bytes *out) {
    unsigned char block[65536];
    size_t got;
    FILE *f = fopen(path, "rb");
    memset(out, 0, sizeof *out);
    if (!f) return fail("cannot read", path);
    while ((got = fread(block, 1, sizeof block, f)) > 0) append(out, block, got);
    fclose(f);
    return 0;
}

/* --- SHA-256 (FIPS 180-4) --- */

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void sha_block(uint32_t *h, const unsigned char *p, const uint32_t *k) {
    uint32_t w[64], s[8];
    int i;
    for (i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (i = 16; i < 64; i++) {
        uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(s, h, sizeof s);
    for (i = 0; i < 64; i++) {
        uint32_t a = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) +
                     k[i] + w[i];
        uint32_t b =
            (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += a;
        s[0] = a + b;
    }
    for (i = 0; i < 8; i++) h[i] += s[i];
}

/* The constants are the first 32 bits of the fractions of roots of the first primes. */
static void sha_constants(uint32_t *h, uint32_t *k) {
    int n = 0, p, q;
    for (p = 2; n < 64; p++) {
        long double x, y;
        int i;
        for (q = 2; q * q <= p && p % q; q++) {
        }
        if (q * q <= p) continue;
        x = y = p;
        for (i = 0; i < 60; i++) {
            x = (2 * x + p / (x * x)) / 3;
            y = (y + p / y) / 2;
        }
        k[n] = (uint32_t)((x - (long double)(uint32_t)x) * 4294967296.0L);
        if (n < 8) h[n] = (uint32_t)((y - (long double)(uint32_t)y) * 4294967296.0L);
        n++;
    }
}

static void sha256(const void *data, size_t size, char *hex) {
    uint32_t h[8], k[64];
    unsigned char tail[128] = {0};
    const unsigned char *p = (const unsigned char *)data;
    size_t full = size / 64 * 64, rest = size - full, i, blocks = rest < 56 ? 1 : 2;
    sha_constants(h, k);
    for (i = 0; i < full; i += 64) sha_block(h, p + i, k);
    if (rest) memcpy(tail, p + full, rest);
    tail[rest] = 0x80;
    for (i = 0; i < 8; i++) tail[blocks * 64 - 1 - i] = (unsigned char)((uint64_t)size * 8 >> 8 * i);
    for (i = 0; i < blocks; i++) sha_block(h, tail + 64 * i, k);
    for (i = 0; i < 8; i++) sprintf(hex + 8 * i, "%08x", h[i]);
}

/* --- sources --- */

static int find_module(const module *modules, int count, const char *name) {
    int i = 0;
    while (i < count && strcmp(modules[i].name, name)) i++;
    return i;
}

static int read_modules(const char *folder, module *modules, int *count, kernel_list *kernels) {
    char path[MAX_PATH], line[512];
    FILE *f;
    snprintf(path, sizeof path, "%s/MODULES", folder);
    f = fopen(path, "r");
    if (!f) return fail("cannot read", path);
    kernels->count = 0;
    for (*count = 0; fgets(line, sizeof line, f) && kernels->count < MAX_MODULES;) {
        module *m = &modules[*count];
        int fields, which = *count;
        memset(m, 0, sizeof *m);
        line[strcspn(line, "\r\n")] = 0;
        if (line[0] == '#') continue;
        fields = sscanf(line, "%63s %127s %d %255[^\n]", m->name, m->source, &m->glslang, m->defines);
        if (fields == 2 && m->source[0] == '=') which = find_module(modules, *count, m->source + 1);
        if (fields < 2 || (fields == 2 && which == *count)) return fail("is no line of MODULES", line);
        memcpy(kernels->names[kernels->count], m->name, sizeof m->name);
        kernels->modules[kernels->count++] = which;
        if (fields > 2) ++*count;
    }
    fclose(f);
    return *count ? 0 : fail("no modules in", path);
}

/* The source with its includes in place: what the hash is made of. */
static int flatten(const char *folder, const char *name, bytes *out) {
    char path[MAX_PATH], include[128];
    bytes text;
    size_t at, end;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (read_file(path, &text)) return 1;
    for (at = 0; at < text.size; at = end) {
        char line[256];
        for (end = at; end < text.size && text.data[end] != '\n'; end++) {
        }
        if (end < text.size) end++;
        snprintf(line, sizeof line, "%.*s", (int)(end - at < 255 ? end - at : 255), (const char *)text.data + at);
        if (sscanf(line, "#include \"%127[^\"]\"", include) == 1) {
            if (flatten(folder, include, out)) return 1;
        } else {
            append(out, text.data + at, end - at);
        }
    }
    free(text.data);
    return 0;
}

static int hash_source(const char *folder, module *m) {
    bytes text = {0, 0, 0};
    char flags[2048];
    if (flatten(folder, m->source, &text)) return 1;
    snprintf(flags, sizeof flags, "%s %s; %s; tidied, words and blocks\n", compile_flags, m->defines, optimize_flags);
    append(&text, flags, strlen(flags));
    sha256(text.data, text.size, m->source_hash);
    free(text.data);
    return 0;
}

/* --- compiling --- */

/* Modules that the least glslang of Linux distributions can compile, and those that need its newest features. */
static const int glslang_versions[2] = {12, 16};
static int is_new(const module *m) { return m->glslang > glslang_versions[0]; }

/* The first line that a command prints; reads on to the end, so that the command does not die of a closed pipe. */
static int first_line(const char *prefix, const char *command, char *out, size_t size) {
    char line[512];
    FILE *f;
    snprintf(line, sizeof line, "%s%s 2>&1", prefix, command);
    f = popen(line, "r");
    out[0] = 0;
    if (!f) return 1;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        if (!out[0]) snprintf(out, size, "%.*s", (int)size - 1, line);
    }
    return pclose(f) != 0 || !out[0];
}

static void find_compiler(compiler *out, const char *prefix) {
    char glslang[200], tools[200];
    memset(out, 0, sizeof *out);
    out->prefix = prefix;
    if (first_line(prefix, "glslangValidator --version", glslang, sizeof glslang) ||
        first_line(prefix, "spirv-opt --version", tools, sizeof tools) ||
        sscanf(glslang, "Glslang Version: %*d:%d", &out->glslang) != 1)
        return;
    if (strstr(tools, " unknown")) *strstr(tools, " unknown") = 0;
    snprintf(out->version, sizeof out->version, "%s; %s", glslang, tools);
}

static void find_compilers(compiler out[2]) {
    find_compiler(&out[0], "");
    out[1] = out[0];
    if (out[0].glslang < glslang_versions[1]) find_compiler(&out[1], "sh tools/newest.sh run ");
}

static int compile(const char *folder, const module *m, const compiler *with, const char *out) {
    char command[4 * MAX_PATH];
    snprintf(command, sizeof command, "%sglslangValidator --quiet %s %s -I%s %s/%s -o %s", with->prefix, compile_flags,
             m->defines, folder, folder, m->source, out);
    return system(command) ? fail("cannot compile", m->name) : 0;
}

static int run_optimizer(const compiler *with, const char *flags, const char *from, const char *to) {
    char command[4 * MAX_PATH];
    snprintf(command, sizeof command, "%sspirv-opt %s %s -o %s", with->prefix, flags, from, to);
    return system(command) ? fail("spirv-opt fails on", from) : 0;
}

/* --- functions: inlining one that is called often makes a module larger; inlining one that is called once, smaller ---
 */

enum { OP_ENTRY_POINT = 15, OP_FUNCTION = 54, OP_FUNCTION_CALL = 57, DONT_INLINE = 2, MAX_FUNCTIONS = 128 };

static uint32_t word_at(const bytes *spirv, size_t i) {
    const unsigned char *p = spirv->data + 4 * i;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Marks the functions of a module that are called more than once: those with a bit in kept must stay functions. With
   kept 0 all marks go, for drivers are to decide for themselves. Returns how many such functions there are. */
static int shared_functions(bytes *spirv, uint32_t kept) {
    uint32_t ids[MAX_FUNCTIONS], calls[MAX_FUNCTIONS] = {0};
    size_t controls[MAX_FUNCTIONS], i, words = spirv->size / 4;
    int f, count = 0, found = 0;
    for (i = 5; i < words; i += word_at(spirv, i) >> 16)
        if ((word_at(spirv, i) & 0xffffu) == OP_FUNCTION && count < MAX_FUNCTIONS) {
            ids[count] = word_at(spirv, i + 2);
            controls[count++] = 4 * (i + 3);
        }
    for (i = 5; i < words; i += word_at(spirv, i) >> 16)
        for (f = 0; f < count && (word_at(spirv, i) & 0xffffu) == OP_FUNCTION_CALL; f++)
            if (word_at(spirv, i + 3) == ids[f]) calls[f]++;
    for (f = 0; f < count; f++) {
        spirv->data[controls[f]] &= (unsigned char)~DONT_INLINE;
        if (calls[f] < 2 || found == 32) continue;
        if (kept >> found & 1) spirv->data[controls[f]] |= DONT_INLINE;
        found++;
    }
    return found;
}

/* --- members of the push constants: loaded once in a function instead of wherever they are read --- */

enum { OP_VARIABLE = 59, OP_LOAD = 61, OP_ACCESS_CHAIN = 65, OP_COPY_OBJECT = 83, OP_LABEL = 248 };
enum { OP_FUNCTION_PARAMETER = 55, OP_FUNCTION_END = 56 };
enum { STORAGE_PUSH_CONSTANT = 9, MAX_MEMBERS = 64 };

static void put_word(bytes *out, uint32_t word) {
    unsigned char four[4];
    int i;
    for (i = 0; i < 4; i++) four[i] = (unsigned char)(word >> 8 * i);
    append(out, four, 4);
}

static uint32_t push_constants(const bytes *spirv) { /* the variable */
    size_t i;
    for (i = 5; i < spirv->size / 4; i += word_at(spirv, i) >> 16)
        if ((word_at(spirv, i) & 0xffffu) == OP_VARIABLE && word_at(spirv, i + 3) == STORAGE_PUSH_CONSTANT)
            return word_at(spirv, i + 2);
    return 0;
}

typedef struct member {
    uint32_t index; /* id of a constant */
    size_t chain, load;
} member;

static int is_chain(const bytes *spirv, size_t i, uint32_t variable) {
    return word_at(spirv, i) == (5u << 16 | OP_ACCESS_CHAIN) && word_at(spirv, i + 3) == variable;
}

/* The access chain to the push constants that made a pointer; 0: something else did. */
static size_t find_chain(const bytes *spirv, size_t begin, size_t end, uint32_t variable, uint32_t pointer) {
    size_t i;
    for (i = begin; i < end; i += word_at(spirv, i) >> 16)
        if (is_chain(spirv, i, variable) && word_at(spirv, i + 2) == pointer) return i;
    return 0;
}

/* The member that the load at i reads; count: it reads something else. */
static int find_member(const bytes *spirv, size_t begin, size_t i, uint32_t variable, const member *members,
                       int count) {
    size_t chain =
        word_at(spirv, i) == (4u << 16 | OP_LOAD) ? find_chain(spirv, begin, i, variable, word_at(spirv, i + 3)) : 0;
    int m;
    for (m = 0; m < count && (!chain || members[m].index != word_at(spirv, chain + 4)); m++) {
    }
    return m;
}

/* Lists the members that the function [begin, end) reads, and where it reads each first. */
static int list_members(const bytes *spirv, size_t begin, size_t end, uint32_t variable, member *members) {
    int count = 0;
    size_t i;
    for (i = begin; i < end && count < MAX_MEMBERS; i += word_at(spirv, i) >> 16) {
        size_t chain = word_at(spirv, i) == (4u << 16 | OP_LOAD)
                           ? find_chain(spirv, begin, i, variable, word_at(spirv, i + 3))
                           : 0;
        if (!chain || find_member(spirv, begin, i, variable, members, count) < count) continue;
        members[count].index = word_at(spirv, chain + 4);
        members[count].chain = chain;
        members[count++].load = i;
    }
    return count;
}

static void hoist_in_function(const bytes *spirv, size_t begin, size_t end, uint32_t variable, bytes *out) {
    member members[MAX_MEMBERS];
    int count = list_members(spirv, begin, end, variable, members), m, placed = 0;
    size_t i;
    for (i = begin; i < end; i += word_at(spirv, i) >> 16) {
        uint32_t op = word_at(spirv, i) & 0xffffu;
        if (!placed && op != OP_FUNCTION && op != OP_FUNCTION_PARAMETER && op != OP_LABEL && op != OP_VARIABLE) {
            placed = 1;
            for (m = 0; m < count; m++) {
                append(out, spirv->data + 4 * members[m].chain, 20);
                append(out, spirv->data + 4 * members[m].load, 12);
                put_word(out, word_at(spirv, members[m].chain + 2));
            }
        }
        m = find_member(spirv, begin, i, variable, members, count);
        if (is_chain(spirv, i, variable) || (m < count && members[m].load == i)) continue;
        if (m == count) {
            append(out, spirv->data + 4 * i, 4 * (word_at(spirv, i) >> 16));
            continue;
        }
        put_word(out, 4u << 16 | OP_COPY_OBJECT);
        put_word(out, word_at(spirv, i + 1));
        put_word(out, word_at(spirv, i + 2));
        put_word(out, word_at(spirv, members[m].load + 2));
    }
}

/* Later reads become copies, which the optimizer removes. */
static void hoist(bytes *spirv) {
    uint32_t variable = push_constants(spirv);
    bytes out = {0, 0, 0};
    size_t i, begin = 0, words = spirv->size / 4;
    append(&out, spirv->data, 20);
    for (i = 5; i < words; i += word_at(spirv, i) >> 16) {
        uint32_t op = word_at(spirv, i) & 0xffffu;
        if (op == OP_FUNCTION) begin = i;
        if (!begin) append(&out, spirv->data + 4 * i, 4 * (word_at(spirv, i) >> 16));
        if (op != OP_FUNCTION_END) continue;
        hoist_in_function(spirv, begin, i + 1, variable, &out);
        begin = 0;
    }
    free(spirv->data);
    *spirv = out;
}

/* --- what the optimizer leaves: a declaration and a load for each of the push constants, constants of int
   beside the same ones of uint, and, in modules with extensions it does not know, what nothing uses --- */

enum {
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT,
    OP_TYPE_ARRAY = 28,
    OP_TYPE_STRUCT = 30,
    OP_TYPE_POINTER = 32,
    OP_CONSTANT = 43,
    OP_STORE = 62
};
enum {
    OP_DECORATE = 71,
    OP_MEMBER_DECORATE = 72,
    OP_COMPOSITE_EXTRACT = 81,
    OP_BITCAST = 124,
    OP_I_ADD = 128,
    OP_I_SUB = 130,
    OP_I_MUL = 132,
    OP_SHIFT_RIGHT = 194,
    OP_BITWISE_AND = 199,
};
enum { STORAGE_FUNCTION = 7, DECORATION_ARRAY_STRIDE = 6, DECORATION_BUILT_IN = 11, MAX_IDS = 16384 };

/* The first instruction op whose word at `place` is value; 0: none. */
static size_t find(const bytes *spirv, uint32_t op, size_t place, uint32_t value) {
    size_t i;
    for (i = 5; i < spirv->size / 4; i += word_at(spirv, i) >> 16)
        if ((word_at(spirv, i) & 0xffffu) == op && word_at(spirv, i + place) == value) return i;
    return 0;
}

static void put_words(bytes *out, const uint32_t *words, int count) {
    int i;
    for (i = 0; i < count; i++) put_word(out, words[i]);
}

static void replace(bytes *spirv, bytes *with) {
    free(spirv->data);
    *spirv = *with;
}

/* Push constants, all of them words: as one array, which functions load at once and take apart. */
typedef struct words {
    uint32_t variable, structure, count, uint, array, pointer, element, zero; /* ids, but for count */
} words;

/* Whether all members are 32 bits wide and follow each other. */
static int find_words(const bytes *spirv, words *w) {
    uint32_t bound = word_at(spirv, 3), id;
    size_t i, k, type;
    memset(w, 0, sizeof *w);
    w->variable = push_constants(spirv);
    if (!w->variable) return 0;
    i = find(spirv, OP_TYPE_POINTER, 1, word_at(spirv, find(spirv, OP_VARIABLE, 2, w->variable) + 1));
    w->structure = word_at(spirv, i + 3);
    i = find(spirv, OP_TYPE_STRUCT, 1, w->structure);
    w->count = (word_at(spirv, i) >> 16) - 2;
    for (k = 0; k < w->count; k++) {
        id = word_at(spirv, i + 2 + k);
        type = find(spirv, OP_TYPE_INT, 1, id);
        if (type) w->uint = id;
        if (word_at(spirv, (type ? type : find(spirv, OP_TYPE_FLOAT, 1, id)) + 2) != 32) return 0;
    }
    for (i = 5; i < spirv->size / 4; i += word_at(spirv, i) >> 16) {
        if (word_at(spirv, i) == (5u << 16 | OP_MEMBER_DECORATE) && word_at(spirv, i + 1) == w->structure &&
            word_at(spirv, i + 4) != 4 * word_at(spirv, i + 2))
            return 0;
        if (word_at(spirv, i) == (4u << 16 | OP_CONSTANT) && word_at(spirv, i + 1) == w->uint && !word_at(spirv, i + 3))
            w->zero = word_at(spirv, i + 2);
    }
    w->array = bound;
    w->pointer = bound + 1;
    w->element = bound + 2;
    return w->uint && w->zero;
}

static void declare_words(const words *w, uint32_t *bound, bytes *out) {
    const uint32_t count = *bound + 3, declarations[] = {4u << 16 | OP_CONSTANT,
                                                         w->uint,
                                                         count,
                                                         w->count,
                                                         4u << 16 | OP_TYPE_ARRAY,
                                                         w->array,
                                                         w->uint,
                                                         count,
                                                         4u << 16 | OP_TYPE_POINTER,
                                                         w->pointer,
                                                         STORAGE_PUSH_CONSTANT,
                                                         w->array,
                                                         4u << 16 | OP_TYPE_POINTER,
                                                         w->element,
                                                         STORAGE_PUSH_CONSTANT,
                                                         w->uint,
                                                         3u << 16 | OP_TYPE_STRUCT,
                                                         w->structure,
                                                         w->array};
    *bound = count + 1;
    put_words(out, declarations, (int)(sizeof declarations / sizeof *declarations));
}

/* A load of a member: out of the array, or alone. */
static void put_member(const bytes *spirv, size_t load, size_t chain, const words *w, uint32_t whole, uint32_t *bound,
                       bytes *out) {
    uint32_t type = word_at(spirv, load + 1), id = word_at(spirv, load + 2), word = type == w->uint ? id : (*bound)++;
    uint32_t pointer = whole ? 0 : (*bound)++, index = word_at(spirv, chain + 4);
    const uint32_t extract[] = {5u << 16 | OP_COMPOSITE_EXTRACT, w->uint, word, whole,
                                word_at(spirv, find(spirv, OP_CONSTANT, 2, index) + 3)};
    const uint32_t alone[] = {6u << 16 | OP_ACCESS_CHAIN, w->element, pointer, w->variable, w->zero, index,
                              4u << 16 | OP_LOAD,         w->uint,    word,    pointer};
    const uint32_t cast[] = {4u << 16 | OP_BITCAST, type, id, word};
    if (whole)
        put_words(out, extract, 5);
    else
        put_words(out, alone, 10);
    if (word != id) put_words(out, cast, 4);
}

static void use_words(const bytes *spirv, size_t begin, size_t end, const words *w, uint32_t *bound, bytes *out) {
    member members[MAX_MEMBERS];
    int many = list_members(spirv, begin, end, w->variable, members) > 1;
    uint32_t whole = 0;
    size_t i;
    for (i = begin; i < end; i += word_at(spirv, i) >> 16) {
        size_t chain = word_at(spirv, i) == (4u << 16 | OP_LOAD)
                           ? find_chain(spirv, begin, i, w->variable, word_at(spirv, i + 3))
                           : 0;
        if (is_chain(spirv, i, w->variable)) {
            const uint32_t load[] = {5u << 16 | OP_ACCESS_CHAIN, w->pointer, *bound,     w->variable, w->zero,
                                     4u << 16 | OP_LOAD,         w->array,   *bound + 1, *bound};
            if (!many || whole) continue;
            whole = *bound + 1;
            *bound += 2;
            put_words(out, load, 9);
        } else if (chain) {
            put_member(spirv, i, chain, w, whole, bound, out);
        } else {
            append(out, spirv->data + 4 * i, 4 * (word_at(spirv, i) >> 16));
        }
    }
}

static void push_words(bytes *spirv) {
    uint32_t bound = word_at(spirv, 3) + 3;
    bytes out = {0, 0, 0};
    size_t i, begin = 0;
    words w;
    if (!find_words(spirv, &w)) return;
    append(&out, spirv->data, 20);
    for (i = 5; i < spirv->size / 4; i += word_at(spirv, i) >> 16) {
        uint32_t op = word_at(spirv, i) & 0xffffu;
        const uint32_t stride[] = {4u << 16 | OP_DECORATE, w.array, DECORATION_ARRAY_STRIDE, 4};
        if (op == OP_FUNCTION) begin = i;
        if (op == OP_FUNCTION_END) {
            use_words(spirv, begin, i + 1, &w, &bound, &out);
            begin = 0;
            continue;
        }
        if (op == OP_MEMBER_DECORATE && word_at(spirv, i + 1) == w.structure) {
            if (word_at(spirv, i + 2)) continue;
            put_words(&out, stride, 4);
        }
        if (op == OP_TYPE_STRUCT && word_at(spirv, i + 1) == w.structure)
            declare_words(&w, &bound, &out);
        else if (!begin)
            append(&out, spirv->data + 4 * i, 4 * (word_at(spirv, i) >> 16));
    }
    for (i = 0; i < 4; i++) out.data[12 + i] = (unsigned char)(bound >> 8 * i);
    replace(spirv, &out);
}

/* The constant of uint with the bits of this one of int; else itself. */
static uint32_t as_uint(const bytes *spirv, uint32_t id) {
    size_t from = find(spirv, OP_CONSTANT, 2, id), i;
    size_t type = from ? find(spirv, OP_TYPE_INT, 1, word_at(spirv, from + 1)) : 0;
    if (!type || word_at(spirv, type + 2) != 32) return id;
    for (i = 5; i < spirv->size / 4; i += word_at(spirv, i) >> 16) {
        if (word_at(spirv, i) != (4u << 16 | OP_CONSTANT) || word_at(spirv, i + 3) != word_at(spirv, from + 3))
            continue;
        type = find(spirv, OP_TYPE_INT, 1, word_at(spirv, i + 1));
        if (type && word_at(spirv, type + 2) == 32 && !word_at(spirv, type + 3)) return word_at(spirv, i + 2);
    }
    return id;
}

/* Where operands may have either sign. */
static void share_constants(bytes *spirv) {
    bytes out = {0, 0, 0};
    size_t i, k;
    append(&out, spirv->data, 20);
    for (i = 5; i < spirv->size / 4; i += word_at(spirv, i) >> 16) {
        uint32_t op = word_at(spirv, i) & 0xffffu;
        int either = op == OP_ACCESS_CHAIN || op == OP_I_ADD || op == OP_I_SUB || op == OP_I_MUL ||
                     (op >= OP_SHIFT_RIGHT && op <= OP_BITWISE_AND);
        for (k = 0; k < word_at(spirv, i) >> 16; k++)
            put_word(&out, either && k > 2 ? as_uint(spirv, word_at(spirv, i + k)) : word_at(spirv, i + k));
    }
    replace(spirv, &out);
}

static int is_type(uint32_t op) { return op >= 19 && op <= 33; }

/* Whether an instruction makes a value and does nothing else: constants, copies and composites, conversions,
   arithmetic, comparisons, bits. */
static int is_pure(uint32_t op) {
    return is_type(op) || (op >= 41 && op <= 52) || op == OP_LOAD || op == OP_ACCESS_CHAIN || (op >= 79 && op <= 84) ||
           (op >= 109 && op <= 205);
}

/* uses: words of that value, literals among them, so that there may be fewer uses than that, but never more.
   Decorations are none, but that of a built-in: the size of workgroups is a constant that often nothing else uses. */
static void count_uses(const bytes *spirv, int *uses, int *stores) {
    size_t i, k;
    memset(uses, 0, MAX_IDS * sizeof *uses);
    memset(stores, 0, MAX_IDS * sizeof *stores);
    for (i = 5; i < spirv->size / 4; i += word_at(spirv, i) >> 16) {
        uint32_t op = word_at(spirv, i) & 0xffffu;
        size_t result = is_type(op) ? 1 : is_pure(op) || op == OP_VARIABLE ? 2 : 0;
        if (op == OP_MEMBER_DECORATE || (op == OP_DECORATE && word_at(spirv, i + 2) != DECORATION_BUILT_IN)) result = 1;
        for (k = 1; k < word_at(spirv, i) >> 16; k++)
            if (k != result && word_at(spirv, i + k) < MAX_IDS) uses[word_at(spirv, i + k)]++;
        if (op == OP_STORE && word_at(spirv, i + 1) < MAX_IDS) stores[word_at(spirv, i + 1)]++;
    }
}

static int is_unused(const bytes *spirv, size_t i, const int *uses, const int *stores) {
    uint32_t op = word_at(spirv, i) & 0xffffu, id = word_at(spirv, i + (is_type(op) ? 1 : 2));
    if (op == OP_VARIABLE && id < MAX_IDS) return word_at(spirv, i + 3) == STORAGE_FUNCTION && uses[id] == stores[id];
    return is_pure(op) && id < MAX_IDS && !uses[id];
}

/* Also variables that are only written. Returns whether there was something. */
static int drop_unused(bytes *spirv) {
    static int uses[MAX_IDS], stores[MAX_IDS];
    static char gone[MAX_IDS];
    bytes out = {0, 0, 0};
    size_t i, before = spirv->size;
    count_uses(spirv, uses, stores);
    memset(gone, 0, sizeof gone);
    for (i = 5; i < spirv->size / 4; i += word_at(spirv, i) >> 16)
        if (is_unused(spirv, i, uses, stores))
            gone[word_at(spirv, i + (is_type(word_at(spirv, i) & 0xffffu) ? 1 : 2))] = 1;
    append(&out, spirv->data, 20);
    for (i = 5; i < spirv->size / 4; i += word_at(spirv, i) >> 16) {
        uint32_t op = word_at(spirv, i) & 0xffffu;
        int of = op == OP_DECORATE || op == OP_MEMBER_DECORATE || op == OP_STORE;
        if (is_unused(spirv, i, uses, stores) || (of && word_at(spirv, i + 1) < MAX_IDS && gone[word_at(spirv, i + 1)]))
            continue;
        append(&out, spirv->data + 4 * i, 4 * (word_at(spirv, i) >> 16));
    }
    replace(spirv, &out);
    return spirv->size < before;
}

enum { OP_PHI = 245, OP_LOOP_MERGE, OP_SELECTION_MERGE, OP_BRANCH = 249, OP_BRANCH_CONDITIONAL, OP_SWITCH };

typedef struct arrivals { /* at a block */
    int count;
    size_t from;     /* the last instruction that branches there */
    uint32_t parent; /* and its block */
} arrivals;

/* A block that a merge instruction names counts as one that many branch to. */
static arrivals find_arrivals(const bytes *spirv, uint32_t label) {
    arrivals a = {0, 0, 0};
    uint32_t block = 0;
    size_t i, k;
    for (i = 5; i < spirv->size / 4; i += word_at(spirv, i) >> 16) {
        uint32_t op = word_at(spirv, i) & 0xffffu, length = word_at(spirv, i) >> 16;
        if (op == OP_LABEL) block = word_at(spirv, i + 1);
        if (op == OP_LOOP_MERGE || op == OP_SELECTION_MERGE)
            a.count += 2 * (word_at(spirv, i + 1) == label || (op == OP_LOOP_MERGE && word_at(spirv, i + 2) == label));
        if (op != OP_BRANCH && op != OP_BRANCH_CONDITIONAL && op != OP_SWITCH) continue;
        for (k = 1; k < length; k++) {
            if (word_at(spirv, i + k) != label) continue;
            a.count++;
            a.from = i;
            a.parent = block;
        }
    }
    return a;
}

/* The block at i, which does nothing but branch, goes: what branches conditionally to it can do so to where it leads.
 */
static int skip_block(bytes *spirv, size_t i) {
    uint32_t empty = word_at(spirv, i + 1), target = word_at(spirv, i + 3), k;
    arrivals a = find_arrivals(spirv, empty);
    bytes out = {0, 0, 0};
    size_t at;
    int named = find(spirv, OP_SELECTION_MERGE, 1, target) || find(spirv, OP_LOOP_MERGE, 1, target) ||
                find(spirv, OP_LOOP_MERGE, 2, target); /* loops are not entered conditionally: SwiftShader stumbles */
    int here = 0;
    if (!named || a.count != 1 || (word_at(spirv, a.from) & 0xffffu) != OP_BRANCH_CONDITIONAL ||
        word_at(spirv, a.from + 2) == target || word_at(spirv, a.from + 3) == target)
        return 0;
    append(&out, spirv->data, 20);
    for (at = 5; at < spirv->size / 4; at += word_at(spirv, at) >> 16) {
        uint32_t op = word_at(spirv, at) & 0xffffu;
        if (op == OP_LABEL) here = word_at(spirv, at + 1) == target;
        if (at == i || at == i + 2) continue;
        for (k = 0; k < word_at(spirv, at) >> 16; k++) {
            uint32_t word = word_at(spirv, at + k);
            if (k > 1 && word == empty && at == a.from) word = target;
            if (k > 3 && k % 2 == 0 && word == empty && here && op == OP_PHI) word = a.parent;
            put_word(&out, word);
        }
    }
    replace(spirv, &out);
    return 1;
}

static int skip_blocks(bytes *spirv) {
    size_t i, before = spirv->size;
    for (i = 5; i + 4 < spirv->size / 4; i += word_at(spirv, i) >> 16)
        if (word_at(spirv, i) == (2u << 16 | OP_LABEL) && word_at(spirv, i + 2) == (2u << 16 | OP_BRANCH) &&
            skip_block(spirv, i))
            break;
    return spirv->size < before;
}

static void tidy(bytes *spirv) {
    push_words(spirv);
    share_constants(spirv);
    while (drop_unused(spirv) || skip_blocks(spirv)) continue;
}

static int write_file(const char *path, const bytes *what) {
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(what->data, 1, what->size, f) != what->size) return fail("cannot write", path);
    return fclose(f) != 0;
}

static int optimize(const module *m, const compiler *with, const char *from, uint32_t kept, bytes *out) {
    char marked[MAX_PATH];
    bytes text;
    int failed;
    snprintf(marked, sizeof marked, "%s.marked", from);
    if (read_file(from, &text)) return 1;
    shared_functions(&text, kept);
    failed = write_file(marked, &text) || run_optimizer(with, optimize_flags, marked, marked);
    free(text.data);
    if (!failed) failed = read_file(marked, &text);
    if (!failed) {
        hoist(&text);
        failed = write_file(marked, &text) || run_optimizer(with, optimize_flags, marked, marked) ||
                 read_file(marked, &text);
    }
    if (!failed) {
        tidy(&text);
        failed =
            write_file(marked, &text) || run_optimizer(with, "--compact-ids", marked, marked) || read_file(marked, out);
        free(text.data);
    }
    remove(marked);
    if (!failed) shared_functions(out, 0);
    return failed ? fail("cannot be optimized", m->name) : 0;
}

/* Tries each function both ways, with the others as they are best so far. */
static int smallest(module *m, const compiler *with, const char *from) {
    bytes text, trial;
    int f, count, inlined;
    if (read_file(from, &text)) return 1;
    count = shared_functions(&text, 0);
    free(text.data);
    for (inlined = 0; inlined < 2; inlined++) {
        uint32_t kept = inlined ? 0 : ~0u;
        if (optimize(m, with, from, kept, &trial)) return 1;
        if (inlined && trial.size >= m->spirv.size) break;
        m->spirv = trial;
        m->kept = kept;
    }
    for (f = 0; f < count; f++) {
        if (optimize(m, with, from, m->kept ^ 1u << f, &trial)) return 1;
        if (trial.size >= m->spirv.size) continue;
        m->spirv = trial;
        m->kept ^= 1u << f;
    }
    if (count < 32) m->kept &= (1u << count) - 1;
    return 0;
}

/* --- the text form --- */

static void put_digits(bytes *out, uint32_t value) {
    int i;
    for (i = 0; i < 5; i++, value /= 85) {
        char c = (char)('#' + value % 85);
        if (c >= '?') c++;
        if (c >= '\\') c++;
        append(out, &c, 1);
    }
}

static void put_number(bytes *out, uint32_t value) { /* LEB128 */
    for (;; value >>= 7) {
        unsigned char byte = (unsigned char)(value < 128 ? value : (value & 127) | 128);
        append(out, &byte, 1);
        if (value < 128) return;
    }
}

static void words_as_numbers(const bytes *spirv, bytes *out) {
    size_t i;
    for (i = 0; i + 4 <= spirv->size; i += 4) {
        const unsigned char *p = spirv->data + i;
        put_number(out, p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
    }
}

/* The form that src/vk/spirv.c unfolds, where it is told: the same steps write it, read it and tell its price. */
enum {
    NUMBER = 16 + 16 * 20,
    COPY = 0,
    AGAIN = 8,
    LENGTH = 16,
    BACK = LENGTH + 2 * NUMBER,
    LITERAL = BACK + 4 * NUMBER,
    ODDS = LITERAL + 2 * 3 * 256,
    LONGEST = 65535, /* number */
    PASSES = 8
};

typedef enum coding { CODE_WRITE, CODE_READ, CODE_PRICE } coding;

typedef struct coder {
    coding mode;
    bytes *packed;
    size_t at; /* read from packed */
    uint64_t low;
    uint32_t range, code, price; /* price: 16ths of a bit */
    uint16_t odds[ODDS];
    uint16_t prices[4096];
} coder;

/* One byte, or length bytes from back bytes before. */
typedef struct step {
    uint32_t back, length;
    unsigned char literal;
} step;

typedef struct place {
    uint32_t at, back, history; /* back: of the last copy */
} place;

static void code_shift(coder *c) {
    unsigned char byte = (unsigned char)(c->low >> 24);
    if (c->mode == CODE_WRITE) append(c->packed, &byte, 1);
    if (c->mode == CODE_READ) c->code = c->code << 8 | (c->at < c->packed->size ? c->packed->data[c->at] : 0u);
    c->at++;
    c->low = c->low << 8 & 0xffffffffu;
    c->range <<= 8;
}

static void start_coder(coder *c, coding mode, bytes *packed) {
    int i, k;
    memset(c, 0, sizeof *c);
    c->mode = mode;
    c->packed = packed;
    for (i = 0; i < 4 && mode == CODE_READ; i++) code_shift(c);
    c->range = 0xffffffffu;
    for (i = 0; i < ODDS; i++) c->odds[i] = 2048;
    for (i = 1; i < 4096; i++) { /* -16 log2(i / 4096), four bits of it by squaring */
        uint32_t square = (uint32_t)i, bits = 0;
        for (k = 0; k < 4; k++) {
            square *= square;
            for (bits <<= 1; square >= 1u << 16; square >>= 1) bits++;
        }
        c->prices[i] = (uint16_t)((12 << 4) - bits);
    }
}

static void add_low(coder *c, uint32_t more) {
    size_t i = c->packed->size;
    c->low += more;
    if (c->low >> 32)
        while (!++c->packed->data[--i]) continue;
    c->low &= 0xffffffffu;
}

static uint32_t code_bit(coder *c, uint32_t which, uint32_t bit) {
    uint32_t odds = c->odds[which], zero = (c->range >> 12) * odds;
    if (c->mode == CODE_PRICE) {
        c->price += c->prices[bit ? 4096 - odds : odds];
        return bit;
    }
    if (c->mode == CODE_READ) bit = c->code >= zero;
    if (bit) {
        if (c->mode == CODE_WRITE) add_low(c, zero);
        c->code -= zero;
        c->range -= zero;
        odds -= odds >> 4;
    } else {
        c->range = zero;
        odds += (4096 - odds) >> 4;
    }
    c->odds[which] = (uint16_t)odds;
    while (c->range < 1u << 24) code_shift(c);
    return bit;
}

static uint32_t code_number(coder *c, uint32_t odds, uint32_t number) {
    uint32_t size = 0, read = 1, value = 1, left;
    while (number >> size > 1) size++;
    for (left = 4; left; left--) read = read << 1 | code_bit(c, odds + read, size >> (left - 1) & 1);
    size = read - 16;
    odds += 16 + size * 20;
    for (left = size; left; left--)
        value = value << 1 | code_bit(c, odds + (value < 8 ? value : 7 + left), number >> (left - 1) & 1);
    return value;
}

static uint32_t code_literal(coder *c, uint32_t odds, const unsigned char *guess, uint32_t literal) {
    uint32_t value = 1, left, bit;
    for (left = 8; left; left--) {
        uint32_t guessed = guess ? *guess >> (left - 1) & 1u : 0;
        bit = code_bit(c, odds + (guess ? 256 + 256 * guessed : 0) + value, literal >> (left - 1) & 1);
        if (bit != guessed) guess = NULL;
        value = value << 1 | bit;
    }
    return value & 255;
}

/* what: to be written or priced; returns that or what was read, and moves to the place after it. */
static step code_step(coder *c, const unsigned char *plain, place *p, step what) {
    uint32_t goes_on = p->at ? plain[p->at - 1] >> 7 : 0u, context = p->history | goes_on << 2, again;
    const unsigned char *guess = p->history & 1 ? plain + p->at - p->back : NULL;
    p->history = p->history << 1 & 3;
    if (!code_bit(c, COPY + context, what.back != 0)) {
        what.literal = (unsigned char)code_literal(c, LITERAL + 768 * goes_on, guess, what.literal);
        what.back = 0;
        what.length = 1;
    } else {
        p->history |= 1;
        again = code_bit(c, AGAIN + context, what.back == p->back);
        what.length = code_number(c, LENGTH + NUMBER * again, what.length - !again) + !again;
        if (!again) p->back = code_number(c, BACK + NUMBER * (what.length < 5 ? what.length - 2 : 3), what.back);
        what.back = p->back;
    }
    p->at += what.length;
    return what;
}

typedef struct node { /* the cheapest way to a place */
    uint32_t price;
    place here;
    step last;
} node;

static void try_step(coder *c, const bytes *plain, node *nodes, size_t at, step what) {
    place to = nodes[at].here;
    c->price = nodes[at].price;
    code_step(c, plain->data, &to, what);
    if (c->price >= nodes[to.at].price) return;
    nodes[to.at].price = c->price;
    nodes[to.at].here = to;
    nodes[to.at].last = what;
}

static uint32_t same_length(const bytes *plain, size_t at, uint32_t back) {
    uint32_t length = 0;
    if (!back || back > at) return 0;
    while (length < LONGEST && at + length < plain->size && plain->data[at + length] == plain->data[at + length - back])
        length++;
    return length;
}

/* Copies from shortest to longest bytes; of the long ones only the longest. */
static void try_copies(coder *c, const bytes *plain, node *nodes, size_t at, uint32_t back, uint32_t shortest) {
    uint32_t longest = same_length(plain, at, back), length;
    for (length = shortest; length <= longest; length++) {
        step what = {0, 0, 0};
        if (length > 64 && length < longest) continue;
        what.back = back;
        what.length = length;
        try_step(c, plain, nodes, at, what);
    }
}

/* The cheapest steps at the odds of c, in order of place: nodes[i].last leads from nodes[i - length]. */
static void find_steps(coder *c, const bytes *plain, node *nodes) {
    size_t i;
    for (i = 1; i <= plain->size; i++) nodes[i].price = ~0u;
    memset(nodes, 0, sizeof *nodes);
    for (i = 0; i < plain->size; i++) {
        step literal = {0, 1, 0};
        uint32_t back, longest = 1;
        literal.literal = plain->data[i];
        try_step(c, plain, nodes, i, literal);
        try_copies(c, plain, nodes, i, nodes[i].here.back, 1);
        for (back = 1; back <= i && back <= LONGEST; back++) {
            uint32_t length = plain->data[i] == plain->data[i - back] ? same_length(plain, i, back) : 0;
            if (length <= longest) continue;
            if (back != nodes[i].here.back) try_copies(c, plain, nodes, i, back, longest + 1);
            longest = length;
        }
    }
}

static void write_steps(coder *c, const bytes *plain, const node *nodes) {
    step *steps = malloc(plain->size * sizeof *steps);
    size_t i, count = 0;
    place p = {0, 0, 0};
    for (i = plain->size; i; i -= nodes[i].last.length) steps[count++] = nodes[i].last;
    while (count) code_step(c, plain->data, &p, steps[--count]);
    for (i = 0; i < 4; i++) code_shift(c);
    free(steps);
}

/* Each pass finds its steps by the odds that the pass before ended with; the smallest result is taken. */
static void fold(const bytes *plain, bytes *out) {
    coder *price = malloc(sizeof *price), *write = malloc(sizeof *write);
    node *nodes = malloc((plain->size + 1) * sizeof *nodes);
    int i;
    start_coder(price, CODE_PRICE, NULL);
    for (i = 0; i < PASSES; i++) {
        bytes packed = {0, 0, 0}, larger;
        find_steps(price, plain, nodes);
        start_coder(write, CODE_WRITE, &packed);
        write_steps(write, plain, nodes);
        memcpy(price->odds, write->odds, sizeof price->odds);
        larger = packed;
        if (!i || packed.size < out->size) {
            larger = *out;
            *out = packed;
        }
        free(larger.data);
    }
    free(nodes);
    free(write);
    free(price);
}

static void encode(const bytes *plain, bytes *text) {
    bytes packed = {0, 0, 0};
    size_t i;
    fold(plain, &packed);
    append(&packed, "\0\0\0", 3);
    for (i = 0; i + 4 <= packed.size; i += 4)
        put_digits(text, packed.data[i] | (uint32_t)packed.data[i + 1] << 8 | (uint32_t)packed.data[i + 2] << 16 |
                             (uint32_t)packed.data[i + 3] << 24);
    free(packed.data);
}

/* C99 promises literals of 4095 characters (MSVC takes 16380): pieces of at most 4000, 118 to a line. */
static void write_module(FILE *out, const module *m) {
    bytes plain = {0, 0, 0}, text = {0, 0, 0};
    size_t at, piece = 4000, line = 118;
    words_as_numbers(&m->spirv, &plain);
    encode(&plain, &text);
    fprintf(out, "static const char *const diti_spirv_text_%s[] = {\n", m->name);
    for (at = 0; at < text.size;) {
        size_t piece_end = (at / piece + 1) * piece, end = at + line;
        if (end > piece_end) end = piece_end;
        if (end > text.size) end = text.size;
        fprintf(out, "    \"%.*s\"%s\n", (int)(end - at), (const char *)text.data + at,
                end == piece_end || end == text.size ? "," : "");
        at = end;
    }
    fprintf(out, "    0};\n#define DITI_SPIRV_SIZES_%s %uu, %uu\n", m->name, (unsigned)(m->spirv.size / 4),
            (unsigned)plain.size);
    free(plain.data);
    free(text.data);
}

static int write_inc(const char *path, const module *modules, int count, const kernel_list *kernels) {
    int i;
    FILE *out = fopen(path, "wb");
    if (!out) return fail("cannot write", path);
    fputs(
        "#include \"vk/vk.h\"\n/* Generated by make shaders from shaders/: one block per module, then the table. */\n",
        out);
    for (i = 0; i < count; i++) write_module(out, &modules[i]);
    fputs("static const diti_spirv_module diti_spirv_modules[DITI_KERNELS] = {\n", out);
    for (i = 0; i < kernels->count; i++) {
        const char *name = modules[kernels->modules[i]].name;
        fprintf(out, "    {\"%s\", diti_spirv_text_%s, DITI_SPIRV_SIZES_%s},\n", kernels->names[i], name, name);
    }
    fputs("};\nDIT_INTERNAL const diti_spirv_module *diti_spirv_table(void) { return diti_spirv_modules; }\n", out);
    return fclose(out) ? fail("cannot write", path) : 0;
}

/* The enum by which the library names a kernel, in the order of the table, so that a misspelt name does not compile. */
static void print_enum(const kernel_list *kernels, bytes *out) {
    char line[80];
    int i;
    const char *c;
    static const char head[] =
        "/* Generated by make shaders from shaders/MODULES: a name for each kernel of vk/spirv.inc, in its order. */\n"
        "#ifndef DITI_KERNELS_H\n#define DITI_KERNELS_H\ntypedef enum diti_kernel {\n";
    append(out, head, sizeof head - 1);
    for (i = 0; i < kernels->count; i++) {
        char upper[64] = "";
        for (c = kernels->names[i]; *c; c++) upper[c - kernels->names[i]] = (char)toupper((unsigned char)*c);
        append(out, line, (size_t)snprintf(line, sizeof line, "    DITI_KERNEL_%s,\n", upper));
    }
    append(out, line, (size_t)snprintf(line, sizeof line, "    DITI_KERNELS\n} diti_kernel;\n#endif\n"));
}

static int write_enum(const char *path, const kernel_list *kernels) {
    bytes text = {0, 0, 0};
    int failed;
    print_enum(kernels, &text);
    failed = write_file(path, &text);
    free(text.data);
    return failed;
}

static int check_enum(const char *path, const kernel_list *kernels) {
    bytes text = {0, 0, 0}, stands;
    int different;
    print_enum(kernels, &text);
    if (read_file(path, &stands)) return 1;
    different = text.size != stands.size || memcmp(text.data, stands.data, text.size);
    free(text.data);
    free(stands.data);
    return different ? fail("does not fit MODULES; run `make shaders`", path) : 0;
}

static int write_lock(const char *folder, const module *modules, int count, const lock *locked) {
    char path[MAX_PATH];
    int i;
    FILE *out;
    snprintf(path, sizeof path, "%s/spirv.lock", folder);
    out = fopen(path, "wb");
    if (!out) return fail("cannot write", path);
    fprintf(out,
            "# Generated by make shaders. name, SHA-256 of the flattened source and the flags, SHA-256 and size of the "
            "SPIR-V, functions not inlined, defines\n");
    for (i = 0; i < 2; i++) fprintf(out, "compiler %d %s\n", glslang_versions[i], locked->compilers[i]);
    fprintf(out, "flags %s; %s\n", compile_flags, optimize_flags);
    for (i = 0; i < count; i++)
        fprintf(out, "%s %s %s %u %x %s\n", modules[i].name, modules[i].source_hash, modules[i].spirv_hash,
                (unsigned)modules[i].spirv.size, (unsigned)modules[i].kept, modules[i].defines);
    return fclose(out) ? fail("cannot write", path) : 0;
}

/* --- reading back --- */

static uint32_t take_number(const bytes *from, size_t *at) {
    uint32_t value = 0, shift = 0, byte = 128;
    while (byte & 128 && *at < from->size && shift < 32) {
        byte = from->data[(*at)++];
        value |= (byte & 127u) << shift;
        shift += 7;
    }
    return value;
}

static void decode_digits(const bytes *text, bytes *packed) {
    size_t i;
    for (i = 0; i + 5 <= text->size; i += 5) {
        uint32_t value = 0, power = 1;
        int j;
        for (j = 0; j < 5; j++, power *= 85) {
            uint32_t c = text->data[i + (size_t)j];
            value += (c - '#' - (c > '?') - (c > '\\')) * power;
        }
        for (j = 0; j < 4; j++, value >>= 8) {
            unsigned char byte = (unsigned char)value;
            append(packed, &byte, 1);
        }
    }
}

static int unfold(bytes *packed, size_t size, bytes *out) {
    coder *c = malloc(sizeof *c);
    step what = {0, 0, 0};
    place p = {0, 0, 0};
    int good = 1;
    start_coder(c, CODE_READ, packed);
    while (good && out->size < size) {
        what = code_step(c, out->data, &p, what);
        good = c->at <= packed->size && what.back <= out->size && what.length <= size - out->size &&
               (what.back || p.history % 2 == 0);
        for (; good && what.length; what.length--) {
            unsigned char byte = what.back ? out->data[out->size - what.back] : what.literal;
            append(out, &byte, 1);
        }
    }
    free(c);
    return good;
}

/* words words from the text of a module whose numbers take size bytes */
static int decode_text(const bytes *text, unsigned words, unsigned size, bytes *spirv) {
    bytes packed = {0, 0, 0}, plain = {0, 0, 0};
    size_t at = 0;
    decode_digits(text, &packed);
    if (!unfold(&packed, size, &plain)) return 1;
    while (at < plain.size) {
        uint32_t word = take_number(&plain, &at);
        append(spirv, &word, 4);
    }
    free(packed.data);
    free(plain.data);
    return spirv->size != words * 4u;
}

/* Fills each module's spirv from the text of INC. */
static int read_inc(const char *path, module *modules, int count) {
    bytes inc;
    int i;
    if (read_file(path, &inc)) return 1;
    append(&inc, "", 1);
    for (i = 0; i < count; i++) {
        char key[128];
        const char *at, *stop;
        bytes text = {0, 0, 0};
        unsigned words = 0, size = 0;
        snprintf(key, sizeof key, "diti_spirv_text_%s[] = {", modules[i].name);
        at = strstr((const char *)inc.data, key);
        if (!at) return fail("module is not in the generated file", modules[i].name);
        stop = strstr(at, "\n    0};");
        for (at = strchr(at, '"'); at && at < stop; at = strchr(at + 1, '"')) {
            const char *end = strchr(at + 1, '"');
            append(&text, at + 1, (size_t)(end - at - 1));
            at = end;
        }
        snprintf(key, sizeof key, "#define DITI_SPIRV_SIZES_%s ", modules[i].name);
        at = strstr((const char *)inc.data, key);
        if (!at || sscanf(at + strlen(key), "%uu, %uu", &words, &size) != 2 ||
            decode_text(&text, words, size, &modules[i].spirv))
            return fail("module is damaged in the generated file", modules[i].name);
        free(text.data);
    }
    free(inc.data);
    return 0;
}

static int read_lock(const char *folder, lock *out) {
    char path[MAX_PATH], line[4096];
    int i, glslang, at;
    FILE *f;
    memset(out, 0, sizeof *out);
    snprintf(path, sizeof path, "%s/spirv.lock", folder);
    f = fopen(path, "r");
    if (!f) return fail("cannot read", path);
    while (fgets(line, sizeof line, f) && out->count < MAX_MODULES) {
        lock_entry *e = &out->entries[out->count];
        line[strcspn(line, "\r\n")] = 0;
        if (sscanf(line, "compiler %d %n", &glslang, &at) == 1)
            for (i = 0; i < 2; i++)
                if (glslang == glslang_versions[i])
                    snprintf(out->compilers[i], sizeof out->compilers[i], "%s", line + at);
        if (line[0] != '#' &&
            sscanf(line, "%63s %64s %64s %u %x", e->name, e->source_hash, e->spirv_hash, &e->size, &e->kept) == 5)
            out->count++;
    }
    fclose(f);
    return 0;
}

static const lock_entry *find_locked(const lock *locked, const char *name) {
    int i;
    for (i = 0; i < locked->count; i++)
        if (!strcmp(locked->entries[i].name, name)) return &locked->entries[i];
    return NULL;
}

static int check_lock(const lock *locked, module *m) {
    const lock_entry *e = find_locked(locked, m->name);
    if (!e) return fail("spirv.lock does not have module", m->name);
    m->kept = e->kept;
    if (strcmp(m->source_hash, e->source_hash)) return fail("source changed since `make shaders`", m->name);
    if (strcmp(m->spirv_hash, e->spirv_hash) || m->spirv.size != e->size)
        return fail("generated text does not fit spirv.lock", m->name);
    return 0;
}

static int recompile(const char *folder, const compiler *with, const module *m, const char *inc) {
    char out[MAX_PATH];
    bytes again;
    int different;
    snprintf(out, sizeof out, "%s.check.spv", inc);
    if (compile(folder, m, with, out) || optimize(m, with, out, m->kept, &again)) return 1;
    different = again.size != m->spirv.size || memcmp(again.data, m->spirv.data, again.size);
    free(again.data);
    remove(out);
    return different ? fail("compiling again gives other bytes", m->name) : 0;
}

/* --- the verbs --- */

/* Whether the module as it is stays: its source, the compiler and its SPIR-V are those that are locked. */
static int still_good(const compiler *with, const lock *locked, module *m, const char *inc) {
    const lock_entry *e = find_locked(locked, m->name);
    if (!e || strcmp(e->source_hash, m->source_hash)) return 0;
    if (with->version[0] && strcmp(with->version, locked->compilers[is_new(m)])) return 0;
    if (read_inc(inc, m, 1)) return 0;
    sha256(m->spirv.data, m->spirv.size, m->spirv_hash);
    m->kept = e->kept;
    return !strcmp(e->spirv_hash, m->spirv_hash);
}

static int build_module(const char *folder, const compiler *with, module *m, const char *inc) {
    char out[MAX_PATH];
    if (!with->version[0]) return fail("needs a newer glslang, which tools/newest.sh could not fetch", m->name);
    snprintf(out, sizeof out, "%s.spv", inc);
    memset(&m->spirv, 0, sizeof m->spirv);
    if (compile(folder, m, with, out) || smallest(m, with, out)) return 1;
    sha256(m->spirv.data, m->spirv.size, m->spirv_hash);
    return remove(out) != 0;
}

static int build(const char *folder, const char *inc, const char *names, module *modules, int count,
                 const kernel_list *kernels) {
    static lock locked;
    compiler with[2];
    size_t total = 0;
    int i, compiled = 0;
    find_compilers(with);
    if (!with[0].version[0])
        return fail("needs glslangValidator and spirv-opt", "apt-get install glslang-tools spirv-tools");
    read_lock(folder, &locked);
    for (i = 0; i < count; i++) {
        module *m = &modules[i];
        if (hash_source(folder, m)) return 1;
        if (!still_good(&with[is_new(m)], &locked, m, inc)) {
            if (build_module(folder, &with[is_new(m)], m, inc)) return 1;
            printf("%-20s %6u bytes\n", m->name, (unsigned)m->spirv.size);
            compiled++;
        }
        total += m->spirv.size;
    }
    for (i = 0; i < 2; i++)
        if (with[i].version[0]) snprintf(locked.compilers[i], sizeof locked.compilers[i], "%s", with[i].version);
    printf("%d modules, %d of them compiled, %u bytes of SPIR-V\n", count, compiled, (unsigned)total);
    return write_inc(inc, modules, count, kernels) || write_enum(names, kernels) ||
           write_lock(folder, modules, count, &locked);
}

static int check(const char *folder, const char *inc, const char *names, module *modules, int count,
                 const kernel_list *kernels) {
    static lock locked;
    compiler with[2];
    int i, again = 0;
    if (read_inc(inc, modules, count) || check_enum(names, kernels) || read_lock(folder, &locked)) return 1;
    for (i = 0; i < count; i++) {
        if (hash_source(folder, &modules[i])) return 1;
        sha256(modules[i].spirv.data, modules[i].spirv.size, modules[i].spirv_hash);
        if (check_lock(&locked, &modules[i])) return 1;
    }
    if (locked.count != count) return fail("spirv.lock has modules that MODULES has not", folder);
    find_compilers(with);
    for (i = 0; i < count; i++) {
        int class = is_new(&modules[i]);
        if (strcmp(with[class].version, locked.compilers[class])) continue;
        if (recompile(folder, &with[class], &modules[i], inc)) return 1;
        again++;
    }
    printf("note: %d modules fit spirv.lock; compiling %d of them again gives the same bytes\n", count, again);
    for (i = 0; i < 2; i++)
        if (strcmp(with[i].version, locked.compilers[i])) printf("note: the others need %s\n", locked.compilers[i]);
    return 0;
}

static int raw(const char *folder, const char *to, const module *modules, const kernel_list *kernels) {
    compiler with[2];
    char out[MAX_PATH];
    int i;
    find_compilers(with);
    for (i = 0; i < kernels->count; i++) {
        const module *m = &modules[kernels->modules[i]];
        if (!with[is_new(m)].version[0]) continue;
        snprintf(out, sizeof out, "%s/%s.spv", to, kernels->names[i]);
        if (compile(folder, m, &with[is_new(m)], out) || run_optimizer(&with[is_new(m)], "--strip-debug", out, out))
            return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    static module modules[MAX_MODULES + 1];
    static kernel_list kernels;
    int count;
    if (argc > 3 && read_modules(argv[2], modules, &count, &kernels)) return 1;
    if (argc == 5 && !strcmp(argv[1], "build")) return build(argv[2], argv[3], argv[4], modules, count, &kernels);
    if (argc == 5 && !strcmp(argv[1], "check")) return check(argv[2], argv[3], argv[4], modules, count, &kernels);
    if (argc == 4 && !strcmp(argv[1], "raw")) return raw(argv[2], argv[3], modules, &kernels);
    return fail("usage", "spirv build SHADERS INC ENUM, spirv check SHADERS INC ENUM, spirv raw SHADERS DIR");
}
