/* explain.h - `tilec explain`: what an error means. */
#ifndef TILEC_COMMAND_EXPLAIN_H
#define TILEC_COMMAND_EXPLAIN_H

/* Explains the errors of these names, or lists all; returns the exit status. */
int explain(int argc, char **argv);

#endif
