/* amalgamate ORDER OUT: writes the single header from the files that ORDER names. A pure function of those files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, const char *name) {
    fprintf(stderr, "amalgamate: %s: %s\n", what, name);
    return 1;
}

/* Local includes vanish because the files they name stand in the same header. */
static int is_local_include(const char *line) { return strncmp(line, "#include \"", 10) == 0; }

static int copy_file(FILE *out, const char *folder, const char *name, int verbatim) {
    char path[1024], line[1 << 16];
    FILE *in;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    in = fopen(path, "rb");
    if (!in) return fail("cannot read", path);
    if (!verbatim) fprintf(out, "\n/* ======== src/%s (edit it there; dit.h is generated) ======== */\n", name);
    while (fgets(line, sizeof line, in)) {
        if (strlen(line) == sizeof line - 1) return fail("line too long", path);
        if (verbatim || !is_local_include(line)) fputs(line, out);
    }
    return fclose(in) ? fail("cannot close", path) : 0;
}

static int amalgamate(FILE *order, FILE *out, const char *folder) {
    char line[1024];
    int count = 0;
    while (fgets(line, sizeof line, order)) {
        line[strcspn(line, "\r\n")] = 0;
        if (!line[0] || line[0] == '#') continue;
        if (copy_file(out, folder, line, count == 0)) return 1;
        if (count++ == 0) fputs("\n#if defined(DIT_IMPLEMENTATION) && !defined(DIT_IMPLEMENTED)\n#define DIT_IMPLEMENTED\n#define DIT_INTERNAL static\n", out);
    }
    fputs("#endif /* DIT_IMPLEMENTATION */\n", out);
    return count < 2 ? fail("too few files in", "ORDER") : 0;
}

int main(int argc, char **argv) {
    char folder[1024];
    FILE *order, *out;
    char *slash;
    int failed;
    if (argc != 3) return fail("usage", "amalgamate ORDER OUT");
    snprintf(folder, sizeof folder, "%s", argv[1]);
    slash = strrchr(folder, '/');
    if (!slash) return fail("ORDER needs a folder", argv[1]);
    *slash = 0;
    order = fopen(argv[1], "rb");
    out = fopen(argv[2], "wb");
    if (!order || !out) return fail("cannot open", order ? argv[2] : argv[1]);
    failed = amalgamate(order, out, folder);
    fclose(order);
    return fclose(out) || failed;
}
