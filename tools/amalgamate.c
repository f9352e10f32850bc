/* amalgamate ORDER OUT: writes the single header from the files that ORDER names, in that order: the public API byte
 * for byte, then the implementation behind DIT_IMPLEMENTATION as it was written, without its local #include lines, then
 * ../LICENSE as a comment. The text depends on those files alone. OUT is left untouched when it holds that text
 * already. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    char *data;
    size_t size, capacity;
} text;

static void die(const char *what, const char *name) {
    fprintf(stderr, "amalgamate: %s: %s\n", what, name);
    exit(1);
}

static void append(text *to, const char *data, size_t size) {
    if (to->size + size >= to->capacity) {
        to->capacity = (to->size + size) * 2 + 1;
        to->data = realloc(to->data, to->capacity);
        if (!to->data) die("out of memory", "");
    }
    memcpy(to->data + to->size, data, size);
    to->size += size;
    to->data[to->size] = 0;
}

static void append_string(text *to, const char *string) { append(to, string, strlen(string)); }

static text read_file(const char *path) {
    text all = {0};
    char buffer[1 << 14];
    size_t size;
    FILE *file = fopen(path, "rb");
    if (!file) die("cannot read", path);
    append(&all, "", 0);
    while ((size = fread(buffer, 1, sizeof buffer, file))) append(&all, buffer, size);
    if (ferror(file)) die("cannot read", path);
    fclose(file);
    return all;
}

/* The file below a banner that names it. Local includes vanish because the files they name stand in the same header. */
static void append_source(text *out, const char *name, const char *source) {
    append_string(out, "\n/* ==== src/");
    append_string(out, name);
    append_string(out, " ==== */\n");
    while (*source) {
        size_t length = strcspn(source, "\n");
        length += source[length] == '\n';
        if (strncmp(source, "#include \"", 10) != 0) append(out, source, length);
        source += length;
    }
}

/* "defined(DIT_NO_SPLIT) || ..." of every switch in ORDER, a line each. */
static text switches;

static void find_switches(const char *order) {
    static const char begin[] = "\n#ifndef ";
    char term[256];
    for (order = strstr(order, begin); order; order = strstr(order + 1, begin)) {
        const char *name = order + sizeof begin - 1;
        snprintf(term, sizeof term, "defined(%.*s)", (int)strcspn(name, "\r\n"), name);
        if (switches.size && strstr(switches.data, term)) continue;
        append_string(&switches, switches.size ? " || \\\n     " : "    (");
        append_string(&switches, term);
    }
    append_string(&switches, ")\n");
}

static void append_api(text *out, const char *name, const char *api) {
    (void)name;
    append_string(out, api);
    append_string(out, "\n#if defined(DIT_IMPLEMENTATION) && !defined(DIT_IMPLEMENTED)\n"
                       "#define DIT_IMPLEMENTED\n"
                       "#ifndef DIT_INTERNAL /* tests that call internal functions define it as extern */\n"
                       "#define DIT_INTERNAL static DITI_ROOM\n"
                       "#endif\n"
                       "#define DITI_ROOM\n"
                       "#if defined(__GNUC__) && \\\n");
    append_string(out, switches.data);
    append_string(
        out, "/* Functions that served what is left out remain, without a use. gcc says so at the end of the file. */\n"
             "#pragma GCC diagnostic ignored \"-Wunused-function\"\n"
             "#endif\n");
}

static void append_licence(text *out, const char *name, const char *licence) {
    (void)name;
    append_string(out, "\n/*\n");
    append_string(out, licence);
    append_string(out, "*/\n");
}

static void append_named(text *out, const char *folder, const char *name,
                         void (*append_as)(text *, const char *, const char *)) {
    char path[1024];
    text file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = read_file(path);
    append_as(out, name, file.data);
    free(file.data);
}

/* Lines of ORDER that leave files out of a build (#ifndef DIT_NO_..., #else, #endif) stand in the header as they are.
 */
static int is_directive(const char *line) {
    return strncmp(line, "#if", 3) == 0 || strncmp(line, "#else", 5) == 0 || strncmp(line, "#endif", 6) == 0;
}

/* `#usual` and `#once` end the region of files before them and begin another. */
static const char *room_of(const char *line) {
    if (strcmp(line, "#usual") == 0) return "#define DITI_ROOM\n";
    if (strcmp(line, "#once") == 0) return "#define DITI_ROOM DITI_SMALL\nDITI_ONCE_BEGIN\n";
    return NULL;
}

static text amalgamate(const char *folder, char *order) {
    text out = {0};
    char *line;
    int count = 0, usual = 1;
    for (line = strtok(order, "\r\n"); line; line = strtok(NULL, "\r\n")) {
        const char *room = room_of(line);
        if (room) {
            append_string(&out, usual ? "\n" : "\nDITI_REGION_END\n");
            append_string(&out, "#undef DITI_ROOM\n");
            append_string(&out, room);
            usual = strcmp(line, "#usual") == 0;
        } else if (is_directive(line)) {
            append_string(&out, "\n");
            append_string(&out, line);
            append_string(&out, "\n");
        } else if (line[0] != '#') {
            append_named(&out, folder, line, count++ ? append_source : append_api);
        }
    }
    append_string(&out, "#endif /* DIT_IMPLEMENTATION */\n");
    append_named(&out, folder, "../LICENSE", append_licence);
    if (count < 2) die("too few files in", "ORDER");
    return out;
}

static int holds(const char *path, const text *wanted) {
    FILE *file = fopen(path, "rb");
    text present;
    int same;
    if (!file) return 0;
    fclose(file);
    present = read_file(path);
    same = present.size == wanted->size && memcmp(present.data, wanted->data, wanted->size) == 0;
    free(present.data);
    return same;
}

int main(int argc, char **argv) {
    char folder[1024], *slash;
    text order, header;
    FILE *file;
    if (argc != 3) die("usage", "amalgamate ORDER OUT");
    snprintf(folder, sizeof folder, "%s", argv[1]);
    slash = strrchr(folder, '/');
    if (!slash) die("ORDER needs a folder", argv[1]);
    *slash = 0;
    order = read_file(argv[1]);
    find_switches(order.data);
    header = amalgamate(folder, order.data);
    if (holds(argv[2], &header)) return 0;
    file = fopen(argv[2], "wb");
    if (!file || fwrite(header.data, 1, header.size, file) != header.size || fclose(file)) die("cannot write", argv[2]);
    free(order.data);
    free(header.data);
    return 0;
}
