/* unit_norm.c - units that work at the same time, each hiding well behind the busiest, not
 * perfectly. */
#include "compiler/cost/unit_norm.h"

#include <math.h>

double
unit_larger(double a, double b)
{
    return a > b ? a : b;
}

double
unit_norm(double a, double b, double power)
{
    double most = unit_larger(a, b), least = a > b ? b : a;

    if (most <= 0 || power <= 0) /* not measured: as if perfectly */
        return most;
    return most * pow(1 + pow(least / most, power), 1 / power);
}
