/* spirv build SHADERS INC   compiles every module of SHADERS/MODULES with glslangValidator and spirv-opt, writes INC
   (the text form that src/vk/spirv.c decodes) and SHADERS/spirv.lock spirv check SHADERS INC   without a compiler: the
   lock fits the sources and INC fits the lock. Where the compiler of the lock is installed, compiles again and compares
   bytes. spirv raw SHADERS DIR     compiles without spirv-opt to DIR/NAME.spv: the tests compare both forms */
#define _POSIX_C_SOURCE 200809L /* popen */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MODULES 64
#define MAX_PATH 1024
static const char compile_flags[] = "-V --target-env vulkan1.2";
/* Inlining makes some modules smaller and others larger: the smaller result is kept. */
static const char *const optimize_flags[2] = {
    "--strip-debug -O",
    "--strip-debug --eliminate-dead-functions --private-to-local --convert-local-access-chains --eliminate-local-single-block "
    "--eliminate-local-single-store --ssa-rewrite --eliminate-dead-code-aggressive --eliminate-dead-branches --merge-blocks --ccp "
    "--redundancy-elimination --eliminate-dead-code-aggressive --compact-ids"};

typedef struct bytes {
    unsigned char *data;
    size_t size, capacity;
} bytes;

typedef struct module {
    char name[64], source[128], defines[256];
    char source_hash[65], spirv_hash[65];
    size_t spirv_size;
    bytes spirv;
} module;

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
        if (line[0] == '#' || sscanf(line, "%63s %127s %255[^\n]", m->name, m->source, m->defines) < 2) continue;
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
    char flags[1024];
    if (flatten(folder, m->source, &text)) return 1;
    snprintf(flags, sizeof flags, "%s %s; %s; %s\n", compile_flags, m->defines, optimize_flags[0], optimize_flags[1]);
    append(&text, flags, strlen(flags));
    sha256(text.data, text.size, m->source_hash);
    free(text.data);
    return 0;
}

/* --- compiling --- */

/* The first line that a command prints; reads on to the end, so that the command does not die of a closed pipe. */
static int first_line(const char *command, char *out, size_t size) {
    char line[512];
    FILE *f = popen(command, "r");
    out[0] = 0;
    if (!f) return 1;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        if (!out[0]) snprintf(out, size, "%.*s", (int)size - 1, line);
    }
    return pclose(f) != 0 || !out[0];
}

static int compiler_version(char *out, size_t size) {
    char glslang[200], tools[200];
    if (first_line("glslangValidator --version 2>/dev/null", glslang, sizeof glslang) ||
        first_line("spirv-opt --version 2>&1", tools, sizeof tools))
        return 1;
    if (strstr(tools, " unknown")) *strstr(tools, " unknown") = 0;
    snprintf(out, size, "%s; %s", glslang, tools);
    return 0;
}

static long file_size(const char *path) {
    long size;
    FILE *f = fopen(path, "rb");
    if (!f) return -1;
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    fclose(f);
    return size;
}

static int optimize(const char *flags, const char *from, const char *to) {
    char command[4 * MAX_PATH];
    snprintf(command, sizeof command, "spirv-opt %s %s -o %s", flags, from, to);
    return system(command) ? fail("spirv-opt fails on", from) : 0;
}

static int compile(const char *folder, const module *m, int optimized, const char *out) {
    char command[4 * MAX_PATH], raw[MAX_PATH], other[MAX_PATH];
    int failed;
    snprintf(raw, sizeof raw, "%s.raw", out);
    snprintf(other, sizeof other, "%s.other", out);
    snprintf(command, sizeof command, "glslangValidator --quiet %s %s -I%s %s/%s -o %s", compile_flags, m->defines,
             folder, folder, m->source, raw);
    if (system(command)) return fail("cannot compile", m->name);
    failed = optimize(optimized ? optimize_flags[0] : "--strip-debug", raw, out);
    if (!failed && optimized) failed = optimize(optimize_flags[1], raw, other);
    if (!failed && optimized && file_size(other) < file_size(out)) failed = rename(other, out) != 0;
    remove(raw);
    remove(other);
    return failed;
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

static void encode(const bytes *spirv, bytes *text) {
    bytes packed = {0, 0, 0};
    size_t i;
    for (i = 0; i + 4 <= spirv->size; i += 4) {
        const unsigned char *p = spirv->data + i;
        uint32_t word = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        for (;; word >>= 7) {
            unsigned char byte = (unsigned char)(word < 128 ? word : (word & 127) | 128);
            append(&packed, &byte, 1);
            if (word < 128) break;
        }
    }
    append(&packed, "\0\0\0", 3);
    for (i = 0; i + 4 <= packed.size; i += 4)
        put_digits(text, packed.data[i] | (uint32_t)packed.data[i + 1] << 8 | (uint32_t)packed.data[i + 2] << 16 |
                             (uint32_t)packed.data[i + 3] << 24);
    free(packed.data);
}

/* C99 promises literals of 4095 characters (MSVC takes 16380): pieces of at most 4000, 118 to a line. */
static void write_module(FILE *out, const module *m) {
    bytes text = {0, 0, 0};
    size_t at, piece = 4000, line = 118;
    encode(&m->spirv, &text);
    fprintf(out, "static const char *const diti_spirv_text_%s[] = {\n", m->name);
    for (at = 0; at < text.size;) {
        size_t piece_end = (at / piece + 1) * piece, end = at + line;
        if (end > piece_end) end = piece_end;
        if (end > text.size) end = text.size;
        fprintf(out, "    \"%.*s\"%s\n", (int)(end - at), (const char *)text.data + at,
                end == piece_end || end == text.size ? "," : "");
        at = end;
    }
    fprintf(out, "    0};\n");
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
        fprintf(out, "    {\"%s\", diti_spirv_text_%s, %uu},\n", modules[i].name, modules[i].name,
                (unsigned)(modules[i].spirv.size / 4));
    fputs(
        "    {0, 0, 0}};\nDIT_INTERNAL const diti_spirv_module *diti_spirv_table(void) { return diti_spirv_modules; }\n",
        out);
    return fclose(out) ? fail("cannot write", path) : 0;
}

static int write_lock(const char *folder, const module *modules, int count, const char *version) {
    char path[MAX_PATH];
    int i;
    FILE *out;
    snprintf(path, sizeof path, "%s/spirv.lock", folder);
    out = fopen(path, "wb");
    if (!out) return fail("cannot write", path);
    fprintf(
        out,
        "# Generated by make shaders. name, SHA-256 of the flattened source and the flags, SHA-256 and size of the SPIR-V\n");
    fprintf(out, "compiler %s\nflags %s; %s; %s\n", version, compile_flags, optimize_flags[0], optimize_flags[1]);
    for (i = 0; i < count; i++)
        fprintf(out, "%s %s %s %u %s\n", modules[i].name, modules[i].source_hash, modules[i].spirv_hash,
                (unsigned)modules[i].spirv.size, modules[i].defines);
    return fclose(out) ? fail("cannot write", path) : 0;
}

/* --- reading back --- */

static int decode_text(const bytes *text, bytes *spirv) {
    uint32_t word = 0, shift = 0;
    size_t i;
    if (text->size % 5) return 1;
    for (i = 0; i < text->size; i += 5) {
        uint32_t value = 0, power = 1;
        int j;
        for (j = 0; j < 5; j++, power *= 85) {
            uint32_t c = text->data[i + (size_t)j];
            value += (c - '#' - (c > '?') - (c > '\\')) * power;
        }
        for (j = 0; j < 4; j++, value >>= 8) {
            word |= (value & 127u) << shift;
            shift += 7;
            if (value & 128u) continue;
            append(spirv, &word, 4);
            word = shift = 0;
        }
    }
    return 0;
}

/* Fills each module's spirv from the text of INC (word counts of the table cut off the padding). */
static int read_inc(const char *path, module *modules, int count) {
    bytes inc;
    int i;
    if (read_file(path, &inc)) return 1;
    append(&inc, "", 1);
    for (i = 0; i < count; i++) {
        char key[128];
        const char *at, *stop;
        bytes text = {0, 0, 0};
        unsigned words = 0;
        snprintf(key, sizeof key, "diti_spirv_text_%s[] = {", modules[i].name);
        at = strstr((const char *)inc.data, key);
        if (!at) return fail("module is not in the generated file", modules[i].name);
        stop = strstr(at, "\n    0};");
        for (at = strchr(at, '"'); at && at < stop; at = strchr(at + 1, '"')) {
            const char *end = strchr(at + 1, '"');
            append(&text, at + 1, (size_t)(end - at - 1));
            at = end;
        }
        snprintf(key, sizeof key, "diti_spirv_text_%s, ", modules[i].name);
        at = strstr((const char *)inc.data, key);
        if (!at || sscanf(at + strlen(key), "%u", &words) != 1 || decode_text(&text, &modules[i].spirv) ||
            modules[i].spirv.size < words * 4u)
            return fail("module is damaged in the generated file", modules[i].name);
        modules[i].spirv.size = words * 4u;
        free(text.data);
    }
    free(inc.data);
    return 0;
}

static int check_lock(const char *folder, module *modules, int count, char *version, size_t version_size) {
    char path[MAX_PATH], line[512], name[64], source[65], spirv[65];
    unsigned size;
    int i, seen = 0;
    FILE *f;
    snprintf(path, sizeof path, "%s/spirv.lock", folder);
    f = fopen(path, "r");
    if (!f) return fail("cannot read", path);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        if (!strncmp(line, "compiler ", 9)) snprintf(version, version_size, "%s", line + 9);
        if (line[0] == '#' || sscanf(line, "%63s %64s %64s %u", name, source, spirv, &size) != 4) continue;
        for (i = 0; i < count && strcmp(modules[i].name, name); i++) {
        }
        if (i == count) continue;
        seen++;
        if (strcmp(modules[i].source_hash, source)) return fclose(f), fail("source changed since `make shaders`", name);
        if (strcmp(modules[i].spirv_hash, spirv) || modules[i].spirv.size != size)
            return fclose(f), fail("generated text does not fit spirv.lock", name);
    }
    fclose(f);
    return seen == count ? 0 : fail("a module is missing in", path);
}

static int recompile(const char *folder, const module *modules, int count, const char *inc) {
    char out[MAX_PATH];
    bytes again;
    int i, different = 0;
    snprintf(out, sizeof out, "%s.check.spv", inc);
    for (i = 0; i < count && !different; i++) {
        if (compile(folder, &modules[i], 1, out) || read_file(out, &again)) return 1;
        different = again.size != modules[i].spirv.size || memcmp(again.data, modules[i].spirv.data, again.size);
        free(again.data);
        if (different) fail("compiling again gives other bytes", modules[i].name);
    }
    remove(out);
    return different;
}

static int build(const char *folder, const char *inc, module *modules, int count) {
    char version[512], out[MAX_PATH];
    size_t total = 0;
    int i;
    if (compiler_version(version, sizeof version))
        return fail("needs glslangValidator and spirv-opt", "apt-get install glslang-tools spirv-tools");
    snprintf(out, sizeof out, "%s.spv", inc);
    for (i = 0; i < count; i++) {
        if (compile(folder, &modules[i], 1, out) || read_file(out, &modules[i].spirv) ||
            hash_source(folder, &modules[i]))
            return 1;
        sha256(modules[i].spirv.data, modules[i].spirv.size, modules[i].spirv_hash);
        total += modules[i].spirv.size;
    }
    remove(out);
    printf("%d modules, %u bytes of SPIR-V\n", count, (unsigned)total);
    return write_inc(inc, modules, count) || write_lock(folder, modules, count, version);
}

static int check(const char *folder, const char *inc, module *modules, int count) {
    char locked[512] = "", here[512];
    int i;
    if (read_inc(inc, modules, count)) return 1;
    for (i = 0; i < count; i++) {
        if (hash_source(folder, &modules[i])) return 1;
        sha256(modules[i].spirv.data, modules[i].spirv.size, modules[i].spirv_hash);
    }
    if (check_lock(folder, modules, count, locked, sizeof locked)) return 1;
    if (compiler_version(here, sizeof here) || strcmp(here, locked)) {
        printf("shaders fit spirv.lock (not compiled again: that needs %s)\n", locked);
        return 0;
    }
    if (recompile(folder, modules, count, inc)) return 1;
    printf("shaders fit spirv.lock, and compiling them again gives the same bytes\n");
    return 0;
}

static int raw(const char *folder, const char *to, const module *modules, int count) {
    char out[MAX_PATH];
    int i;
    for (i = 0; i < count; i++) {
        snprintf(out, sizeof out, "%s/%s.spv", to, modules[i].name);
        if (compile(folder, &modules[i], 0, out)) return 1;
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
