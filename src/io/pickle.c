/* The part of Python's pickle protocol 2 with which torch.save writes tensors in dictionaries. A pickle is a program
   for a stack machine, and what it may call is the danger of it. Here nothing is ever called or imported: a name is
   looked up in the table below, and what is not in it is refused. Every opcode makes at most one value, so memory is
   bounded by the pickle's size; nothing recurses. */
#include "io/io.h"

/* --- what a pickle may name --- */
typedef struct diti_pickle_global {
    const char *module, *name;
    diti_pickle_callable callable;
    const char *type; /* type of a storage or an element, as safetensors calls it; NULL: bytes */
} diti_pickle_global;

static const diti_pickle_global diti_pickle_globals[] = {
    {"collections", "OrderedDict", DITI_PICKLE_ORDERED_DICT, NULL},
    {"torch._utils", "_rebuild_tensor_v2", DITI_PICKLE_TENSOR_V2, NULL},
    {"torch._utils", "_rebuild_tensor_v3", DITI_PICKLE_TENSOR_V3, NULL},
    {"torch._utils", "_rebuild_parameter", DITI_PICKLE_PARAMETER, NULL},
    {"torch._utils", "_rebuild_parameter_with_state", DITI_PICKLE_PARAMETER, NULL},
    {"argparse", "Namespace", DITI_PICKLE_NAMESPACE, NULL}, /* beside the weights of training checkpoints */
    {"torch", "Size", DITI_PICKLE_SIZE, NULL},
    {"torch", "FloatStorage", DITI_PICKLE_TYPE, "F32"},
    {"torch", "HalfStorage", DITI_PICKLE_TYPE, "F16"},
    {"torch", "BFloat16Storage", DITI_PICKLE_TYPE, "BF16"},
    {"torch", "DoubleStorage", DITI_PICKLE_TYPE, "F64"},
    {"torch", "LongStorage", DITI_PICKLE_TYPE, "I64"},
    {"torch", "IntStorage", DITI_PICKLE_TYPE, "I32"},
    {"torch", "ShortStorage", DITI_PICKLE_TYPE, "I16"},
    {"torch", "CharStorage", DITI_PICKLE_TYPE, "I8"},
    {"torch", "ByteStorage", DITI_PICKLE_TYPE, "U8"},
    {"torch", "BoolStorage", DITI_PICKLE_TYPE, "BOOL"},
    {"torch.storage", "UntypedStorage", DITI_PICKLE_TYPE, NULL},
    {"torch", "float32", DITI_PICKLE_TYPE, "F32"},
    {"torch", "float16", DITI_PICKLE_TYPE, "F16"},
    {"torch", "bfloat16", DITI_PICKLE_TYPE, "BF16"},
    {"torch", "float8_e4m3fn", DITI_PICKLE_TYPE, "F8_E4M3"},
    {"torch", "float8_e5m2", DITI_PICKLE_TYPE, "F8_E5M2"},
    {"torch", "uint16", DITI_PICKLE_TYPE, "U16"},
    {"torch", "uint32", DITI_PICKLE_TYPE, "U32"},
    {"torch", "uint64", DITI_PICKLE_TYPE, "U64"},
};

/* --- the machine --- */
typedef struct diti_pickle_machine {
    const diti_env *env;
    const char *file; /* for messages */
    dit_error *err;
    const unsigned char *start, *at, *end;
    diti_pickle *pickle;
    uint32_t *stack, *memo;
    size_t stack_count, stack_capacity, memo_count, memo_capacity;
} diti_pickle_machine;

static dit_result diti_pickle_fail(const diti_pickle_machine *machine, const char *message) {
    return diti_fail(machine->err, DIT_ERROR_BAD_FILE, "%s: its pickle is damaged at byte %llu: %s", machine->file,
                     (unsigned long long)(machine->at - machine->start), message);
}

static dit_result diti_pickle_no_memory(const diti_pickle_machine *machine) {
    return diti_no_memory(machine->file, machine->err);
}

/* The next size bytes; NULL past the end. */
static const unsigned char *diti_pickle_bytes(diti_pickle_machine *machine, size_t size) {
    const unsigned char *bytes = machine->at;
    if (size > (size_t)(machine->end - machine->at)) return NULL;
    machine->at += size;
    return bytes;
}

static dit_result diti_pickle_take_number(diti_pickle_machine *machine, int bytes, uint64_t *out) {
    const unsigned char *at = diti_pickle_bytes(machine, (size_t)bytes);
    if (!at) return diti_pickle_fail(machine, "it ends here");
    *out = 0;
    while (bytes-- > 0) *out = *out << 8 | at[bytes];
    return DIT_OK;
}

static dit_result diti_pickle_push_index(diti_pickle_machine *machine, uint32_t index) {
    if (!diti_grow(machine->env, (void **)&machine->stack, &machine->stack_capacity, machine->stack_count,
                   sizeof *machine->stack))
        return diti_pickle_no_memory(machine);
    machine->stack[machine->stack_count++] = index;
    return DIT_OK;
}

static dit_result diti_pickle_push(diti_pickle_machine *machine, const diti_pickle_value *value) {
    diti_pickle *pickle = machine->pickle;
    if (!diti_grow(machine->env, (void **)&pickle->values, &pickle->value_capacity, pickle->value_count, sizeof *value))
        return diti_pickle_no_memory(machine);
    pickle->values[pickle->value_count] = *value;
    return diti_pickle_push_index(machine, (uint32_t)pickle->value_count++);
}

static dit_result diti_pickle_push_kind(diti_pickle_machine *machine, diti_pickle_kind kind) {
    diti_pickle_value value = DITI_ZERO;
    value.kind = kind;
    return diti_pickle_push(machine, &value);
}

static dit_result diti_pickle_push_integer(diti_pickle_machine *machine, int64_t number) {
    diti_pickle_value value = DITI_ZERO;
    value.kind = DITI_PICKLE_INTEGER;
    value.number = number;
    return diti_pickle_push(machine, &value);
}

/* The value depth entries below the top, NULL when the stack is not so high or a mark is in the way. */
static diti_pickle_value *diti_pickle_top(const diti_pickle_machine *machine, size_t depth) {
    size_t i;
    if (depth >= machine->stack_count) return NULL;
    for (i = 0; i <= depth; i++) {
        if (machine->pickle->values[machine->stack[machine->stack_count - 1 - i]].kind == DITI_PICKLE_MARK) return NULL;
    }
    return &machine->pickle->values[machine->stack[machine->stack_count - 1 - depth]];
}

/* Where in the stack the topmost mark is; false without one. */
static bool diti_pickle_find_mark(const diti_pickle_machine *machine, size_t *out) {
    size_t i = machine->stack_count;
    while (i > 0) {
        if (machine->pickle->values[machine->stack[--i]].kind != DITI_PICKLE_MARK) continue;
        *out = i;
        return true;
    }
    return false;
}

/* --- opcodes that make values --- */

static dit_result diti_pickle_integer(diti_pickle_machine *machine, int bytes, bool is_signed) {
    uint64_t number = 0;
    DITI_TRY(diti_pickle_take_number(machine, bytes, &number));
    if (is_signed && bytes > 0 && bytes < 8 && number >> (8 * bytes - 1)) number |= UINT64_MAX << (8 * bytes);
    return diti_pickle_push_integer(machine, (int64_t)number);
}

static dit_result diti_pickle_long(diti_pickle_machine *machine) {
    uint64_t bytes = 0;
    DITI_TRY(diti_pickle_take_number(machine, 1, &bytes));
    if (bytes > 8) return diti_pickle_fail(machine, "a number of more than 64 bits");
    return diti_pickle_integer(machine, (int)bytes, true);
}

static dit_result diti_pickle_text(diti_pickle_machine *machine) {
    diti_pickle_value value = DITI_ZERO;
    uint64_t size = 0;
    DITI_TRY(diti_pickle_take_number(machine, 4, &size));
    value.kind = DITI_PICKLE_TEXT;
    value.count = (uint32_t)size;
    value.text = (const char *)diti_pickle_bytes(machine, (size_t)size);
    return value.text ? diti_pickle_push(machine, &value) : diti_pickle_fail(machine, "a text goes past its end");
}

static dit_result diti_pickle_skip(diti_pickle_machine *machine, size_t bytes) {
    if (!diti_pickle_bytes(machine, bytes)) return diti_pickle_fail(machine, "it ends here");
    return diti_pickle_push_kind(machine, DITI_PICKLE_OTHER);
}

/* Turns the stack from entry `first` on into a tuple, and drops what is above `base`. */
static dit_result diti_pickle_tuple(diti_pickle_machine *machine, size_t first, size_t base) {
    diti_pickle *pickle = machine->pickle;
    diti_pickle_value value = DITI_ZERO;
    size_t i;
    value.kind = DITI_PICKLE_TUPLE;
    value.first = (uint32_t)pickle->item_count;
    value.count = (uint32_t)(machine->stack_count - first);
    for (i = first; i < machine->stack_count; i++) {
        if (!diti_grow(machine->env, (void **)&pickle->items, &pickle->item_capacity, pickle->item_count,
                       sizeof *pickle->items))
            return diti_pickle_no_memory(machine);
        pickle->items[pickle->item_count++] = machine->stack[i];
    }
    machine->stack_count = base;
    return diti_pickle_push(machine, &value);
}

static dit_result diti_pickle_marked_tuple(diti_pickle_machine *machine) {
    size_t mark;
    if (!diti_pickle_find_mark(machine, &mark)) return diti_pickle_fail(machine, "a tuple without its beginning");
    return diti_pickle_tuple(machine, mark + 1, mark);
}

static dit_result diti_pickle_short_tuple(diti_pickle_machine *machine, size_t count) {
    if (!diti_pickle_top(machine, count - 1)) return diti_pickle_fail(machine, "a tuple of too little");
    return diti_pickle_tuple(machine, machine->stack_count - count, machine->stack_count - count);
}

/* --- memo: values by the number in which they were put there --- */

static dit_result diti_pickle_put(diti_pickle_machine *machine, int bytes) {
    uint64_t number = 0;
    DITI_TRY(diti_pickle_take_number(machine, bytes, &number));
    if (!diti_pickle_top(machine, 0) || number > machine->memo_count)
        return diti_pickle_fail(machine, "nothing to remember, or its number is out of order");
    if (number == machine->memo_count) {
        if (!diti_grow(machine->env, (void **)&machine->memo, &machine->memo_capacity, machine->memo_count,
                       sizeof *machine->memo))
            return diti_pickle_no_memory(machine);
        machine->memo_count++;
    }
    machine->memo[number] = machine->stack[machine->stack_count - 1];
    return DIT_OK;
}

static dit_result diti_pickle_get(diti_pickle_machine *machine, int bytes) {
    uint64_t number = 0;
    DITI_TRY(diti_pickle_take_number(machine, bytes, &number));
    if (number >= machine->memo_count) return diti_pickle_fail(machine, "it refers to what it has not remembered");
    return diti_pickle_push_index(machine, machine->memo[number]);
}

/* --- dictionaries and lists --- */

static dit_result diti_pickle_set(diti_pickle_machine *machine, uint32_t dictionary, uint32_t key, uint32_t value) {
    diti_pickle *pickle = machine->pickle;
    diti_pickle_value *owner = &pickle->values[dictionary];
    diti_pickle_pair *pair;
    if (!diti_grow(machine->env, (void **)&pickle->pairs, &pickle->pair_capacity, pickle->pair_count,
                   sizeof *pickle->pairs))
        return diti_pickle_no_memory(machine);
    pair = &pickle->pairs[pickle->pair_count];
    pair->key = key;
    pair->value = value;
    pair->next = DITI_PICKLE_END;
    if (owner->count++)
        pickle->pairs[owner->last].next = (uint32_t)pickle->pair_count;
    else
        owner->first = (uint32_t)pickle->pair_count;
    owner->last = (uint32_t)pickle->pair_count++;
    return DIT_OK;
}

/* Keys and values in turn from stack entry first on, into the dictionary below base. */
static dit_result diti_pickle_set_all(diti_pickle_machine *machine, size_t first, size_t base) {
    size_t i;
    if (base == 0 || machine->pickle->values[machine->stack[base - 1]].kind != DITI_PICKLE_DICTIONARY ||
        (machine->stack_count - first) % 2 != 0)
        return diti_pickle_fail(machine, "keys and values without a dictionary");
    for (i = first; i < machine->stack_count; i += 2) {
        DITI_TRY(diti_pickle_set(machine, machine->stack[base - 1], machine->stack[i], machine->stack[i + 1]));
    }
    machine->stack_count = base;
    return DIT_OK;
}

static dit_result diti_pickle_set_marked(diti_pickle_machine *machine) {
    size_t mark;
    if (!diti_pickle_find_mark(machine, &mark)) return diti_pickle_fail(machine, "items without their beginning");
    return diti_pickle_set_all(machine, mark + 1, mark);
}

static dit_result diti_pickle_set_one(diti_pickle_machine *machine) {
    if (!diti_pickle_top(machine, 1)) return diti_pickle_fail(machine, "an item without key and value");
    return diti_pickle_set_all(machine, machine->stack_count - 2, machine->stack_count - 2);
}

/* Elements of a list have no name and are not kept. */
static dit_result diti_pickle_append(diti_pickle_machine *machine, size_t base) {
    if (base == 0 || machine->pickle->values[machine->stack[base - 1]].kind != DITI_PICKLE_LIST)
        return diti_pickle_fail(machine, "elements without a list");
    machine->stack_count = base;
    return DIT_OK;
}

static dit_result diti_pickle_append_marked(diti_pickle_machine *machine) {
    size_t mark;
    if (!diti_pickle_find_mark(machine, &mark)) return diti_pickle_fail(machine, "elements without their beginning");
    return diti_pickle_append(machine, mark);
}

static dit_result diti_pickle_append_one(diti_pickle_machine *machine) {
    if (!diti_pickle_top(machine, 0)) return diti_pickle_fail(machine, "no element to append");
    return diti_pickle_append(machine, machine->stack_count - 1);
}

/* --- names and calls --- */

/* The text up to the next end of line. */
static bool diti_pickle_line(diti_pickle_machine *machine, const char **text, size_t *length) {
    const unsigned char *end = (const unsigned char *)memchr(machine->at, '\n', (size_t)(machine->end - machine->at));
    if (!end) return false;
    *text = (const char *)machine->at;
    *length = (size_t)(end - machine->at);
    machine->at = end + 1;
    return true;
}

static bool diti_pickle_is(const char *text, size_t length, const char *name) {
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

static dit_result diti_pickle_name(diti_pickle_machine *machine) {
    const char *module, *name;
    size_t module_length, name_length, i;
    if (!diti_pickle_line(machine, &module, &module_length) || !diti_pickle_line(machine, &name, &name_length))
        return diti_pickle_fail(machine, "a name goes past its end");
    for (i = 0; i < DITI_COUNT(diti_pickle_globals); i++) {
        diti_pickle_value value = DITI_ZERO;
        if (!diti_pickle_is(module, module_length, diti_pickle_globals[i].module) ||
            !diti_pickle_is(name, name_length, diti_pickle_globals[i].name))
            continue;
        value.kind = DITI_PICKLE_GLOBAL;
        value.number = diti_pickle_globals[i].callable;
        value.text = diti_pickle_globals[i].type;
        value.first = (uint32_t)i;
        return diti_pickle_push(machine, &value);
    }
    return diti_fail(machine->err, DIT_ERROR_BAD_FILE,
                     "%s: calls %.*s.%.*s: refused, nothing is executed; only tensors in dictionaries are read",
                     machine->file, (int)(module_length < 80 ? module_length : 80), module,
                     (int)(name_length < 80 ? name_length : 80), name);
}

static dit_result diti_pickle_refuse_call(const diti_pickle_machine *machine, const diti_pickle_value *function,
                                          const char *how) {
    const diti_pickle_global *global;
    if (function->kind != DITI_PICKLE_GLOBAL) return diti_pickle_fail(machine, "a call of what is no function");
    global = &diti_pickle_globals[function->first];
    return diti_fail(machine->err, DIT_ERROR_BAD_FILE,
                     "%s: %s %s.%s in a way that torch.save does not: refused, nothing is executed", machine->file, how,
                     global->module, global->name);
}

/* The tensor is the call's arguments, looked at when it is wanted. */
static dit_result diti_pickle_tensor(diti_pickle_machine *machine, const diti_pickle_value *arguments, bool typed) {
    diti_pickle_value value = *arguments;
    value.kind = DITI_PICKLE_TENSOR;
    value.number = typed;
    return diti_pickle_push(machine, &value);
}

static dit_result diti_pickle_call(diti_pickle_machine *machine) {
    const diti_pickle_value *found = diti_pickle_top(machine, 1), *given = diti_pickle_top(machine, 0);
    diti_pickle_value function, arguments;
    uint32_t first;
    if (!found) return diti_pickle_fail(machine, "a call without function and arguments");
    function = *found; /* pushing may move the values */
    arguments = *given;
    if (function.kind != DITI_PICKLE_GLOBAL || arguments.kind != DITI_PICKLE_TUPLE)
        return diti_pickle_refuse_call(machine, &function, "calls");
    machine->stack_count -= 2;
    switch ((diti_pickle_callable)function.number) {
    case DITI_PICKLE_ORDERED_DICT:
        if (arguments.count == 0) return diti_pickle_push_kind(machine, DITI_PICKLE_DICTIONARY);
        break;
    case DITI_PICKLE_SIZE:
    case DITI_PICKLE_NAMESPACE: return diti_pickle_push_kind(machine, DITI_PICKLE_RECORD);
    case DITI_PICKLE_TENSOR_V2: return diti_pickle_tensor(machine, &arguments, false);
    case DITI_PICKLE_TENSOR_V3: return diti_pickle_tensor(machine, &arguments, true);
    case DITI_PICKLE_PARAMETER:
        first = arguments.count ? machine->pickle->items[arguments.first] : 0;
        if (arguments.count && machine->pickle->values[first].kind == DITI_PICKLE_TENSOR)
            return diti_pickle_push_index(machine, first);
        break;
    case DITI_PICKLE_TYPE: break;
    }
    return diti_pickle_refuse_call(machine, &function, "calls");
}

static dit_result diti_pickle_new_object(diti_pickle_machine *machine) {
    const diti_pickle_value *type = diti_pickle_top(machine, 1), *arguments = diti_pickle_top(machine, 0);
    if (!type) return diti_pickle_fail(machine, "an object without type and arguments");
    if (type->kind != DITI_PICKLE_GLOBAL || type->number != DITI_PICKLE_NAMESPACE || arguments->count)
        return diti_pickle_refuse_call(machine, type, "makes a");
    machine->stack_count -= 2;
    return diti_pickle_push_kind(machine, DITI_PICKLE_RECORD);
}

/* Attributes of a dictionary (torch's _metadata) or of a record are nothing to us. */
static dit_result diti_pickle_build(diti_pickle_machine *machine) {
    const diti_pickle_value *object = diti_pickle_top(machine, 1);
    if (!object || (object->kind != DITI_PICKLE_DICTIONARY && object->kind != DITI_PICKLE_RECORD))
        return diti_pickle_fail(machine, "attributes of what has none");
    machine->stack_count--;
    return DIT_OK;
}

/* A persistent id names a storage: the bytes of an entry of the archive. */
static dit_result diti_pickle_storage(diti_pickle_machine *machine) {
    const diti_pickle_value *id = diti_pickle_top(machine, 0);
    diti_pickle_value value;
    if (!id || id->kind != DITI_PICKLE_TUPLE) return diti_pickle_fail(machine, "a persistent id that is no tuple");
    value = *id;
    value.kind = DITI_PICKLE_STORAGE;
    machine->stack_count--;
    return diti_pickle_push(machine, &value);
}

/* --- the loop --- */

typedef struct diti_pickle_opcode {
    uint8_t code;
    const char *name;
} diti_pickle_opcode;

/* Python knows these, too. */
static const diti_pickle_opcode diti_pickle_refused[] = {
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'F', "FLOAT"},
    {'I', "INT"},
    {'L', "LONG"},
    {'P', "PERSID"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
    {'d', "DICT"},
    {'g', "GET"},
    {'i', "INST"},
    {'l', "LIST"},
    {'o', "OBJ"},
    {'p', "PUT"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {0x8b, "LONG4"},
    {0x8c, "SHORT_BINUNICODE"},
    {0x8d, "BINUNICODE8"},
    {0x8e, "BINBYTES8"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x92, "NEWOBJ_EX"},
    {0x93, "STACK_GLOBAL"},
    {0x94, "MEMOIZE"},
    {0x95, "FRAME"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
};

static dit_result diti_pickle_refuse(const diti_pickle_machine *machine, uint8_t code) {
    const char *name = "(none of Python's)";
    size_t i;
    for (i = 0; i < DITI_COUNT(diti_pickle_refused); i++) {
        if (diti_pickle_refused[i].code == code) name = diti_pickle_refused[i].name;
    }
    return diti_fail(machine->err, DIT_ERROR_BAD_FILE,
                     "%s: its pickle has the opcode %s (0x%02x), which torch.save does not need for tensors: refused, "
                     "nothing is executed",
                     machine->file, name, (unsigned)code);
}

static dit_result diti_pickle_protocol(diti_pickle_machine *machine) {
    uint64_t protocol = 0;
    dit_result result = diti_pickle_take_number(machine, 1, &protocol);
    if (result < 0 || protocol == 2) return result;
    return diti_fail(machine->err, DIT_ERROR_BAD_FILE,
                     "%s: its pickle has protocol %u; torch.save writes 2 unless asked for another", machine->file,
                     (unsigned)protocol);
}

static dit_result diti_pickle_execute(diti_pickle_machine *machine, uint8_t code) {
    switch (code) {
    case 0x80: return diti_pickle_protocol(machine);
    case '(': return diti_pickle_push_kind(machine, DITI_PICKLE_MARK);
    case ')': return diti_pickle_tuple(machine, machine->stack_count, machine->stack_count);
    case '}': return diti_pickle_push_kind(machine, DITI_PICKLE_DICTIONARY);
    case ']': return diti_pickle_push_kind(machine, DITI_PICKLE_LIST);
    case 'N':
    case 0x88:
    case 0x89: return diti_pickle_push_kind(machine, DITI_PICKLE_OTHER);
    case 'G': return diti_pickle_skip(machine, 8);
    case 'J': return diti_pickle_integer(machine, 4, true);
    case 'K': return diti_pickle_integer(machine, 1, false);
    case 'M': return diti_pickle_integer(machine, 2, false);
    case 0x8a: return diti_pickle_long(machine);
    case 'X': return diti_pickle_text(machine);
    case 't': return diti_pickle_marked_tuple(machine);
    case 0x85: return diti_pickle_short_tuple(machine, 1);
    case 0x86: return diti_pickle_short_tuple(machine, 2);
    case 0x87: return diti_pickle_short_tuple(machine, 3);
    case 'q': return diti_pickle_put(machine, 1);
    case 'r': return diti_pickle_put(machine, 4);
    case 'h': return diti_pickle_get(machine, 1);
    case 'j': return diti_pickle_get(machine, 4);
    case 's': return diti_pickle_set_one(machine);
    case 'u': return diti_pickle_set_marked(machine);
    case 'a': return diti_pickle_append_one(machine);
    case 'e': return diti_pickle_append_marked(machine);
    case 'c': return diti_pickle_name(machine);
    case 'R': return diti_pickle_call(machine);
    case 0x81: return diti_pickle_new_object(machine);
    case 'b': return diti_pickle_build(machine);
    case 'Q': return diti_pickle_storage(machine);
    default: return diti_pickle_refuse(machine, code);
    }
}

static dit_result diti_pickle_run(diti_pickle_machine *machine) {
    while (machine->at < machine->end) {
        uint8_t code = *machine->at++;
        if (code == '.') {
            if (!diti_pickle_top(machine, 0)) return diti_pickle_fail(machine, "it ends with nothing");
            machine->pickle->root = machine->stack[machine->stack_count - 1];
            return DIT_OK;
        }
        DITI_TRY(diti_pickle_execute(machine, code));
    }
    return diti_pickle_fail(machine, "it is cut off");
}

DIT_INTERNAL dit_result diti_pickle_parse(const diti_env *env, const void *bytes, size_t size, const char *file,
                                          diti_pickle *out, dit_error *err) {
    diti_pickle_machine machine = DITI_ZERO;
    dit_result result;
    memset(out, 0, sizeof *out);
    machine.env = env;
    machine.file = file;
    machine.err = err;
    machine.start = machine.at = (const unsigned char *)bytes;
    machine.end = machine.start + size;
    machine.pickle = out;
    result = diti_pickle_run(&machine);
    diti_free(env, machine.stack);
    diti_free(env, machine.memo);
    if (result < 0) diti_pickle_free(env, out);
    return result;
}

DIT_INTERNAL void diti_pickle_free(const diti_env *env, diti_pickle *pickle) {
    diti_free(env, pickle->values);
    diti_free(env, pickle->items);
    diti_free(env, pickle->pairs);
    memset(pickle, 0, sizeof *pickle);
}
