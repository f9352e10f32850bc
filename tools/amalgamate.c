/* amalgamate ORDER OUT: writes the single header from the files that ORDER names, in that order: the public API byte
 * for byte, the implementation behind DIT_IMPLEMENTATION without its local #include lines and comments, which stay
 * where the code is edited, and without declarations that serve no compiler; then ../LICENSE as a comment. The text
 * depends on those files alone. OUT is left untouched when it holds that text already. */
#include <ctype.h>
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

/* A tab for four spaces, and one tab more than the line before where a line goes on under an open bracket: indentation
 * is a twentieth of the header. most: tabs that this line may have. */
static const char *append_indentation(text *out, const char *line, size_t *most) {
    size_t spaces = strspn(line, " "), tabs = spaces / 4 < *most ? spaces / 4 : *most, i;
    for (i = 0; i < tabs; i++) append_string(out, "\t");
    if (line[spaces] != '\n' && spaces == tabs * 4) *most = tabs + 1;
    return line + spaces;
}

/* The end of the string or character literal that starts here. */
static const char *end_of_literal(const char *at) {
    const char quote = *at++;
    while (*at && *at != quote) at += *at == '\\' && at[1] ? 2 : 1;
    return *at ? at + 1 : at;
}

static int starts_line(const text *out) { return out->size == 0 || out->data[out->size - 1] == '\n'; }

static void drop_spaces_at_end(text *out) {
    while (out->size && out->data[out->size - 1] == ' ') out->size--;
    out->data[out->size] = 0;
}

/* Leaves a comment out, and with it the lines that held nothing else. Returns where the source goes on. */
static const char *skip_comment(text *out, const char *name, const char *comment) {
    const char *end = strstr(comment, "*/");
    if (!end) die("a comment does not end in", name);
    end += 2;
    drop_spaces_at_end(out);
    if (starts_line(out)) {
        end += strspn(end, " ");
        return *end == '\n' ? end + 1 : end;
    }
    if (*end != '\n') append_string(out, " ");
    return end + (*end == ' ');
}

static text without_comments(const char *name, const char *source) {
    text out = {0};
    append_string(&out, "");
    while (*source) {
        const char *end = source + 1;
        if (strncmp(source, "/*", 2) == 0) {
            source = skip_comment(&out, name, source);
            continue;
        }
        if (*source == '"' || *source == '\'') end = end_of_literal(source);
        append(&out, source, (size_t)(end - source));
        source = end;
    }
    return out;
}

/* Local includes vanish because the files they name stand in the same header. */
static void append_source(text *out, const char *name, const char *commented) {
    size_t most = 1;
    text code = without_comments(name, commented);
    const char *source = code.data;
    append_string(out, "\n/* ==== src/");
    append_string(out, name);
    append_string(out, " ==== */\n");
    while (*source) {
        size_t length = strcspn(source, "\n");
        length += source[length] == '\n';
        if (strncmp(source, "#include \"", 10) != 0) {
            const char *text_of_line = append_indentation(out, source, &most);
            append(out, text_of_line, length - (size_t)(text_of_line - source));
        }
        source += length;
    }
    free(code.data);
}

static void append_api(text *out, const char *name, const char *api) {
    (void)name;
    append_string(out, api);
    append_string(out, "\n#if defined(DIT_IMPLEMENTATION) && !defined(DIT_IMPLEMENTED)\n"
                       "#define DIT_IMPLEMENTED\n"
                       "#define DIT_INTERNAL static /* for functions that macros define */\n");
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

static const char internal[] = "DIT_INTERNAL";

static int is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Where the name of the function stands whose head starts here, and its length; 0: it is no function. */
static size_t function_name(const char *head, const char **name) {
    const char *end = head + strcspn(head, "(;{=");
    *name = end;
    while (*end == '(' && is_word((*name)[-1])) --*name;
    return (size_t)(end - *name);
}

/* Whether the first word `name` outside its declarations, all of which lie in the code, is in the function's head. */
static int defined_before_used(const char *code, const char *name, size_t length) {
    char wanted[128];
    const char *at, *line;
    snprintf(wanted, sizeof wanted, "%.*s", (int)length, name);
    for (at = strstr(code, wanted); at; at = strstr(at + length, wanted)) {
        if (is_word(at[-1]) || is_word(at[length])) continue;
        for (line = at; line[-1] != '\n'; line--) {
        }
        if (strncmp(line, internal, sizeof internal - 1) != 0) return 0;
        if (at[strcspn(at, ";{")] == '{') return 1;
    }
    return 0;
}

static int holds_within(const char *start, size_t size, const char *wanted) {
    const char *found = strstr(start, wanted);
    return found && found < start + size;
}

/* A declaration that serves no compiler: its definition follows, and only then its uses. Those with attributes stay. */
static int is_superfluous(const char *code, const char *head, size_t size) {
    const char *name;
    const size_t length = function_name(head, &name);
    return length && head[size - 1] == ';' && head[size - 2] == ')' && !memchr(head, '#', size) &&
           strncmp(head + sizeof internal, "DITI_UNUSED", 11) != 0 && !holds_within(head, size, "DITI_PRINTF") &&
           defined_before_used(code, name, length);
}

/* The implementation with what is shared among its files made static, without declarations that this makes superfluous,
 * and without a second empty line after the first. */
static void append_static(text *out, const char *code) {
    const char *line = code;
    while (*line) {
        size_t size = strcspn(line, "\n") + 1;
        if (strncmp(line, internal, sizeof internal - 1) == 0) {
            const size_t head = strcspn(line, ";{") + 1;
            if (is_superfluous(code, line, head)) {
                line += head + 1;
                continue;
            }
            append_string(out, "static");
            line += sizeof internal - 1;
            size -= sizeof internal - 1;
        }
        if (*line != '\n' || strcmp(out->data + out->size - 2, "\n\n") != 0) append(out, line, size);
        line += size;
    }
}

static text amalgamate(const char *folder, char *order) {
    text out = {0}, code = {0};
    char *name;
    int count = 0;
    append_string(&code, "\n");
    for (name = strtok(order, "\r\n"); name; name = strtok(NULL, "\r\n"))
        if (name[0] != '#')
            append_named(count ? &code : &out, folder, name, count ? append_source : append_api), count++;
    append_static(&out, code.data);
    free(code.data);
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
    header = amalgamate(folder, order.data);
    if (holds(argv[2], &header)) return 0;
    file = fopen(argv[2], "wb");
    if (!file || fwrite(header.data, 1, header.size, file) != header.size || fclose(file)) die("cannot write", argv[2]);
    free(order.data);
    free(header.data);
    return 0;
}
