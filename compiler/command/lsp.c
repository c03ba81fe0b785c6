/* lsp.c - the language server: messages of the protocol in and out, what they ask for from
 * editor.h.
 *
 * A document is read anew at each change, whole.  Positions of the protocol count UTF-16 units in a
 * line.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "compiler/command/lsp.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/command/files.h"
#include "compiler/command/lsp_places.h"
#include "compiler/command/lsp_views.h"
#include "compiler/front/editor.h"

enum {
    BAD_REQUEST = -32600,
    NO_METHOD = -32601,
    BAD_PARAMS = -32602,
    NO_JSON = -32700,
    NOT_READY = -32002,
    MOST_BYTES = 1 << 26
};

typedef struct Document {
    struct Document *next;
    struct Server *server;
    char *uri, *path, *folder, *text;
    char **loaded; /* texts and paths of modules */
    size_t n_loaded;
    TilecOptions options;
    Editor *editor;
} Document;

typedef struct Server {
    Document *documents;
    const char **folders; /* -I, in order */
    size_t n_folders;
    /* a folder of ours with copies of the library's modules; NULL: none was asked for yet */
    char *library;
    char **copies;
    size_t n_copies;
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
    send(json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result",
                   result == NULL ? json_null() : result));
}

static void
refuse(json_t *id, int code, const char *why)
{
    send(json_pack("{s:s, s:O?, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error", "code", code,
                   "message", why));
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

static const char library_prefix[] = "<stdlib>/";

static bool
is_library(const SourceFile *file)
{
    return strncmp(file->path, library_prefix, strlen(library_prefix)) == 0;
}

/* A file that nobody else could have put there; NULL: it cannot be written. */
static const char *
copy_of(Server *server, const SourceFile *file)
{
    const char *folder = getenv("TMPDIR"), *name = file->path + strlen(library_prefix);

    if (server->library == NULL) {
        char *own = text_printf("%s/tilec-lsp-XXXXXX%s", folder != NULL ? folder : "/tmp", "");
        if (mkdtemp(own) == NULL) {
            free(own);
            return NULL;
        }
        server->library = own;
    }
    char *path = text_printf("%s/%s", server->library, name);
    for (size_t k = 0; k < server->n_copies; k++) {
        if (strcmp(server->copies[k], path) == 0) {
            free(path);
            return server->copies[k];
        }
    }
    server->copies = realloc(server->copies, (server->n_copies + 1) * sizeof *server->copies);
    if (server->copies == NULL)
        out_of_memory();
    server->copies[server->n_copies++] = path;
    return write_file(path, file->text, file->n) == 0 ? path : NULL;
}

static void
remove_copies(Server *server)
{
    for (size_t k = 0; k < server->n_copies; k++) {
        unlink(server->copies[k]);
        free(server->copies[k]);
    }
    if (server->library != NULL)
        rmdir(server->library);
    free(server->copies);
    free(server->library);
}

/* The library's modules have no file: editors get a copy.  NULL: there can be none. */
static char *
uri_of(Server *server, const SourceFile *file)
{
    const char *path = is_library(file) ? copy_of(server, file) : file->path;

    return path == NULL ? NULL : text_printf("file://%s%s", path, "");
}

static bool
import_module(void *user, const char *name, const char **path, const char **text, size_t *n)
{
    Document *document = user;
    const Server *server = document->server;
    char *full = NULL, *contents = NULL;

    for (size_t k = 0; contents == NULL && k <= server->n_folders; k++) {
        char *base = text_printf("%s/%s", k == 0 ? document->folder : server->folders[k - 1], name);
        free(full);
        full = text_printf("%s.tile%s", base, "");
        free(base);
        if (strcmp(full, document->path) != 0)
            contents = read_file(full, n);
    }
    if (contents == NULL) {
        free(full);
        return false;
    }
    document->loaded = realloc(document->loaded,
                               (document->n_loaded + 2) * sizeof *document->loaded);
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
    send(json_pack("{s:s, s:s, s:{s:s, s:o}}", "jsonrpc", "2.0", "method",
                   "textDocument/publishDiagnostics", "params", "uri", uri, "diagnostics",
                   messages));
}

/* Reads the text, and says what is wrong with it. */
static void
set_text(Document *document, const char *text)
{
    static const int severities[] = {
        [DIAG_ERROR] = 1, [DIAG_WARNING] = 2, [DIAG_REMARK] = 3, [DIAG_NOTE] = 3};
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
            json_array_append_new(messages,
                                  json_pack("{s:o, s:i, s:s*, s:s, s:s}", "range",
                                            lsp_range(editor->file, span), "severity",
                                            severities[message->kind], "code", message->name,
                                            "source", "tilec", "message", message->text));
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
        document->server = server;
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
    json_t *result = json_pack("{s:{s:s, s:s}, s:o}", "contents", "kind", "markdown", "value",
                               shown, "range", lsp_range(document->editor->file, use->span));
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
    char *uri = file == document->editor->file ? text_printf("%s%s", document->uri, "")
                                               : uri_of(document->server, file);
    if (uri == NULL)
        return NULL;
    json_t *result = json_pack("{s:s, s:o}", "uri", uri, "range", lsp_range(file, use->declared));
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
        json_array_append_new(list, json_pack("{s:s, s:s, s:i}", "label", names.at[k].name,
                                              "detail", names.at[k].what, "kind",
                                              strcmp(names.at[k].what, "keyword") == 0 ? 14
                                              : strstr(names.at[k].what, "function")   ? 3
                                                                                       : 6));
    }
    json_decref(items);
    return list;
}

/* The places where `document` and its modules have the name that is declared at `at` of the file
 * `path`, by file; with a new name for it, as edits. */
static json_t *
edits_of(const Document *document, const char *path, uint32_t at, const char *name)
{
    const Editor *editor = document->editor;
    json_t *changes = json_object();

    for (uint32_t k = 0; k < editor->uses.n; k++) {
        const NameUse *use = &editor->uses.at[k];
        const SourceFile *declared = file_of(editor, use->declared.lo),
                         *file = file_of(editor, use->span.lo);
        if (declared == NULL || file == NULL || strcmp(declared->path, path) != 0 ||
            use->declared.lo - declared->base != at)
            continue;
        char *uri = file == editor->file ? text_printf("%s%s", document->uri, "")
                                         : text_printf("file://%s%s", file->path, "");
        if (json_object_get(changes, uri) == NULL)
            json_object_set_new(changes, uri, json_array());
        json_array_append_new(
            json_object_get(changes, uri),
            json_pack("{s:o, s:s*}", "range", lsp_range(file, use->span), "newText", name));
        free(uri);
    }
    return changes;
}

/* The same of all documents. */
static json_t *
edits_of_all(const Document *document, const NameUse *use, const char *name)
{
    const SourceFile *file = file_of(document->editor, use->declared.lo);
    uint32_t at = use->declared.lo - file->base;
    json_t *changes = edits_of(document, file->path, at, name);

    for (const Document *other = document->server->documents; other != NULL; other = other->next) {
        json_t *more = other == document ? NULL : edits_of(other, file->path, at, name);
        /* a file that several of them use is changed once */
        json_object_update_missing(changes, more);
        json_decref(more);
    }
    return changes;
}

static json_t *
rename_name(Document *document, const NameUse *use, uint32_t offset, const json_t *params)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const Editor *editor = document->editor;
    const char *name = json_string_value(json_object_get(params, "newName"));

    (void)offset;
    if (use == NULL || use->declared.lo == 0 || is_library(file_of(editor, use->declared.lo)) ||
        name == NULL || name[0] == '\0' || strspn(name, letters) != strlen(name) ||
        strspn(name, "0123456789") > 0)
        return NULL;
    return json_pack("{s:o}", "changes", edits_of_all(document, use, name));
}

/* Also of names of the library, in what the documents are: its own modules have no files. */
static json_t *
references(Document *document, const NameUse *use, uint32_t offset, const json_t *params)
{
    const Editor *editor = document->editor;
    bool declaration = json_is_true(
        json_object_get(json_object_get(params, "context"), "includeDeclaration"));

    (void)offset;
    if (use == NULL || use->declared.lo == 0)
        return NULL;
    json_t *found = edits_of_all(document, use, NULL), *list = json_array(), *places, *place;
    const SourceFile *file = file_of(editor, use->declared.lo);
    json_t *own = lsp_range(file, use->declared);
    char *declared = file == editor->file ? text_printf("%s%s", document->uri, "")
                                          : text_printf("file://%s%s", file->path, "");
    const char *uri;
    size_t k;
    json_object_foreach(found, uri, places)
    {
        json_array_foreach(places, k, place)
        {
            json_t *at = json_object_get(place, "range");
            bool itself = strcmp(uri, declared) == 0 && json_equal(at, own);
            bool in_library = strncmp(uri, "file://<", strlen("file://<")) == 0;
            if ((declaration || !itself) && !in_library)
                json_array_append_new(list, json_pack("{s:s, s:O}", "uri", uri, "range", at));
        }
    }
    free(declared);
    json_decref(own);
    json_decref(found);
    return list;
}

static json_t *
highlights(Document *document, const NameUse *use, uint32_t offset, const json_t *params)
{
    (void)offset;
    (void)params;
    return use == NULL ? NULL : lsp_highlights(document->editor, use);
}

static json_t *
symbols(Document *document, const NameUse *use, uint32_t offset, const json_t *params)
{
    (void)use;
    (void)offset;
    (void)params;
    return lsp_symbols(document->editor);
}

static json_t *
signature(Document *document, const NameUse *use, uint32_t offset, const json_t *params)
{
    (void)use;
    (void)params;
    return lsp_signature(document->editor, offset);
}

static json_t *
semantic_tokens(Document *document, const NameUse *use, uint32_t offset, const json_t *params)
{
    (void)use;
    (void)offset;
    (void)params;
    return lsp_tokens(document->editor);
}

static json_t *
mends(Document *document, const NameUse *use, uint32_t offset, const json_t *params)
{
    const json_t *asked = json_object_get(params, "range");
    const SourceFile *file = document->editor->file;
    Span between = {0};

    (void)use;
    (void)offset;
    if (!lsp_offset(file, json_object_get(asked, "start"), &between.lo) ||
        !lsp_offset(file, json_object_get(asked, "end"), &between.hi))
        return NULL;
    return lsp_mends(document->editor, document->uri, between);
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
        result = json_pack("[{s:o, s:s}]", "range",
                           lsp_range(file, (Span){file->base, file->base + file->n}), "newText",
                           laid_out.output);
    tilec_result_free(&laid_out);
    return result;
}

/* ---- the table of methods ---- */

static const struct Method {
    const char *name;
    bool at_place;
    json_t *(*run)(Document *document, const NameUse *use, uint32_t offset, const json_t *params);
} methods[] = {
    {"textDocument/hover", true, hover},
    {"textDocument/definition", true, definition},
    {"textDocument/completion", true, completion},
    {"textDocument/rename", true, rename_name},
    {"textDocument/formatting", false, formatting},
    {"textDocument/references", true, references},
    {"textDocument/documentHighlight", true, highlights},
    {"textDocument/documentSymbol", false, symbols},
    {"textDocument/signatureHelp", true, signature},
    {"textDocument/semanticTokens/full", false, semantic_tokens},
    {"textDocument/codeAction", false, mends},
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
        if (document == NULL ||
            (methods[k].at_place &&
             !lsp_offset(document->editor->file, json_object_get(params, "position"), &offset))) {
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
    const char *text = json_string_value(
        json_object_get(json_object_get(params, "textDocument"), "text"));

    if (strcmp(method, "exit") == 0)
        server->over = true;
    if (uri == NULL)
        return;
    if (strcmp(method, "textDocument/didOpen") == 0 && text != NULL)
        open_document(server, uri, text);
    if (strcmp(method, "textDocument/didChange") == 0 && json_array_size(changes) > 0)
        text = json_string_value(
            json_object_get(json_array_get(changes, json_array_size(changes) - 1), "text"));
    if (strcmp(method, "textDocument/didChange") == 0 && text != NULL &&
        find_document(server, uri) != NULL)
        open_document(server, uri, text);
    if (strcmp(method, "textDocument/didClose") == 0) {
        close_document(server, uri);
        publish(uri, json_array());
    }
}

static json_t *
initialized(void)
{
    json_t *can = json_pack("{s:i, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:{}}", "textDocumentSync", 1,
                            "hoverProvider", 1, "definitionProvider", 1, "renameProvider", 1,
                            "documentFormattingProvider", 1, "referencesProvider", 1,
                            "documentHighlightProvider", 1, "documentSymbolProvider", 1,
                            "completionProvider");

    json_object_set_new(
        can, "signatureHelpProvider",
        json_pack("{s:[s, s], s:[s]}", "triggerCharacters", "(", ",", "retriggerCharacters", ","));
    json_object_set_new(can, "codeActionProvider",
                        json_pack("{s:[s]}", "codeActionKinds", "quickfix"));
    json_object_set_new(can, "semanticTokensProvider",
                        json_pack("{s:o, s:b}", "legend", lsp_token_legend(), "full", 1));
    return json_pack("{s:o, s:{s:s, s:s}}", "capabilities", can, "serverInfo", "name", "tilec",
                     "version", TILEC_VERSION);
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
        answer(id, initialized());
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

/* -I FOLDER or -IFOLDER. */
static int
read_folders(Server *server, int argc, char **argv)
{
    server->folders = allocate(sizeof *server->folders * ((size_t)argc + 1));
    for (int k = 0; k < argc; k++) {
        const char *folder = strncmp(argv[k], "-I", 2) != 0 ? NULL
                             : argv[k][2] != '\0'           ? argv[k] + 2
                                                            : argv[++k];
        if (folder == NULL)
            return complain("tilec lsp takes -I FOLDER, and nothing else");
        server->folders[server->n_folders++] = folder;
    }
    return 0;
}

int
lsp_serve(int argc, char **argv)
{
    Server server = {0};
    char *text;
    size_t n;

    if (read_folders(&server, argc, argv) != 0) {
        free(server.folders);
        return EXIT_USER;
    }
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
    remove_copies(&server);
    free(server.folders);
    return server.over && server.shut_down ? 0 : 1;
}
