// A C++11 program that calls libattn with the full interface: two queries that look at two keys, through std::vector,
// an attn_problem and its layout helper. The query of scores 1 and 2 gets 4.462117157; causal, the first query sees
// the first key only and gets 3. Exit code 1 when not.
#include <attn/attn.h>
#include <cmath>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

static void check(attn_status status) {
    if (status != ATTN_OK)
        throw std::runtime_error(std::string(attn_status_string(status)) + ": " + attn_last_error());
}

int main() try {
    const std::vector<float> q{1, 1}, k{1, 2}, v{3, 5};
    std::vector<float> out(2, std::numeric_limits<float>::quiet_NaN());

    attn_problem problem;
    check(attn_problem_init(&problem, sizeof problem));
    problem.flags = ATTN_CAUSAL;
    problem.batch = problem.q_heads = problem.kv_heads = 1;
    problem.q_len = problem.kv_len = 2;
    problem.head_dim = problem.v_dim = 1;
    check(attn_problem_layout_bhld(&problem));

    attn_args_f32 args;
    check(attn_args_init_f32(&args, sizeof args));
    args.q = q.data();
    args.k = k.data();
    args.v = v.data();
    args.out = out.data();
    check(attn_sdpa_f32(nullptr, &problem, &args));

    std::cout << attn_version_string() << ": " << out[0] << ' ' << out[1] << '\n';
    return std::abs(out[0] - 3.0f) <= 1e-6f && std::abs(out[1] - 4.462117157f) <= 1e-5f ? 0 : 1;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
