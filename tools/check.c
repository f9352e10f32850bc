/* The checks of tools/check.sh that read text: rooms, circles, api, budget, functions, readme, contains, pages, names,
 * prose, time. Exit code 0 is good; a line that begins with `note: ` is shown even then. A check that finds nothing to
 * check fails.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int problems, checked;

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long size = 0;
    if (file && fseek(file, 0, SEEK_END) == 0) size = ftell(file), rewind(file);
    if (file) text = calloc((size_t)size + 1, 1);
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size) {
        printf("cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
    return text;
}

static int line_of(const char *text, const char *at) {
    int line = 1;
    for (; text < at; text++) line += *text == '\n';
    return line;
}

static int is_name(int c) { return isalnum(c) || c == '_'; }

static int has_word(const char *begin, const char *end, const char *word) {
    size_t length = strlen(word);
    const char *at;
    for (at = begin; at + length <= end; at++)
        if (!strncmp(at, word, length) && !is_name(at[length]) && (at == begin || !is_name(at[-1]))) return 1;
    return 0;
}

/* Calls each for every file src/ROOM/NAME.[ch] (.inc holds no code to look at). */
static void for_sources(const char *src, void (*each)(const char *room, const char *path)) {
    struct dirent *entry, *file;
    DIR *rooms = opendir(src), *room;
    while (rooms && (entry = readdir(rooms))) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", src, entry->d_name);
        if (entry->d_name[0] == '.' || !(room = opendir(path))) continue;
        while ((file = readdir(room))) {
            size_t length = strlen(file->d_name);
            snprintf(path, sizeof path, "%s/%s/%s", src, entry->d_name, file->d_name);
            if (length > 2 && file->d_name[length - 2] == '.' && strchr("ch", file->d_name[length - 1]))
                each(entry->d_name, path);
        }
        closedir(room);
    }
    if (rooms) closedir(rooms);
}

/* --- rooms: who may include whom (each room itself too) --- */
static const char *const rooms[][2] = {
    {"base", ""},
    {"io", "base"},
    {"vk", "base"},
    {"weights", "base io vk"},
    {"graph", "base io vk weights"},
    {"text", "base io vk weights graph"},
    {"model", "base io vk weights graph text"},
    {"vae", "base io vk weights graph"},
    {"sample", "base"},
    {"split", "base io vk weights graph"},
    {"job", "base io vk weights graph text model vae sample split"},
};

static const char *allowed_rooms(const char *room) {
    size_t i;
    for (i = 0; i < sizeof rooms / sizeof *rooms; i++)
        if (!strcmp(rooms[i][0], room)) return rooms[i][1];
    return NULL;
}

static void check_includes(const char *room, const char *path) {
    const char *allowed = allowed_rooms(room);
    char *text = read_file(path), *at = text;
    if (!allowed) printf("%s: %s is no room (tools/check.c has the table)\n", path, room), problems++;
    while (allowed && (at = strstr(at, "#include \""))) {
        char target[128] = "", file[128] = "";
        at += 10;
        sscanf(at, "%127[^/\"]/%127[^\"]", target, file);
        checked++;
        if (strcmp(target, room) && strstr(file, "_internal.h"))
            printf("%s:%d: %s/%s is for the room %s alone\n", path, line_of(text, at), target, file, target),
                problems++;
        if (!strcmp(target, "dit_api.h") || !strcmp(target, room) ||
            has_word(allowed, allowed + strlen(allowed), target))
            continue;
        printf("%s:%d: the room %s may not use %s\n", path, line_of(text, at), room, target), problems++;
    }
    free(text);
}

/* --- api: the manual stands on top, every public function has a comment that names its parameters and its threads ---
 */
static void check_first_lines(const char *text) {
    const char *macro = strstr(text, "#define DIT_IMPLEMENTATION"), *generated = strstr(text, "This file is generated");
    const char *first = text;
    while (*first && strncmp(first, "typedef ", 8) && strncmp(first, "DIT_API ", 8))
        first = strchr(first, '\n') ? strchr(first, '\n') + 1 : "";
    printf("note: first declaration on line %d\n", line_of(text, first));
    if (!generated || line_of(text, generated) > 20)
        printf("the first lines do not say that the file is generated\n"), problems++;
    if (!macro || line_of(text, macro) > 30)
        printf("#define DIT_IMPLEMENTATION is not within the first 30 lines\n"), problems++;
    if (!*first || line_of(text, first) >= 400) printf("the first declaration comes after line 400\n"), problems++;
    if (!strstr(text, "does not")) printf("the manual does not say what dit does not do\n"), problems++;
}

/* The comment on lines of its own that ends right before at; NULL when there is none. */
static const char *comment_before(const char *text, const char *at) {
    const char *end = at;
    while (end > text && (end[-1] == ' ' || end[-1] == '\n')) end--;
    if (end - text < 4 || strncmp(end - 2, "*/", 2) || line_of(end, at) > 2) return NULL;
    for (end -= 4; end > text && strncmp(end, "/*", 2);) end--;
    return end > text && end[-1] == '\n' ? end : NULL;
}

/* Names a parameter: the last name of its declaration, or the one in (*name) of a function pointer. */
static void parameter_name(const char *begin, const char *end, char *name, size_t size) {
    const char *pointer = begin;
    while (pointer < end && strncmp(pointer, "(*", 2)) pointer++;
    if (pointer < end) {
        begin = pointer + 2;
        for (end = begin; is_name(*end);) end++;
    } else {
        while (end > begin && !is_name(end[-1])) end--;
        for (begin = end; is_name(begin[-1]);) begin--;
    }
    snprintf(name, size, "%.*s", (int)(end - begin), begin);
}

static void check_parameters(const char *where, const char *function, const char *list, const char *comment,
                             const char *comment_end) {
    const char *begin = list + 1, *at;
    int depth = 0;
    for (at = list; depth > 0 || at == list; at++) {
        char name[128];
        depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
        if (!(*at == ',' && depth == 1) && depth != 0) continue;
        parameter_name(begin, at, name, sizeof name);
        begin = at + 1;
        if (!strcmp(name, "void") || has_word(comment, comment_end, name)) continue;
        printf("%s: %s: its comment does not speak of the parameter %s\n", where, function, name), problems++;
    }
}

static void check_function(const char *path, const char *text, const char *at) {
    const char *comment = comment_before(text, at), *list = strchr(at, '('), *name = list, *c;
    char where[1100], function[128];
    int threads = 0;
    while (name > at && is_name(name[-1])) name--;
    snprintf(function, sizeof function, "%.*s", (int)(list - name), name);
    snprintf(where, sizeof where, "%s:%d", path, line_of(text, at));
    checked++;
    if (!comment) {
        printf("%s: %s has no comment\n", where, function), problems++;
        return;
    }
    for (c = comment; c < at; c++) threads |= !strncmp(c, "hread", 5);
    if (!threads) printf("%s: %s: its comment does not say which threads may call it\n", where, function), problems++;
    check_parameters(where, function, list, comment, at);
}

static void check_api(const char *path) {
    char *text = read_file(path), *end = strstr(text, "DIT_IMPLEMENTED"), *at = text;
    check_first_lines(text);
    if (end) *end = 0;
    while ((at = strstr(at, "\nDIT_API "))) check_function(path, text, ++at);
    printf("note: %d public functions\n", checked);
    free(text);
}

/* --- budget --- */
static void check_budget(const char *path) {
    char *text = read_file(path);
    size_t size = strlen(text);
    printf("note: dit.h: %zu bytes, %d lines\n", size, line_of(text, text + size));
    checked++;
    free(text);
}

/* --- functions: lengths, by the brace in column one that closes them --- */
enum { MAX_FUNCTIONS = 20000, LONGEST = 200 };
static int lengths[MAX_FUNCTIONS];
static int longest;
static char longest_where[1100];

static void add_function(const char *path, int line, int length) {
    if (checked < MAX_FUNCTIONS) lengths[checked++] = length;
    if (length > longest) longest = length, snprintf(longest_where, sizeof longest_where, "%s:%d", path, line);
}

static void blank_comments(char *text) {
    char *begin, *end;
    for (; (begin = strstr(text, "/*")) && (end = strstr(begin, "*/")); text = end)
        for (end += 2; begin < end; begin++)
            if (*begin != '\n') *begin = ' ';
}

/* The brace that opens the body of the function whose definition begins a line here; NULL when none does. */
static const char *body_of(const char *line) {
    const char *brace = line + strcspn(line, ";={"), *before = brace;
    if (!isalpha((unsigned char)*line) || *brace != '{') return NULL;
    while (before > line && isspace((unsigned char)before[-1])) before--;
    return before[-1] == ')' ? brace : NULL;
}

static void measure_functions(const char *room, const char *path) {
    char *text = read_file(path), *line = text;
    (void)room;
    blank_comments(text);
    while (*line) {
        const char *brace = body_of(line), *end = brace ? strstr(brace, "\n}") : NULL;
        if (brace && strcspn(brace, "}") < strcspn(brace, "\n")) end = brace;
        if (end) add_function(path, line_of(text, line), line_of(line, end) + (end != brace));
        line += end ? (size_t)(end + 1 - line) : strcspn(line, "\n");
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    free(text);
}

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void check_functions(const char *src) {
    for_sources(src, measure_functions);
    qsort(lengths, (size_t)checked, sizeof *lengths, by_value);
    if (!checked) return;
    printf("note: %d functions: median %d lines, 90%% within %d, longest %d (%s)\n", checked, lengths[checked / 2],
           lengths[checked * 9 / 10], longest, longest_where);
    if (longest > LONGEST) printf("%s: %d lines; %d are the limit\n", longest_where, longest, LONGEST), problems++;
}

/* --- circles: files of a room that call each other, directly or by way of others --- */
enum { MAX_FILES = 400, MAX_NAMES = 10000 };
typedef struct source {
    char room[32], path[256], *text;
} source;
typedef struct offered { /* a function that other files may call */
    char *name;
    int file;
} offered;
static source sources[MAX_FILES];
static offered names[MAX_NAMES];
static int source_count, name_count;
static char calls[MAX_FILES][MAX_FILES];

static int by_name(const void *a, const void *b) {
    return strcmp(((const offered *)a)->name, ((const offered *)b)->name);
}

/* Files that stand in for what a build leaves out define the same functions once more. */
static void add_offered(const char *room, const char *path) {
    char *text = read_file(path), *line = text;
    source *file = &sources[source_count];
    if (strcmp(path + strlen(path) - 2, ".c") || strstr(path, "/no_") || source_count == MAX_FILES) return;
    snprintf(file->room, sizeof file->room, "%s", room);
    snprintf(file->path, sizeof file->path, "%s", path);
    file->text = text;
    blank_comments(text);
    for (; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char *end, *begin;
        if ((strncmp(line, "DIT_INTERNAL ", 13) && strncmp(line, "DIT_API ", 8)) || !body_of(line)) continue;
        for (end = begin = line + strcspn(line, "("); is_name(begin[-1]);) begin--;
        if (name_count == MAX_NAMES) printf("more than %d functions\n", MAX_NAMES), exit(1);
        names[name_count].name = calloc((size_t)(end - begin) + 1, 1);
        memcpy(names[name_count].name, begin, (size_t)(end - begin));
        names[name_count++].file = source_count;
    }
    source_count++;
}

/* Messages name functions of the public API. */
static void note_calls(int file) {
    char *at = sources[file].text, word[128];
    while (*at) {
        offered key, *found;
        size_t length = 0;
        if (*at == '"') {
            for (at++; *at && *at != '"' && *at != '\n';) at += *at == '\\' && at[1] ? 2 : 1;
            at += *at != 0;
            continue;
        }
        while (is_name(at[length])) length++;
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        key.name = word;
        found = length ? bsearch(&key, names, (size_t)name_count, sizeof *names, by_name) : NULL;
        if (found && !strcmp(sources[found->file].room, sources[file].room)) calls[file][found->file] = 1;
        at += length + !length;
    }
}

static void check_circles(const char *src) {
    int i, k, m, told[MAX_FILES] = {0};
    for_sources(src, add_offered);
    qsort(names, (size_t)name_count, sizeof *names, by_name);
    for (i = 0; i < source_count; i++) note_calls(i), calls[i][i] = 0;
    for (m = 0; m < source_count; m++)
        for (i = 0; i < source_count; i++)
            for (k = 0; k < source_count && calls[i][m]; k++) calls[i][k] |= calls[m][k];
    for (i = 0; i < source_count; i++) {
        if (!calls[i][i] || told[i]) continue;
        printf("%s: files call each other in a circle:", sources[i].room);
        for (k = i; k < source_count; k++)
            if (calls[i][k] && calls[k][i]) printf(" %s", strrchr(sources[k].path, '/') + 1), told[k] = 1;
        printf("\n"), problems++;
    }
    checked = name_count;
    printf("note: %d functions that other files may call, in %d files\n", name_count, source_count);
}

/* --- readme: every ```c block becomes FOLDER/readme_N.c --- */
static void check_readme(const char *path, const char *folder) {
    char *text = read_file(path), *at = text, *end;
    while ((at = strstr(at, "\n```c\n")) && (end = strstr(at + 6, "\n```\n"))) {
        char name[1024];
        FILE *file;
        *end = 0;
        at += 6;
        snprintf(name, sizeof name, "%s/readme_%d.c", folder, ++checked);
        file = fopen(name, "wb");
        if (!file) printf("cannot write %s\n", name), exit(1);
        fprintf(file, "%s%s\n", strstr(at, "\"dit.h\"") ? "" : "#include \"dit.h\"\n", at);
        fclose(file);
        at = end + 1;
    }
    free(text);
}

static void check_contains(const char *whole, const char *part) {
    checked++;
    if (!strstr(read_file(whole), read_file(part)))
        printf("%s does not hold %s word for word\n", whole, part), problems++;
}

/* --- pages FILE...: every page of docs/ that a file cites exists, with the section and the step; links lead somewhere
   --- A citation is docs/PAGE.md, a space, a section (3 or 3.4), and perhaps more: docs/models.md 3.4 step 4,
   docs/models.md 3.2 steps 2, 3 and 6, docs/models.md 7.0 to 7.5 and 7.7. */
static int citations, links;

static int file_exists(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    return file != NULL;
}

/* Behind the heading whose number is section; NULL: the page has no such heading. */
static const char *find_section(const char *page, const char *section) {
    size_t length = strlen(section);
    const char *line = page;
    while (line) {
        const char *at = line + strspn(line, "#");
        if (at > line && *at == ' ' && !strncmp(at + 1, section, length) && !isdigit((unsigned char)at[1 + length]) &&
            (at[1 + length] != '.' || !isdigit((unsigned char)at[2 + length])))
            return at;
        line = strchr(line, '\n');
        if (line) line++;
    }
    return NULL;
}

/* Whether a line of the section, up to the next heading, begins with this step's number. */
static int has_step(const char *section, const char *step) {
    char line[40];
    const char *end = strstr(section, "\n#"), *at;
    snprintf(line, sizeof line, "\n%s. ", step);
    at = strstr(section, line);
    return at && (!end || at < end);
}

/* A number such as 3 or 3.4 (a dot that no digit follows ends the sentence); at is moved behind it. 0: there is none.
 */
static int read_number(const char **at, char *out, size_t size) {
    size_t length = strspn(*at, "0123456789");
    if (length && (*at)[length] == '.') {
        size_t more = strspn(*at + length + 1, "0123456789");
        if (more) length += 1 + more;
    }
    if (length) snprintf(out, size, "%.*s", (int)length, *at);
    *at += length;
    return length > 0;
}

/* Moves at behind what joins two numbers of a citation: a comma, "and", "to", also where a line of a comment ends. */
static int skip_joint(const char **at) {
    static const char *const joints[] = {", ", " and ", " to "};
    size_t i;
    for (i = 0; i < sizeof joints / sizeof *joints; i++) {
        size_t length = strlen(joints[i]);
        if (strncmp(*at, joints[i], length) || !isdigit((unsigned char)(*at)[length])) continue;
        *at += length;
        return 1;
    }
    return 0;
}

/* Where a line ends, the section may stand on the next one, behind the comment's margin. */
static const char *skip_line_end(const char *at) {
    const char *next = at + 1;
    if (*at != '\n') return at;
    next += strspn(next, " */");
    return isdigit((unsigned char)*next) && next > at + 1 ? next - 1 : at;
}

static void check_citation(const char *path, const char *text, const char *begin, const char *at) {
    char page[256], section[32] = "", step[32];
    const char *content, *found = NULL;
    snprintf(page, sizeof page, "%.*s", (int)(at - begin), begin);
    citations++;
    if (!file_exists(page)) {
        printf("%s:%d: cites %s, which does not exist\n", path, line_of(text, begin), page), problems++;
        return;
    }
    at = skip_line_end(at);
    if (*at != ' ' || !isdigit((unsigned char)at[1])) return;
    at++;
    content = read_file(page);
    do {
        if (!read_number(&at, section, sizeof section)) break;
        found = find_section(content, section);
        if (!found) printf("%s:%d: %s has no section %s\n", path, line_of(text, begin), page, section), problems++;
    } while (skip_joint(&at));
    if (!found || strncmp(at, " step", 5)) return;
    at += at[5] == 's' ? 7 : 6;
    do {
        if (!read_number(&at, step, sizeof step)) break;
        if (!has_step(found, step))
            printf("%s:%d: %s %s has no step %s\n", path, line_of(text, begin), page, section, step), problems++;
    } while (skip_joint(&at));
}

/* In sources only the whole name cites a page, so that a search for docs/PAGE.md finds all who follow it. */
static void check_bare(const char *path, const char *text, const char *begin, const char *at) {
    if (at[0] != ' ' || !isdigit((unsigned char)at[1]) || (begin > text && begin[-1] == '/')) return;
    printf("%s:%d: write docs/%.*s\n", path, line_of(text, begin), (int)(at - begin), begin), problems++;
}

/* A link of a page: ](TARGET), from the folder of the page, without what stands behind a #. */
static void check_link(const char *path, const char *text, const char *at) {
    char target[1024];
    const char *slash = strrchr(path, '/');
    size_t length = strcspn(at, ")#\n");
    if (!length || strstr(at, "://") == at + strcspn(at, ":)\n")) return;
    links++;
    snprintf(target, sizeof target, "%.*s%.*s", slash ? (int)(slash + 1 - path) : 0, path, (int)length, at);
    if (!file_exists(target))
        printf("%s:%d: the link to %s leads nowhere\n", path, line_of(text, at), target), problems++;
}

static void check_pages(const char *path) {
    const char *suffix = strrchr(path, '.');
    char *text = read_file(path), *at = text;
    int is_page = suffix && !strcmp(suffix, ".md");
    checked++;
    while ((at = strstr(at, ".md"))) {
        const char *begin = at, *name;
        at += 3;
        while (begin > text &&
               (islower((unsigned char)begin[-1]) || isdigit((unsigned char)begin[-1]) || strchr("-/", begin[-1])))
            begin--;
        name = begin;
        while (begin > text && strchr("./", begin[-1])) begin--; /* ../docs/PAGE.md is the same page */
        if (isalnum((unsigned char)*at) || (begin > text && isalnum((unsigned char)begin[-1]))) continue;
        if (!strncmp(name, "docs/", 5))
            check_citation(path, text, name, at);
        else if (!is_page)
            check_bare(path, text, name, at);
    }
    for (at = text; is_page && (at = strstr(at, "](")); at += 2) check_link(path, text, at + 2);
    free(text);
}

/* --- names FOLDER PAGE...: functions and files that a page names exist in FOLDER, or, files, where the page says ---
 */
static char *whole_source;
static size_t whole_size;

static void add_source(const char *room, const char *path) {
    char *text = read_file(path);
    size_t size = strlen(text);
    (void)room;
    whole_source = realloc(whole_source, whole_size + size + 1);
    if (!whole_source) printf("out of memory\n"), exit(1);
    memcpy(whole_source + whole_size, text, size + 1);
    whole_size += size;
    free(text);
}

static void check_name(const char *where, const char *folder, const char *name) {
    const char *suffix = strrchr(name, '.');
    char path[1024];
    if ((!strncmp(name, "diti_", 5) || !strncmp(name, "DITI_", 5)) && !strpbrk(name, "./*")) {
        checked++;
        if (!has_word(whole_source, whole_source + whole_size, name))
            printf("%s: %s has no %s\n", where, folder, name), problems++;
    }
    if (!suffix || !strchr(name, '/') || (strcmp(suffix, ".c") && strcmp(suffix, ".h") && strcmp(suffix, ".comp")))
        return;
    checked++;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!file_exists(name) && !file_exists(path)) printf("%s: there is no %s\n", where, name), problems++;
}

/* `function` (`file`), `function` in `file`: the file must hold the name. at: behind the function's name. */
static void check_place(const char *where, const char *folder, const char *name, const char *at) {
    char file[256], path[1024];
    at += 1 + strspn(at + 1, " \n(");
    at += !strncmp(at, "in ", 3) || !strncmp(at, "in\n", 3) ? 3 : 0;
    if (*at != '`' || !strchr(name, '_')) return;
    snprintf(file, sizeof file, "%.*s", (int)strcspn(at + 1, "`\n"), at + 1);
    snprintf(path, sizeof path, "%s/%s", folder, strncmp(file, "src/", 4) ? file : file + 4);
    if (strpbrk(name, "./ ") || !strstr(file, ".c") || !strchr(file, '/') || !file_exists(path)) return;
    checked++;
    at = read_file(path);
    if (!has_word(at, at + strlen(at), name)) printf("%s: %s is not in %s\n", where, name, path), problems++;
}

/* Names stand in `this type`. */
static void check_names(const char *folder, const char *page) {
    char *text = read_file(page), *at = text;
    while ((at = strchr(at, '`'))) {
        size_t length = strcspn(at + 1, "`\n");
        char name[256], where[1100];
        if (at[1] == '`') { /* a block of code */
            at = strstr(at + 3, "```");
            if (!at) break;
            at += 3;
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)length, at + 1);
        snprintf(where, sizeof where, "%s:%d", page, line_of(text, at));
        if (!strpbrk(name, " \t")) check_name(where, folder, name);
        if (at[length + 1] == '`') check_place(where, folder, name, at + length + 1);
        at += length + 1 + (at[length + 1] == '`');
    }
    free(text);
}

/* --- prose FILE...: no sentence of a comment or a page begins with a word after which the reader waits for its
   subject; in src/ no comment behind code goes on with the sentence that a name seems to begin --- */

/* Whether a sentence begins at at, between begin and at being a comment or a paragraph: nothing but margins stands
   before it, or a full stop. */
static int begins_sentence(const char *begin, const char *at) {
    const char *before = at;
    if (before == begin) return 1;
    if (!isspace((unsigned char)before[-1])) return 0;
    while (before > begin && (isspace((unsigned char)before[-1]) || strchr("*-/|", before[-1]))) before--;
    return before == begin || strchr(".!?", before[-1]) != NULL;
}

static void check_sentences(const char *path, const char *text, const char *begin, const char *end) {
    static const char *const words[] = {"Of", "What", "Those", "That", "The same"};
    const char *at;
    size_t i;
    for (at = begin; at < end; at++) {
        for (i = 0; i < sizeof words / sizeof *words; i++) {
            size_t length = strlen(words[i]);
            if (strncmp(at, words[i], length) || !isspace((unsigned char)at[length]) || !begins_sentence(begin, at))
                continue;
            printf("%s:%d: a sentence begins with \"%s\": %.60s\n", path, line_of(text, at), words[i], at), problems++;
        }
    }
}

static void check_page_prose(const char *path, char *text) {
    char *line = text, *end;
    int code = 0;
    for (; *line; line = end + (*end == '\n')) {
        char *next;
        end = line + strcspn(line, "\n");
        if (!strncmp(line, "```", 3)) code = !code;
        if (code || *line == '#' || *line == '`' || *line == '\n') continue;
        for (next = end; *next == '\n' && !strchr("\n#`|", next[1]); next = end)
            end = next + 1 + strcspn(next + 1, "\n");
        check_sentences(path, text, line, end);
    }
}

/* A comment behind a member, a constant or a statement names its subject, too: "rank of this process", not "of this
   process". */
static void check_behind(const char *path, const char *text, const char *begin) {
    static const char *const words[] = {"of",    "what",     "that", "those", "the same", "which", "whose",
                                        "who",   "and",      "or",   "it",    "its",      "they",  "them",
                                        "their", "likewise", "but",  "else",  "then",     "so",    "is",
                                        "has",   "are",      "was",  "does",  "there",    "with"};
    const char *code = begin - 1;
    size_t i;
    while (isspace((unsigned char)*code)) code--;
    for (code -= 2; code > text && *code != '\n' && isspace((unsigned char)*code);) code--;
    if (strncmp(path, "src/", 4) || code <= text || *code == '\n') return;
    for (i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        if (strncmp(begin, words[i], length) || isalnum((unsigned char)begin[length])) continue;
        printf("%s:%d: a comment behind code begins with \"%s\": %.60s\n", path, line_of(text, begin), words[i], begin);
        problems++;
    }
}

/* Literals hold no comments. */
static void check_source_prose(const char *path, char *text) {
    char *at = text, *end;
    while (*at) {
        if (*at == '"' || *at == '\'') {
            char quote = *at++;
            while (*at && *at != quote && *at != '\n') at += *at == '\\' && at[1] ? 2 : 1;
            at += *at != 0;
        } else if (!strncmp(at, "/*", 2) && (end = strstr(at + 2, "*/"))) {
            for (at += 2; at < end && isspace((unsigned char)*at);) at++;
            check_sentences(path, text, at, end);
            check_behind(path, text, at);
            at = end + 2;
        } else if (!strncmp(at, "//", 2)) {
            for (at += 2; *at == ' ';) at++;
            for (end = at + strcspn(at, "\n"); !strncmp(end, "\n//", 3);) end += 1 + strcspn(end + 1, "\n");
            check_sentences(path, text, at, end);
            at = end;
        } else {
            at++;
        }
    }
}

/* Scripts and makefiles: a line that begins with # is a comment, which goes on in the lines below that do, too. */
static void check_script_prose(const char *path, char *text) {
    char *line, *end;
    for (line = text; *line; line = end + (*end == '\n')) {
        char *begin = line + strspn(line, " \t");
        end = line + strcspn(line, "\n");
        if (*begin != '#') continue;
        while (end[0] && end[1 + strspn(end + 1, " \t")] == '#') {
            *strchr(end + 1, '#') = ' ';
            end += 1 + strcspn(end + 1, "\n");
        }
        begin += 1 + strspn(begin + 1, " #!");
        if (begin < end) check_sentences(path, text, begin, end);
    }
}

static void check_prose(const char *path) {
    const char *suffix = strrchr(path, '.');
    char *text = read_file(path);
    if (!strncmp(path, "./", 2)) path += 2;
    checked++;
    if (suffix && !strcmp(suffix, ".md"))
        check_page_prose(path, text);
    else if (!suffix || !strcmp(suffix, ".sh") || !strcmp(suffix, ".py") || !strcmp(suffix, ".yml"))
        check_script_prose(path, text);
    else
        check_source_prose(path, text);
    free(text);
}

/* --- time RUNS COMMAND...: the processor time of the shortest of several runs, whatever else the machine does --- */
static double child_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static int time_command(int runs, char **words) {
    char command[4096] = "";
    double best = 1e30;
    for (; *words; words++) snprintf(command + strlen(command), sizeof command - strlen(command), "%s ", *words);
    while (runs-- > 0) {
        double begin = child_seconds(), seconds;
        if (system(command)) return printf("failed\n"), 1;
        seconds = child_seconds() - begin;
        if (seconds < best) best = seconds;
    }
    return printf("%.2f s\n", best), 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[1] : "";
    int i;
    if (!strcmp(what, "time") && argc > 3) return time_command(atoi(argv[2]), argv + 3);
    if (!strcmp(what, "rooms")) for_sources(argv[2], check_includes);
    if (!strcmp(what, "circles")) check_circles(argv[2]);
    if (!strcmp(what, "api")) check_api(argv[2]);
    if (!strcmp(what, "budget")) check_budget(argv[2]);
    if (!strcmp(what, "functions")) check_functions(argv[2]);
    if (!strcmp(what, "readme") && argc > 3) check_readme(argv[2], argv[3]);
    if (!strcmp(what, "contains") && argc > 3) check_contains(argv[2], argv[3]);
    for (i = 2; !strcmp(what, "pages") && i < argc; i++) check_pages(argv[i]);
    if (!strcmp(what, "pages")) printf("note: %d citations, %d links, %d files\n", citations, links, checked);
    for (i = 2; !strcmp(what, "prose") && i < argc; i++) check_prose(argv[i]);
    if (!strcmp(what, "prose")) printf("note: %d files\n", checked);
    if (!strcmp(what, "names")) for_sources(argv[2], add_source);
    for (i = 3; !strcmp(what, "names") && whole_source && i < argc; i++) check_names(argv[2], argv[i]);
    if (!strcmp(what, "names")) printf("note: %d names\n", checked);
    if (!checked) printf("%s: nothing was checked\n", what);
    return problems || !checked;
}
