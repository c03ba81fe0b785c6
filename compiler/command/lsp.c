/* lsp.c - the language server: messages of the protocol in and out, what they ask for from editor.h.
 *
 * A document is read anew at each change, whole.  Positions of the protocol count UTF-16 units in a line.
 */
#include "compiler/command/lsp.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/command/files.h"
#include "compiler/front/editor.h"

enum { BAD_REQUEST = -32600, NO_METHOD = -32601, BAD_PARAMS = -32602, NO_JSON = -32700, NOT_READY = -32002, MOST_BYTES = 1 << 26 };

typedef struct Document {
    struct Document *next;
    char *uri, *path, *folder, *text;
    char **loaded; /* texts and paths of modules */
    size_t n_loaded;
    TilecOptions options;
    Editor *editor;
} Document;

typedef struct Server {
    Document *documents;
    bool ready, shut_down, over;
} Server;

/* ---- messages ---- */

static void
send(json_t *message)
{
    char *text = json_dumps(message, JSON_COMPACT);

    if (text == NULL)
        out_of_memory();
    printf("Content-Length: %zu\r\n\r\n%s", strlen(text), text);
    fflush(stdout);
    free(text);
    json_decref(message);
}

static void
answer(json_t *id, json_t *result)
{
    send(json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result == NULL ? json_null() : result));
}

static void
refuse(json_t *id, int code, const char *why)
{
    send(json_pack("{s:s, s:O?, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error", "code", code, "message", why));
}

/* One message, which the caller frees; NULL: there are no more. */
static char *
receive(size_t *n)
{
    char line[512], *end;
    unsigned long length = 0;

    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strncmp(line, "Content-Length:", 15) == 0)
            length = strtoul(line + 15, &end, 10);
        if (strcmp(line, "\r\n") != 0 && strcmp(line, "\n") != 0)
            continue;
        if (length == 0)
            continue;
        if (length > MOST_BYTES)
            return NULL;
        char *text = allocate(length + 1);
        *n = fread(text, 1, length, stdin);
        if (*n == length)
            return text;
        free(text);
        return NULL;
    }
    return NULL;
}

/* ---- places ---- */

static size_t
units_of(unsigned char first)
{
    return first >= 0xf0 ? 2 : (first & 0xc0) != 0x80;
}

/* A place of a file as the protocol has it. */
static json_t *
position(const SourceFile *file, uint32_t offset)
{
    uint32_t end = offset - file->base, line = 0;
    size_t column = 0;

    for (uint32_t k = 0; k < end && k < file->n; k++) {
        column = file->text[k] == '\n' ? 0 : column + units_of((unsigned char)file->text[k]);
        line += file->text[k] == '\n';
    }
    return json_pack("{s:i, s:i}", "line", (int)line, "character", (int)column);
}

static json_t *
range(const SourceFile *file, Span span)
{
    return json_pack("{s:o, s:o}", "start", position(file, span.lo), "end", position(file, span.hi));
}

/* The offset that a position of a request means. */
static bool
offset_of(const SourceFile *file, const json_t *params, uint32_t *offset)
{
    json_int_t line, column;
    uint32_t k = 0;

    if (json_unpack((json_t *)params, "{s:{s:I, s:I}}", "position", "line", &line, "character", &column) != 0 || line < 0 || column < 0)
        return false;
    for (; line > 0 && k < file->n; k++)
        line -= file->text[k] == '\n';
    while (column > 0 && k < file->n && file->text[k] != '\n')
        column -= (json_int_t)units_of((unsigned char)file->text[k++]);
    while (k < file->n && ((unsigned char)file->text[k] & 0xc0) == 0x80)
        k++;
    *offset = file->base + k;
    return true;
}

static const SourceFile *
file_of(const Editor *editor, uint32_t offset)
{
    return diag_place(&editor->diag, offset).file;
}

/* ---- documents ---- */

/* The path of a file:// name; other names stay. */
static char *
path_of(const char *uri)
{
    const char *from = strncmp(uri, "file://", 7) == 0 ? uri + 7 : uri;
    char *path = text_printf("%s%s", from, ""), *to = path, code[3] = "";

    for (from = path; *from != '\0'; from++) {
        bool coded = *from == '%' && strspn(from + 1, "0123456789abcdefABCDEF") >= 2;
        if (coded)
            memcpy(code, from + 1, 2);
        *to++ = coded ? (char)strtol(code, NULL, 16) : *from;
        from += coded ? 2 : 0;
    }
    *to = '\0';
    return path;
}

/* The library's modules have no file: editors get a copy. */
static char *
uri_of(const SourceFile *file)
{
    const char *folder = getenv("TMPDIR"), *prefix = "<stdlib>/";

    if (strncmp(file->path, prefix, strlen(prefix)) != 0)
        return text_printf("file://%s%s", file->path, "");
    char *path = text_printf("%s/tilec-" TILEC_VERSION "-%s", folder != NULL ? folder : "/tmp", file->path + strlen(prefix));
    if (!file_is_there(path))
        write_file(path, file->text, file->n);
    char *uri = text_printf("file://%s%s", path, "");
    free(path);
    return uri;
}

static bool
import_module(void *user, const char *name, const char **path, const char **text, size_t *n)
{
    Document *document = user;
    char *base = text_printf("%s/%s", document->folder, name), *full = text_printf("%s.tile%s", base, "");
    char *contents = strcmp(full, document->path) == 0 ? NULL : read_file(full, n);

    free(base);
    if (contents == NULL) {
        free(full);
        return false;
    }
    document->loaded = realloc(document->loaded, (document->n_loaded + 2) * sizeof *document->loaded);
    if (document->loaded == NULL)
        out_of_memory();
    document->loaded[document->n_loaded++] = full;
    document->loaded[document->n_loaded++] = contents;
    *path = full;
    *text = contents;
    return true;
}

static void
forget(Document *document)
{
    editor_close(document->editor);
    document->editor = NULL;
    for (size_t k = 0; k < document->n_loaded; k++)
        free(document->loaded[k]);
    document->n_loaded = 0;
    free(document->text);
    document->text = NULL;
}

static Document *
find_document(Server *server, const char *uri)
{
    for (Document *document = server->documents; document != NULL; document = document->next)
        if (strcmp(document->uri, uri) == 0)
            return document;
    return NULL;
}

static void
publish(const char *uri, json_t *messages)
{
    send(json_pack("{s:s, s:s, s:{s:s, s:o}}", "jsonrpc", "2.0", "method", "textDocument/publishDiagnostics", "params", "uri",
                   uri, "diagnostics", messages));
}

/* Reads the text, and says what is wrong with it. */
static void
set_text(Document *document, const char *text)
{
    static const int severities[] = {[DIAG_ERROR] = 1, [DIAG_WARNING] = 2, [DIAG_REMARK] = 3, [DIAG_NOTE] = 3};
    json_t *messages = json_array();

    forget(document);
    document->text = text_printf("%s%s", text, "");
    document->editor = editor_open(&document->options, document->path, text, strlen(text));
    if (document->editor == NULL || document->editor->failed)
        out_of_memory();
    const Editor *editor = document->editor;
    for (uint32_t k = 0; k < editor->diag.messages.n; k++) {
        const DiagMessage *message = &editor->diag.messages.at[k];
        bool here = file_of(editor, message->span.lo) == editor->file;
        Span span = here ? message->span : (Span){editor->file->base, editor->file->base};
        if (here || message->kind == DIAG_ERROR)
            json_array_append_new(messages, json_pack("{s:o, s:i, s:s*, s:s, s:s}", "range", range(editor->file, span), "severity",
                                                      severities[message->kind], "code", message->name, "source", "tilec",
                                                      "message", message->text));
    }
    publish(document->uri, messages);
}

static void
open_document(Server *server, const char *uri, const char *text)
{
    Document *document = find_document(server, uri);

    if (document == NULL) {
        document = allocate(sizeof *document);
        document->next = server->documents;
        document->uri = text_printf("%s%s", uri, "");
        document->path = path_of(uri);
        document->folder = folder_of(document->path);
        document->options = tilec_default_options();
        document->options.import = import_module;
        document->options.import_user = document;
        server->documents = document;
    }
    set_text(document, text);
}

static void
close_document(Server *server, const char *uri)
{
    for (Document **at = &server->documents; *at != NULL; at = &(*at)->next) {
        Document *document = *at;
        if (strcmp(document->uri, uri) != 0)
            continue;
        *at = document->next;
        forget(document);
        free(document->loaded);
        free(document->uri);
        free(document->path);
        free(document->folder);
        free(document);
        return;
    }
}

/* ---- requests about a place ---- */

static json_t *
hover(Document *document, const NameUse *use, uint32_t offset, const json_t *params)
{
    const char *about = use == NULL ? NULL : editor_about(document->editor, use);

    (void)offset;
    (void)params;
    if (about == NULL)
        return NULL;
    char *shown = text_printf("```tile\n%s\n```%s", about, "");
    json_t *result = json_pack("{s:{s:s, s:s}, s:o}", "contents", "kind", "markdown", "value", shown, "range",
                               range(document->editor->file, use->span));
    free(shown);
    return result;
}

static json_t *
definition(Document *document, const NameUse *use, uint32_t offset, const json_t *params)
{
    (void)offset;
    (void)params;
    if (use == NULL || use->declared.lo == 0)
        return NULL;
    const SourceFile *file = file_of(document->editor, use->declared.lo);
    char *uri = file == document->editor->file ? text_printf("%s%s", document->uri, "") : uri_of(file);
    json_t *result = json_pack("{s:s, s:o}", "uri", uri, "range", range(file, use->declared));
    free(uri);
    return result;
}

static json_t *
completion(Document *document, const NameUse *use, uint32_t offset, const json_t *params)
{
    EditorNameList names = editor_names(document->editor, offset);
    json_t *items = json_object(), *list = json_array();

    (void)use;
    (void)params;
    for (uint32_t k = 0; k < names.n; k++) { /* each name once */
        if (json_object_get(items, names.at[k].name) != NULL)
            continue;
        json_object_set_new(items, names.at[k].name, json_true());
        json_array_append_new(list, json_pack("{s:s, s:s, s:i}", "label", names.at[k].name, "detail", names.at[k].what, "kind",
                                              strcmp(names.at[k].what, "keyword") == 0 ? 14 : strstr(names.at[k].what, "function") ? 3 : 6));
    }
    json_decref(items);
    return list;
}

static json_t *
rename_name(Document *document, const NameUse *use, uint32_t offset, const json_t *params)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const Editor *editor = document->editor;
    const char *name = json_string_value(json_object_get(params, "newName"));

    (void)offset;
    if (use == NULL || use->declared.lo == 0 || file_of(editor, use->declared.lo) != editor->file || name == NULL ||
        name[0] == '\0' || strspn(name, letters) != strlen(name) || strspn(name, "0123456789") > 0)
        return NULL;
    json_t *edits = json_array();
    for (uint32_t k = 0; k < editor->uses.n; k++)
        if (editor->uses.at[k].declared.lo == use->declared.lo)
            json_array_append_new(edits, json_pack("{s:o, s:s}", "range", range(editor->file, editor->uses.at[k].span), "newText", name));
    return json_pack("{s:{s:o}}", "changes", document->uri, edits);
}

static json_t *
formatting(Document *document, const NameUse *use, uint32_t offset, const json_t *params)
{
    const SourceFile *file = document->editor->file;
    TilecOptions options = tilec_default_options();
    TilecResult laid_out;
    json_t *result = NULL;

    (void)use;
    (void)offset;
    (void)params;
    options.emit = TILEC_EMIT_FORMATTED;
    if (tilec_compile(&options, document->path, file->text, file->n, &laid_out) == TILEC_OK)
        result = json_pack("[{s:o, s:s}]", "range", range(file, (Span){file->base, file->base + file->n}), "newText", laid_out.output);
    tilec_result_free(&laid_out);
    return result;
}

/* ---- the table of methods ---- */

static const struct Method {
    const char *name;
    bool at_place;
    json_t *(*run)(Document *document, const NameUse *use, uint32_t offset, const json_t *params);
} methods[] = {
    {"textDocument/hover", true, hover},           {"textDocument/definition", true, definition},
    {"textDocument/completion", true, completion}, {"textDocument/rename", true, rename_name},
    {"textDocument/formatting", false, formatting},
};

static const char *
uri_in(const json_t *params)
{
    return json_string_value(json_object_get(json_object_get(params, "textDocument"), "uri"));
}

static void
request(Server *server, json_t *id, const char *method, const json_t *params)
{
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        const char *uri = uri_in(params);
        uint32_t offset = 0;
        if (strcmp(methods[k].name, method) != 0)
            continue;
        Document *document = uri == NULL ? NULL : find_document(server, uri);
        if (document == NULL || (methods[k].at_place && !offset_of(document->editor->file, params, &offset))) {
            refuse(id, BAD_PARAMS, "no such document or place");
            return;
        }
        answer(id, methods[k].run(document, editor_use(document->editor, offset), offset, params));
        return;
    }
    refuse(id, NO_METHOD, "no such method");
}

static void
notification(Server *server, const char *method, const json_t *params)
{
    const char *uri = uri_in(params);
    const json_t *changes = json_object_get(params, "contentChanges");
    const char *text = json_string_value(json_object_get(json_object_get(params, "textDocument"), "text"));

    if (strcmp(method, "exit") == 0)
        server->over = true;
    if (uri == NULL)
        return;
    if (strcmp(method, "textDocument/didOpen") == 0 && text != NULL)
        open_document(server, uri, text);
    if (strcmp(method, "textDocument/didChange") == 0 && json_array_size(changes) > 0)
        text = json_string_value(json_object_get(json_array_get(changes, json_array_size(changes) - 1), "text"));
    if (strcmp(method, "textDocument/didChange") == 0 && text != NULL && find_document(server, uri) != NULL)
        open_document(server, uri, text);
    if (strcmp(method, "textDocument/didClose") == 0) {
        close_document(server, uri);
        publish(uri, json_array());
    }
}

static void
handle(Server *server, json_t *message)
{
    json_t *id = json_object_get(message, "id"), *params = json_object_get(message, "params");
    const char *method = json_string_value(json_object_get(message, "method"));

    if (method == NULL) {
        if (json_object_get(message, "result") == NULL)
            refuse(id, BAD_REQUEST, "a message has a method");
    } else if (id == NULL) {
        notification(server, method, params);
    } else if (strcmp(method, "initialize") == 0) {
        server->ready = true;
        answer(id, json_pack("{s:{s:i, s:b, s:b, s:b, s:b, s:{}}, s:{s:s, s:s}}", "capabilities", "textDocumentSync", 1,
                             "hoverProvider", 1, "definitionProvider", 1, "renameProvider", 1, "documentFormattingProvider", 1,
                             "completionProvider", "serverInfo", "name", "tilec", "version", TILEC_VERSION));
    } else if (!server->ready) {
        refuse(id, NOT_READY, "initialize comes first");
    } else if (server->shut_down) {
        refuse(id, BAD_REQUEST, "the server is shut down");
    } else if (strcmp(method, "shutdown") == 0) {
        server->shut_down = true;
        answer(id, NULL);
    } else {
        request(server, id, method, params);
    }
}

int
lsp_serve(void)
{
    Server server = {0};
    char *text;
    size_t n;

    while (!server.over && (text = receive(&n)) != NULL) {
        json_t *message = json_loadb(text, n, 0, NULL);
        free(text);
        if (message == NULL)
            refuse(NULL, NO_JSON, "this is no JSON");
        else
            handle(&server, message);
        json_decref(message);
    }
    while (server.documents != NULL)
        close_document(&server, server.documents->uri);
    return server.over && server.shut_down ? 0 : 1;
}
