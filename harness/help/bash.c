/* The completion script for bash. Names of methods, workloads, orders, backends and parameters are asked of the program
 * when they are wanted, so that the script does not age. */
#include "help/help.h"

#include <string.h>

#include "command/commands.h"

static const char beginning[] =
    "# bash completion for sparge-bench, made by \"sparge-bench manual bash\"\n"
    "\n"
    "# The words that `kind` stands for: a table of the program, or a|b|c.\n"
    "_sparge_bench_words()\n"
    "{\n"
    "    case $1 in\n"
    "    methods | workloads | orders | backends | parameters) \"$2\" list \"$1\" --names 2>/dev/null ;;\n"
    "    *) printf '%s\\n' \"${1//|/$'\\n'}\" ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "_sparge_bench()\n"
    "{\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local command=${COMP_WORDS[1]} kind='' options='' prefix=''\n"
    "    COMPREPLY=()\n"
    "    # \"--name=value\" arrives as three words.\n"
    "    if [[ $current == '=' ]]; then\n"
    "        current=''\n"
    "    elif [[ $previous == '=' ]]; then\n"
    "        previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n";

static const char end[] =
    "    if [[ $kind == operand && $current == -* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$current\")\n"
    "        return\n"
    "    fi\n"
    "    if [[ $kind == operand ]]; then\n"
    "        kind=$operand\n"
    "    fi\n"
    "    case $kind in\n"
    "    none) return ;;\n"
    "    files | folders)\n"
    "        mapfile -t COMPREPLY < <(compgen \"$([[ $kind == files ]] && echo -f || echo -d)\" -- \"$current\")\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        return\n"
    "        ;;\n"
    "    esac\n"
    "    # Lists are completed after their last comma.\n"
    "    if [[ $current == *,* ]]; then\n"
    "        prefix=${current%,*},\n"
    "        current=${current##*,}\n"
    "    fi\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$(_sparge_bench_words \"$kind\" \"${COMP_WORDS[0]}\")\" -- "
    "\"$current\")\n"
    "    COMPREPLY=(\"${COMPREPLY[@]/#/$prefix}\")\n"
    "    if [[ $kind == workloads && -z $prefix ]]; then\n"
    "        mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -X '!*.safetensors' -- \"$current\")\n"
    "    fi\n"
    "}\n"
    "complete -F _sparge_bench sparge-bench\n";

static void put_commands(const char *separator, FILE *out)
{
    const char *before = "";
    for (size_t i = 0; i < sb_command_count; i++) {
        if (sb_commands[i]->hidden)
            continue;
        fprintf(out, "%s%s", before, sb_commands[i]->name);
        before = separator;
    }
}

/* Which kind of value follows each option that has one. */
static void put_values(const sb_command *command, FILE *out)
{
    const sb_option *option;
    for (size_t i = 0; (option = sb_command_option(command, i)) != NULL; i++) {
        if (!option->name || !option->value)
            continue;
        fprintf(out, "    %s:--%s", command->name, option->name);
        if (option->letter)
            fprintf(out, " | %s:-%c", command->name, option->letter);
        fprintf(out, ") kind='%s' ;;\n", option->complete ? option->complete : "none");
    }
}

static void put_options(const sb_command *command, FILE *out)
{
    const sb_option *option;
    fprintf(out, "    %s)\n        options='--help", command->name);
    for (size_t i = 0; (option = sb_command_option(command, i)) != NULL; i++)
        if (option->name)
            fprintf(out, " --%s", option->name);
    const char *operands = command->complete_operands ? command->complete_operands : "none";
    fputs("'\n        operand='", out);
    if (strcmp(operands, "commands") == 0)
        put_commands("|", out);
    else
        fputs(operands, out);
    fputs("'\n        ;;\n", out);
}

void sb_manual_bash(FILE *out)
{
    fputs(beginning, out);
    fputs("    if ((COMP_CWORD == 1)); then\n"
          "        mapfile -t COMPREPLY < <(compgen -W '--help --version ",
          out);
    put_commands(" ", out);
    fputs("' -- \"$current\")\n        return\n    fi\n    local operand=none\n    case $command in\n", out);
    for (size_t i = 0; i < sb_command_count; i++)
        if (!sb_commands[i]->hidden)
            put_options(sb_commands[i], out);
    fputs("    *) return ;;\n    esac\n    case $command:$previous in\n", out);
    for (size_t i = 0; i < sb_command_count; i++)
        if (!sb_commands[i]->hidden)
            put_values(sb_commands[i], out);
    fputs("    *) kind=operand ;;\n    esac\n", out);
    fputs(end, out);
}
