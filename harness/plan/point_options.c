/* The options that name points. */
#include "plan/points.h"

const sb_option sb_point_options[] = {
    {.help = "What to run"},
    {.name = "method",
     .letter = 'm',
     .value = "LIST",
     .default_value = "dense-f16,dense-int8-fp8,sparge-f16,sparge-int8-fp8",
     .complete = "methods",
     .repeatable = 1,
     .help = "Methods, or all. 'sparge-bench list methods' names them."},
    {.name = "set",
     .letter = 's',
     .value = "[METHOD.]PARAM=LIST",
     .complete = "parameters",
     .repeatable = 1,
     .help = "Values of a method's parameter: a list, or for numbers a range. The values of several --set multiply. "
             "METHOD. may be left out where only one selected method has the parameter; \\, is a comma of a value."},
    {.name = "compat",
     .value = "MODE",
     .complete = "fixed|upstream",
     .help = "Sets the parameter compat of every selected method that has it: upstream reproduces the official code "
             "with its quirks (which aligns causal masks top-left: say --causal top-left)."},
    {.help = "On which inputs"},
    {.name = "workload",
     .letter = 'w',
     .value = "LIST",
     .default_value = "structured",
     .complete = "workloads",
     .repeatable = 1,
     .help = "Presets, generators (random, uniform, structured) or captured .safetensors files. "
             "'sparge-bench list workloads' names the first two."},
    {.name = "seqlen",
     .letter = 'n',
     .value = "RANGE",
     .help = "Sequence lengths: 8k..128k doubles, 8k..128k*4, 8k..128k+8k, lists and mixtures by comma; k and m are "
             "1024 and 1024^2. Default: the workload's own. Video presets scale their grid to the nearest length."},
    {.name = "heads", .value = "RANGE", .help = "Query heads; KV heads follow. Default: the workload's own."},
    {.name = "batch", .value = "RANGE", .help = "Batch sizes. Default: the workload's own."},
    {.name = "head-dim", .value = "RANGE", .help = "Head dimensions, 1..128. Default: the workload's own."},
    {.name = "dtype",
     .value = "LIST",
     .complete = "f16|bf16",
     .help = "Types of Q, K, V and O: f16, bf16. Default: the workload's own."},
    {.name = "causal",
     .value = "LIST",
     .complete = "none|top-left|bottom-right|causal",
     .help = "Causal masks: none, top-left, bottom-right; causal is bottom-right. Default: the workload's own."},
    {.name = "order",
     .value = "LIST",
     .default_value = "row",
     .complete = "orders",
     .help = "Token orders of workloads that have a grid: row, column, time, random, hilbert."},
    {.name = "seed", .value = "RANGE", .default_value = "1", .help = "Seeds of the generators and of random choices."},
    {.help = "How options combine"},
    {.name = "zip",
     .value = "AXIS,AXIS,...",
     .repeatable = 1,
     .help = "Walks these axes together instead of multiplying them, e.g. --zip seqlen,batch. Axes are named like "
             "their options, parameters PARAM or METHOD.PARAM."},
};

const size_t sb_point_option_count = sizeof sb_point_options / sizeof *sb_point_options;
