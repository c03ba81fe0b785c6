/* unit_norm.h - the time of units that work at the same time. */
#ifndef TILEC_UNIT_NORM_H
#define TILEC_UNIT_NORM_H

double unit_larger(double a, double b);
/* (a^power + b^power)^(1 / power): the larger one, and a little more when the other is nearly as
 * large.  The higher the power, the better the smaller one hides. */
double unit_norm(double a, double b, double power);

#endif
