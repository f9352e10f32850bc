/* Specialization by dit itself: a module in which every specialization constant has become a constant, branches on
   constants have become plain ones, and blocks and functions that are never reached are left out. A driver that is
   given the whole module translates and optimizes the code of all variants before it finds out which one is wanted;
   BENCHMARKS.md tells what that costs. Numbers are those of the SPIR-V specification (Khronos, SPIR-V 1.6 revision 6):
   opcodes in section 3.52, decorations in 3.20; the rules for merges, which what is left out must not break, are in
   2.11. Nothing is assumed of a module: with anything unexpected in it, the driver specializes it. */
#include "vk/vk.h"

enum {
    DITI_SPV_NAME = 5,
    DITI_SPV_MEMBER_NAME = 6,
    DITI_SPV_ENTRY_POINT = 15,
    DITI_SPV_TYPE_VOID = 19,
    DITI_SPV_TYPE_BOOL = 20,
    DITI_SPV_TYPE_INT = 21,
    DITI_SPV_TYPE_FLOAT = 22,
    DITI_SPV_TYPE_FUNCTION = 33,
    DITI_SPV_TYPE_MATRIX = 4456, /* OpTypeCooperativeMatrixKHR */
    DITI_SPV_CONSTANT_TRUE = 41,
    DITI_SPV_CONSTANT_FALSE = 42,
    DITI_SPV_CONSTANT = 43,
    DITI_SPV_CONSTANT_COMPOSITE = 44,
    DITI_SPV_SPEC_TRUE = 48,
    DITI_SPV_SPEC_FALSE = 49,
    DITI_SPV_SPEC_CONSTANT = 50,
    DITI_SPV_SPEC_COMPOSITE = 51,
    DITI_SPV_SPEC_OP = 52,
    DITI_SPV_FUNCTION = 54,
    DITI_SPV_FUNCTION_PARAMETER = 55,
    DITI_SPV_FUNCTION_END = 56,
    DITI_SPV_FUNCTION_CALL = 57,
    DITI_SPV_DECORATE = 71,
    DITI_SPV_DECORATION_GROUP = 73,
    DITI_SPV_GROUP_MEMBER_DECORATE = 75,
    DITI_SPV_COMPOSITE_EXTRACT = 81,
    DITI_SPV_COPY_OBJECT = 83,
    DITI_SPV_SELECT = 169,
    DITI_SPV_PHI = 245,
    DITI_SPV_LOOP_MERGE = 246,
    DITI_SPV_SELECTION_MERGE = 247,
    DITI_SPV_LABEL = 248,
    DITI_SPV_BRANCH = 249,
    DITI_SPV_BRANCH_CONDITIONAL = 250,
    DITI_SPV_SWITCH = 251,
    DITI_SPV_UNREACHABLE = 255,
    DITI_SPV_FIRST_WITH_FUNCTIONS = 5366, /* OpCooperativeMatrixReduceNV and what follows it call functions */
    DITI_SPV_LAST_WITH_FUNCTIONS = 5369,
    DITI_SPV_SPEC_ID = 1,
    DITI_FOLD_MOST_IDS = 1 << 20
};

typedef struct diti_fold_id {
    uint32_t at;      /* where it is defined, in words from the module's start; 0: nowhere */
    uint32_t block;   /* the label of the block that defines it; the function, if it is a parameter; 0: neither */
    uint32_t spec_id; /* SpecId plus 1; 0: it has none */
    uint32_t value;   /* where it is known */
    bool known;       /* a bool or a number of 32 bits whose value does not depend on what the module reads */
    bool reached;     /* a label or function that control may come to */
    bool looped;      /* a label that a later block of those branches to */
    uint32_t goes;    /* a label whose block ends in a branch that always goes there; 0: there are more ways */
    uint32_t next;    /* a label of a loop's header: the loop's continue target */
    uint32_t header;  /* a label that must stand even if it is not reached: the continue target of this loop, … */
    bool merge;       /* … or a merge block */
} diti_fold_id;

typedef struct diti_fold {
    const VkSpecializationInfo *given;
    bool whole; /* constants that are not given have their own values; else they stay specialization constants */
    const uint32_t *words;
    size_t count, functions; /* functions: where the first one begins */
    uint32_t bound;
    diti_fold_id *ids;
    bool grows; /* more is reached than was known before this pass */
    uint32_t *out;
    size_t used, room;
    bool failed;
} diti_fold;

static uint32_t diti_fold_op(const diti_fold *f, size_t at) { return f->words[at] & 0xffffu; }
static uint32_t diti_fold_length(const diti_fold *f, size_t at) { return f->words[at] >> 16; }

/* The properties of an id; those of id 0, and a failure, where there is no such id. */
static diti_fold_id *diti_fold_id_of(diti_fold *f, uint32_t id) {
    if (id && id < f->bound) return &f->ids[id];
    f->failed = true;
    return &f->ids[0];
}

/* --- what stands where --- */

/* The words that are read of an instruction, at least. */
static uint32_t diti_fold_minimum(uint32_t op) {
    switch (op) {
    case DITI_SPV_LABEL:
    case DITI_SPV_BRANCH: return 2;
    case DITI_SPV_TYPE_INT:
    case DITI_SPV_CONSTANT:
    case DITI_SPV_SPEC_CONSTANT:
    case DITI_SPV_FUNCTION_CALL:
    case DITI_SPV_BRANCH_CONDITIONAL:
    case DITI_SPV_LOOP_MERGE: return 4;
    case DITI_SPV_SPEC_OP:
    case DITI_SPV_FUNCTION: return 5;
    case DITI_SPV_SELECT: return 6;
    case DITI_SPV_ENTRY_POINT:
    case DITI_SPV_CONSTANT_TRUE:
    case DITI_SPV_CONSTANT_FALSE:
    case DITI_SPV_CONSTANT_COMPOSITE:
    case DITI_SPV_SPEC_TRUE:
    case DITI_SPV_SPEC_FALSE:
    case DITI_SPV_SPEC_COMPOSITE:
    case DITI_SPV_DECORATE:
    case DITI_SPV_TYPE_FLOAT:
    case DITI_SPV_FUNCTION_PARAMETER:
    case DITI_SPV_SELECTION_MERGE:
    case DITI_SPV_SWITCH:
    case DITI_SPV_PHI: return 3;
    default: return 1;
    }
}

/* Which word of an instruction in a function is its result: 0, it has none; 1 for labels, else 2. */
static uint32_t diti_fold_result(uint32_t op) {
    switch (op) {
    case DITI_SPV_LABEL: return 1;
    case 0:   /* OpNop */
    case 8:   /* OpLine */
    case 56:  /* OpFunctionEnd */
    case 62:  /* OpStore */
    case 63:  /* OpCopyMemory */
    case 224: /* OpControlBarrier */
    case 225: /* OpMemoryBarrier */
    case 228: /* OpAtomicStore */
    case DITI_SPV_LOOP_MERGE:
    case DITI_SPV_SELECTION_MERGE:
    case DITI_SPV_BRANCH:
    case DITI_SPV_BRANCH_CONDITIONAL:
    case DITI_SPV_SWITCH:
    case 253: /* OpReturn */
    case 254: /* OpReturnValue */
    case DITI_SPV_UNREACHABLE:
    case 317:            /* OpNoLine */
    case 4458: return 0; /* OpCooperativeMatrixStoreKHR */
    default: return 2;
    }
}

static bool diti_fold_is_type(uint32_t op) {
    return (op >= DITI_SPV_TYPE_VOID && op <= DITI_SPV_TYPE_FUNCTION) || op == DITI_SPV_TYPE_MATRIX;
}

static void diti_fold_define(diti_fold *f, size_t at, uint32_t word, uint32_t block) {
    diti_fold_id *id;
    if (diti_fold_length(f, at) <= word) {
        f->failed = true;
        return;
    }
    id = diti_fold_id_of(f, f->words[at + word]);
    f->failed = f->failed || id->at;
    if (word == 2) { /* behind a type */
        const diti_fold_id *type = diti_fold_id_of(f, f->words[at + 1]);
        f->failed = f->failed || !type->at || !diti_fold_is_type(diti_fold_op(f, type->at));
    }
    id->at = (uint32_t)at;
    id->block = block;
}

/* Finds every definition that matters, and the entry point. */
static void diti_fold_scan(diti_fold *f) {
    uint32_t block = 0, function = 0;
    size_t at;
    for (at = 5; at < f->count && !f->failed; at += diti_fold_length(f, at)) {
        const uint32_t op = diti_fold_op(f, at), length = diti_fold_length(f, at), *word = f->words + at;
        if (!length || length > f->count - at || length < diti_fold_minimum(op)) {
            f->failed = true;
            return;
        }
        if (op == DITI_SPV_FUNCTION && !f->functions) f->functions = at;
        if (!f->functions) {
            if (op >= DITI_SPV_DECORATION_GROUP && op <= DITI_SPV_GROUP_MEMBER_DECORATE) f->failed = true;
            if (op == DITI_SPV_ENTRY_POINT) diti_fold_id_of(f, word[2])->reached = true;
            if (op == DITI_SPV_DECORATE && word[2] == DITI_SPV_SPEC_ID && length == 4)
                diti_fold_id_of(f, word[1])->spec_id = word[3] + 1u;
            if (diti_fold_is_type(op)) diti_fold_define(f, at, 1, 0);
            if (op >= DITI_SPV_CONSTANT_TRUE && op <= DITI_SPV_SPEC_OP) diti_fold_define(f, at, 2, 0);
            continue;
        }
        if (op == DITI_SPV_FUNCTION) function = block = word[2];
        if (op == DITI_SPV_LABEL) block = word[1];
        if (diti_fold_result(op))
            diti_fold_define(f, at, diti_fold_result(op), op == DITI_SPV_LABEL ? function : block);
    }
    f->failed = f->failed || !f->functions;
}

/* --- values --- */

static bool diti_fold_small(diti_fold *f, uint32_t type) { /* a bool, or a number of 32 bits */
    const diti_fold_id *id = diti_fold_id_of(f, type);
    const uint32_t op = id->at ? diti_fold_op(f, id->at) : 0u;
    return op == DITI_SPV_TYPE_BOOL ||
           ((op == DITI_SPV_TYPE_INT || op == DITI_SPV_TYPE_FLOAT) && f->words[id->at + 2] == 32);
}

static bool diti_fold_known(diti_fold *f, uint32_t id, uint32_t *value) {
    if (id >= f->bound) return false; /* a number in an instruction that is not evaluated */
    *value = f->ids[id].value;
    return f->ids[id].known;
}

/* Integers and bools only: how floats are rounded is the device's business. False: it is not known, or not defined. */
static bool diti_fold_binary(uint32_t op, uint32_t x, uint32_t y, uint32_t *out) {
    const int64_t a = (int32_t)x, b = (int32_t)y;
    const bool division = op >= 134 && op <= 139, shift = op >= 194 && op <= 196;
    if ((division && !y) || (shift && y > 31)) return false;
    switch (op) {
    case 128: *out = x + y; return true; /* OpIAdd and so on */
    case 130: *out = x - y; return true;
    case 132: *out = x * y; return true;
    case 134: *out = x / y; return true;                       /* OpUDiv */
    case 135: *out = (uint32_t)(a / b); return true;           /* OpSDiv */
    case 137: *out = x % y; return true;                       /* OpUMod */
    case 138: *out = (uint32_t)(a % b); return true;           /* OpSRem */
    case 139: *out = (uint32_t)((a % b + b) % b); return true; /* OpSMod */
    case 164: *out = x == y; return true;                      /* OpLogicalEqual */
    case 165: *out = x != y; return true;
    case 166: *out = x | y; return true;
    case 167: *out = x & y; return true;
    case 170: *out = x == y; return true; /* OpIEqual */
    case 171: *out = x != y; return true;
    case 172: *out = x > y; return true;
    case 173: *out = a > b; return true;
    case 174: *out = x >= y; return true;
    case 175: *out = a >= b; return true;
    case 176: *out = x < y; return true;
    case 177: *out = a < b; return true;
    case 178: *out = x <= y; return true;
    case 179: *out = a <= b; return true;
    case 194: *out = x >> y; return true; /* OpShiftRightLogical */
    case 195: *out = (uint32_t)(a >> y); return true;
    case 196: *out = x << y; return true;
    case 197: *out = x | y; return true; /* OpBitwiseOr */
    case 198: *out = x ^ y; return true;
    case 199: *out = x & y; return true;
    default: return false;
    }
}

/* One value of a composite constant. */
static bool diti_fold_extract(diti_fold *f, const uint32_t *operands, uint32_t count, uint32_t *out) {
    const diti_fold_id *composite = diti_fold_id_of(f, operands[0]);
    uint32_t op, length;
    if (!composite->at || count != 2) return false;
    op = diti_fold_op(f, composite->at);
    length = diti_fold_length(f, composite->at);
    if ((op != DITI_SPV_CONSTANT_COMPOSITE && op != DITI_SPV_SPEC_COMPOSITE) || operands[1] >= length - 3) return false;
    return diti_fold_known(f, f->words[composite->at + 3 + operands[1]], out);
}

/* The result of an instruction without effects whose operands are known. */
static bool diti_fold_value(diti_fold *f, uint32_t op, uint32_t type, const uint32_t *operands, uint32_t count,
                            uint32_t *out) {
    uint32_t x = 0, y = 0;
    bool has_x, has_y;
    if (!count || !diti_fold_small(f, type)) return false;
    if (op == DITI_SPV_COMPOSITE_EXTRACT) return diti_fold_extract(f, operands, count, out);
    has_x = diti_fold_known(f, operands[0], &x);
    if (op == DITI_SPV_SELECT && count == 3) return has_x && diti_fold_known(f, operands[x ? 1 : 2], out);
    if (count == 1) {
        *out = op == 126 ? 0u - x : op == 168 ? (uint32_t)!x : op == 200 ? ~x : x;
        return has_x &&
               (op == DITI_SPV_COPY_OBJECT || op == 124 || op == 126 || op == 168 || op == 200); /* OpBitcast … */
    }
    if (count != 2 || op < 128 || op > 199) return false;
    has_y = diti_fold_known(f, operands[1], &y);
    if ((op == 166 && ((has_x && x) || (has_y && y))) || (op == 167 && ((has_x && !x) || (has_y && !y)))) {
        *out = op == 166; /* one operand decides an or, or an and */
        return true;
    }
    return has_x && has_y && diti_fold_binary(op, x, y, out);
}

/* Whether the application gives a specialization constant its value. */
static bool diti_fold_given(diti_fold *f, diti_fold_id *id) {
    const VkSpecializationInfo *given = f->given;
    bool found = false;
    uint32_t i;
    for (i = 0; id->spec_id && i < given->mapEntryCount; i++) {
        const VkSpecializationMapEntry *entry = &given->pMapEntries[i];
        if (entry->constantID != id->spec_id - 1u) continue;
        found = true;
        if (entry->size != 4 || given->dataSize < 4 || entry->offset > given->dataSize - 4)
            f->failed = true;
        else
            memcpy(&id->value, (const unsigned char *)given->pData + entry->offset, 4);
    }
    return found;
}

static void diti_fold_constants(diti_fold *f) {
    size_t at;
    for (at = 5; at < f->functions && !f->failed; at += diti_fold_length(f, at)) {
        const uint32_t op = diti_fold_op(f, at), length = diti_fold_length(f, at), *word = f->words + at;
        diti_fold_id *id;
        if (op < DITI_SPV_CONSTANT_TRUE || op > DITI_SPV_SPEC_OP) continue;
        id = &f->ids[word[2]];
        id->known = diti_fold_small(f, word[1]);
        if (op == DITI_SPV_CONSTANT_TRUE || op == DITI_SPV_SPEC_TRUE) id->value = 1;
        if (op == DITI_SPV_CONSTANT || op == DITI_SPV_SPEC_CONSTANT) id->value = word[3];
        if (op == DITI_SPV_CONSTANT_COMPOSITE || op == DITI_SPV_SPEC_COMPOSITE) id->known = false;
        if (op >= DITI_SPV_SPEC_TRUE && op <= DITI_SPV_SPEC_CONSTANT && !diti_fold_given(f, id) && !f->whole)
            id->known = false;
        if (op == DITI_SPV_SPEC_TRUE || op == DITI_SPV_SPEC_FALSE) id->value = id->value != 0;
        if (op == DITI_SPV_SPEC_OP) id->known = diti_fold_value(f, word[3], word[1], word + 4, length - 4, &id->value);
        if (f->whole && op >= DITI_SPV_SPEC_TRUE && op != DITI_SPV_SPEC_COMPOSITE && !id->known) f->failed = true;
    }
}

/* --- where control comes to --- */

static void diti_fold_reach(diti_fold *f, uint32_t target, size_t from) {
    diti_fold_id *id = diti_fold_id_of(f, target);
    if (!id->at || (diti_fold_op(f, id->at) != DITI_SPV_LABEL && diti_fold_op(f, id->at) != DITI_SPV_FUNCTION)) {
        f->failed = true;
        return;
    }
    f->grows = f->grows || !id->reached;
    id->reached = true;
    id->looped = id->looped || id->at < from;
}

static bool diti_fold_is_later(diti_fold *f, uint32_t label, size_t at) { return diti_fold_id_of(f, label)->at > at; }

/* Whether control may come from the end of one block to another. */
static bool diti_fold_flows(diti_fold *f, uint32_t from, uint32_t to) {
    const diti_fold_id *id = diti_fold_id_of(f, from);
    return id->reached && (!id->goes || id->goes == to);
}

static bool diti_fold_phi(diti_fold *f, size_t at, uint32_t block, uint32_t *out) {
    const uint32_t length = diti_fold_length(f, at), *word = f->words + at;
    uint32_t i, value, found = 0;
    if (!diti_fold_small(f, word[1])) return false;
    for (i = 3; i + 1 < length; i += 2) {
        if (diti_fold_is_later(f, word[i + 1], at)) return false;
        if (!diti_fold_flows(f, word[i + 1], block)) continue;
        if (!diti_fold_known(f, word[i], &value) || (found && value != *out)) return false;
        *out = value;
        found = 1;
    }
    return found;
}

/* Where a block's last instruction leads. A branch back to a loop's header stays as it is, since a loop must have one.
 */
static void diti_fold_leave(diti_fold *f, size_t at, uint32_t block) {
    const uint32_t op = diti_fold_op(f, at), length = diti_fold_length(f, at), *word = f->words + at;
    diti_fold_id *label = diti_fold_id_of(f, block);
    uint32_t i, value;
    label->goes = 0;
    if (op == DITI_SPV_BRANCH) label->goes = word[1];
    if (op == DITI_SPV_BRANCH_CONDITIONAL && diti_fold_is_later(f, word[2], at) && diti_fold_is_later(f, word[3], at) &&
        diti_fold_known(f, word[1], &value))
        label->goes = word[value ? 2 : 3];
    if (op == DITI_SPV_SWITCH && diti_fold_known(f, word[1], &value)) {
        label->goes = word[2];
        for (i = 3; i + 1 < length; i += 2)
            if (word[i] == value) label->goes = word[i + 1];
    }
    if (label->goes) {
        diti_fold_reach(f, label->goes, at);
    } else if (op == DITI_SPV_BRANCH_CONDITIONAL) {
        diti_fold_reach(f, word[2], at);
        diti_fold_reach(f, word[3], at);
    } else if (op == DITI_SPV_SWITCH) {
        for (i = 2; i < length; i += 2) diti_fold_reach(f, word[i], at);
    }
}

/* One pass over all blocks that are reached, in order. */
static void diti_fold_pass(diti_fold *f) {
    uint32_t block = 0, i;
    bool enters = false, reached = false;
    size_t at;
    for (at = f->functions; at < f->count && !f->failed; at += diti_fold_length(f, at)) {
        const uint32_t op = diti_fold_op(f, at), length = diti_fold_length(f, at), *word = f->words + at;
        if (op == DITI_SPV_FUNCTION) {
            enters = f->ids[word[2]].reached;
            reached = false;
        }
        if (op == DITI_SPV_LABEL) {
            block = word[1];
            if (enters) diti_fold_reach(f, block, 0);
            enters = false;
            reached = f->ids[block].reached;
        }
        if (!reached) continue;
        if (op >= DITI_SPV_BRANCH && op <= DITI_SPV_UNREACHABLE) {
            diti_fold_leave(f, at, block);
        } else if (op == DITI_SPV_PHI) {
            f->ids[word[2]].known = diti_fold_phi(f, at, block, &f->ids[word[2]].value);
        } else if (op == DITI_SPV_FUNCTION_CALL) {
            diti_fold_reach(f, word[3], 0);
        } else if (op >= DITI_SPV_FIRST_WITH_FUNCTIONS && op <= DITI_SPV_LAST_WITH_FUNCTIONS) {
            for (i = 3; i < length; i++) {
                const diti_fold_id *id = word[i] < f->bound ? &f->ids[word[i]] : NULL;
                if (id && id->at && diti_fold_op(f, id->at) == DITI_SPV_FUNCTION) diti_fold_reach(f, word[i], 0);
            }
        } else if (diti_fold_result(op) == 2 && length > 3) {
            f->ids[word[2]].known = diti_fold_value(f, op, word[1], word + 3, length - 3, &f->ids[word[2]].value);
        }
    }
}

/* Whether the instruction is an OpSelectionMerge whose branch goes one way only. Such an `if` is none; what was a
   switch stays one, since blocks in it may leave it from anywhere. */
static bool diti_fold_is_no_if(diti_fold *f, size_t at, uint32_t block) {
    const size_t next = at + diti_fold_length(f, at);
    return next < f->count && diti_fold_op(f, next) == DITI_SPV_BRANCH_CONDITIONAL && f->ids[block].goes;
}

/* Merge blocks and continue targets must stand even where control does not come to them. */
static void diti_fold_merges(diti_fold *f) {
    uint32_t block = 0;
    size_t at;
    for (at = f->functions; at < f->count && !f->failed; at += diti_fold_length(f, at)) {
        const uint32_t op = diti_fold_op(f, at), *word = f->words + at;
        if (op == DITI_SPV_LABEL) block = word[1];
        if (!block || !f->ids[block].reached) continue;
        if (op == DITI_SPV_LOOP_MERGE) {
            diti_fold_id *next = diti_fold_id_of(f, word[2]);
            diti_fold_id_of(f, word[1])->merge = true;
            next->header = block;
            f->ids[block].next = word[2];
            if (next->reached && !f->ids[block].looped)
                f->failed = true; /* the branch back is in a block that is not reached */
        }
        if (op == DITI_SPV_SELECTION_MERGE && !diti_fold_is_no_if(f, at, block))
            diti_fold_id_of(f, word[1])->merge = true;
    }
}

/* --- the module that is left --- */

static uint32_t *diti_fold_put(diti_fold *f, const uint32_t *words, size_t count) {
    uint32_t *at = f->out + f->used;
    if (count > f->room - f->used) {
        f->failed = true;
        return f->out;
    }
    memcpy(at, words, count * sizeof *words);
    f->used += count;
    return at;
}

static void diti_fold_put_constant(diti_fold *f, uint32_t type, uint32_t id) {
    const uint32_t value = f->ids[id].value;
    const bool is_bool = diti_fold_op(f, f->ids[type].at) == DITI_SPV_TYPE_BOOL;
    uint32_t constant[4] = {4u << 16 | DITI_SPV_CONSTANT, type, id, value};
    if (is_bool) constant[0] = 3u << 16 | (uint32_t)(value ? DITI_SPV_CONSTANT_TRUE : DITI_SPV_CONSTANT_FALSE);
    diti_fold_put(f, constant, is_bool ? 3 : 4);
}

/* Whether a function's result is still computed in it. */
static bool diti_fold_stays(diti_fold *f, uint32_t id) {
    const diti_fold_id *of = diti_fold_id_of(f, id);
    return of->at < f->functions || (!of->known && (!of->block || f->ids[of->block].reached));
}

static void diti_fold_put_global(diti_fold *f, size_t at) {
    const uint32_t op = diti_fold_op(f, at), length = diti_fold_length(f, at), *word = f->words + at;
    uint32_t *put;
    if (op == DITI_SPV_NAME || op == DITI_SPV_MEMBER_NAME) return;
    if (op == DITI_SPV_DECORATE && !diti_fold_stays(f, word[1])) return;
    if (op == DITI_SPV_DECORATE && word[2] == DITI_SPV_SPEC_ID && f->ids[word[1]].known) return;
    if (op >= DITI_SPV_SPEC_TRUE && op <= DITI_SPV_SPEC_OP && f->ids[word[2]].known) {
        diti_fold_put_constant(f, word[1], word[2]);
        return;
    }
    put = diti_fold_put(f, word, length);
    if (op == DITI_SPV_SPEC_COMPOSITE && f->whole) put[0] = length << 16 | DITI_SPV_CONSTANT_COMPOSITE;
}

/* From where control comes, alone. The way from a continue target that is not reached carries the value itself. */
static void diti_fold_put_phi(diti_fold *f, size_t at, uint32_t block) {
    const uint32_t length = diti_fold_length(f, at), *word = f->words + at;
    const uint32_t next = f->ids[block].next;
    const size_t head = f->used;
    uint32_t i;
    diti_fold_put(f, word, 3);
    for (i = 3; i + 1 < length; i += 2)
        if (diti_fold_flows(f, word[i + 1], block)) diti_fold_put(f, word + i, 2);
    f->failed = f->failed || f->used == head + 3;
    if (next && !f->ids[next].reached) {
        const uint32_t again[2] = {word[2], next};
        diti_fold_put(f, again, 2);
    }
    if (!f->failed) f->out[head] = (uint32_t)(f->used - head) << 16 | DITI_SPV_PHI;
}

static void diti_fold_put_instruction(diti_fold *f, size_t at, uint32_t block) {
    const uint32_t op = diti_fold_op(f, at), length = diti_fold_length(f, at), *word = f->words + at;
    const uint32_t goes = f->ids[block].goes;
    uint32_t value, branch[2] = {2u << 16 | DITI_SPV_BRANCH, goes};
    if (diti_fold_result(op) == 2 && f->ids[word[2]].known) return;
    if (op == DITI_SPV_PHI) {
        diti_fold_put_phi(f, at, block);
    } else if (op == DITI_SPV_SELECT && diti_fold_known(f, word[3], &value)) {
        uint32_t copy[4] = {4u << 16 | DITI_SPV_COPY_OBJECT, word[1], word[2], word[value ? 4 : 5]};
        diti_fold_put(f, copy, 4);
    } else if (op == DITI_SPV_BRANCH_CONDITIONAL && goes) {
        diti_fold_put(f, branch, 2);
    } else if (op == DITI_SPV_SWITCH && goes) {
        uint32_t one_way[3] = {3u << 16 | DITI_SPV_SWITCH, word[1], goes};
        diti_fold_put(f, one_way, 3);
    } else if (op != DITI_SPV_SELECTION_MERGE || !diti_fold_is_no_if(f, at, block)) {
        diti_fold_put(f, word, length);
    }
}

/* A block that is not reached. */
static void diti_fold_put_label(diti_fold *f, const uint32_t *word) {
    const diti_fold_id *id = &f->ids[word[1]];
    const uint32_t back[2] = {2u << 16 | DITI_SPV_BRANCH, id->header}, end = 1u << 16 | DITI_SPV_UNREACHABLE;
    if (!id->header && !id->merge) return;
    diti_fold_put(f, word, 2);
    if (id->header)
        diti_fold_put(f, back, 2);
    else
        diti_fold_put(f, &end, 1);
}

static void diti_fold_write(diti_fold *f) {
    uint32_t block = 0, id;
    bool function = false;
    size_t at;
    diti_fold_put(f, f->words, 5);
    for (at = 5; at < f->functions; at += diti_fold_length(f, at)) diti_fold_put_global(f, at);
    for (id = 1; id < f->bound; id++) {
        const diti_fold_id *of = &f->ids[id];
        if (of->known && of->at > f->functions && f->ids[of->block].reached)
            diti_fold_put_constant(f, f->words[of->at + 1], id);
    }
    for (; at < f->count && !f->failed; at += diti_fold_length(f, at)) {
        const uint32_t op = diti_fold_op(f, at), length = diti_fold_length(f, at), *word = f->words + at;
        if (op == DITI_SPV_FUNCTION) {
            function = f->ids[word[2]].reached;
            block = 0;
        }
        if (!function) continue;
        if (op == DITI_SPV_LABEL) block = word[1];
        if (!block || op == DITI_SPV_FUNCTION_END || (op == DITI_SPV_LABEL && f->ids[block].reached))
            diti_fold_put(f, word, length);
        else if (op == DITI_SPV_LABEL)
            diti_fold_put_label(f, word);
        else if (f->ids[block].reached)
            diti_fold_put_instruction(f, at, block);
    }
}

DIT_INTERNAL dit_result diti_spirv_fold(const diti_env *env, const VkSpecializationInfo *given, bool whole,
                                        uint32_t **words, size_t *count, bool *folded, dit_error *err) {
    diti_fold f;
    memset(&f, 0, sizeof f);
    *folded = false;
    if (*count < 5 || (*words)[0] != 0x07230203u || !(*words)[3] || (*words)[3] > DITI_FOLD_MOST_IDS) return DIT_OK;
    f.given = given;
    f.whole = whole;
    f.words = *words;
    f.count = *count;
    f.bound = (*words)[3];
    f.room = *count + 4 * (size_t)f.bound; /* at most a constant for each id more */
    f.ids = (diti_fold_id *)diti_alloc_array(env, f.bound, sizeof *f.ids);
    f.out = (uint32_t *)diti_alloc_array(env, f.room, sizeof *f.out);
    if (!f.ids || !f.out) {
        diti_free(env, f.ids);
        diti_free(env, f.out);
        return diti_fail_memory(err, "a kernel's module");
    }
    diti_fold_scan(&f);
    if (!f.failed) diti_fold_constants(&f);
    for (f.grows = true; f.grows && !f.failed;) {
        f.grows = false;
        diti_fold_pass(&f);
    }
    if (!f.failed) diti_fold_merges(&f);
    if (!f.failed) diti_fold_write(&f);
    diti_free(env, f.ids);
    diti_free(env, f.failed ? f.out : *words);
    if (f.failed) return DIT_OK;
    *words = f.out;
    *count = f.used;
    *folded = true;
    return DIT_OK;
}
