/* clock_opcode.h - what an instruction of machine code keeps, by its name. */
#ifndef TILEC_CLOCK_OPCODE_H
#define TILEC_CLOCK_OPCODE_H

#include "backends/clock/clock_code.h"
#include "backends/clock/clock_cost.h"

typedef struct CodeCost {
    ClockClass kind;
    ClockUnit unit;
    double clocks;    /* that it keeps the unit */
    double beside;    /* the same while products run */
    double port;      /* of what pipes share */
    double latency;   /* until the scoreboard of its result is free */
    uint8_t reads[2]; /* registers that it reads of each bank, beside those in the reuse cache */
    bool reads_clock;
} CodeCost;

/* Of all instructions of a kernel. */
CodeCost *code_costs(Arena *arena, const ClockFact *rows, const CodeKernel *kernel);

#endif
