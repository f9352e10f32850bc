/* The whole output, at once or in several runs (--resume). An interrupted run leaves OUTPUT.partial and OUTPUT.journal.
 * The journal's first line has a hash of all that decides the output's bytes: the header, which names every tensor with
 * its type and place, how matrices are rounded, and the sizes and times of the inputs. Each further line says how many
 * bytes are on the disk for certain: it is written when they have been flushed to it, between two tensors. A run that
 * finds a journal with its own hash goes on behind the last whole line; one that finds another hash begins anew. */
#ifndef CONVERT_RESUME_H
#define CONVERT_RESUME_H
#include "write.h"
#ifdef _WIN32
#include <io.h>
#endif

enum { JOURNAL_STEP = 64 << 20 };

static bool to_the_disk(FILE *file) {
#ifdef _WIN32
    return fflush(file) == 0 && _commit(_fileno(file)) == 0;
#else
    return fflush(file) == 0 && fsync(fileno(file)) == 0;
#endif
}

static void hash_inputs(converter *convert) {
    for (size_t i = 0; i < convert->tensor_count; i++) {
        const diti_checkpoint *from = convert->tensors[i].from;
        if (!from || (i > 0 && from == convert->tensors[i - 1].from)) continue;
        for (size_t k = 0; k < from->file_count; k++) {
            struct stat info;
            memset(&info, 0, sizeof info);
            stat(diti_file_name(from->files[k]), &info);
            hash_bytes(&convert->plan, &info.st_size, sizeof info.st_size);
            hash_bytes(&convert->plan, &info.st_mtime, sizeof info.st_mtime);
        }
    }
}

/* Halves of two ways to round would not belong together: a layer's columns are multiplied with what the rows of the one
   before are divided by. */
static void hash_rounding(converter *convert) {
    hash_bytes(&convert->plan, &convert->method, sizeof convert->method);
    hash_bytes(&convert->plan, &convert->smoothing, sizeof convert->smoothing);
    if (convert->calibration)
        hash_bytes(&convert->plan, &convert->calibration->hash, sizeof convert->calibration->hash);
}

/* Bytes of an earlier run with the same plan that are on the disk; 0: there is none. */
static uint64_t journalled_bytes(const converter *convert, const char *path) {
    FILE *journal = fopen(path, "rb");
    unsigned long long plan = 0, bytes = 0, found = 0;
    struct stat info;
    char line[64];
    bool good = journal && fgets(line, sizeof line, journal) && sscanf(line, "plan %llx\n", &plan) == 1;
    while (good && fgets(line, sizeof line, journal) && strchr(line, '\n') && sscanf(line, "%llu\n", &bytes) == 1)
        found = bytes;
    if (journal) fclose(journal);
    if (good && plan != convert->plan)
        fprintf(stderr, "dit-convert: %s is of another input or other options: begins anew\n", convert->out.part);
    return good && plan == convert->plan && stat(convert->out.part, &info) == 0 && (uint64_t)info.st_size >= found
               ? found
               : 0;
}

static bool journal_open(converter *convert, const char *path) {
    convert->kept = journalled_bytes(convert, path);
    convert->journalled = convert->kept;
    convert->journal = fopen(path, convert->kept ? "ab" : "wb");
    return convert->journal &&
           (convert->kept || fprintf(convert->journal, "plan %llx\n", (unsigned long long)convert->plan) > 0) &&
           to_the_disk(convert->journal);
}

/* The bytes written so far end with a tensor, and with what is made of it. */
static dit_result journal_note(converter *convert) {
    if (!convert->journal || convert->written < convert->journalled + convert->journal_step) return DIT_OK;
    convert->journalled = convert->written;
    if (to_the_disk(convert->out.file) &&
        fprintf(convert->journal, "%llu\n", (unsigned long long)convert->written) > 0 && to_the_disk(convert->journal))
        return DIT_OK;
    return output_failed(convert);
}

/* Opens OUTPUT.partial behind what an earlier run has left there. */
static bool resumable_open(converter *convert, char *journal, size_t size) {
    output_file *out = &convert->out;
    if (!resolve_links(convert->output, out->target, sizeof out->target) ||
        snprintf(out->part, sizeof out->part, "%.4000s.partial", out->target) >= (int)sizeof out->part ||
        snprintf(journal, size, "%.4000s.journal", out->target) >= (int)size)
        return errno = ENAMETOOLONG, false;
    out->file = NULL;
    out->stays = true;
    convert->plan = 0xcbf29ce484222325u;
    if (put_header(convert) < 0) return false;
    hash_rounding(convert);
    hash_inputs(convert);
    convert->written = 0;
    if (!journal_open(convert, journal)) return false;
    out->file = fopen(out->part, convert->kept ? "r+b" : "wb");
    return out->file != NULL;
}

/* An interrupted output stays, with its journal. */
static bool resumable_close(converter *convert, const char *journal, bool good) {
    if (convert->journal) fclose(convert->journal);
    convert->journal = NULL;
    if (convert->out.file) good = output_close(&convert->out, good);
    if (good) remove(journal);
    return good;
}

/* Tensors that an earlier run has written are passed over. */
static dit_result put_tensors(converter *convert) {
    const uint64_t data = convert->written;
    for (size_t i = 0; i < convert->tensor_count; i++) {
        out_tensor *tensor = &convert->tensors[i];
        const uint64_t end = data + tensor->offset + (tensor->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        dit_result result;
        if (end <= convert->kept) {
            convert->written = end;
            if (fseeko(convert->out.file, (int64_t)end, SEEK_SET) != 0) return output_failed(convert);
            continue;
        }
        result = put_tensor(convert, tensor);
        if (result >= 0 && (i + 1 == convert->tensor_count || !tensor[1].is_made)) result = journal_note(convert);
        if (result < 0) return result;
    }
    return DIT_OK;
}

static dit_result write_output(converter *convert) {
    char journal[PATH_SIZE];
    dit_result result = check_output(convert);
    if (result < 0) return result;
    if (!(convert->resumes ? resumable_open(convert, journal, sizeof journal)
                           : output_open(&convert->out, convert->output)))
        return output_failed(convert);
    if (convert->kept)
        fprintf(told_to(convert), "%s: goes on behind %.1f MB\n", convert->output, (double)convert->kept / 1e6);
    result = put_header(convert);
    if (result >= 0) result = put_tensors(convert);
    if (!(convert->resumes ? resumable_close(convert, journal, result >= 0)
                           : output_close(&convert->out, result >= 0)) &&
        result >= 0)
        result = output_failed(convert);
    return result;
}

#endif
