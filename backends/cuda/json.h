/* json.h - reads JSON text into a tree on an arena. */
#ifndef TILEC_CUDA_JSON_H
#define TILEC_CUDA_JSON_H

#include <stdbool.h>

#include "compiler/base/arena.h"

typedef enum JsonKind {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_TEXT,
    JSON_LIST,
    JSON_OBJECT
} JsonKind;

typedef struct Json {
    JsonKind kind;
    const char *key;    /* when it is a member of an object */
    const char *text;   /* JSON_TEXT */
    double number;      /* JSON_NUMBER; JSON_BOOL: 0 or 1 */
    struct Json *first; /* JSON_LIST, JSON_OBJECT: its members */
    struct Json *next;  /* the next member of the list or object that this one is in */
} Json;

/* NULL when the text is not JSON. */
const Json *json_read(Arena *arena, const char *text);

/* The member of an object; NULL when there is none, or `object` is none. */
const Json *json_get(const Json *object, const char *key);

#define json_each(item, list)                                                                      \
    for (const Json *item = (list) ? (list)->first : NULL; item; item = item->next)

#endif
