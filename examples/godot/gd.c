#include "gd.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Functions of Godot's: the name that it knows them by, and their type. */
#define FUNCTIONS(X)                                                                                                   \
    X(classdb_construct_object2, ClassdbConstructObject2)                                                              \
    X(classdb_register_extension_class4, ClassdbRegisterExtensionClass4)                                               \
    X(classdb_register_extension_class_method, ClassdbRegisterExtensionClassMethod)                                    \
    X(classdb_register_extension_class_property, ClassdbRegisterExtensionClassProperty)                                \
    X(classdb_register_extension_class_signal, ClassdbRegisterExtensionClassSignal)                                    \
    X(classdb_unregister_extension_class, ClassdbUnregisterExtensionClass)                                             \
    X(get_variant_from_type_constructor, GetVariantFromTypeConstructor)                                                \
    X(get_variant_to_type_constructor, GetVariantToTypeConstructor)                                                    \
    X(global_get_singleton, GlobalGetSingleton)                                                                        \
    X(object_get_instance_binding, ObjectGetInstanceBinding)                                                           \
    X(object_get_instance_from_id, ObjectGetInstanceFromId)                                                            \
    X(object_get_instance_id, ObjectGetInstanceId)                                                                     \
    X(object_set_instance, ObjectSetInstance)                                                                          \
    X(object_set_instance_binding, ObjectSetInstanceBinding)                                                           \
    X(packed_byte_array_operator_index, PackedByteArrayOperatorIndex)                                                  \
    X(ref_set_object, RefSetObject)                                                                                    \
    X(string_name_new_with_latin1_chars, StringNameNewWithLatin1Chars)                                                 \
    X(string_new_with_utf8_chars, StringNewWithUtf8Chars)                                                              \
    X(string_to_utf8_chars, StringToUtf8Chars)                                                                         \
    X(variant_call, VariantCall)                                                                                       \
    X(variant_construct, VariantConstruct)                                                                             \
    X(variant_destroy, VariantDestroy)                                                                                 \
    X(variant_get_ptr_destructor, VariantGetPtrDestructor)                                                             \
    X(variant_get_ptr_utility_function, VariantGetPtrUtilityFunction)                                                  \
    X(variant_get_type, VariantGetType)                                                                                \
    X(variant_new_copy, VariantNewCopy)                                                                                \
    X(variant_new_nil, VariantNewNil)                                                                                  \
    X(variant_stringify, VariantStringify)

static struct {
    GDExtensionClassLibraryPtr library;
    GDExtensionPtrDestructor free_name, free_string, free_bytes;
    GDExtensionPtrUtilityFunction print;
    GDExtensionVariantFromTypeConstructorFunc from[GDEXTENSION_VARIANT_TYPE_VARIANT_MAX];
    GDExtensionTypeFromVariantConstructorFunc to[GDEXTENSION_VARIANT_TYPE_VARIANT_MAX];
#define MEMBER(name, type) GDExtensionInterface##type name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} gd;

typedef struct text { /* a String or a StringName */
    void *word;
} text;

static text make_name(const char *latin1) {
    text name;
    gd.string_name_new_with_latin1_chars(&name, latin1, 0);
    return name;
}

bool gd_open(GDExtensionInterfaceGetProcAddress get, GDExtensionClassLibraryPtr library) {
    GDExtensionInterfaceFunctionPtr found;
    text name;
    int i;
    gd.library = library;
#define LOAD(name, type)                                                                                               \
    found = get(#name);                                                                                                \
    if (!found) return false;                                                                                          \
    memcpy(&gd.name, &found, sizeof found);
    FUNCTIONS(LOAD)
#undef LOAD
    gd.free_name = gd.variant_get_ptr_destructor(GDEXTENSION_VARIANT_TYPE_STRING_NAME);
    gd.free_string = gd.variant_get_ptr_destructor(GDEXTENSION_VARIANT_TYPE_STRING);
    gd.free_bytes = gd.variant_get_ptr_destructor(GDEXTENSION_VARIANT_TYPE_PACKED_BYTE_ARRAY);
    for (i = 1; i < GDEXTENSION_VARIANT_TYPE_VARIANT_MAX; i++) {
        gd.from[i] = gd.get_variant_from_type_constructor((GDExtensionVariantType)i);
        gd.to[i] = gd.get_variant_to_type_constructor((GDExtensionVariantType)i);
    }
    name = make_name("print");
    gd.print = gd.variant_get_ptr_utility_function(&name, 2648703342); /* the hash of its declaration */
    gd.free_name(&name);
    return true;
}

/* ---- values ---- */

static variant make(GDExtensionVariantType type, void *value) {
    variant v;
    gd.from[type](&v, value);
    return v;
}

variant gd_nil(void) {
    variant v;
    gd.variant_new_nil(&v);
    return v;
}

variant gd_bool(bool value) {
    GDExtensionBool b = value;
    return make(GDEXTENSION_VARIANT_TYPE_BOOL, &b);
}

variant gd_int(int64_t value) { return make(GDEXTENSION_VARIANT_TYPE_INT, &value); }

variant gd_float(double value) { return make(GDEXTENSION_VARIANT_TYPE_FLOAT, &value); }

variant gd_vector2i(vector2i value) { return make(GDEXTENSION_VARIANT_TYPE_VECTOR2I, &value); }

variant gd_object(GDExtensionObjectPtr object) {
    return object ? make(GDEXTENSION_VARIANT_TYPE_OBJECT, &object) : gd_nil();
}

variant gd_text(const char *utf8) {
    text string;
    variant v;
    gd.string_new_with_utf8_chars(&string, utf8);
    v = make(GDEXTENSION_VARIANT_TYPE_STRING, &string);
    gd.free_string(&string);
    return v;
}

static variant name_value(const char *latin1) {
    text name = make_name(latin1);
    variant v = make(GDEXTENSION_VARIANT_TYPE_STRING_NAME, &name);
    gd.free_name(&name);
    return v;
}

static variant construct(GDExtensionVariantType type, uint32_t count, variant *args) {
    GDExtensionConstVariantPtr pointers[MOST_ARGUMENTS] = {NULL};
    GDExtensionCallError error = {GDEXTENSION_CALL_OK, 0, 0};
    variant v;
    uint32_t i;
    for (i = 0; i < count; i++) pointers[i] = &args[i];
    gd.variant_construct(type, &v, pointers, (int32_t)count, &error);
    for (i = 0; i < count; i++) gd_free(&args[i]);
    return error.error == GDEXTENSION_CALL_OK ? v : gd_nil();
}

variant gd_rid(void) { return construct(GDEXTENSION_VARIANT_TYPE_RID, 0, NULL); }

variant gd_bytes(const void *bytes, size_t size) {
    variant v = construct(GDEXTENSION_VARIANT_TYPE_PACKED_BYTE_ARRAY, 0, NULL);
    void *array[2]; /* a PackedByteArray, which shares its bytes until it is the only one that has them */
    DO(&v, "resize", gd_int((int64_t)size));
    gd.to[GDEXTENSION_VARIANT_TYPE_PACKED_BYTE_ARRAY](array, &v);
    gd_free(&v);
    if (size) memcpy(gd.packed_byte_array_operator_index(array, 0), bytes, size);
    v = make(GDEXTENSION_VARIANT_TYPE_PACKED_BYTE_ARRAY, array);
    gd.free_bytes(array);
    return v;
}

variant gd_callable(GDExtensionObjectPtr object, const char *method) {
    variant args[2] = {gd_object(object), name_value(method)};
    return construct(GDEXTENSION_VARIANT_TYPE_CALLABLE, 2, args);
}

variant gd_singleton(const char *name) {
    text called = make_name(name);
    variant v = gd_object(gd.global_get_singleton(&called));
    gd.free_name(&called);
    return v;
}

variant gd_new(const char *class_name) {
    variant classes = gd_singleton("ClassDB"), v = CALL(&classes, "instantiate", name_value(class_name));
    gd_free(&classes);
    return v;
}

variant gd_copy(const variant *value) {
    variant v;
    gd.variant_new_copy(&v, value);
    return v;
}

void gd_free(variant *value) {
    gd.variant_destroy(value);
    gd.variant_new_nil(value);
}

bool gd_is_nil(const variant *value) { return gd.variant_get_type(value) == GDEXTENSION_VARIANT_TYPE_NIL; }

static void take(GDExtensionVariantType type, const variant *value, void *out) {
    gd.to[type](out, (GDExtensionVariantPtr)(uintptr_t)value);
}

bool gd_to_bool(const variant *value) {
    GDExtensionBool b = 0;
    take(GDEXTENSION_VARIANT_TYPE_BOOL, value, &b);
    return b != 0;
}

int64_t gd_to_int(const variant *value) {
    int64_t i = 0;
    take(GDEXTENSION_VARIANT_TYPE_INT, value, &i);
    return i;
}

double gd_to_float(const variant *value) {
    double f = 0;
    take(GDEXTENSION_VARIANT_TYPE_FLOAT, value, &f);
    return f;
}

vector2i gd_to_vector2i(const variant *value) {
    vector2i v = {0, 0};
    take(GDEXTENSION_VARIANT_TYPE_VECTOR2I, value, &v);
    return v;
}

GDExtensionObjectPtr gd_to_object(const variant *value) {
    GDExtensionObjectPtr object = NULL;
    if (gd.variant_get_type(value) == GDEXTENSION_VARIANT_TYPE_OBJECT)
        take(GDEXTENSION_VARIANT_TYPE_OBJECT, value, &object);
    return object;
}

char *gd_to_text(const variant *value) {
    GDExtensionInt size;
    char *utf8;
    text string;
    gd.variant_stringify(value, &string);
    size = gd.string_to_utf8_chars(&string, NULL, 0);
    utf8 = calloc(1, (size_t)size + 1);
    if (utf8) gd.string_to_utf8_chars(&string, utf8, size);
    gd.free_string(&string);
    return utf8;
}

variant gd_call(const variant *self, const char *method, uint32_t count, variant *args) {
    GDExtensionConstVariantPtr pointers[8] = {NULL};
    GDExtensionCallError error = {GDEXTENSION_CALL_OK, 0, 0};
    text name = make_name(method);
    variant result = gd_nil();
    uint32_t i;
    for (i = 0; i < count; i++) pointers[i] = &args[i];
    gd.variant_call((GDExtensionVariantPtr)(uintptr_t)self, &name, pointers, count, &result, &error);
    if (error.error != GDEXTENSION_CALL_OK)
        fprintf(stderr, "dit: Godot refuses to call %s (%d)\n", method, error.error);
    for (i = 0; i < count; i++) gd_free(&args[i]);
    gd.free_name(&name);
    return result;
}

void gd_print(const char *line) {
    variant value = gd_text(line);
    GDExtensionConstTypePtr args[1] = {&value};
    text none = {NULL};
    if (gd.print) gd.print(&none, args, 1);
    gd_free(&value);
}

/* ---- classes ---- */

uint64_t gd_id(GDExtensionObjectPtr object) { return gd.object_get_instance_id(object); }

bool gd_lives(uint64_t id) { return gd.object_get_instance_from_id(id) != NULL; }

static const GDExtensionInstanceBindingCallbacks no_callbacks = {NULL, NULL, NULL};

void *gd_instance(const variant *object, const char *class_name) {
    GDExtensionObjectPtr o = gd_to_object(object);
    gd_instance_head *head = o ? gd.object_get_instance_binding(o, gd.library, NULL) : NULL;
    return head && !strcmp(head->is->name, class_name) ? head : NULL;
}

static void *member(void *instance, const gd_property *p) { return (char *)instance + p->offset; }

static void begin_members(gd_instance_head *head) {
    uint32_t i;
    for (i = 0; i < head->is->property_count; i++) {
        const gd_property *p = &head->is->properties[i];
        if (p->type == GDEXTENSION_VARIANT_TYPE_STRING) *(char **)member(head, p) = calloc(1, 1);
        if (p->type == GDEXTENSION_VARIANT_TYPE_OBJECT) *(variant *)member(head, p) = gd_nil();
    }
}

static void end_members(gd_instance_head *head) {
    uint32_t i;
    for (i = 0; i < head->is->property_count; i++) {
        const gd_property *p = &head->is->properties[i];
        if (p->type == GDEXTENSION_VARIANT_TYPE_STRING) free(*(char **)member(head, p));
        if (p->type == GDEXTENSION_VARIANT_TYPE_OBJECT) gd_free(member(head, p));
    }
}

static GDExtensionObjectPtr create_instance(void *user, GDExtensionBool notify) {
    const gd_class *c = user;
    text parent = make_name(c->parent), name = make_name(c->name);
    GDExtensionObjectPtr object = gd.classdb_construct_object2(&parent);
    gd_instance_head *head = calloc(1, c->size);
    if (head && object) {
        head->is = c;
        head->object = object;
        begin_members(head);
        gd.object_set_instance(object, &name, head);
        gd.object_set_instance_binding(object, gd.library, head, &no_callbacks);
        if (c->begin) c->begin(head);
        if (notify && !c->counted) { /* a value of a counted object would be its only reference, and its end */
            variant self = gd_object(object);
            DO(&self, "notification", gd_int(0));
            gd_free(&self);
        }
    }
    gd.free_name(&parent);
    gd.free_name(&name);
    return object;
}

static void free_instance(void *user, GDExtensionClassInstancePtr instance) {
    const gd_class *c = user;
    if (!instance) return;
    if (c->end) c->end(instance);
    end_members(instance);
    free(instance);
}

static void notify_instance(GDExtensionClassInstancePtr instance, int32_t what, GDExtensionBool reversed) {
    const gd_class *c = ((gd_instance_head *)instance)->is;
    (void)reversed;
    if (c->notification) c->notification(instance, what);
}

/* Godot converts arguments of a call to what the method declares, or refuses them before. */
static void call_method(void *user, GDExtensionClassInstancePtr instance, const GDExtensionConstVariantPtr *args,
                        GDExtensionInt count, GDExtensionVariantPtr result, GDExtensionCallError *error) {
    const gd_method *m = user;
    variant v;
    if (count != m->argument_count) {
        error->error = count < m->argument_count ? GDEXTENSION_CALL_ERROR_TOO_FEW_ARGUMENTS
                                                 : GDEXTENSION_CALL_ERROR_TOO_MANY_ARGUMENTS;
        error->expected = (int32_t)m->argument_count;
        return;
    }
    v = m->call(instance, (const variant *const *)args);
    gd.variant_destroy(result);
    gd.variant_new_copy(result, &v);
    gd_free(&v);
}

/* Typed scripts call with bare values. */
static void give(GDExtensionVariantType type, variant *v, void *out) {
    if (type == GDEXTENSION_VARIANT_TYPE_OBJECT)
        gd.ref_set_object(out, gd_to_object(v)); /* all objects that methods return are counted */
    else if (type != GDEXTENSION_VARIANT_TYPE_NIL)
        gd.to[type](out, v);
}

static void call_method_bare(void *user, GDExtensionClassInstancePtr instance, const GDExtensionConstTypePtr *args,
                             GDExtensionTypePtr result) {
    const gd_method *m = user;
    variant values[MOST_ARGUMENTS], v;
    const variant *pointers[MOST_ARGUMENTS];
    uint32_t i;
    for (i = 0; i < m->argument_count; i++) {
        values[i] = make(m->arguments[i].type, (void *)(uintptr_t)args[i]);
        pointers[i] = &values[i];
    }
    v = m->call(instance, pointers);
    give(m->result, &v, result);
    gd_free(&v);
    for (i = 0; i < m->argument_count; i++) gd_free(&values[i]);
}

/* ---- properties ---- */

static variant get_member(void *instance, const gd_property *p) {
    void *at = member(instance, p);
    switch (p->type) {
    case GDEXTENSION_VARIANT_TYPE_BOOL: return gd_bool(*(bool *)at);
    case GDEXTENSION_VARIANT_TYPE_INT: return gd_int(*(int64_t *)at);
    case GDEXTENSION_VARIANT_TYPE_FLOAT: return gd_float(*(double *)at);
    case GDEXTENSION_VARIANT_TYPE_STRING: return gd_text(*(char **)at ? *(char **)at : "");
    case GDEXTENSION_VARIANT_TYPE_VECTOR2I: return gd_vector2i(*(vector2i *)at);
    default: return gd_copy(at);
    }
}

static void set_member(void *instance, const gd_property *p, const variant *value) {
    void *at = member(instance, p);
    const gd_class *c = ((gd_instance_head *)instance)->is;
    switch (p->type) {
    case GDEXTENSION_VARIANT_TYPE_BOOL: *(bool *)at = gd_to_bool(value); break;
    case GDEXTENSION_VARIANT_TYPE_INT: *(int64_t *)at = gd_to_int(value); break;
    case GDEXTENSION_VARIANT_TYPE_FLOAT: *(double *)at = gd_to_float(value); break;
    case GDEXTENSION_VARIANT_TYPE_VECTOR2I: *(vector2i *)at = gd_to_vector2i(value); break;
    case GDEXTENSION_VARIANT_TYPE_STRING:
        free(*(char **)at);
        *(char **)at = gd_to_text(value);
        break;
    default: gd_free(at); *(variant *)at = gd_object(gd_to_object(value));
    }
    if (c->changed) c->changed(instance);
}

static void call_get(void *user, GDExtensionClassInstancePtr instance, const GDExtensionConstVariantPtr *args,
                     GDExtensionInt count, GDExtensionVariantPtr result, GDExtensionCallError *error) {
    variant v = get_member(instance, user);
    (void)args, (void)count, (void)error;
    gd.variant_destroy(result);
    gd.variant_new_copy(result, &v);
    gd_free(&v);
}

static void call_get_bare(void *user, GDExtensionClassInstancePtr instance, const GDExtensionConstTypePtr *args,
                          GDExtensionTypePtr result) {
    variant v = get_member(instance, user);
    (void)args;
    give(((const gd_property *)user)->type, &v, result);
    gd_free(&v);
}

static void call_set(void *user, GDExtensionClassInstancePtr instance, const GDExtensionConstVariantPtr *args,
                     GDExtensionInt count, GDExtensionVariantPtr result, GDExtensionCallError *error) {
    (void)result;
    if (count == 1)
        set_member(instance, user, args[0]);
    else
        error->error = GDEXTENSION_CALL_ERROR_TOO_FEW_ARGUMENTS, error->expected = 1;
}

static void call_set_bare(void *user, GDExtensionClassInstancePtr instance, const GDExtensionConstTypePtr *args,
                          GDExtensionTypePtr result) {
    const gd_property *p = user;
    variant v = make(p->type, (void *)(uintptr_t)args[0]);
    (void)result;
    set_member(instance, p, &v);
    gd_free(&v);
}

/* ---- registration ---- */

typedef struct described { /* GDExtensionPropertyInfo, and what it points to */
    text name, class_name, hint;
    GDExtensionPropertyInfo info;
} described;

static void describe(described *d, GDExtensionVariantType type, const char *name, uint32_t hint,
                     const char *hint_string) {
    bool object = type == GDEXTENSION_VARIANT_TYPE_OBJECT;
    d->name = make_name(name);
    d->class_name = make_name(object && hint_string ? hint_string : "");
    gd.string_new_with_utf8_chars(&d->hint, hint_string ? hint_string : "");
    d->info.type = type;
    d->info.name = &d->name;
    d->info.class_name = &d->class_name;
    d->info.hint = hint;
    d->info.hint_string = &d->hint;
    d->info.usage = 6; /* PROPERTY_USAGE_DEFAULT: stored and shown */
}

static void end_description(described *d) {
    gd.free_name(&d->name);
    gd.free_name(&d->class_name);
    gd.free_string(&d->hint);
}

static void add_method(text *class_name, const char *name, void *user, GDExtensionClassMethodCall call,
                       GDExtensionClassMethodPtrCall bare, GDExtensionVariantType result, uint32_t count,
                       const gd_argument *arguments, uint32_t hint, const char *hint_string) {
    GDExtensionClassMethodArgumentMetadata metadata[MOST_ARGUMENTS] = {GDEXTENSION_METHOD_ARGUMENT_METADATA_NONE};
    GDExtensionPropertyInfo infos[MOST_ARGUMENTS];
    described list[MOST_ARGUMENTS], returned;
    GDExtensionClassMethodInfo info;
    text called = make_name(name);
    uint32_t i;
    memset(&info, 0, sizeof info);
    describe(&returned, result, "", hint, hint_string);
    for (i = 0; i < count; i++) {
        describe(&list[i], arguments[i].type, arguments[i].name, hint, hint_string);
        infos[i] = list[i].info;
    }
    info.name = &called;
    info.method_userdata = user;
    info.call_func = call;
    info.ptrcall_func = bare;
    info.method_flags = GDEXTENSION_METHOD_FLAGS_DEFAULT;
    info.has_return_value = result != GDEXTENSION_VARIANT_TYPE_NIL;
    info.return_value_info = &returned.info;
    info.argument_count = count;
    info.arguments_info = infos;
    info.arguments_metadata = metadata;
    gd.classdb_register_extension_class_method(gd.library, class_name, &info);
    for (i = 0; i < count; i++) end_description(&list[i]);
    end_description(&returned);
    gd.free_name(&called);
}

static void add_property(text *class_name, const gd_property *p) {
    gd_argument value = {p->type, "value"};
    char set[64], get[64];
    text setter, getter;
    described d;
    snprintf(set, sizeof set, "set_%s", p->name);
    snprintf(get, sizeof get, "get_%s", p->name);
    add_method(class_name, set, (void *)(uintptr_t)p, call_set, call_set_bare, GDEXTENSION_VARIANT_TYPE_NIL, 1, &value,
               p->hint, p->hint_string);
    add_method(class_name, get, (void *)(uintptr_t)p, call_get, call_get_bare, p->type, 0, NULL, p->hint,
               p->hint_string);
    setter = make_name(set);
    getter = make_name(get);
    describe(&d, p->type, p->name, p->hint, p->hint_string);
    gd.classdb_register_extension_class_property(gd.library, class_name, &d.info, &setter, &getter);
    end_description(&d);
    gd.free_name(&setter);
    gd.free_name(&getter);
}

static void add_signal(text *class_name, const gd_signal *s) {
    GDExtensionPropertyInfo infos[MOST_ARGUMENTS];
    described list[MOST_ARGUMENTS];
    text name = make_name(s->name);
    uint32_t i;
    for (i = 0; i < s->argument_count; i++) {
        describe(&list[i], s->arguments[i].type, s->arguments[i].name, 0, NULL);
        infos[i] = list[i].info;
    }
    gd.classdb_register_extension_class_signal(gd.library, class_name, &name, infos, s->argument_count);
    for (i = 0; i < s->argument_count; i++) end_description(&list[i]);
    gd.free_name(&name);
}

void gd_register(const gd_class *c) {
    GDExtensionClassCreationInfo4 info;
    text name = make_name(c->name), parent = make_name(c->parent);
    uint32_t i;
    memset(&info, 0, sizeof info);
    info.is_exposed = !c->hidden;
    info.notification_func = notify_instance;
    info.create_instance_func = create_instance;
    info.free_instance_func = free_instance;
    info.class_userdata = (void *)(uintptr_t)c;
    gd.classdb_register_extension_class4(gd.library, &name, &parent, &info);
    for (i = 0; i < c->method_count; i++) {
        const gd_method *m = &c->methods[i];
        add_method(&name, m->name, (void *)(uintptr_t)m, call_method, call_method_bare, m->result, m->argument_count,
                   m->arguments, 0, NULL);
    }
    for (i = 0; i < c->property_count; i++) add_property(&name, &c->properties[i]);
    for (i = 0; i < c->signal_count; i++) add_signal(&name, &c->signals[i]);
    gd.free_name(&name);
    gd.free_name(&parent);
}

void gd_unregister(const gd_class *c) {
    text name = make_name(c->name);
    gd.classdb_unregister_extension_class(gd.library, &name);
    gd.free_name(&name);
}
