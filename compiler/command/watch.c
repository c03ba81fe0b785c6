/* watch.c - the loop of `tilec watch`.
 *
 * Files are asked for their times a few times a second, which needs nothing of the file system.  A
 * page in a browser can not read files beside it, but it may load them as scripts: PAGE.js says
 * which page is the latest (by its digest) and what was wrong since, and the page asks for that
 * script again and again.
 */
#define _POSIX_C_SOURCE 200809L /* sigtimedwait, st_mtim */
#include "compiler/command/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "compiler/command/files.h"

enum { WAIT_NS = 150 * 1000 * 1000, SETTLE_NS = 40 * 1000 * 1000 };

/* What a file was when it was looked at. */
typedef struct Stamp {
    bool there;
    struct timespec changed;
    off_t bytes;
    ino_t node;
} Stamp;

typedef struct WatchedFile {
    char *path;
    Stamp was;
} WatchedFile;

static Stamp
stamp_of(const char *path)
{
    struct stat about;

    if (stat(path, &about) != 0)
        return (Stamp){0};
    return (Stamp){true, about.st_mtim, about.st_size, about.st_ino};
}

static bool
same_stamp(const Stamp *a, const Stamp *b)
{
    return a->there == b->there && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec && a->bytes == b->bytes && a->node == b->node;
}

void
watch_saw(WatchRound *round, const char *path)
{
    if (round == NULL)
        return;
    for (size_t k = 0; k < round->n; k++)
        if (strcmp(round->files[k].path, path) == 0)
            return;
    WatchedFile *files = realloc(round->files, (round->n + 1) * sizeof *files);
    if (files == NULL)
        out_of_memory();
    round->files = files;
    files[round->n++] = (WatchedFile){text_printf("%s%s", path, ""), stamp_of(path)};
}

static void
free_round(WatchRound *round)
{
    for (size_t k = 0; k < round->n; k++)
        free(round->files[k].path);
    free(round->files);
    free(round->page);
    free(round->messages);
}

/* ---- the page ---- */

static const char asks[] =
    "<script>\n"
    "(()=>{const own='%016" PRIx64 "',name=location.pathname.split('/').pop()+'.js';\n"
    "const box=document.createElement('pre');box.id='watched';box.hidden=true;\n"
    "box.style.cssText='position:fixed;left:0;right:0;bottom:0;max-height:50vh;overflow:auto;margin:0;padding:1em;"
    "background:#fff0f0;border-top:3px solid #b00020;font:12px/1.4 monospace';\n"
    "document.body.append(box);\n"
    "window.tilecWatch=(latest,messages)=>{box.hidden=messages==='';box.textContent=messages;\n"
    " if(latest!==own)location.reload()};\n"
    "const ask=()=>{const script=document.createElement('script');script.charset='utf-8';script.src=name+'?'+Date.now();\n"
    " script.onload=script.onerror=()=>{script.remove();setTimeout(ask,400)};document.head.append(script)};\n"
    "ask()})();\n"
    "</script>\n</body></html>\n";

/* FNV-1a, of 64 bits. */
static uint64_t
digest_of(const char *text, size_t n)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t k = 0; k < n; k++)
        hash = (hash ^ (unsigned char)text[k]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Puts the script that asks for others at the end of a page. */
static uint64_t
write_page(const char *path, const char *text, size_t n)
{
    const char *end = strstr(text, "</body></html>");
    size_t body = end == NULL ? n : (size_t)(end - text), room = body + sizeof asks + 32;
    uint64_t digest = digest_of(text, n);
    char *page = allocate(room);

    memcpy(page, text, body);
    int more = snprintf(page + body, room - body, asks, digest);
    write_file(path, page, body + (size_t)more);
    free(page);
    return digest;
}

/* PAGE.js: the latest page, and what is wrong with what was saved since. */
static void
write_script(const char *page, uint64_t digest, const char *messages)
{
    char *path = text_printf("%s%s", page, ".js");
    char *text = allocate(6 * strlen(messages) + 64), *to = text;

    to += sprintf(to, "tilecWatch('%016" PRIx64 "',\"", digest);
    for (const char *c = messages; *c != '\0'; c++) {
        bool plain = (unsigned char)*c >= ' ' && *c != '"' && *c != '\\';
        to += plain ? (*to = *c, 1) : sprintf(to, "\\u%04x", (unsigned char)*c);
    }
    to += sprintf(to, "\");\n");
    write_file(path, text, (size_t)(to - text));
    free(text);
    free(path);
}

/* The page of this round, or, if it failed, the last one with what is wrong. */
static uint64_t
keep_page(const WatchRound *round, uint64_t latest)
{
    static const char none[] =
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>tilec watch</title></head>"
        "<body><p>There is no page yet.</p>\n</body></html>\n";
    size_t n;
    char *text = round->status == 0 ? read_file(round->page, &n) : NULL;

    if (text != NULL)
        latest = write_page(round->page, text, n);
    else if (latest == 0)
        latest = write_page(round->page, none, strlen(none));
    free(text);
    bool bare = round->status != 0 && (round->messages == NULL || round->messages[0] == '\0');
    write_script(round->page, latest,
                 round->status == 0 ? ""
                 : bare             ? "There were errors, which the terminal has."
                                    : round->messages);
    return latest;
}

/* ---- the loop ---- */

static double
seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Sleeps; false: a signal of the set has come. */
static bool
sleep_on(const sigset_t *ends, long nanoseconds)
{
    struct timespec time = {0, nanoseconds};
    int signal;

    do
        signal = sigtimedwait(ends, NULL, &time);
    while (signal < 0 && errno == EINTR);
    return signal < 0;
}

/* Until some file is another one, and stays as it is for a moment: editors write in several steps.
 * False: to end. */
static bool
wait_for_change(const WatchRound *round, const sigset_t *ends)
{
    for (;;) {
        if (!sleep_on(ends, WAIT_NS))
            return false;
        for (size_t k = 0; k < round->n; k++) {
            const WatchedFile *file = &round->files[k];
            Stamp now = stamp_of(file->path), before;
            if (same_stamp(&now, &file->was))
                continue;
            do {
                before = now;
                if (!sleep_on(ends, SETTLE_NS))
                    return false;
                now = stamp_of(file->path);
            } while (!same_stamp(&now, &before));
            return true;
        }
    }
}

int
watch_files(void (*compile)(void *user, WatchRound *round), void *user, const char *input)
{
    uint64_t latest = 0;
    sigset_t ends, before;
    bool go_on = true;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    while (go_on) {
        WatchRound round = {0};
        double begin = seconds();
        watch_saw(&round, input); /* what is saved while it compiles is another round */
        compile(user, &round);
        /* from here on no signal ends the program between two files */
        sigprocmask(SIG_BLOCK, &ends, &before);
        if (round.page != NULL)
            latest = keep_page(&round, latest);
        fprintf(stderr, "tilec watch: %s: %s, %.2f s%s%s; waiting for changes\n", input,
                round.status == 0 ? "compiled" : "errors", seconds() - begin,
                round.page != NULL ? ", " : "", round.page != NULL ? round.page : "");
        fflush(stdout);
        go_on = wait_for_change(&round, &ends);
        if (!go_on && round.page != NULL) {
            char *script = text_printf("%s%s", round.page, ".js");
            unlink(script);
            free(script);
        }
        sigprocmask(SIG_SETMASK, &before, NULL);
        free_round(&round);
    }
    return 0;
}
