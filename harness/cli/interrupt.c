/* One flag: a handler can reach nothing else. */
#include "cli/interrupt.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"

static volatile sig_atomic_t interrupted;

static void handle(int signal_number)
{
    (void)signal_number;
    if (interrupted)
        _exit(SB_EXIT_INTERRUPTED);
    interrupted = 1;
}

int sb_interrupt_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGINT, &action, NULL) || sigaction(SIGTERM, &action, NULL) ? -1 : 0;
}

int sb_interrupted(void)
{
    return interrupted != 0;
}
