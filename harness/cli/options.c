/* The command-line parser: walks argv once, resolves each option in the command's table and keeps pointers into argv.
 *
 * Every mistake is one line that names the argument as the user wrote it. */
#include "cli/options.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"
#include "help/help.h"
#include "suggest.h"

typedef struct given_option {
    const sb_option *option;
    const char *value; /* "" for a flag */
} given_option;

struct sb_arguments {
    const sb_command *command;
    given_option *given; /* in the order of the command line */
    size_t given_count;
    const char **operand;
    size_t operand_count;
    char *line; /* sb_command_line */
};

int sb_fail(int exit_code, const char *format, ...)
{
    char text[4096], end[1024];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (length >= (int)sizeof text) {
        /* Longer than a person reads: the middle is left out, for what is wrong stands behind the value. */
        char *whole = malloc((size_t)length + 1);
        va_start(list, format);
        if (whole && vsnprintf(whole, (size_t)length + 1, format, list) == length) {
            snprintf(end, sizeof end, " ... %s", whole + length - 512);
            memcpy(text + sizeof text - 1 - strlen(end), end, strlen(end));
        }
        va_end(list);
        free(whole);
    }
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
    fprintf(stderr, "sparge-bench: %s\n", text);
    return exit_code;
}

/* The command's own option of this name, not a shared one. */
static const sb_option *find_own(const sb_command *command, const char *name)
{
    for (size_t i = 0; i < command->option_count; i++)
        if (command->options[i].name && strcmp(command->options[i].name, name) == 0)
            return &command->options[i];
    return NULL;
}

const sb_option *sb_command_option(const sb_command *command, size_t index)
{
    size_t shared_count = command->shared ? *command->shared_count : 0;
    for (size_t i = 0; i < shared_count; i++) {
        const sb_option *option = &command->shared[i];
        if (option->name && find_own(command, option->name))
            continue;
        if (index-- == 0)
            return option;
    }
    return index < command->option_count ? &command->options[index] : NULL;
}

/* By the first `length` characters of `name`, or by letter. */
static const sb_option *find_option(const sb_command *command, const char *name, size_t length)
{
    const sb_option *option;
    for (size_t i = 0; (option = sb_command_option(command, i)) != NULL; i++)
        if (option->name && strlen(option->name) == length && memcmp(option->name, name, length) == 0)
            return option;
    return NULL;
}

static const sb_option *find_letter(const sb_command *command, char letter)
{
    const sb_option *option;
    for (size_t i = 0; (option = sb_command_option(command, i)) != NULL; i++)
        if (option->name && option->letter == letter)
            return option;
    return NULL;
}

static int fail_unknown(const sb_command *command, const char *name)
{
    const char *best = sb_nearer(name, NULL, "help");
    const sb_option *option;
    for (size_t i = 0; (option = sb_command_option(command, i)) != NULL; i++)
        if (option->name)
            best = sb_nearer(name, best, option->name);
    if (best)
        return sb_fail(SB_EXIT_USAGE, "unknown option '--%s' of '%s'; did you mean '--%s'?", name, command->name, best);
    return sb_fail(SB_EXIT_USAGE, "unknown option '--%s' of '%s'; 'sparge-bench %s --help' lists its options", name,
                   command->name, command->name);
}

static char *quoted_line(const sb_command *command, int argc, char **argv)
{
    sb_text line = {0};
    sb_text_add(&line, "sparge-bench %s", command->name);
    for (int i = 0; i < argc; i++)
        sb_text_add_word(&line, argv[i]);
    return sb_text_take(&line);
}

/* Room for everything: no command line gives more options or operands than it has characters of options and words. */
static sb_arguments *allocate(const sb_command *command, int argc, char **argv)
{
    size_t words = 1, letters = 1;
    for (int i = 0; i < argc; i++) {
        words++;
        letters += argv[i][0] == '-' && argv[i][1] != '-' ? strlen(argv[i]) : 1;
    }
    sb_arguments *arguments = calloc(1, sizeof *arguments);
    if (!arguments)
        return NULL;
    arguments->command = command;
    arguments->given = calloc(letters, sizeof *arguments->given);
    arguments->operand = calloc(words, sizeof *arguments->operand);
    arguments->line = quoted_line(command, argc, argv);
    if (!arguments->given || !arguments->operand || !arguments->line) {
        sb_arguments_destroy(arguments);
        return NULL;
    }
    return arguments;
}

static void add(sb_arguments *arguments, const sb_option *option, const char *value)
{
    arguments->given[arguments->given_count++] = (given_option){option, value};
}

/* The word after an option that wants a value. A word that is itself an option of the command is more likely a
 * forgotten value than a value; --name=--word still passes it. */
static const char *value_after(const sb_command *command, const char *spelled, const sb_option *option, int argc,
                               char **argv, int *index)
{
    const char *next = *index + 1 < argc ? argv[*index + 1] : NULL;
    if (!next) {
        sb_fail(SB_EXIT_USAGE, "option '%s' of '%s' needs a value (%s)", spelled, command->name, option->value);
        return NULL;
    }
    if (strncmp(next, "--", 2) == 0 && find_option(command, next + 2, strcspn(next + 2, "="))) {
        sb_fail(SB_EXIT_USAGE, "option '%s' of '%s' needs a value (%s), but the option '%s' follows", spelled,
                command->name, option->value, next);
        return NULL;
    }
    ++*index;
    return next;
}

/* One word "--name" or "--name=value". 0, or an exit code. */
static int parse_long(sb_arguments *arguments, int argc, char **argv, int *index)
{
    const sb_command *command = arguments->command;
    const char *word = argv[*index], *name = word + 2;
    size_t length = strcspn(name, "=");
    const sb_option *option = find_option(command, name, length);
    if (!option) {
        char cut[80];
        snprintf(cut, sizeof cut, "%.*s", length < INT_MAX ? (int)length : INT_MAX, name);
        return fail_unknown(command, cut);
    }
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    if (!option->value) {
        if (value)
            return sb_fail(SB_EXIT_USAGE, "option '--%s' of '%s' takes no value, but '%s' was given", option->name,
                           command->name, value);
        value = "";
    } else if (!value && !(value = value_after(command, word, option, argc, argv, index))) {
        return SB_EXIT_USAGE;
    }
    add(arguments, option, value);
    return SB_EXIT_OK;
}

/* One word of letters: "-o value", "-ovalue", "-qo value". 0, or an exit code. */
static int parse_letters(sb_arguments *arguments, int argc, char **argv, int *index)
{
    const sb_command *command = arguments->command;
    for (const char *letter = argv[*index] + 1; *letter; letter++) {
        const sb_option *option = find_letter(command, *letter);
        const char spelled[3] = {'-', *letter, '\0'};
        if (!option)
            return sb_fail(SB_EXIT_USAGE, "unknown option '%s' of '%s'; 'sparge-bench %s --help' lists its options",
                           argv[*index], command->name, command->name);
        if (option->value) {
            const char *value = letter[1] ? letter + 1 : value_after(command, spelled, option, argc, argv, index);
            if (!value)
                return SB_EXIT_USAGE;
            add(arguments, option, value);
            return SB_EXIT_OK;
        }
        add(arguments, option, "");
    }
    return SB_EXIT_OK;
}

static int check_operands(const sb_arguments *arguments)
{
    const sb_command *command = arguments->command;
    size_t count = arguments->operand_count;
    if (count < (size_t)command->operands_min)
        return sb_fail(SB_EXIT_USAGE, "'%s' needs %s%s: %zu given", command->name,
                       command->operands_max == command->operands_min ? "" : "at least ", command->operands, count);
    if (command->operands_max >= 0 && count > (size_t)command->operands_max) {
        const char *extra = arguments->operand[command->operands_max];
        if (command->operands_max == 0)
            return sb_fail(SB_EXIT_USAGE, "'%s' takes no operands, but '%s' was given", command->name, extra);
        return sb_fail(SB_EXIT_USAGE, "'%s' takes only %s, but '%s' was given too", command->name, command->operands,
                       extra);
    }
    return SB_EXIT_OK;
}

static int parse_words(sb_arguments *arguments, int argc, char **argv)
{
    int only_operands = 0;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        int code = SB_EXIT_OK;
        if (only_operands || word[0] != '-' || word[1] == '\0')
            arguments->operand[arguments->operand_count++] = word;
        else if (strcmp(word, "--") == 0)
            only_operands = 1;
        else if (word[1] == '-')
            code = parse_long(arguments, argc, argv, &i);
        else
            code = parse_letters(arguments, argc, argv, &i);
        if (code != SB_EXIT_OK)
            return code;
    }
    return check_operands(arguments);
}

/* --help wins over every mistake on the same line: who asks for help has a reason. */
static int help_wanted(const sb_command *command, int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || (strcmp(argv[i], "-h") == 0 && !find_letter(command, 'h')))
            return 1;
    }
    return 0;
}

sb_arguments *sb_arguments_parse(const sb_command *command, int argc, char **argv, int *exit_code)
{
    *exit_code = SB_EXIT_OK;
    if (help_wanted(command, argc, argv)) {
        sb_help_command(command, sb_help_width(stdout), stdout);
        return NULL;
    }
    sb_arguments *arguments = allocate(command, argc, argv);
    if (!arguments) {
        *exit_code = sb_fail(SB_EXIT_ENVIRONMENT, "out of memory while reading the command line");
        return NULL;
    }
    *exit_code = parse_words(arguments, argc, argv);
    if (*exit_code != SB_EXIT_OK) {
        sb_arguments_destroy(arguments);
        return NULL;
    }
    return arguments;
}

void sb_arguments_destroy(sb_arguments *arguments)
{
    if (!arguments)
        return;
    free(arguments->given);
    free(arguments->operand);
    free(arguments->line);
    free(arguments);
}

const char *sb_argument(const sb_arguments *arguments, const char *name)
{
    if (!arguments || !name)
        return NULL;
    for (size_t i = arguments->given_count; i-- > 0;)
        if (strcmp(arguments->given[i].option->name, name) == 0)
            return arguments->given[i].value;
    const sb_option *option = find_option(arguments->command, name, strlen(name));
    return option ? option->default_value : NULL;
}

size_t sb_argument_count(const sb_arguments *arguments, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; arguments && name && i < arguments->given_count; i++)
        count += strcmp(arguments->given[i].option->name, name) == 0;
    return count;
}

const char *sb_argument_at(const sb_arguments *arguments, const char *name, size_t index)
{
    for (size_t i = 0; arguments && name && i < arguments->given_count; i++)
        if (strcmp(arguments->given[i].option->name, name) == 0 && index-- == 0)
            return arguments->given[i].value;
    return NULL;
}

size_t sb_operand_count(const sb_arguments *arguments)
{
    return arguments ? arguments->operand_count : 0;
}

const char *sb_operand(const sb_arguments *arguments, size_t index)
{
    return arguments && index < arguments->operand_count ? arguments->operand[index] : NULL;
}

const char *sb_command_line(const sb_arguments *arguments)
{
    return arguments ? arguments->line : NULL;
}
