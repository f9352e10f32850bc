/* The option table and the help as other programs read them: completion for bash, zsh and fish, and a page for man. Not
   part of dit.h. */
#ifndef COMPLETION_H
#define COMPLETION_H
#include "options.h"

/* ---- Words of the help: lines of "  -p, --prompt TEXT           what to show" ---- */

enum { HELP_COLUMN = 30 };

/* The words behind an option, where a line of the help begins with it; cut off at the line's end. */
static void help_words(const char *option, char *out, size_t size) {
    const size_t length = strlen(option);
    size_t i;
    out[0] = 0;
    for (i = 0; i < HELP_PARTS && !out[0]; i++) {
        const char *line = help_parts[i];
        for (; *line && !out[0]; line += strcspn(line, "\n"), line += *line == '\n') {
            const size_t whole = strcspn(line, "\n");
            const char *at = strstr(line, option), *words;
            if (!at || at > line + 6 + 5 || at > line + whole || (at[length] != ' ' && at[length] != ',')) continue;
            if (strspn(line, " ") < 2) continue;
            words = strstr(at, "  ");
            if (!words || words > line + whole) continue;
            words += strspn(words, " ");
            snprintf(out, size, "%.*s", (int)(whole - (size_t)(words - line)), words);
        }
    }
}

/* ---- Completion ---- */

static const struct {
    const char *option, *words; /* words NULL: names of files */
} completed[] = {
    {"--sampler", "$(dit --sampler list 2>/dev/null)"},
    {"--scheduler", "$(dit --scheduler list 2>/dev/null)"},
    {"--rng", "cpu cuda philox"},
    {"--type", "stored i8r i8r+rot i4r+rot i4_group"},
    {"--preview", "terminal kitty iterm2 sixel blocks proj tae vae"},
    {"--completion", "bash zsh fish"},
    {"--info-level", "1 2 3"},
    {"--model", NULL},
    {"--diffusion-model", NULL},
    {"--high-noise-diffusion-model", NULL},
    {"--uncond-diffusion-model", NULL},
    {"--clip-l", NULL},
    {"--clip-g", NULL},
    {"--t5", NULL},
    {"--clip-vision", NULL},
    {"--vae", NULL},
    {"--taesd", NULL},
    {"--audio-vae", NULL},
    {"--tokenizer", NULL},
    {"--output", NULL},
    {"--init-img", NULL},
    {"--end-img", NULL},
    {"--init-video", NULL},
    {"--mask", NULL},
    {"--control-image", NULL},
    {"--control-video", NULL},
    {"--control-net", NULL},
    {"--high-noise-control-net", NULL},
    {"--noise", NULL},
    {"--latent-out", NULL},
    {"--preview-path", NULL},
    {"--trace", NULL},
    {"--repeat-from", NULL},
    {"--batch", NULL},
    {"--grid", NULL},
    {"--info", NULL},
    {"--conditioning", NULL},
    {"--encode-prompt", NULL},
};
enum { COMPLETED = sizeof completed / sizeof completed[0] };

/* The number of an option in completed; COMPLETED: its values are anybody's. */
static size_t find_completed(const option_entry *entry) {
    size_t i = 0;
    while (i < COMPLETED && strcmp(completed[i].option, entry->name) != 0) i++;
    return i;
}

static void complete_bash(void) {
    size_t i, k;
    puts("# bash completion of dit, made by dit --completion bash\n"
         "_dit() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
         "    case $before in");
    for (i = 0; i < OPTION_COUNT; i++) {
        const option_entry *entry = &option_table[i];
        if (!entry->value) continue;
        k = find_completed(entry);
        printf("    %s%s%s) ", entry->name, entry->letter ? "|" : "", entry->letter ? entry->letter : "");
        if (k == COMPLETED)
            puts("return ;;");
        else if (completed[k].words)
            printf("COMPREPLY=($(compgen -W \"%s\" -- \"$word\")); return ;;\n", completed[k].words);
        else
            puts("compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$word\")); return ;;");
    }
    fputs("    esac\n    COMPREPLY=($(compgen -W \"doctor", stdout);
    for (i = 0; i < OPTION_COUNT; i++) printf(" %s", option_table[i].name);
    puts("\" -- \"$word\"))\n}\ncomplete -F _dit dit");
}

/* In single quotes of a shell; zsh's specifications need their own marks escaped, too. */
static void put_quoted(const char *text, const char *escaped) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            printf(*escaped && strchr(escaped, *text) ? "\\%c" : "%c", *text);
    }
}

static void complete_zsh(void) {
    char words[128];
    size_t i, k;
    puts("#compdef dit\n# zsh completion of dit, made by dit --completion zsh\n_arguments -s \\");
    for (i = 0; i < OPTION_COUNT; i++) {
        const option_entry *entry = &option_table[i];
        help_words(entry->name, words, sizeof words);
        k = find_completed(entry);
        if (entry->letter)
            printf("    {%s,%s}'[", entry->letter, entry->name);
        else
            printf("    '%s[", entry->name);
        put_quoted(words, "[]:\\");
        fputs("]", stdout);
        if (entry->value) fputs(":value:", stdout);
        if (entry->value && k < COMPLETED) {
            if (!completed[k].words)
                fputs("_files", stdout);
            else if (completed[k].words[0] == '$')
                printf("{compadd -- %s}", completed[k].words);
            else
                printf("(%s)", completed[k].words);
        }
        puts("' \\");
    }
    puts("    '1::command:(doctor)'");
}

static void complete_fish(void) {
    char words[128];
    size_t i, k;
    puts("# fish completion of dit, made by dit --completion fish\n"
         "complete -c dit -f\n"
         "complete -c dit -n __fish_use_subcommand -a doctor -d 'what is installed, and what is wrong'");
    for (i = 0; i < OPTION_COUNT; i++) {
        const option_entry *entry = &option_table[i];
        help_words(entry->name, words, sizeof words);
        k = find_completed(entry);
        printf("complete -c dit -l %s", entry->name + 2);
        if (entry->letter) printf(" -s %s", entry->letter + 1);
        if (entry->value) fputs(k < COMPLETED && !completed[k].words ? " -r -F" : " -x", stdout);
        if (entry->value && k < COMPLETED && completed[k].words) {
            const char *list = completed[k].words;
            fputs(" -a '", stdout);
            put_quoted(list + (*list == '$'), "");
            fputs("'", stdout);
        }
        fputs(" -d '", stdout);
        put_quoted(words, "");
        puts("'");
    }
}

static int put_completion(const char *shell) {
    if (strcmp(shell, "bash") == 0)
        complete_bash();
    else if (strcmp(shell, "zsh") == 0)
        complete_zsh();
    else if (strcmp(shell, "fish") == 0)
        complete_fish();
    else
        return complain(EXIT_USAGE, "--completion '%s': there are scripts for bash, zsh and fish", shell);
    return EXIT_GOOD;
}

/* ---- The page for man ---- */

static void put_roff(const char *text, size_t length) {
    size_t i;
    if (length && strchr(".'", *text)) fputs("\\&", stdout);
    for (i = 0; i < length; i++) {
        if (text[i] == '\\')
            fputs("\\e", stdout);
        else if (text[i] == '-')
            fputs("\\-", stdout);
        else
            putchar(text[i]);
    }
}

/* A line of the help: options in bold and what they are, or more words. */
static void put_man_line(const char *line, size_t length) {
    const size_t left = strspn(line, " ");
    const char *words;
    size_t head;
    if (left >= length) return;
    words = strstr(line + left, "  ");
    if (words && words > line + length) words = NULL;
    head = words ? (size_t)(words - line) - left : length - left;
    if (left <= 6 && left >= 2 && line[left] == '-') {
        fputs(".TP\n.B ", stdout);
        put_roff(line + left, head);
        putchar('\n');
        if (words) {
            words += strspn(words, " ");
            put_roff(words, length - (size_t)(words - line));
            putchar('\n');
        }
        return;
    }
    if (left < 2) fputs(".PP\n", stdout);
    line += left;
    length -= left;
    while (length) { /* columns of a table are a line's words here */
        const size_t word = strcspn(line, " \n") < length ? strcspn(line, " \n") : length;
        const size_t gap = strspn(line + word, " ") < length - word ? strspn(line + word, " ") : length - word;
        put_roff(line, word);
        putchar(length > word + gap ? ' ' : '\n');
        line += word + gap;
        length -= word + gap;
    }
}

static void put_man_lines(const char *text, const char *end) {
    for (; text < end; text += strcspn(text, "\n") + 1) put_man_line(text, strcspn(text, "\n"));
}

/* The help as a page; its first lines are the ways to call the program. */
static void put_man(const char *version) {
    const char *options = strstr(help_text, "\n\n") + 2, *closing = strstr(options, "\n\n") + 2;
    const char *line = help_text, *more = strchr(more_help_text + 1, '\n') + 1;
    size_t i;
    printf(".\\\" Made by dit --man.\n.TH DIT 1 \"\" \"%s\" \"User Commands\"\n.SH NAME\n"
           "dit \\- makes pictures and clips from words, on any Vulkan device\n.SH SYNOPSIS\n.nf\n",
           version);
    for (; *line != '\n'; line += strcspn(line, "\n") + 1) {
        const size_t skip = strncmp(line, "usage: ", 7) == 0 ? 7 : strspn(line, " ");
        put_roff(line + skip, strcspn(line + skip, "\n"));
        putchar('\n');
    }
    puts(".fi\n.SH OPTIONS");
    put_man_lines(options, closing - 1);
    puts(".SH RARER OPTIONS");
    put_man_lines(more, more + strlen(more));
    for (i = 2; i < HELP_PARTS; i++) put_man_lines(help_parts[i], help_parts[i] + strlen(help_parts[i]));
    puts(".SH EXIT STATUS");
    put_man_lines(closing, closing + strlen(closing));
    puts(".SH SEE ALSO\nThe file README.md of dit.h.");
}
#endif
