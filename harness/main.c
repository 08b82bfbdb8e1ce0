/* sparge-bench: finds the command, hands it its arguments, and makes sure that what it printed has arrived. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/commands.h"
#include "help/help.h"
#include "sparge/sparge.h"
#include "suggest.h"

static int fail_unknown(const char *name)
{
    const char *best = NULL;
    for (size_t i = 0; i < sb_command_count; i++)
        if (!sb_commands[i]->hidden)
            best = sb_nearer(name, best, sb_commands[i]->name);
    if (best)
        return sb_fail(SB_EXIT_USAGE, "unknown command '%s'; did you mean '%s'?", name, best);
    return sb_fail(SB_EXIT_USAGE, "unknown command '%s'; 'sparge-bench --help' lists the commands", name);
}

static int run(int argc, char **argv)
{
    if (argc < 2)
        return sb_fail(SB_EXIT_USAGE, "no command given; 'sparge-bench --help' lists the commands");
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        sb_help_overview(sb_help_width(stdout), stdout);
        return SB_EXIT_OK;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("sparge-bench %s\n", sparge_version());
        return SB_EXIT_OK;
    }
    if (name[0] == '-')
        return sb_fail(SB_EXIT_USAGE, "unknown option '%s' before the command; only --help and --version stand there",
                       name);
    const sb_command *command = sb_command_find(name);
    if (!command)
        return fail_unknown(name);
    int code;
    sb_arguments *arguments = sb_arguments_parse(command, argc - 2, argv + 2, &code);
    if (arguments)
        code = command->run(command, arguments);
    sb_arguments_destroy(arguments);
    return code;
}

/* A file opened while a standard stream is closed would take its number, and then what is printed. Their places are held
 * by files that cannot be used in the stream's direction: reading and writing still fail as on a closed one. */
static void hold_standard_streams(void)
{
    for (int stream = 0; stream <= 2; stream++)
        if (fcntl(stream, F_GETFD) == -1 && open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY) != stream)
            return; /* no /dev/null: nothing to be done */
}

/* OpenMP threads that spin at a barrier take the cores from those they wait for as soon as anything else runs on the
 * machine: with two threads under load, a stage of 2 ms took 25. The runtime reads its policy before main, so the program
 * starts itself again with it. A policy that the user gave stands. */
static void restart_with_passive_waiting(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || setenv("OMP_WAIT_POLICY", "passive", 1) != 0)
        return;
    execv("/proc/self/exe", argv); /* returns only if it failed: then go on as we are */
}

int main(int argc, char **argv)
{
    restart_with_passive_waiting(argv);
    hold_standard_streams();
    /* A reader that goes away (`| head`) ends the program quietly, also where the parent ignores the signal. */
    signal(SIGPIPE, SIG_DFL);
    int code = run(argc, argv);
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == SB_EXIT_OK)
        code = sb_fail(SB_EXIT_ENVIRONMENT, "cannot write to standard output: %s",
                       errno ? strerror(errno) : "an earlier write failed");
    return code;
}
