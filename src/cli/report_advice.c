/* What limits a run, and what to change: each with its numbers. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_data.h"

enum { TEXT_BYTES = 640 };

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

/* ---- the headline ---- */

/* What a prompt waits for before it is admitted. */
static void explain_queue(const pl_report_data_t *data, char *text, size_t n)
{
    const pl_report_waits_t *w = &data->waits;
    double behind = pl_report_percent(w->behind_prefill_ns, w->queue_ns);
    double work =
        pl_report_percent(w->prefill_at_work_ns, data->metrics.duration_ns);
    int64_t decode = pl_report_number(data, "engine", "reservations_failed");

    if (behind >= 50) {
        (void)snprintf(
            text, n,
            "%.1f %% of that waiting passes while another prompt is in "
            "prefill, which is at work %.1f %% of the run: %s.",
            behind, work,
            work >= 70 ? "more prefill ranks, or fewer tokens to compute, "
                         "shorten it"
                       : "requests come in bursts, so that smoother arrivals "
                         "or more prefill ranks shorten it");
        return;
    }
    (void)snprintf(
        text, n,
        "%.1f %% of that waiting passes while no prompt is in prefill (at work "
        "%.1f %% of the run): prompts wait for room, with %" PRId64
        " reservations on decode ranks that failed and %" PRId64
        " lane deficits.",
        100 - behind, work, decode,
        pl_report_number(data, "cache", "deficits"));
}

/* Where there are limits they come first, and what limits the run explains. */
static void tell(pl_html_t *page, const pl_report_data_t *data,
                 const char *headline, const char *why)
{
    pl_report_limits_t limits;
    char first[TEXT_BYTES], then[4 * TEXT_BYTES];

    if (!pl_report_limits(data, &limits)) {
        pl_html_headline(page, headline, why);
        return;
    }
    pl_report_say_limits(&limits, first, sizeof(first));
    (void)snprintf(then, sizeof(then), "%s. %s", headline, why);
    pl_html_headline(page, first, then);
}

static pl_status_t tell_fleet(pl_html_t *page, const pl_report_data_t *data)
{
    char *headline = NULL;
    char *why      = NULL;
    pl_status_t status;

    status = pl_report_fleet_headline(data, &headline, &why);
    if (status == PL_OK) {
        tell(page, data, headline, why);
    }
    free(headline);
    free(why);
    return status;
}

static void put_headline(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_report_waits_t *w = &data->waits;
    const pl_metrics_t *m      = &data->metrics;
    int64_t first              = w->queue_ns;
    char headline[TEXT_BYTES], why[2 * TEXT_BYTES], rest[TEXT_BYTES];

    pl_report_add(&first, w->prefill_ns);
    if (w->queue_ns > w->prefill_ns) {
        (void)snprintf(headline, sizeof(headline),
                       "Queueing limits this run: %.0f %% of the time to the "
                       "first token",
                       pl_report_percent(w->queue_ns, first));
        explain_queue(data, rest, sizeof(rest));
    } else {
        (void)snprintf(headline, sizeof(headline),
                       "Prefill limits this run: %.0f %% of the time to the "
                       "first token",
                       pl_report_percent(w->prefill_ns, first));
        (void)snprintf(rest, sizeof(rest),
                       "%.2f %% of the prompt tokens were computed; a higher "
                       "hit rate or more prefill ranks for each prompt shorten "
                       "it.",
                       pl_report_percent(m->computed_tokens, m->prompt_tokens));
    }
    (void)snprintf(why, sizeof(why),
                   "The mean request waits %.2f ms and is in prefill for %.2f "
                   "ms. %s",
                   (double)w->queue_ns / (double)m->n_completed / 1e6,
                   (double)w->prefill_ns / (double)m->n_completed / 1e6, rest);
    tell(page, data, headline, why);
}

/* ---- tiles ---- */

static pl_status_t put_first(pl_html_t *page, const pl_report_data_t *data)
{
    if (data->metrics.n_completed == 0) {
        pl_html_headline(page, "No request has completed",
                         "There is nothing to reckon with yet.");
        return PL_OK;
    }
    if (data->fleet.file.n > 0) {
        return tell_fleet(page, data);
    }
    put_headline(page, data);
    return PL_OK;
}

static void put_tiles(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_metrics_t *m = &data->metrics;
    double seconds        = (double)m->duration_ns / 1e9;
    pl_report_limits_t limits;
    char value[64], note[128];

    if (pl_report_limits(data, &limits)) {
        pl_report_put_limits(page, &limits);
    }
    (void)snprintf(value, sizeof(value), "%.2f %%",
                   pl_report_percent(m->prompt_tokens - m->computed_tokens,
                                     m->prompt_tokens));
    (void)snprintf(note, sizeof(note),
                   "device %.2f %%, host %.2f %%, storage %.2f %%",
                   pl_report_percent(m->device_hit_tokens, m->prompt_tokens),
                   pl_report_percent(m->host_hit_tokens, m->prompt_tokens),
                   pl_report_percent(m->storage_hit_tokens, m->prompt_tokens));
    pl_html_tile(page, "hit rate", value, note);
    (void)snprintf(value, sizeof(value), "%.2f ms", ms(m->ttft.p50_ns));
    (void)snprintf(note, sizeof(note), "p50; p99 %.2f ms", ms(m->ttft.p99_ns));
    pl_html_tile(page, "time to first token", value, note);
    (void)snprintf(value, sizeof(value), "%.2f ms", ms(m->tpot.p50_ns));
    (void)snprintf(note, sizeof(note), "p50; p99 %.2f ms", ms(m->tpot.p99_ns));
    pl_html_tile(page, "time per output token", value, note);
    (void)snprintf(value, sizeof(value), "%.3f/s",
                   seconds > 0 ? (double)m->n_completed / seconds : 0);
    (void)snprintf(note, sizeof(note),
                   "%" PRId64 " of %" PRId64 " requests in %.3f s",
                   m->n_completed, m->n_requests, seconds);
    pl_html_tile(page, "requests completed", value, note);
    (void)snprintf(value, sizeof(value), "%.1f/s",
                   seconds > 0 ? (double)m->output_tokens / seconds : 0);
    (void)snprintf(note, sizeof(note), "%" PRId64 " tokens", m->output_tokens);
    pl_html_tile(page, "output tokens", value, note);
    if (data->fleet.file.n > 0) {
        pl_report_fleet_tiles(page, data);
    }
}

/* ---- advice ---- */

static int64_t prompt_pages(const pl_report_data_t *data)
{
    int64_t pages = 0;

    for (int32_t i = 0; i < data->n; i++) {
        if (pl_metrics_counts(&data->records[i])) {
            pages += (data->records[i].prompt_tokens - 1) /
                         data->layout.page_tokens +
                     1;
        }
    }
    return pages;
}

static void about_requests(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_metrics_t *m = &data->metrics;

    if (m->n_failed > 0) {
        pl_html_advice(
            page, PL_HTML_WARNING, "Requests failed.",
            "%" PRId64 " of %" PRId64
            " were recorded as failed and count in nothing else here.",
            m->n_failed, m->n_requests);
    }
    if (m->n_unfinished > 0) {
        pl_html_advice(page, PL_HTML_NOTE, "The run had not ended.",
                       "%" PRId64 " of %" PRId64
                       " requests had not finished when the file was written.",
                       m->n_unfinished, m->n_requests);
    }
    if (pl_report_begin_alike(data)) {
        pl_html_advice(
            page, PL_HTML_WARNING, "All requests share one first page.",
            "Each of the %" PRId32
            " prompts begins with a page of one before it, as with one system "
            "prompt. Routing by best prefix would send all of them to one "
            "instance; judge a cache by what is hit beyond it.",
            data->n);
    }
}

static void about_cache(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_metrics_t *m = &data->metrics;
    int64_t lost          = m->miss_pages[PL_MISS_EVICTED];
    int64_t lane          = m->miss_pages[PL_MISS_LANE];
    int64_t all           = prompt_pages(data);

    if (lost * 50 > all) {
        pl_html_advice(
            page, PL_HTML_ADVICE, "Pages were evicted and then needed.",
            "%" PRId64 " of %" PRId64
            " prompt pages (%.2f %%) had been held before: with room for them "
            "the hit rate could rise by up to that much. Raise `--host-pages` "
            "first, which costs no device memory.",
            lost, all, pl_report_percent(lost, all));
    }
    if (lane > 0) {
        pl_html_advice(
            page, PL_HTML_ADVICE, "Hits were given up for want of a lane.",
            "%" PRId64 " pages were held, but their owner's lane had no room "
            "(%" PRId64 " hits cut). Try `--evict lane-aware`, or more "
            "`--device-pages`.",
            lane, pl_report_number(data, "engine", "hit_cuts"));
    }
    if (m->miss_pages[PL_MISS_STORAGE] * 100 > all) {
        pl_html_advice(page, PL_HTML_ADVICE, "Storage was too slow.",
                       "%" PRId64 " pages on storage were not brought in time: "
                       "`--prefetch-policy wait_complete` waits for them.",
                       m->miss_pages[PL_MISS_STORAGE]);
    }
    if (m->miss_pages[PL_MISS_FAILED] > 0) {
        pl_html_advice(page, PL_HTML_WARNING, "Copies failed.",
                       "%" PRId64
                       " pages were missed because a copy failed or was bad.",
                       m->miss_pages[PL_MISS_FAILED]);
    }
}

static void about_tiers(pl_html_t *page, const pl_report_data_t *data)
{
    int64_t device   = data->lanes.pages[PL_REPORT_DEVICE];
    int64_t host     = data->lanes.pages[PL_REPORT_HOST];
    int64_t host_hit = data->metrics.host_hit_tokens;

    if (host == 0) {
        pl_html_advice(
            page, PL_HTML_NOTE, "There is no host tier.",
            "What leaves the device is lost. `--host-pages` keeps it.");
    } else if (host < device) {
        pl_html_advice(
            page, PL_HTML_WARNING, "The host tier is smaller than the device.",
            "%" PRId64 " pages a lane against %" PRId64
            ": what is copied there is mostly what the device still holds, so "
            "it hit %" PRId64 " tokens. Make it larger than the device tier, "
            "or leave it out.",
            host, device, host_hit);
    } else if ((host_hit == 0) && data->lanes.used[PL_REPORT_HOST]) {
        pl_html_advice(page, PL_HTML_NOTE, "The host tier hit nothing.",
                       "%" PRId64
                       " pages were copied there and none came back.",
                       pl_report_number(data, "cache", "backup_pages"));
    }
    if (pl_report_number(data, "cache", "backups_skipped") > 0) {
        pl_html_advice(page, PL_HTML_ADVICE, "Backups were skipped.",
                       "%" PRId64
                       " found no room on the host: raise `--host-pages`.",
                       pl_report_number(data, "cache", "backups_skipped"));
    }
}

/* ---- lanes ---- */

typedef struct shortage {
    int64_t n, one_lane; /* deficits; of a single lane */
} shortage_t;

static shortage_t count_deficits(const pl_report_data_t *data)
{
    shortage_t s = {0};

    for (size_t i = 0; data->has_events && (i < data->events.n); i++) {
        if (strcmp(pl_event_name(&data->events, i), "deficit") == 0) {
            s.n++;
            s.one_lane += pl_event_at(&data->events, PL_FIELD_VALUE, i) == 1;
        }
    }
    return s;
}

/* Of lanes [first, end): the fullest over the mean one, in mean pages of all
 * samples. */
static double imbalance_of(const pl_report_data_t *data, int tier, size_t first,
                           size_t end, size_t *lane_p)
{
    int64_t all   = 0;
    int64_t most  = 0;
    size_t lane_n = first;

    for (size_t lane = first; lane < end; lane++) {
        int64_t held = 0;

        for (size_t i = 0; i < data->lanes.n; i++) {
            held += pl_report_held(data, tier, i, lane);
        }
        all += held;
        if (held > most) {
            most   = held;
            lane_n = lane;
        }
    }
    *lane_p = lane_n;
    return all > 0 ? (double)most * (double)(end - first) / (double)all : 1;
}

/* Lanes wait for those of their own instance alone: the worst of these. */
static double imbalance(const pl_report_data_t *data, int tier, size_t *lane_p)
{
    const pl_fleet_file_t *file = &data->fleet.file;
    double worst                = 1;
    size_t first                = 0;

    if (file->n == 0) {
        return imbalance_of(data, tier, 0, pl_report_lanes_of(data, tier),
                            lane_p);
    }
    for (int32_t i = 0; i < file->n_prefill; i++) {
        size_t end   = first + (size_t)file->rows[i].lanes;
        size_t lane  = 0;
        double ratio = imbalance_of(data, tier, first, end, &lane);

        if (ratio > worst) {
            worst   = ratio;
            *lane_p = lane;
        }
        first = end;
    }
    return worst;
}

/* "lane 3", of several instances "lane 3 of prefill 1". */
static void name_lane(const pl_report_data_t *data, size_t lane, char *text,
                      size_t n)
{
    int64_t own = (int64_t)lane;
    int32_t i   = 0;
    char name[PL_FLEET_NAME_BYTES];

    if (data->fleet.file.n == 0) {
        (void)snprintf(text, n, "lane %zu", lane);
        return;
    }
    i = pl_fleet_instance_of(&data->fleet.file, false, own, &own);
    pl_fleet_name(&data->fleet.file, i, name);
    (void)snprintf(text, n, "lane %" PRId64 " of %s", own, name);
}

static void about_lanes(pl_html_t *page, const pl_report_data_t *data)
{
    shortage_t s = count_deficits(data);
    size_t lane  = 0;
    double ratio = imbalance(data, PL_REPORT_DEVICE, &lane);
    char name[64];

    if ((data->layout.n_lanes > 1) && (s.n > 0) && (s.one_lane * 2 > s.n)) {
        pl_html_advice(
            page, PL_HTML_ADVICE, "Allocation is bound by one lane.",
            "In %" PRId64 " of %" PRId64
            " lane deficits a single lane was short while the others had room; "
            "%" PRId64 " of the %" PRId64
            " pages evicted lay in lanes that were not short. Try another "
            "`--ownership`, or `--evict lane-aware`.",
            s.one_lane, s.n,
            pl_report_number(data, "cache", "lane_collateral_pages"),
            pl_report_number(data, "cache", "evicted_pages"));
    }
    if (ratio > 1.1) {
        name_lane(data, lane, name, sizeof(name));
        pl_html_advice(
            page, PL_HTML_WARNING, "Lanes are uneven.",
            "Device %s holds %.2f times the mean over the run; all wait "
            "for it.",
            name, ratio);
    }
    if (pl_report_number(data, "engine", "waits_for_write_back") > 0) {
        pl_html_advice(
            page, PL_HTML_ADVICE, "Prompts waited for write-backs.",
            "%" PRId64 " times a lane could only be freed after its pages had "
            "gone to the host; `--write-policy write_through` copies them "
            "before.",
            pl_report_number(data, "engine", "waits_for_write_back"));
    }
}

/* ---- decode ---- */

static void about_decode(pl_html_t *page, const pl_report_data_t *data)
{
    const pl_report_waits_t *w = &data->waits;
    int64_t all                = 0;
    int64_t batch              = 0;
    const char *text           = pl_report_text(data, "config", "max_batch");
    int64_t full               = 0;

    pl_report_add(&all, w->queue_ns);
    pl_report_add(&all, w->prefill_ns);
    pl_report_add(&all, w->transfer_ns);
    pl_report_add(&all, w->decode_ns);
    if ((text == NULL) || (sscanf(text, "%" SCNd64, &batch) != 1) ||
        (batch > INT32_MAX)) {
        batch = 0; /* no limit that says anything */
    }
    for (size_t i = 0; i < data->lanes.n; i++) {
        full += data->lanes.running.items[i] >= batch * data->layout.n_homes;
    }
    if ((batch > 0) && (full * 10 > (int64_t)data->lanes.n)) {
        pl_html_advice(
            page, PL_HTML_ADVICE, "Decode batches are full.",
            "%.1f %% of the samples had all of %" PRId64 " x %" PRId64
            " places taken (`--max-batch`); more decode ranks, or larger "
            "batches, let prompts in sooner.",
            pl_report_percent(full, (int64_t)data->lanes.n),
            data->layout.n_homes, batch);
    }
    if (pl_report_percent(w->transfer_ns, all) > 20) {
        pl_html_advice(page, PL_HTML_ADVICE, "Transfers to decode take long.",
                       "%.1f %% of a request's time, %.2f ms in the mean.",
                       pl_report_percent(w->transfer_ns, all),
                       (double)w->transfer_ns /
                           (double)data->metrics.n_completed / 1e6);
    }
    if (data->metrics.reentries + data->metrics.preemptions > 0) {
        pl_html_advice(
            page, PL_HTML_ADVICE, "Decode ran out of pages.",
            "%" PRId64 " times a request gave up its place, and %" PRId64
            " times it entered again as a prompt: raise `--decode-pages`.",
            data->metrics.preemptions, data->metrics.reentries);
    }
}

static void about_events(pl_html_t *page, const pl_report_data_t *data)
{
    if (data->fleet.file.n > 0) {
        pl_report_fleet_advice(page, data);
    } else if (!data->has_events) {
        pl_html_advice(
            page, PL_HTML_NOTE, "The file has no events.",
            "Lanes that were short are not told; run with `--events all`.");
    } else if (!data->whole_events) {
        pl_html_advice(page, PL_HTML_NOTE, "The file lacks its first events.",
                       "%" PRId64 " before tick %" PRId64
                       " were dropped (`--events ring:N`).",
                       data->events.n_dropped, data->events.first_tick);
    }
}

pl_status_t pl_report_put_advice(pl_html_t *page, const pl_report_data_t *data)
{
    PL_TRY(put_first(page, data));
    put_tiles(page, data);
    about_requests(page, data);
    if (data->metrics.n_completed > 0) {
        about_cache(page, data);
        about_tiers(page, data);
        about_lanes(page, data);
        about_decode(page, data);
    }
    about_events(page, data);
    return PL_OK;
}
