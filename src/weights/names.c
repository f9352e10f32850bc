/* Names of weights: what the code asks for, in the words of the file at hand. */
#include "weights/component.h"

DIT_INTERNAL const char *diti_rename(const char *const (*pairs)[2], size_t count, const char *name, char *out,
                                     size_t size) {
    const char *stored = NULL;
    size_t i, length, longest = 0;
    for (i = 0; i < count; i++) {
        length = strlen(pairs[i][0]);
        if (length <= longest || strncmp(name, pairs[i][0], length) != 0) continue;
        if (name[length] && name[length] != '.') continue;
        stored = pairs[i][1];
        longest = length;
    }
    return stored && diti_format(out, size, "%s%s", stored, name + longest) ? out : NULL;
}

static const char *diti_rename_by(const diti_key_table *table, const char *name, char *out, size_t size) {
    size_t skip = table->before ? strlen(table->before) : 0, used = 0;
    const char *rest = name;
    if (!table->pairs) /* one beginning for another */
        return table->after && (!skip || strncmp(name, table->before, skip) == 0) &&
                       diti_format(out, size, "%s%s", table->after, name + skip)
                   ? out
                   : NULL;
    if (table->before) {
        rest = strncmp(name, table->before, skip) == 0 ? strchr(name + skip, '.') : NULL;
        if (!rest ||
            !diti_format(out, size, "%s%.*s.", table->after, (int)(rest - name - (ptrdiff_t)skip), name + skip))
            return NULL;
        used = strlen(out);
        rest++;
    }
    return diti_rename(table->pairs, table->count, rest, out + used, size - used) ? out : NULL;
}

DIT_INTERNAL const char *diti_rename_by_tables(void *user, const char *name, char *out, size_t size) {
    const diti_key_table *tables = (const diti_key_table *)user;
    const char *stored = NULL;
    uint32_t i;
    for (i = 0; i < DITI_KEY_TABLES && !stored; i++) stored = diti_rename_by(&tables[i], name, out, size);
    return stored;
}
