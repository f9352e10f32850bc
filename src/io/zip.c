/* The directory of a zip archive whose entries are stored as they are (APPNOTE 4.3): where the bytes of each name lie,
   and which CRC-32 they should have. Nothing is unpacked. Entries must stand one behind the other in the order of the
   directory, as every writer puts them, so that none can hide in another. */
#include "io/io.h"

enum {
    DITI_ZIP_END = 0x06054b50,
    DITI_ZIP64_LOCATOR = 0x07064b50,
    DITI_ZIP64_END = 0x06064b50,
    DITI_ZIP_ENTRY = 0x02014b50,
    DITI_ZIP_LOCAL = 0x04034b50,
    DITI_ZIP_DESCRIPTOR = 0x08074b50
};
enum { DITI_ZIP_END_SIZE = 22, DITI_ZIP_LOCATOR_SIZE = 20, DITI_ZIP64_END_SIZE = 56, DITI_ZIP_ENTRY_SIZE = 46 };
enum { DITI_ZIP_LOCAL_SIZE = 30, DITI_ZIP_MAX_COMMENT = 65535 };
#define DITI_ZIP_MAX_DIRECTORY 268435456u /* a few million entries */

typedef struct diti_zip_reader {
    const diti_env *env;
    const diti_file *file;
    const char *name;
    dit_error *err;
    uint64_t directory, directory_size, count;
    uint64_t used; /* behind the entry that was read last */
    diti_zip *zip;
} diti_zip_reader;

static uint64_t diti_little(const unsigned char *bytes, int count) {
    uint64_t value = 0;
    while (count-- > 0) value = value << 8 | bytes[count];
    return value;
}

DITI_ONCE_BEGIN

static dit_result diti_zip_fail(const diti_zip_reader *reader, const char *message) {
    return diti_fail(reader->err, DIT_ERROR_BAD_FILE, "%s: %s", reader->name, message);
}

/* --- the end of the directory, which tells where it begins --- */

static dit_result diti_zip_read_end64(diti_zip_reader *reader, uint64_t locator) {
    unsigned char bytes[DITI_ZIP64_END_SIZE];
    uint64_t at;
    dit_result result = diti_file_read(reader->file, locator, bytes, DITI_ZIP_LOCATOR_SIZE, reader->err);
    if (result < 0 || diti_little(bytes, 4) != DITI_ZIP64_LOCATOR) return result;
    at = diti_little(bytes + 8, 8);
    if (at > locator || locator - at < DITI_ZIP64_END_SIZE)
        return diti_zip_fail(reader,
                             "the zip archive's directory is damaged: its 64-bit end is not before its locator");
    DITI_TRY(diti_file_read(reader->file, at, bytes, sizeof bytes, reader->err));
    if (diti_little(bytes, 4) != DITI_ZIP64_END)
        return diti_zip_fail(reader,
                             "the zip archive's directory is damaged: its 64-bit end is not where it should be");
    reader->count = diti_little(bytes + 32, 8);
    reader->directory_size = diti_little(bytes + 40, 8);
    reader->directory = diti_little(bytes + 48, 8);
    return DIT_OK;
}

static dit_result diti_zip_read_end(diti_zip_reader *reader, const unsigned char *bytes, uint64_t at) {
    uint64_t end;
    dit_result result = DIT_OK;
    reader->count = diti_little(bytes + 10, 2);
    reader->directory_size = diti_little(bytes + 12, 4);
    reader->directory = diti_little(bytes + 16, 4);
    if (diti_little(bytes + 4, 4) != 0) return diti_zip_fail(reader, "a part of a split zip archive");
    if (at >= DITI_ZIP_LOCATOR_SIZE) result = diti_zip_read_end64(reader, at - DITI_ZIP_LOCATOR_SIZE);
    DITI_TRY(result);
    if (!diti_add_u64(reader->directory, reader->directory_size, &end) || end > at ||
        reader->directory_size > DITI_ZIP_MAX_DIRECTORY || reader->count > reader->directory_size / DITI_ZIP_ENTRY_SIZE)
        return diti_zip_fail(reader, "the zip archive's directory is damaged: it does not fit the file");
    return DIT_OK;
}

/* It is the last thing in the file but for a comment whose length it tells. */
static dit_result diti_zip_find_end(diti_zip_reader *reader) {
    uint64_t size = diti_file_size(reader->file);
    uint64_t wanted = (uint64_t)DITI_ZIP_END_SIZE + DITI_ZIP_MAX_COMMENT;
    size_t tail = size < wanted ? (size_t)size : (size_t)wanted, i;
    unsigned char *bytes = (unsigned char *)diti_alloc(reader->env, tail);
    dit_result result;
    bool found = false;
    if (!bytes) return diti_no_memory(reader->name, reader->err);
    result = diti_file_read(reader->file, size - tail, bytes, tail, reader->err);
    for (i = tail < DITI_ZIP_END_SIZE ? 0 : tail - DITI_ZIP_END_SIZE + 1; result >= 0 && !found && i-- > 0;) {
        found =
            diti_little(bytes + i, 4) == DITI_ZIP_END && diti_little(bytes + i + 20, 2) == tail - i - DITI_ZIP_END_SIZE;
        if (found) result = diti_zip_read_end(reader, bytes + i, size - tail + i);
    }
    diti_free(reader->env, bytes);
    if (result < 0 || found) return result;
    return diti_zip_fail(reader, "cut off: a zip archive without a directory at its end");
}

/* --- entries --- */

typedef struct diti_zip_record { /* an entry of the directory */
    uint64_t packed, size, local;
    uint32_t flags, method, name_length, crc;
    const unsigned char *name;
} diti_zip_record;

/* Replaces what did not fit 32 bits: extra field 1 holds those values in this order. */
static bool diti_zip_widen(const unsigned char *extra, size_t length, diti_zip_record *record) {
    uint64_t *values[3];
    size_t i, used = 0;
    values[0] = &record->size;
    values[1] = &record->packed;
    values[2] = &record->local;
    while (length >= 4) {
        size_t id = (size_t)diti_little(extra, 2), size = (size_t)diti_little(extra + 2, 2);
        if (size > length - 4) return false;
        for (i = 0; i < 3 && id == 1; i++) {
            if (*values[i] != UINT32_MAX) continue;
            if (size - used < 8) return false;
            *values[i] = diti_little(extra + 4 + used, 8);
            used += 8;
        }
        if (id == 1) return true;
        extra += 4 + size;
        length -= 4 + size;
    }
    return true;
}

/* Bytes of the record, 0 when it is damaged. */
static size_t diti_zip_read_record(const unsigned char *bytes, size_t left, diti_zip_record *out) {
    size_t extra, comment, size;
    if (left < DITI_ZIP_ENTRY_SIZE || diti_little(bytes, 4) != DITI_ZIP_ENTRY) return 0;
    out->flags = (uint32_t)diti_little(bytes + 8, 2);
    out->method = (uint32_t)diti_little(bytes + 10, 2);
    out->crc = (uint32_t)diti_little(bytes + 16, 4);
    out->packed = diti_little(bytes + 20, 4);
    out->size = diti_little(bytes + 24, 4);
    out->name_length = (uint32_t)diti_little(bytes + 28, 2);
    extra = (size_t)diti_little(bytes + 30, 2);
    comment = (size_t)diti_little(bytes + 32, 2);
    out->local = diti_little(bytes + 42, 4);
    out->name = bytes + DITI_ZIP_ENTRY_SIZE;
    size = DITI_ZIP_ENTRY_SIZE + out->name_length + extra + comment;
    if (size > left || memchr(out->name, 0, out->name_length)) return 0;
    return diti_zip_widen(out->name + out->name_length, extra, out) ? size : 0;
}

/* Its CRC-32 stands in the directory, and again in the header in front of its bytes or, as torch.save writes it, in a
   descriptor behind them. 0: torch.save was told not to compute it. */
static dit_result diti_zip_compare(const diti_zip_reader *reader, const diti_zip_record *record,
                                   const unsigned char *header, const diti_zip_entry *entry, uint64_t end) {
    unsigned char descriptor[8];
    uint32_t again = (uint32_t)diti_little(header + 14, 4);
    if (record->flags & 8) {
        if (reader->directory - end < sizeof descriptor) return DIT_OK;
        DITI_TRY(diti_file_read(reader->file, end, descriptor, sizeof descriptor, reader->err));
        again = diti_little(descriptor, 4) == DITI_ZIP_DESCRIPTOR ? (uint32_t)diti_little(descriptor + 4, 4) : 0;
    }
    if (!again || !record->crc || again == record->crc) return DIT_OK;
    return diti_fail(reader->err, DIT_ERROR_BAD_FILE,
                     "%s: entry '%s' of the zip archive is damaged: its CRC-32 is %08lx in the directory and %08lx "
                     "beside its bytes",
                     reader->name, entry->name, (unsigned long)record->crc, (unsigned long)again);
}

/* Where its bytes begin is told by a second header in front of them. */
static dit_result diti_zip_locate(diti_zip_reader *reader, const diti_zip_record *record, diti_zip_entry *entry) {
    unsigned char header[DITI_ZIP_LOCAL_SIZE];
    uint64_t end;
    if (record->local < reader->used || record->local > reader->directory ||
        reader->directory - record->local < DITI_ZIP_LOCAL_SIZE)
        return diti_fail(reader->err, DIT_ERROR_BAD_FILE,
                         "%s: entry '%s' of the zip archive lies outside it or in another entry", reader->name,
                         entry->name);
    DITI_TRY(diti_file_read(reader->file, record->local, header, sizeof header, reader->err));
    entry->size = record->size;
    entry->offset = record->local + DITI_ZIP_LOCAL_SIZE + diti_little(header + 26, 2) + diti_little(header + 28, 2);
    if (diti_little(header, 4) != DITI_ZIP_LOCAL || diti_little(header + 26, 2) != record->name_length ||
        !diti_add_u64(entry->offset, entry->size, &end) || end > reader->directory)
        return diti_fail(reader->err, DIT_ERROR_BAD_FILE, "%s: entry '%s' of the zip archive is damaged or cut off",
                         reader->name, entry->name);
    reader->used = end;
    entry->crc = record->crc;
    return diti_zip_compare(reader, record, header, entry, end);
}

/* The name moves to the front of its record, so that a NUL fits behind it. */
static dit_result diti_zip_take(diti_zip_reader *reader, unsigned char *bytes, const diti_zip_record *record) {
    diti_zip_entry *entry = &reader->zip->entries[reader->zip->count];
    entry->name = (const char *)bytes;
    memmove(bytes, record->name, record->name_length);
    bytes[record->name_length] = 0;
    if (record->flags & 1) {
        return diti_fail(reader->err, DIT_ERROR_BAD_FILE, "%s: entry '%s' of the zip archive is encrypted",
                         reader->name, entry->name);
    }
    if (record->method != 0 || record->packed != record->size) {
        return diti_fail(reader->err, DIT_ERROR_BAD_FILE,
                         "%s: entry '%s' of the zip archive is compressed, which torch.save never does: load it in "
                         "PyTorch and save it again",
                         reader->name, entry->name);
    }
    reader->zip->count++;
    return diti_zip_locate(reader, record, entry);
}

static dit_result diti_zip_read_entries(diti_zip_reader *reader, unsigned char *bytes, size_t size) {
    uint64_t i;
    for (i = 0; i < reader->count; i++) {
        diti_zip_record record;
        size_t used = diti_zip_read_record(bytes, size, &record);
        if (!used) return diti_zip_fail(reader, "the zip archive's directory is damaged");
        DITI_TRY(diti_zip_take(reader, bytes, &record));
        bytes += used;
        size -= used;
    }
    return DIT_OK;
}

DIT_INTERNAL dit_result diti_zip_open(const diti_env *env, const diti_file *file, diti_zip *out, dit_error *err) {
    diti_zip_reader reader = DITI_ZERO;
    dit_result result;
    memset(out, 0, sizeof *out);
    reader.env = env;
    reader.file = file;
    reader.name = diti_file_name(file);
    reader.err = err;
    reader.zip = out;
    DITI_TRY(diti_zip_find_end(&reader));
    out->directory = (unsigned char *)diti_alloc(env, (size_t)reader.directory_size + 1);
    out->entries = (diti_zip_entry *)diti_alloc_array(env, (size_t)reader.count + 1, sizeof *out->entries);
    if (!out->directory || !out->entries)
        result = diti_no_memory(reader.name, err);
    else
        result = diti_file_read(file, reader.directory, out->directory, (size_t)reader.directory_size, err);
    if (result >= 0) result = diti_zip_read_entries(&reader, out->directory, (size_t)reader.directory_size);
    if (result >= 0)
        result = diti_name_build(env, &out->index, out->entries, sizeof *out->entries, out->count, reader.name, "entry",
                                 err);
    if (result < 0) diti_zip_free(env, out);
    return result;
}

DIT_INTERNAL void diti_zip_free(const diti_env *env, diti_zip *zip) {
    diti_free(env, zip->directory);
    diti_free(env, zip->entries);
    diti_free(env, zip->index.slots);
    memset(zip, 0, sizeof *zip);
}

DIT_INTERNAL const diti_zip_entry *diti_zip_find(const diti_zip *zip, const char *name) {
    size_t found;
    if (!diti_name_find(&zip->index, zip->entries, sizeof *zip->entries, name, &found)) return NULL;
    return &zip->entries[found];
}

DITI_REGION_END

/* --- what the entries hold --- */

/* CRC-32 as APPNOTE 4.4.7 and ISO 3309 have it, eight bytes at a time: Kounavis and Berry, "Novel Table Lookup-Based
   Algorithms for High-Performance CRC Generation" (2008). tables[k][b] is what byte b becomes behind k bytes of 0. */
static void diti_crc_tables(uint32_t (*tables)[256]) {
    uint32_t i, k;
    for (i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (k = 0; k < 8; k++) crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
        tables[0][i] = crc;
    }
    for (k = 1; k < 8; k++)
        for (i = 0; i < 256; i++) tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 255];
}

static uint32_t diti_crc_add(const uint32_t (*tables)[256], uint32_t crc, const unsigned char *bytes, size_t size) {
    for (; size >= 8; bytes += 8, size -= 8) {
        crc ^= (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
        crc = tables[7][crc & 255] ^ tables[6][crc >> 8 & 255] ^ tables[5][crc >> 16 & 255] ^ tables[4][crc >> 24] ^
              tables[3][bytes[4]] ^ tables[2][bytes[5]] ^ tables[1][bytes[6]] ^ tables[0][bytes[7]];
    }
    for (; size; size--) crc = crc >> 8 ^ tables[0][(crc ^ *bytes++) & 255];
    return crc;
}

typedef struct diti_zip_sum {
    uint32_t tables[8][256];
    unsigned char bytes[65536];
} diti_zip_sum;

DIT_INTERNAL dit_result diti_zip_check(const diti_env *env, const diti_file *file, const diti_zip_entry *entry,
                                       dit_error *err) {
    diti_zip_sum *sum;
    uint32_t crc = 0xffffffffu;
    uint64_t done;
    dit_result result = DIT_OK;
    if (!entry->crc) return DIT_OK;
    sum = (diti_zip_sum *)diti_alloc(env, sizeof *sum);
    if (!sum) return diti_no_memory(diti_file_name(file), err);
    diti_crc_tables(sum->tables);
    for (done = 0; done < entry->size && result >= 0;) {
        uint64_t left = entry->size - done;
        size_t size = left < sizeof sum->bytes ? (size_t)left : sizeof sum->bytes;
        result = diti_file_read(file, entry->offset + done, sum->bytes, size, err);
        if (result >= 0) crc = diti_crc_add((const uint32_t(*)[256])sum->tables, crc, sum->bytes, size);
        done += size;
    }
    diti_free(env, sum);
    if (result < 0 || ~crc == entry->crc) return result;
    return diti_fail(err, DIT_ERROR_BAD_FILE,
                     "%s: entry '%s' of the zip archive is damaged: its CRC-32 is %08lx, not %08lx",
                     diti_file_name(file), entry->name, (unsigned long)~crc & 0xffffffffu, (unsigned long)entry->crc);
}
