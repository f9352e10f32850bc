/* Files of the command line tool: whole-file reading, writing that never leaves half a file, PNG with a text chunk,
   safetensors with one tensor, and where things are kept. Not part of dit.h. */
#ifndef FILES_H
#define FILES_H
#include "programs.h"
#include <setjmp.h>
#ifdef _WIN32
#include <direct.h>
#define isatty _isatty
#define make_folder(path) _mkdir(path)
#else
#define make_folder(path) mkdir(path, 0700)
#endif
#if defined(__has_include) && __has_include(<stb/stb_image_write.h>)
#define STB_IMAGE_WRITE_HEADER <stb/stb_image_write.h>
#else
#define STB_IMAGE_WRITE_HEADER <stb_image_write.h>
#endif
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif
/* Lists of its compressor are asserted to grow; encoder_grow leaves it instead. */
#define STBIW_MALLOC(size) encoder_grow(NULL, size)
#define STBIW_REALLOC(block, size) encoder_grow(block, size)
#define STBIW_FREE(block) encoder_free(block)
static void *encoder_grow(void *block, size_t size);
static void encoder_free(void *block);
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include STB_IMAGE_WRITE_HEADER
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* ---- Paths ---- */

static bool file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

/* Where this program lies; false when the system does not say. */
static bool own_folder(char *out, size_t size) {
    char self[PATH_SIZE];
#ifdef _WIN32
    DWORD length = GetModuleFileNameA(NULL, self, sizeof self);
    if (length == 0 || length >= sizeof self) return false;
#else
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return false;
    self[length] = 0;
#endif
    return folder_of(self, out, size);
}

/* ---- Whole files ---- */

/* The bytes of an ordinary file, freed with free; NULL with errno when it cannot be read. */
static unsigned char *read_file(const char *path, size_t *size) {
    FILE *file;
    unsigned char *data = NULL;
    long length = -1;
    errno = 0;
    if (why_not_readable(path)) return errno = errno ? errno : EINVAL, NULL;
    file = fopen(path, "rb");
    if (!file) return NULL;
    if (fseek(file, 0, SEEK_END) == 0) length = ftell(file);
    if (length >= 0 && fseek(file, 0, SEEK_SET) == 0) data = malloc((size_t)length + 1);
    if (data && fread(data, 1, (size_t)length, file) != (size_t)length) free(data), data = NULL, errno = EIO;
    fclose(file);
    if (data) *size = (size_t)length;
    return data;
}

/* Writes a file so that path is the old file or the whole new one at any moment; false with errno. */
static bool write_file(const char *path, const void *data, size_t size) {
    output_file out;
    return output_open(&out, path) && output_close(&out, fwrite(data, 1, size, out.file) == size);
}

/* ---- PNG ---- */

/* Continues the checksum of what came before; 0 at the beginning. */
static uint32_t crc32_of(uint32_t crc, const unsigned char *data, size_t size) {
    size_t i;
    int bit;
    crc = ~crc;
    for (i = 0; i < size; i++) {
        crc ^= data[i];
        for (bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

static void store_be32(unsigned char *out, uint32_t value) {
    out[0] = (unsigned char)(value >> 24);
    out[1] = (unsigned char)(value >> 16);
    out[2] = (unsigned char)(value >> 8);
    out[3] = (unsigned char)value;
}

/* A number of so many bytes, the highest of them first or last. */
static uint32_t load_number(const unsigned char *p, int bytes, bool big) {
    uint32_t value = 0;
    int i;
    for (i = 0; i < bytes; i++) value = value << 8 | p[big ? i : bytes - 1 - i];
    return value;
}

/* A text chunk: tEXt when the text is ASCII, else iTXt, because tEXt is Latin-1 by definition. */
static size_t make_text_chunk(const char *key, const char *text, unsigned char *out) {
    size_t length = strlen(text), head = strlen(key) + 1, i;
    bool ascii = true;
    for (i = 0; i < length; i++) ascii = ascii && (unsigned char)text[i] < 0x80;
    memcpy(out + 4, ascii ? "tEXt" : "iTXt", 4);
    memcpy(out + 8, key, head);
    if (!ascii) memset(out + 8 + head, 0, 4), head += 4; /* not compressed, method 0, no language, no translated key */
    memcpy(out + 8 + head, text, length);
    store_be32(out, (uint32_t)(head + length));
    store_be32(out + 8 + head + length, crc32_of(0, out + 4, 4 + head + length));
    return 12 + head + length;
}

/* The blocks of the PNG encoder, so that all are freed where one more is refused: in the midst of its work. */
typedef struct encoder_block {
    struct encoder_block *next, *before;
} encoder_block;

static encoder_block encoder_blocks = {&encoder_blocks, &encoder_blocks};
static jmp_buf encoder_out_of_memory;

static void *encoder_grow(void *old, size_t size) {
    encoder_block *block = old ? (encoder_block *)old - 1 : NULL;
    if (block) block->before->next = block->next, block->next->before = block->before;
    old = block;
    block = size > SIZE_MAX - sizeof *block ? NULL : (encoder_block *)realloc(old, size + sizeof *block);
    if (!block) {
        free(old);
        longjmp(encoder_out_of_memory, 1);
    }
    block->next = encoder_blocks.next;
    block->before = &encoder_blocks;
    block->next->before = block->before->next = block;
    return block + 1;
}

static void encoder_free(void *old) {
    encoder_block *block = (encoder_block *)old - 1;
    if (!old) return;
    block->before->next = block->next;
    block->next->before = block->before;
    free(block);
}

/* A PNG of pixels [height][width][colors], freed with encoder_free; NULL without memory. */
static unsigned char *compress_pixels(const unsigned char *pixels, uint32_t width, uint32_t height, int colors,
                                      int *size) {
    if (setjmp(encoder_out_of_memory)) {
        while (encoder_blocks.next != &encoder_blocks) encoder_free(encoder_blocks.next + 1);
        return NULL;
    }
    return stbi_write_png_to_mem(pixels, 0, (int)width, (int)height, colors, size);
}

/* rgba [height][width][4] as a PNG, with alpha where a pixel is not opaque, and a text chunk when key is not NULL;
   freed with free, NULL without memory. */
static unsigned char *encode_png(const unsigned char *rgba, uint32_t width, uint32_t height, const char *key,
                                 const char *text, size_t *size) {
    const size_t header = 8 + 25; /* signature and IHDR */
    size_t pixels = (size_t)width * height, chunk = 0, i;
    unsigned char *rgb = NULL, *png = NULL, *out = NULL;
    int png_size = 0;
    for (i = 0; i < pixels && rgba[4 * i + 3] == 255; i++) {
    }
    if (i < pixels) {
        png = compress_pixels(rgba, width, height, 4, &png_size);
    } else if ((rgb = malloc(pixels * 3)) != NULL) {
        for (i = 0; i < pixels; i++) memcpy(rgb + 3 * i, rgba + 4 * i, 3);
        png = compress_pixels(rgb, width, height, 3, &png_size);
    }
    if (png) out = malloc((size_t)png_size + (key ? strlen(key) + strlen(text) + 32 : 0));
    if (out) {
        memcpy(out, png, header);
        if (key) chunk = make_text_chunk(key, text, out + header);
        memcpy(out + header + chunk, png + header, (size_t)png_size - header);
        *size = (size_t)png_size + chunk;
    }
    free(rgb);
    encoder_free(png);
    return out;
}

/* A chunk in parts: its length and type, then data, then the checksum. */
static bool put_chunk_part(FILE *file, uint32_t *crc, const void *data, size_t size) {
    *crc = crc32_of(*crc, data, size);
    return fwrite(data, 1, size, file) == size;
}

static bool put_chunk_begin(FILE *file, uint32_t *crc, uint32_t size, const char *type) {
    unsigned char length[4];
    store_be32(length, size);
    *crc = 0;
    return fwrite(length, 1, 4, file) == 4 && put_chunk_part(file, crc, type, 4);
}

static bool put_chunk_end(FILE *file, uint32_t crc) {
    unsigned char sum[4];
    store_be32(sum, crc);
    return fwrite(sum, 1, 4, file) == 4;
}

/* One IDAT with a row, as zlib's stored blocks of at most 65535 bytes (RFC 1950, RFC 1951 section 3.2.4). sum: Adler-32
   of all rows so far. */
static bool put_stored_row(FILE *file, const unsigned char *rgba, uint32_t width, bool first, bool last,
                           uint32_t sum[2]) {
    const uint32_t blocks = (width * 3 + 1 + 65534) / 65535;
    uint32_t left = width * 3 + 1, crc, at = 0, room = 0;
    unsigned char head[5], end[4];
    bool good = put_chunk_begin(file, &crc, left + 5 * blocks + (first ? 2 : 0) + (last ? 4 : 0), "IDAT");
    if (first) good = good && put_chunk_part(file, &crc, "\x78\x01", 2);
    for (; left && good; left--, room--, at++) {
        unsigned char byte;
        if (room == 0) {
            room = left < 65535 ? left : 65535;
            head[0] = last && room == left;
            head[1] = (unsigned char)room;
            head[2] = (unsigned char)(room >> 8);
            head[3] = (unsigned char)~head[1];
            head[4] = (unsigned char)~head[2];
            good = put_chunk_part(file, &crc, head, 5);
        }
        byte = at ? rgba[(at - 1) / 3 * 4 + (at - 1) % 3] : 0; /* in front of each row stands its filter: none */
        sum[0] = (sum[0] + byte) % 65521;
        sum[1] = (sum[1] + sum[0]) % 65521;
        good = good && put_chunk_part(file, &crc, &byte, 1);
    }
    store_be32(end, sum[1] << 16 | sum[0]);
    if (last) good = good && put_chunk_part(file, &crc, end, 4);
    return good && put_chunk_end(file, crc);
}

/* The picture as a PNG that is not compressed: larger, but made without memory. key or text NULL: no text. */
static bool put_stored_png(FILE *file, const unsigned char *rgba, uint32_t width, uint32_t height, const char *key,
                           const char *text) {
    unsigned char sizes[13] = {0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0}; /* 8 bits, RGB */
    unsigned char *chunk = key && text ? malloc(strlen(key) + strlen(text) + 32) : NULL;
    uint32_t crc, y, sum[2] = {1, 0};
    bool good;
    store_be32(sizes, width);
    store_be32(sizes + 4, height);
    good = fwrite("\x89PNG\r\n\x1a\n", 1, 8, file) == 8 && put_chunk_begin(file, &crc, 13, "IHDR") &&
           put_chunk_part(file, &crc, sizes, 13) && put_chunk_end(file, crc);
    if (chunk) {
        size_t size = make_text_chunk(key, text, chunk);
        good = good && fwrite(chunk, 1, size, file) == size;
        free(chunk);
    }
    for (y = 0; y < height && good; y++)
        good = put_stored_row(file, rgba + (size_t)y * width * 4, width, y == 0, y + 1 == height, sum);
    return good && put_chunk_begin(file, &crc, 0, "IEND") && put_chunk_end(file, crc);
}

/* ---- safetensors: 8 bytes header size, JSON header, data ---- */

typedef struct st_tensor {
    uint64_t shape[5];
    uint32_t rank;
    float *data; /* freed with free */
    size_t count;
} st_tensor;

typedef struct st_reader { /* a cursor over the JSON header */
    const char *at, *end;
    bool bad;
} st_reader;

static void st_space(st_reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

static bool st_take(st_reader *r, char c) {
    st_space(r);
    if (r->at >= r->end || *r->at != c) return false;
    r->at++;
    return true;
}

/* A string as written, escapes kept; longer ones than out are cut, which no name we look for is. */
static void st_string(st_reader *r, char *out, size_t size) {
    size_t n = 0;
    if (!st_take(r, '"')) r->bad = true;
    while (!r->bad && r->at < r->end && *r->at != '"') {
        if (*r->at == '\\' && r->at + 1 < r->end) r->at++;
        if (n + 1 < size) out[n++] = *r->at;
        r->at++;
    }
    out[n] = 0;
    if (r->bad || r->at++ >= r->end) r->bad = true;
}

static uint64_t st_number(st_reader *r) {
    uint64_t value = 0;
    st_space(r);
    if (r->at >= r->end || *r->at < '0' || *r->at > '9') r->bad = true;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
        uint64_t digit = (uint64_t)(*r->at++ - '0');
        if (value > (UINT64_MAX - digit) / 10)
            r->bad = true;
        else
            value = value * 10 + digit;
    }
    return value;
}

/* [a, b, ...]; the count may exceed limit, then the rest is only counted. */
static uint32_t st_numbers(st_reader *r, uint64_t *out, uint32_t limit) {
    uint32_t count = 0;
    if (!st_take(r, '[')) r->bad = true;
    if (r->bad || st_take(r, ']')) return 0;
    do {
        uint64_t value = st_number(r);
        if (count < limit) out[count] = value;
        count++;
    } while (!r->bad && st_take(r, ','));
    if (!st_take(r, ']')) r->bad = true;
    return count;
}

typedef struct st_entry {
    char type[16];
    uint64_t shape[5], range[2];
    uint32_t rank;
} st_entry;

/* {"dtype": "F32", "shape": [...], "data_offsets": [a, b]}; in __metadata__ all values are strings. */
static void st_read_entry(st_reader *r, st_entry *out) {
    char key[32], text[64];
    memset(out, 0, sizeof *out);
    if (!st_take(r, '{')) r->bad = true;
    if (r->bad || st_take(r, '}')) return;
    do {
        st_string(r, key, sizeof key);
        if (!st_take(r, ':')) r->bad = true;
        st_space(r);
        if (r->bad || r->at >= r->end) break;
        if (strcmp(key, "dtype") == 0)
            st_string(r, out->type, sizeof out->type);
        else if (strcmp(key, "shape") == 0 && *r->at == '[')
            out->rank = st_numbers(r, out->shape, 5);
        else if (strcmp(key, "data_offsets") == 0 && *r->at == '[')
            st_numbers(r, out->range, 2);
        else
            st_string(r, text, sizeof text);
    } while (!r->bad && st_take(r, ','));
    if (!st_take(r, '}')) r->bad = true;
}

static bool st_find(st_reader *r, const char *name, st_entry *out) {
    char key[256];
    if (!st_take(r, '{')) r->bad = true;
    if (r->bad || st_take(r, '}')) return false;
    do {
        st_string(r, key, sizeof key);
        if (!st_take(r, ':')) r->bad = true;
        if (!r->bad) st_read_entry(r, out);
        if (!r->bad && strcmp(key, name) == 0) return true;
    } while (!r->bad && st_take(r, ','));
    return false;
}

/* Says what is wrong with the entry; NULL: its data can be taken. */
static const char *st_check(const st_entry *entry, uint64_t data_size, size_t *count) {
    uint64_t values = 1;
    uint32_t i;
    if (strcmp(entry->type, "F32") != 0) return "the tensor must be F32";
    if (entry->rank == 0 || entry->rank > 5) return "the tensor must have 1 to 5 dimensions";
    for (i = 0; i < entry->rank; i++) {
        if (entry->shape[i] == 0 || values > (uint64_t)1 << 40 || entry->shape[i] > ((uint64_t)1 << 40) / values) {
            return "the shape is impossible";
        }
        values *= entry->shape[i];
    }
    if (entry->range[1] > data_size || entry->range[0] > entry->range[1]) return "the data lies outside the file";
    if (entry->range[1] - entry->range[0] != values * 4) return "shape and data size disagree";
    *count = (size_t)values;
    return NULL;
}

/* Takes the F32 tensor called name out of a file; returns NULL, or what is wrong. */
static const char *st_load(const char *path, const char *name, st_tensor *out) {
    size_t size = 0;
    uint64_t header = 0;
    unsigned char *file;
    const char *why = why_not_readable(path), *wrong = NULL;
    st_reader r;
    st_entry entry;
    int i;
    memset(out, 0, sizeof *out);
    file = why ? NULL : read_file(path, &size);
    if (!file) return why ? why : told_reason(errno);
    for (i = 7; i >= 0 && size >= 8; i--) header = header << 8 | file[i];
    if (size < 8 || header > size - 8) wrong = "this is no safetensors file";
    r.at = (const char *)file + (size < 8 ? 0 : 8);
    r.end = r.at + (wrong ? 0 : header);
    r.bad = false;
    if (!wrong && !st_find(&r, name, &entry)) wrong = r.bad ? "the header is damaged" : "there is no such tensor in it";
    if (!wrong) wrong = st_check(&entry, size - 8 - header, &out->count);
    if (!wrong && !(out->data = malloc(out->count * 4))) wrong = "out of memory";
    if (!wrong) {
        memcpy(out->data, file + 8 + header + entry.range[0], out->count * 4); /* little-endian, as all our hosts are */
        memcpy(out->shape, entry.shape, sizeof out->shape);
        out->rank = entry.rank;
    }
    free(file);
    return wrong;
}

/* Writes one F32 tensor [shape] called name. */
static bool st_save(const char *path, const char *name, const uint64_t *shape, uint32_t rank, const float *data) {
    char header[512];
    unsigned char length[8] = {0};
    size_t count = 1;
    output_file out;
    uint32_t i;
    int n = snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[", name);
    for (i = 0; i < rank; i++) {
        count *= (size_t)shape[i];
        n += snprintf(header + n, sizeof header - (size_t)n, "%s%llu", i ? "," : "", (unsigned long long)shape[i]);
    }
    n +=
        snprintf(header + n, sizeof header - (size_t)n, "],\"data_offsets\":[0,%llu]}}", (unsigned long long)count * 4);
    while (n % 8) header[n++] = ' '; /* so that the data is aligned */
    for (i = 0; i < 4; i++) length[i] = (unsigned char)((size_t)n >> (8 * i));
    return output_open(&out, path) && output_close(&out, fwrite(length, 1, 8, out.file) == 8 &&
                                                             fwrite(header, 1, (size_t)n, out.file) == (size_t)n &&
                                                             fwrite(data, sizeof *data, count, out.file) == count);
}

/* ---- The cache of compiled pipelines ---- */

static uint64_t fnv1a(const unsigned char *data, size_t size) {
    uint64_t hash = 14695981039346656037u;
    size_t i;
    for (i = 0; i < size; i++) hash = (hash ^ data[i]) * 1099511628211u;
    return hash;
}

/* The user's cache folder for dit, made when it is not there: XDG_CACHE_HOME or ~/.cache, on Windows LOCALAPPDATA. */
static bool cache_folder(char *out, size_t size) {
#ifdef _WIN32
    const char *base = getenv("LOCALAPPDATA"), *below = "";
#else
    const char *base = getenv("XDG_CACHE_HOME"), *below = "";
    if (!base || base[0] != '/') base = getenv("HOME"), below = "/.cache";
#endif
    if (!base || !*base) return false;
    if (snprintf(out, size, "%s%s", base, below) >= (int)size) return false;
    make_folder(out);
    if (snprintf(out, size, "%s%s/dit", base, below) >= (int)size) return false;
    make_folder(out);
    return is_folder(out);
}

/* One file per value of --device, since each device has its own pipelines. */
static bool cache_path(const char *device, char *out, size_t size) {
    char folder[PATH_SIZE];
    uint64_t name = fnv1a((const unsigned char *)(device ? device : ""), device ? strlen(device) : 0);
    if (!cache_folder(folder, sizeof folder)) return false;
    return snprintf(out, size, "%s/pipelines-%016llx.cache", folder, (unsigned long long)name) < (int)size;
}

/* The blob of a cache file: 8 bytes checksum, then what dit made; NULL when there is none or it is damaged. */
static unsigned char *load_cache(const char *path, size_t *size) {
    unsigned char *file = read_file(path, size);
    uint64_t sum;
    if (file && *size > 8) {
        memcpy(&sum, file, 8);
        *size -= 8;
        memmove(file, file + 8, *size);
        if (sum == fnv1a(file, *size)) return file;
    }
    *size = 0;
    free(file);
    return NULL;
}

/* The path of a file beside the cache that says which self-test of a driver is running, for the next start if this one
   does not survive it. */
static bool mark_path(const char *device, char *out, size_t size) {
    char path[PATH_SIZE];
    return cache_path(device, path, sizeof path) && snprintf(out, size, "%s.mark", path) < (int)size;
}

/* The file is on the disk when this returns, since the machine itself may hang next; size 0 removes the file. */
static void save_mark(const char *path, const void *mark, size_t size) {
    FILE *file = size && (!file_exists(path) || !why_not_readable(path)) ? fopen(path, "wb") : NULL;
    if (!size) remove(path);
    if (!file) return;
    fwrite(mark, 1, size, file);
    fflush(file);
#ifdef _WIN32
    _commit(_fileno(file));
#else
    fsync(fileno(file));
#endif
    fclose(file);
}

static bool save_cache(const char *path, const unsigned char *blob, size_t size) {
    unsigned char *file = malloc(size + 8);
    uint64_t sum = fnv1a(blob, size);
    bool good;
    if (!file) return false;
    memcpy(file, &sum, 8);
    memcpy(file + 8, blob, size);
    good = write_file(path, file, size + 8);
    free(file);
    return good;
}
#endif
