/* spirv build SHADERS INC   compiles what changed of SHADERS/MODULES with glslang and spirv-opt, writes INC (the text
   form that src/vk/spirv.c decodes) and SHADERS/spirv.lock spirv check SHADERS INC   without a compiler: the lock fits
   the sources and INC fits the lock. Where a compiler of the lock is installed, compiles its modules again and compares
   bytes spirv raw SHADERS DIR     compiles without spirv-opt to DIR/NAME.spv: the tests compare both forms */
#define _POSIX_C_SOURCE 200809L /* popen */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MODULES 64
#define MAX_PATH 1024
static const char compile_flags[] = "-V --target-env vulkan1.2";
/* What -O does, without unrolling: drivers do that, and know the sizes. */
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

typedef struct compiler {
    const char *prefix; /* of its commands: nothing, or the script that runs them */
    char version[512];  /* empty: there is none */
    int glslang;
} compiler;

typedef struct lock_entry {
    char name[64], source_hash[65], spirv_hash[65];
    unsigned size, kept;
} lock_entry;

typedef struct lock {
    char compilers[2][512]; /* of modules for the old and for the new glslang */
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

static int read_modules(const char *folder, module *modules, int *count) {
    char path[MAX_PATH], line[512];
    FILE *f;
    snprintf(path, sizeof path, "%s/MODULES", folder);
    f = fopen(path, "r");
    if (!f) return fail("cannot read", path);
    for (*count = 0; fgets(line, sizeof line, f);) {
        module *m = &modules[*count];
        memset(m, 0, sizeof *m);
        line[strcspn(line, "\r\n")] = 0;
        if (line[0] == '#' || sscanf(line, "%63s %127s %d %255[^\n]", m->name, m->source, &m->glslang, m->defines) < 3)
            continue;
        if (++*count == MAX_MODULES) break;
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
    snprintf(flags, sizeof flags, "%s %s; %s; hoisted\n", compile_flags, m->defines, optimize_flags);
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

/* What the function [begin, end) reads, and where first. */
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
        failed =
            write_file(marked, &text) || run_optimizer(with, optimize_flags, marked, marked) || read_file(marked, out);
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

typedef struct copy { /* of bytes that were there before */
    uint32_t back, length;
    int gain; /* bytes saved */
} copy;

static copy best_copy(const bytes *plain, const int *before, size_t at) {
    copy best = {0, 0, 0};
    int from;
    for (from = before[at]; from >= 0; from = before[from]) {
        uint32_t back = (uint32_t)(at - (size_t)from), length = 0;
        int gain;
        while (at + length < plain->size && plain->data[at + length] == plain->data[(size_t)from + length]) length++;
        gain = (int)length - (back < 128 ? 1 : back < 16384 ? 2 : 3);
        if (gain <= best.gain || length < 3) continue;
        best.back = back;
        best.length = length;
        best.gain = gain;
    }
    return best;
}

static void put_copy(bytes *out, const unsigned char *literals, size_t count, copy what) {
    uint32_t more = what.length ? what.length - 3 : 0;
    unsigned char halves = (unsigned char)((count < 15 ? count : 15) << 4 | (more < 15 ? more : 15));
    append(out, &halves, 1);
    if (count >= 15) put_number(out, (uint32_t)count - 15);
    append(out, literals, count);
    if (!what.length) return;
    if (more >= 15) put_number(out, more - 15);
    put_number(out, what.back);
}

/* before[i]: the last place before i with the same three bytes, or -1. */
static int *same_before(const bytes *plain) {
    int *before = malloc((plain->size + 1) * sizeof *before), *last = malloc(sizeof(int) << 16);
    size_t i;
    memset(last, -1, sizeof(int) << 16);
    for (i = 0; i <= plain->size; i++) {
        const unsigned char *p = plain->data + i;
        uint32_t slot =
            i + 3 <= plain->size ? (p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16) * 2654435761u >> 16 : 0;
        before[i] = i + 3 <= plain->size ? last[slot] : -1;
        if (i + 3 <= plain->size) last[slot] = (int)i;
    }
    free(last);
    return before;
}

/* The form that src/vk/spirv.c unfolds. A copy waits for one that begins a byte later and saves more. */
static void fold(const bytes *plain, bytes *out) {
    static const copy none;
    int *before = same_before(plain);
    size_t at = 0, literals = 0; /* literals: where those begin that wait for a copy */
    copy now = best_copy(plain, before, 0);
    while (at < plain->size) {
        copy next = best_copy(plain, before, at + 1);
        if (now.gain > 0 && next.gain <= now.gain + 1) {
            put_copy(out, plain->data + literals, at - literals, now);
            literals = at += now.length;
            next = best_copy(plain, before, at);
        } else {
            at++;
        }
        now = next;
    }
    if (literals < plain->size) put_copy(out, plain->data + literals, plain->size - literals, none);
    free(before);
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

static int write_inc(const char *path, const module *modules, int count) {
    int i;
    FILE *out = fopen(path, "wb");
    if (!out) return fail("cannot write", path);
    fputs(
        "#include \"vk/vk.h\"\n/* Generated by make shaders from shaders/: one block per module, then the table. */\n",
        out);
    for (i = 0; i < count; i++) write_module(out, &modules[i]);
    fputs("static const diti_spirv_module diti_spirv_modules[] = {\n", out);
    for (i = 0; i < count; i++)
        fprintf(out, "    {\"%s\", diti_spirv_text_%s, DITI_SPIRV_SIZES_%s},\n", modules[i].name, modules[i].name,
                modules[i].name);
    fputs(
        "    {0, 0, 0, 0}};\nDIT_INTERNAL const diti_spirv_module *diti_spirv_table(void) { return diti_spirv_modules; }\n",
        out);
    return fclose(out) ? fail("cannot write", path) : 0;
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

static void unfold(const bytes *packed, size_t size, bytes *out) {
    size_t at = 0;
    while (out->size < size && at < packed->size) {
        uint32_t halves = packed->data[at++], literals = halves >> 4, more = halves & 15, back;
        if (literals == 15) literals += take_number(packed, &at);
        for (; literals && at < packed->size; literals--) append(out, packed->data + at++, 1);
        if (out->size >= size) return;
        if (more == 15) more += take_number(packed, &at);
        back = take_number(packed, &at);
        if (!back || back > out->size) return;
        for (more += 3; more && out->size < size; more--) {
            unsigned char byte = out->data[out->size - back];
            append(out, &byte, 1);
        }
    }
}

/* words words from the text of a module whose numbers take size bytes */
static int decode_text(const bytes *text, unsigned words, unsigned size, bytes *spirv) {
    bytes packed = {0, 0, 0}, plain = {0, 0, 0};
    size_t at = 0;
    decode_digits(text, &packed);
    unfold(&packed, size, &plain);
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

/* What need not be compiled again, and what cannot: the module as it is. */
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

static int build(const char *folder, const char *inc, module *modules, int count) {
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
    return write_inc(inc, modules, count) || write_lock(folder, modules, count, &locked);
}

static int check(const char *folder, const char *inc, module *modules, int count) {
    static lock locked;
    compiler with[2];
    int i, again = 0;
    if (read_inc(inc, modules, count) || read_lock(folder, &locked)) return 1;
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

static int raw(const char *folder, const char *to, const module *modules, int count) {
    compiler with[2];
    char out[MAX_PATH];
    int i;
    find_compilers(with);
    for (i = 0; i < count; i++) {
        if (!with[is_new(&modules[i])].version[0]) continue;
        snprintf(out, sizeof out, "%s/%s.spv", to, modules[i].name);
        if (compile(folder, &modules[i], &with[is_new(&modules[i])], out) ||
            run_optimizer(&with[is_new(&modules[i])], "--strip-debug", out, out))
            return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    static module modules[MAX_MODULES];
    int count;
    if (argc != 4) return fail("usage", "spirv build|check|raw SHADERS INC|DIR");
    if (read_modules(argv[2], modules, &count)) return 1;
    if (!strcmp(argv[1], "build")) return build(argv[2], argv[3], modules, count);
    if (!strcmp(argv[1], "check")) return check(argv[2], argv[3], modules, count);
    if (!strcmp(argv[1], "raw")) return raw(argv[2], argv[3], modules, count);
    return fail("unknown verb", argv[1]);
}
