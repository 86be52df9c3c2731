/* The test support library of libattn: what tests and attn-bench share. It calls nothing of libattn.
 *
 *   problem_string.h   problems as text, `b1h12q1024k1024d64,causal`; random problems
 *   data.h             seeded inputs and poisoned outputs of a problem, exactly as large as they must be
 *   oracle.h           every result in long double, one row at a time, by the rules as they are written down
 *   compare.h          results against the oracle: tolerances, verdicts, a line that reproduces a failure
 *
 * The usual test:
 *
 *   char error[256];
 *   support_case *c = support_case_parse("b2h6/3q37k53d17v11,causal,br,lse", error, sizeof error);
 *   support_data d;
 *   support_data_create(&d, c, ATTN_F32);
 *   attn_problem problem = c->problem;
 *   problem.engine = ATTN_ENGINE_NAIVE;
 *   attn_sdpa_f32(NULL, &problem, &d.args32);            // args64 with ATTN_F64
 *   support_report report;
 *   if (!support_verify(&d, "naive", &report))
 *       fail_msg("%s", report.text);
 *   support_data_destroy(&d);
 *   support_case_free(c);
 */
#ifndef ATTN_SUPPORT_H
#define ATTN_SUPPORT_H

#include "compare.h"
#include "data.h"
#include "oracle.h"
#include "problem_string.h"

#endif
