/* plans_picture.h - the plans of a search as a picture. */
#ifndef TILEC_CHOOSE_PLANS_PICTURE_H
#define TILEC_CHOOSE_PLANS_PICTURE_H

#include "compiler/choose/built_plans.h"
#include "compiler/choose/tuning.h"

/* SVG, if the search asks for it: a bar for each of the first `shown` plans, as long as its launch
 * is predicted to take, and a dot where the tuning database has a time of it with these sizes. */
void plans_picture(const Front *front, PassContext *px, const TilecSearch *search,
                   const TirFn *sample, const PlanCandidates *plans, const int64_t *sizes,
                   uint32_t shown, Buf *out);

#endif
