#include "text/tokenizer.h"

/* --- protobuf, as far as SentencePiece's ModelProto needs it --- */
typedef struct diti_protobuf {
    const uint8_t *data;
    size_t size, position;
} diti_protobuf;
typedef struct diti_protobuf_field {
    uint64_t number;     /* 1..2^29-1 */
    uint64_t value;      /* varints and fixed sizes */
    const uint8_t *data; /* length-delimited fields; NULL otherwise */
    size_t size;
} diti_protobuf_field;

static bool diti_protobuf_varint(diti_protobuf *message, uint64_t *out) {
    uint32_t shift;
    *out = 0;
    for (shift = 0; shift < 64 && message->position < message->size; shift += 7) {
        uint8_t byte = message->data[message->position++];
        *out |= (uint64_t)(byte & 0x7fu) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool diti_protobuf_fixed(diti_protobuf *message, uint32_t bytes, uint64_t *out) {
    uint32_t i;
    if (message->size - message->position < bytes) return false;
    *out = 0;
    for (i = 0; i < bytes; i++) *out |= (uint64_t)message->data[message->position++] << (8 * i);
    return true;
}

static bool diti_protobuf_bytes(diti_protobuf *message, diti_protobuf_field *field) {
    uint64_t size;
    if (!diti_protobuf_varint(message, &size) || size > message->size - message->position) return false;
    field->data = message->data + message->position;
    field->size = (size_t)size;
    message->position += (size_t)size;
    return true;
}

/* 1: a field was read, 0: the message ended, -1: it is damaged. */
static int diti_protobuf_next(diti_protobuf *message, diti_protobuf_field *field) {
    uint64_t tag;
    bool good;
    memset(field, 0, sizeof *field);
    if (message->position == message->size) return 0;
    if (!diti_protobuf_varint(message, &tag)) return -1;
    field->number = tag >> 3;
    switch (tag & 7u) {
    case 0: good = diti_protobuf_varint(message, &field->value); break;
    case 1: good = diti_protobuf_fixed(message, 8, &field->value); break;
    case 2: good = diti_protobuf_bytes(message, field); break;
    case 5: good = diti_protobuf_fixed(message, 4, &field->value); break;
    default: good = false;
    }
    return good && field->number ? 1 : -1;
}

static diti_protobuf diti_protobuf_open(const void *data, size_t size) {
    diti_protobuf message = DITI_ZERO;
    message.data = (const uint8_t *)data;
    message.size = size;
    return message;
}

/* --- spiece.model: ModelProto {1 pieces, 2 trainer, 3 normalizer} --- */
typedef struct diti_spiece { /* SentencePiece {1 piece, 2 score, 3 type} */
    const char *text;
    size_t length;
    float score;
    uint64_t type;
} diti_spiece;

static bool diti_spiece_read(const diti_protobuf_field *source, diti_spiece *out) {
    diti_protobuf message = diti_protobuf_open(source->data, source->size);
    diti_protobuf_field field;
    int more;
    memset(out, 0, sizeof *out);
    out->type = DITI_PIECE_NORMAL;
    while ((more = diti_protobuf_next(&message, &field)) > 0) {
        if (field.number == 1 && field.data) out->text = (const char *)field.data, out->length = field.size;
        if (field.number == 2) {
            uint32_t bits = (uint32_t)field.value;
            memcpy(&out->score, &bits, sizeof bits);
        }
        if (field.number == 3) out->type = field.value;
    }
    return more == 0;
}

static dit_result diti_spiece_damaged(const char *name, size_t position, dit_error *err) {
    return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: no SentencePiece model, or a damaged one (at byte %lu)", name,
                     (unsigned long)position);
}

static dit_result diti_spiece_measure(const void *data, size_t size, const char *name, uint64_t *count, uint64_t *bytes,
                                      dit_error *err) {
    diti_protobuf message = diti_protobuf_open(data, size);
    diti_protobuf_field field;
    int more;
    while ((more = diti_protobuf_next(&message, &field)) > 0) {
        diti_spiece piece;
        if (field.number != 1) continue;
        if (!field.data || !diti_spiece_read(&field, &piece)) return diti_spiece_damaged(name, message.position, err);
        *count += 1;
        *bytes += piece.length;
    }
    return more < 0 ? diti_spiece_damaged(name, message.position, err) : DIT_OK;
}

static dit_result diti_spiece_add(diti_tokenizer *tokenizer, const diti_protobuf_field *field, dit_error *err) {
    diti_spiece piece;
    if (!diti_spiece_read(field, &piece)) return diti_spiece_damaged(tokenizer->name, 0, err);
    if (piece.type < DITI_PIECE_NORMAL || piece.type > DITI_PIECE_BYTE) {
        return diti_fail(err, DIT_ERROR_BAD_FILE, "%s: piece %u has the unknown type %llu", tokenizer->name,
                         tokenizer->count, (unsigned long long)piece.type);
    }
    return diti_tokenizer_add(tokenizer, piece.text, piece.length, (int32_t)tokenizer->count, piece.score,
                              (diti_piece_type)piece.type, err);
}

/* TrainerSpec {3 model_type, 24 treat_whitespace_as_suffix} */
static dit_result diti_spiece_check_trainer(const diti_tokenizer *tokenizer, const diti_protobuf_field *source,
                                            dit_error *err) {
    static const char *const types[] = {"?", "unigram", "BPE", "word", "character"};
    diti_protobuf message = diti_protobuf_open(source->data, source->size);
    diti_protobuf_field field;
    int more;
    while ((more = diti_protobuf_next(&message, &field)) > 0) {
        if (field.number == 3 && field.value != 1) {
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL,
                             "%s: a SentencePiece model of type %s; only unigram is supported, but the repository's "
                             "tokenizer.json may do",
                             tokenizer->name, field.value < DITI_COUNT(types) ? types[field.value] : "?");
        }
        if (field.number == 24 && field.value)
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: treat_whitespace_as_suffix is not supported",
                             tokenizer->name);
    }
    return more < 0 ? diti_spiece_damaged(tokenizer->name, message.position, err) : DIT_OK;
}

/* NormalizerSpec {2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces, 5 escape_whitespaces} */
static dit_result diti_spiece_read_normalizer(diti_tokenizer *tokenizer, const diti_protobuf_field *source,
                                              dit_error *err) {
    diti_protobuf message = diti_protobuf_open(source->data, source->size);
    diti_protobuf_field field;
    int more;
    while ((more = diti_protobuf_next(&message, &field)) > 0) {
        if (field.number == 2 && field.data) {
            DITI_TRY(diti_normalizer_set_charsmap(&tokenizer->env, &tokenizer->normalizer, field.data, field.size,
                                                  tokenizer->name, err));
        }
        if (field.number == 3) tokenizer->normalizer.add_prefix = field.value != 0;
        if (field.number == 4) tokenizer->normalizer.collapse_spaces = field.value != 0;
        if (field.number == 5 && !field.value)
            return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "%s: escape_whitespaces false is not supported",
                             tokenizer->name);
    }
    return more < 0 ? diti_spiece_damaged(tokenizer->name, message.position, err) : DIT_OK;
}

static dit_result diti_spiece_fill(diti_tokenizer *tokenizer, const void *data, size_t size, dit_error *err) {
    diti_protobuf message = diti_protobuf_open(data, size);
    diti_protobuf_field field;
    dit_result result = DIT_OK;
    while (result >= 0 && diti_protobuf_next(&message, &field) > 0) {
        if (!field.data) continue;
        if (field.number == 1) result = diti_spiece_add(tokenizer, &field, err);
        if (field.number == 2) result = diti_spiece_check_trainer(tokenizer, &field, err);
        if (field.number == 3) result = diti_spiece_read_normalizer(tokenizer, &field, err);
    }
    return result >= 0 ? diti_tokenizer_finish(tokenizer, err) : result;
}

DIT_INTERNAL dit_result diti_tokenizer_load_spiece(const diti_env *env, const void *data, size_t size, const char *name,
                                                   diti_tokenizer **out, dit_error *err) {
    uint64_t count = 0, bytes = 0;
    diti_tokenizer *tokenizer;
    dit_result result = diti_spiece_measure(data, size, name, &count, &bytes, err);
    if (result >= 0) result = diti_tokenizer_create(env, DITI_TOKENIZER_UNIGRAM, name, count, bytes, &tokenizer, err);
    DITI_TRY(result);
    result = diti_spiece_fill(tokenizer, data, size, err);
    if (result >= 0)
        *out = tokenizer;
    else
        diti_tokenizer_free(tokenizer);
    return result;
}
