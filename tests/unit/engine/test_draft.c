/* Multi-token prediction: how many tokens a step makes, and of what. */
#include "scene.h"

enum { WHOLE = 1000000, REQUESTS = 40 };

static drive_result_t run(drive_params_t *params, int32_t draft_tokens,
                          int32_t accept_millionths, bool loses_kv)
{
    drive_result_t result = {0};

    params->config.mtp = (pl_mtp_t){.draft_tokens      = draft_tokens,
                                    .accept_millionths = accept_millionths,
                                    .loses_kv          = loses_kv};
    drive(params, 1, &result);
    return result;
}

/* The first token is prefill's; eight are left. */
START_TEST(what_is_accepted_saves_steps)
{
    const drive_request_t one[] = {{0, 30, 9, 0, 0}};
    drive_params_t params       = scene(one, 1);
    drive_result_t none         = run(&params, 0, 0, false);
    drive_result_t wrong        = run(&params, 3, 0, false);
    drive_result_t right        = run(&params, 3, WHOLE, false);

    ck_assert_int_eq(none.counters.decode_steps, 8);
    ck_assert_int_eq(none.counters.drafted_tokens, 0);
    ck_assert_int_eq(wrong.counters.decode_steps, 8);
    ck_assert_int_eq(wrong.counters.drafted_tokens, 24);
    ck_assert_int_eq(wrong.counters.accepted_tokens, 0);
    ck_assert_int_eq(right.counters.decode_steps, 2);
    ck_assert_int_eq(right.counters.accepted_tokens, 6);
}
END_TEST

/* A text never goes on behind its end: seven left are four and three. */
START_TEST(last_step_makes_what_is_left)
{
    const drive_request_t one[] = {{0, 30, 8, 0, 0}};
    drive_params_t params       = scene(one, 1);
    drive_result_t right        = run(&params, 3, WHOLE, false);

    ck_assert_int_eq(right.counters.decode_steps, 2);
    ck_assert_int_eq(right.counters.accepted_tokens, 5);
}
END_TEST

/* Of drafts that are each right in half of the cases, two in a step, three
 * quarters of a token are kept: 1/2 + 1/4. */
START_TEST(drafts_are_kept_as_often_as_they_are_right)
{
    drive_request_t many[REQUESTS] = {{0}};
    drive_params_t params          = scene(many, REQUESTS);
    drive_result_t half, other;
    double kept;

    for (int i = 0; i < REQUESTS; i++) {
        many[i] = (drive_request_t){i * SECOND, 30, 121, i, 0};
    }
    half = run(&params, 2, WHOLE / 2, false);
    kept = (double)half.counters.accepted_tokens /
           (double)half.counters.decode_steps;
    ck_assert(kept > 0.70);
    ck_assert(kept < 0.80);
    params.config.seed++;
    other = run(&params, 2, WHOLE / 2, false);
    ck_assert_int_ne(other.counters.accepted_tokens,
                     half.counters.accepted_tokens);
}
END_TEST

/* With ranks of its own decode has of a prompt what was sent: nothing for the
 * draft layer, which learns from the text as it grows. */
START_TEST(drafts_without_their_kv_are_wrong)
{
    const drive_request_t one[] = {{0, 400, 41, 0, 0}};
    drive_params_t params       = scene(one, 1);
    drive_result_t kept, lost, together;

    params.config.device_pages = 257;
    kept                       = run(&params, 3, WHOLE, false);
    lost                       = run(&params, 3, WHOLE, true);
    ck_assert_int_eq(kept.counters.decode_steps, 10);
    ck_assert_int_gt(lost.counters.decode_steps, 30);
    ck_assert_int_lt(lost.counters.decode_steps, 40);

    /* Where prefill decodes too, its KV is there. */
    params.config.n_decode = 0;
    together               = run(&params, 3, WHOLE, true);
    ck_assert_int_eq(together.counters.decode_steps, 10);
}
END_TEST

/* Where prefill decodes too, the KV of a hit is there if the pages were, and is
 * not if they came back from the host: the second prompt drives them out. */
START_TEST(drafts_are_wrong_after_a_load_back)
{
    drive_request_t three[] = {
        {0, 64, 1, 1, 16}, {SECOND, 4, 1, 2, 0}, {2 * SECOND, 68, 41, 1, 16}};
    drive_params_t params = scene(three, 3);
    drive_result_t device, host;

    params.config.n_decode     = 0;
    params.config.device_pages = 1 + 19;
    device                     = run(&params, 3, WHOLE, true);
    ck_assert_int_eq(device.counters.decode_steps, 10);

    three[1].input_tokens = 4 * 74;
    host                  = run(&params, 3, WHOLE, true);
    ck_assert_int_gt(host.counters.decode_steps, 20);
    host = run(&params, 3, WHOLE, false);
    ck_assert_int_eq(host.counters.decode_steps, 10);
}
END_TEST

/* Two that outgrow a pool: the younger is put off to the host buffer of its
 * home, which is no place for the draft layer's KV either. */
START_TEST(drafts_are_wrong_after_a_host_buffer)
{
    const drive_request_t two[] = {{0, 16, 41, 0, 0}, {0, 16, 41, 1, 0}};
    drive_params_t params       = scene(two, 2);
    drive_result_t kept, lost;

    params.config.n_decode          = 0;
    params.config.n_prefill         = 1;
    params.config.decode_pages      = 1 + 15;
    params.config.decode_host_pages = 32;
    kept                            = run(&params, 1, WHOLE, false);
    ck_assert_int_gt(kept.counters.resumes, 0);
    ck_assert_int_eq(kept.counters.accepted_tokens,
                     kept.counters.drafted_tokens);
    lost = run(&params, 1, WHOLE, true);
    ck_assert_int_gt(lost.counters.resumes, 0);
    ck_assert_int_lt(lost.counters.accepted_tokens,
                     lost.counters.drafted_tokens);
}
END_TEST

TCase *draft_case(void)
{
    TCase *tcase = tcase_create("draft");

    tcase_add_test(tcase, what_is_accepted_saves_steps);
    tcase_add_test(tcase, last_step_makes_what_is_left);
    tcase_add_test(tcase, drafts_are_kept_as_often_as_they_are_right);
    tcase_add_test(tcase, drafts_without_their_kv_are_wrong);
    tcase_add_test(tcase, drafts_are_wrong_after_a_load_back);
    tcase_add_test(tcase, drafts_are_wrong_after_a_host_buffer);
    return tcase;
}
