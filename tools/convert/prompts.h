/* The file of --calibrate and --errors: prompts, one a line. */
#ifndef CONVERT_PROMPTS_H
#define CONVERT_PROMPTS_H
#include "convert.h"

/* The lines of a text that are not empty; NULL: no memory. text is cut up. */
static char **split_lines(char *text, size_t *count) {
    char **lines = NULL;
    size_t capacity = 0;
    *count = 0;
    for (char *line = strtok(text, "\r\n"); line; line = strtok(NULL, "\r\n")) {
        if (*count == capacity) {
            char **more = (char **)realloc(lines, (capacity = 2 * capacity + 16) * sizeof *lines);
            if (!more) return free(lines), NULL;
            lines = more;
        }
        lines[(*count)++] = line;
    }
    return lines;
}

typedef struct prompt_list {
    char *text, **lines;
    size_t count;
} prompt_list;

static dit_result read_prompts(converter *convert, prompt_list *out) {
    dit_source source = {0};
    diti_file *file = NULL;
    size_t size;
    dit_result result;
    source.path = convert->prompts;
    result = diti_file_open(&convert->env, &source, NULL, &file, convert->err);
    if (result >= 0) result = diti_file_read_all(&convert->env, file, &out->text, &size, convert->err);
    if (result >= 0) out->lines = split_lines(out->text, &out->count);
    if (result >= 0 && !out->lines)
        result =
            diti_fail(convert->err, DIT_ERROR_BAD_FILE, "%s: no prompts in it; write one a line", convert->prompts);
    diti_file_close(file);
    return result;
}

static void free_prompts(converter *convert, prompt_list *prompts) {
    free(prompts->lines);
    diti_free(&convert->env, prompts->text);
}

#endif
