/* Ctrl-C: the first SIGINT (or SIGTERM) asks the program to end in order, the second ends it at once with exit code 130. */
#ifndef HARNESS_INTERRUPT_H
#define HARNESS_INTERRUPT_H

/* Handles both signals from now on. 0, or -1 with errno. */
int sb_interrupt_install(void);

/* Non-zero after the first signal. */
int sb_interrupted(void);

#endif
