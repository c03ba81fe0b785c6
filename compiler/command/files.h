/* files.h - what the command line's parts share: complaints, memory, whole files. */
#ifndef TILEC_COMMAND_FILES_H
#define TILEC_COMMAND_FILES_H

#include <stdbool.h>
#include <stddef.h>

enum { EXIT_USER = 1, EXIT_BUG = 2 };

/* Prints "tilec: error: ... [E-NAME]" for a format that begins with "E-NAME: ", or [E-OPTION];
 * returns EXIT_USER. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says so, and ends the program. */
_Noreturn void out_of_memory(void);
/* Zeroed memory; the program ends when there is none. */
void *allocate(size_t bytes);
/* printf of two texts into memory of its own. */
char *text_printf(const char *format, const char *a, const char *b);
bool ends_with(const char *text, const char *end);

/* Reads a file, or standard input for "-"; NUL-terminated.  NULL with errno set. */
char *read_file(const char *path, size_t *n);
/* Writes a file, or standard output for "-".  It appears whole or not at all.  Complains; returns
 * the exit status. */
int write_file(const char *path, const char *text, size_t n);
/* Whether that may work at all, before there is anything to write: complains likewise.  NULL: there
 * is no file. */
int check_writable(const char *path);
/* A file of our own in /tmp with the text: fills in the end of `path`, "/tmp/tilec-XXXXXX".  False
 * with errno set. */
bool temporary_file(char *path, const char *text, size_t n);
bool file_is_there(const char *path);
bool same_file(const char *a, const char *b);
/* The folder that a file lies in. */
char *folder_of(const char *path);

#endif
