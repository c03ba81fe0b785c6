/* roles_issue.h - products of a main loop that a role of their own issues, while the programs of roles are written. */
#ifndef TILEC_PASSES_ROLES_ISSUE_H
#define TILEC_PASSES_ROLES_ISSUE_H

#include "compiler/passes/schedule/plan_graph.h"
#include "compiler/passes/schedule/roles.h"

/* roles_issue.c: makes what lies between the roles, and writes the programs of the mma, the correction and the reduce role. */
void issue_make_buffers(Roles *r, Graph *graph);
void issue_write_program(Roles *r);
void issue_write_corrector(Roles *r);
void issue_write_adder(Roles *r);
/* Waits for the result of a product, and lets the map have it. */
void issue_read_result(Roles *r, CloneMap *map, const Product *p);
/* The computed operand of a product; NULL: that is loaded. */
GraphOperand *issue_operand(Graph *graph, const Product *p);
TirShared *issue_last_piece(const GraphOperand *operand);
/* How often the mma role takes a sum, and gives it, before the loops: 0, 1, 3 or 4. */
uint32_t issue_sum_turns(const Product *p);

#endif
