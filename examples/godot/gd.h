/* Godot in C: values, calls by name, and classes from tables. Calls look a method up each time, so that they work with
   every Godot from 4.4 on; nothing here is called more than a few times in a frame. */
#ifndef GD_H
#define GD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "gdextension_interface.h"

typedef struct variant { /* one of Godot's values; gd_free ends it */
    uint64_t words[5];   /* 24 bytes, 40 where Godot computes with doubles */
} variant;

typedef struct vector2i {
    int32_t x, y;
} vector2i;

bool gd_open(GDExtensionInterfaceGetProcAddress get, GDExtensionClassLibraryPtr library);

variant gd_nil(void);
variant gd_bool(bool value);
variant gd_int(int64_t value);
variant gd_float(double value);
variant gd_text(const char *utf8);
variant gd_vector2i(vector2i value);
variant gd_object(GDExtensionObjectPtr object); /* of a RefCounted it is a reference; NULL: nil */
variant gd_rid(void);                           /* of nothing */
variant gd_bytes(const void *bytes, size_t size);
variant gd_callable(GDExtensionObjectPtr object, const char *method);
variant gd_singleton(const char *name);
variant gd_new(const char *class_name);
variant gd_copy(const variant *value);
void gd_free(variant *value); /* it is nil then */

bool gd_is_nil(const variant *value);
bool gd_to_bool(const variant *value);
int64_t gd_to_int(const variant *value);
double gd_to_float(const variant *value);
vector2i gd_to_vector2i(const variant *value);
char *gd_to_text(const variant *value); /* UTF-8, freed with free; NULL: no memory */
GDExtensionObjectPtr gd_to_object(const variant *value);

/* Calls a method; args are freed. The result is the caller's; nil where there is no such method. */
variant gd_call(const variant *self, const char *method, uint32_t count, variant *args);
#define CALL(self, method, ...)                                                                                        \
    gd_call(self, method, sizeof((variant[]){__VA_ARGS__}) / sizeof(variant), (variant[]){__VA_ARGS__})
#define CALL0(self, method) gd_call(self, method, 0, NULL)
/* A call whose result nobody wants. */
#define DO(...)                                                                                                        \
    do {                                                                                                               \
        variant unused_result = CALL(__VA_ARGS__);                                                                     \
        gd_free(&unused_result);                                                                                       \
    } while (0)
void gd_print(const char *line);

uint64_t gd_id(GDExtensionObjectPtr object);
bool gd_lives(uint64_t id);
/* The struct that a class of this extension gave an object; NULL: the object is not of that class. */
void *gd_instance(const variant *object, const char *class_name);

/* ---- classes ---- */

enum { MOST_ARGUMENTS = 4 };

typedef struct gd_argument {
    GDExtensionVariantType type;
    const char *name;
} gd_argument;

typedef struct gd_method {
    const char *name;
    variant (*call)(void *instance, const variant *const *args); /* types are as declared */
    GDExtensionVariantType result;                               /* NIL: none */
    uint32_t argument_count;
    gd_argument arguments[MOST_ARGUMENTS];
} gd_method;

typedef struct gd_property { /* a member of an instance's struct, with set_NAME and get_NAME */
    const char *name;
    GDExtensionVariantType type; /* BOOL: bool; INT: int64_t; FLOAT: double; STRING: char *; VECTOR2I: vector2i; OBJECT:
                                    variant */
    size_t offset;
    uint32_t hint; /* PropertyHint */
    const char *hint_string;
} gd_property;

typedef struct gd_signal {
    const char *name;
    uint32_t argument_count;
    gd_argument arguments[MOST_ARGUMENTS];
} gd_signal;

typedef struct gd_class {
    const char *name, *parent;
    bool counted; /* the parent is a RefCounted */
    bool hidden;  /* not among the classes that the editor offers */
    size_t size;  /* of an instance, which begins with a gd_instance_head */
    void (*begin)(void *instance);
    void (*end)(void *instance);     /* the object is no longer one of the parent's class */
    void (*changed)(void *instance); /* a property was set; may be NULL */
    void (*notification)(void *instance, int32_t what);
    const gd_method *methods;
    const gd_property *properties;
    const gd_signal *signals;
    uint32_t method_count, property_count, signal_count;
} gd_class;

typedef struct gd_instance_head {
    const gd_class *is;
    GDExtensionObjectPtr object;
} gd_instance_head;

void gd_register(const gd_class *c);
void gd_unregister(const gd_class *c);
#endif
