/* The fake backend: the CPU backend's numbers under a virtual, scripted clock (for tests of everything above).
 *
 * Never chosen by "auto"; rows it makes carry backend = "fake". A launch takes
 *     t = (5 us + ops / (1 TFLOP/s)) * slow * drift * step * (1 + noise * n) * spike
 * of virtual time, where ops are the dense operations times the density computed, split 1 : 1 : 8 over the stages that
 * run (prepare : select : attend), and n is a standard normal number drawn from the seed. Nothing depends on real time.
 *
 * The scenario is the environment variable SPARGE_FAKE, read when the context is created: NAME=VALUE separated by
 * commas, unknown names and malformed values are errors.
 *
 *     seed=N            of the random numbers, default 1
 *     noise=X           relative standard deviation of a launch, default 0
 *     drift=X           relative growth of the time per launch, default 0
 *     spike=P           probability that a launch takes five times as long, default 0
 *     step=N:X          from launch N on, times are multiplied by X (a clock change)
 *     slow=METHOD:X     launches of METHOD take X times as long (repeatable)
 *     fail=METHOD       running METHOD fails with a device error (repeatable)
 *     poison=METHOD     METHOD leaves a NaN in its output (repeatable)
 *     lost=N            every N-th pair of events has lost its record: elapsed time is a device error
 *     zero=N            every N-th pair of events reports 0 ns
 *     memory=BYTES      the device has memory of its own, so much of it; what goes beyond fails
 *     devices=N         there are N equal devices, default 1
 *     telemetry=0       the device tells nothing of clocks, power and heat; else 1 GHz, 100 W in virtual time, 50 C
 *     capped=1          its power limit holds the clock down all the time
 *     shared=1          another process computes on it
 *     sleep_ms=X        really sleep in each launch, so that tests can interrupt it */
#ifndef SPARGE_FAKE_H
#define SPARGE_FAKE_H

#include <stdint.h>

#include "sparge/status.h"

enum { FAKE_MAX_RULES = 16, FAKE_METHOD_NAME = 64, FAKE_MAX_DEVICES = 64 };

typedef enum fake_rule_kind { FAKE_SLOW, FAKE_FAIL, FAKE_POISON } fake_rule_kind;

typedef struct fake_rule {
    fake_rule_kind kind;
    char method[FAKE_METHOD_NAME];
    double factor; /* FAKE_SLOW */
} fake_rule;

typedef struct fake_scenario {
    uint64_t seed;
    double noise, drift, spike;
    int64_t step_launch; /* -1: none */
    double step_factor;
    int64_t lost, zero;   /* 0: never */
    int64_t memory_bytes; /* 0: no limit, the host's memory */
    int64_t devices;
    int64_t telemetry, capped, shared;
    double sleep_ms;
    fake_rule rule[FAKE_MAX_RULES];
    int rules;
} fake_scenario;

/* Parses text (NULL or "" = the defaults). */
sparge_status fake_scenario_parse(const char *text, fake_scenario *scenario, sparge_error *error);

#endif
