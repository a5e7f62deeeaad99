/* pagelane size: how much KV of a model fits on which hardware. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/fits.h"
#include "cli/json.h"
#include "cli/planned.h"
#include "cli/table.h"
#include "sim/size.h"

#define MOST_HOST_BYTES (INT64_C(1) << 53) /* keeps all products in 64 bits */

static const char *const KV_NAMES[]     = {"f32", "bf16", "fp8"};
static const char *const WEIGHT_NAMES[] = {"fp8", "bf16"};

/* For people, and in JSON. */
static const struct {
    const char *name, *key;
} PARTS[PL_PARTS] = {
    [PL_PART_EXPERTS]    = {"routed experts", "experts"},
    [PL_PART_ATTENTION]  = {"attention", "attention"},
    [PL_PART_INDEXER]    = {"indexer", "indexer"},
    [PL_PART_SHARED]     = {"shared experts", "shared_experts"},
    [PL_PART_LAYER]      = {"dense MLPs, routers, norms", "layers"},
    [PL_PART_VOCABULARY] = {"embedding, head", "vocabulary"},
    [PL_PART_MTP]        = {"joints of MTP", "mtp"},
};

static const char *const OWNERSHIPS[PL_SIZE_OWNERSHIPS] = {
    [PL_SIZE_REPLICATED]  = "replicated",
    [PL_SIZE_SHARED]      = "shared",
    [PL_SIZE_LAYER_SPLIT] = "layer-split",
};

typedef struct sizing {
    const pl_options_t *options;
    const pl_log_t *log;
    const char *model_name;
    pl_model_config_t model;
    pl_hardware_t hardware;
    int32_t gpus, groups;
    pl_size_params_t params;
    pl_size_t size;
    pl_ownership_t ownership; /* of the option line */
    char *run;                /* NULL: nothing to run */
} sizing_t;

static double gb(int64_t bytes)
{
    return (double)bytes / 1e9;
}

static pl_status_t refuse(const sizing_t *sizing, const char *format, ...)
    PL_TEXT_FORMAT(2, 3);

static pl_status_t refuse(const sizing_t *sizing, const char *format, ...)
{
    char line[512];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    pl_log(sizing->log, PL_LOG_ERROR, "%s", line);
    return PL_ERR_ARGUMENT;
}

/* ---- what is asked for ---- */

static const pl_option_t *row_of(const char *name)
{
    const pl_option_t *row = pl_options_table()->options;

    while (strcmp(row->name, name) != 0) {
        row++;
    }
    return row;
}

/* A session that nobody asked for is as long as the model allows. */
static pl_status_t settle_context(sizing_t *sizing)
{
    int64_t context = sizing->options->context;
    int64_t most    = sizing->model.max_positions;
    int64_t usual   = strtoll(row_of("context")->fallback, NULL, 10);

    if ((context > most) && (context != usual)) {
        return refuse(sizing,
                      "option --context %" PRId64
                      ": %.200s has positions for %d tokens; use that or fewer",
                      context, sizing->model_name, (int)most);
    }
    sizing->params.context_tokens = (int32_t)(context < most ? context : most);
    return PL_OK;
}

static pl_status_t settle_gpus(sizing_t *sizing)
{
    const pl_options_t *o = sizing->options;
    int64_t cp            = o->cp == 0 ? o->gpus : o->cp;
    int64_t experts       = sizing->model.n_experts;
    int64_t ep = o->ep > 0 ? o->ep : o->gpus < experts ? o->gpus : experts;

    if (cp > PL_MAX_RANKS) {
        return refuse(sizing,
                      "option --gpus %" PRId64
                      ": a group has at most %d; give --cp",
                      o->gpus, PL_MAX_RANKS);
    }
    if (o->gpus % cp != 0) {
        return refuse(sizing,
                      "option --cp %" PRId64 ": %" PRId64
                      " GPUs are no whole number of such groups; use a "
                      "divisor, or --gpus %" PRId64,
                      cp, o->gpus, (o->gpus / cp + 1) * cp);
    }
    if ((ep > o->gpus) || (ep > experts)) {
        return refuse(sizing,
                      "option --ep %" PRId64 ": %" PRId64
                      " experts and %" PRId64 " GPUs allow at most %" PRId64,
                      ep, experts, o->gpus,
                      o->gpus < experts ? o->gpus : experts);
    }
    sizing->gpus      = (int32_t)o->gpus;
    sizing->groups    = (int32_t)(o->gpus / cp);
    sizing->params.cp = (int32_t)cp;
    sizing->params.ep = (int32_t)ep;
    return PL_OK;
}

static pl_status_t settle_sizes(sizing_t *sizing)
{
    const pl_options_t *o          = sizing->options;
    const pl_model_config_t *model = &sizing->model;

    if (o->kv_dtype == PL_OPT_KV_F32) {
        return refuse(sizing, "option --kv-dtype f32: engines keep KV in fewer "
                              "bytes; give bf16 or fp8");
    }
    if (o->mtp_layers > PL_MAX_LAYERS - model->n_layers) {
        return refuse(sizing,
                      "option --mtp-layers %" PRId64
                      ": with the model's %d they are more than %d; use fewer",
                      o->mtp_layers, (int)model->n_layers, PL_MAX_LAYERS);
    }
    if (o->host_gb > MOST_HOST_BYTES) {
        return refuse(sizing,
                      "option --host-gb: at most %" PRId64
                      " can be reckoned with; use fewer",
                      MOST_HOST_BYTES / 1000000000);
    }
    sizing->params.kv_dtype = (pl_kv_dtype_t)o->kv_dtype;
    sizing->params.weight_dtype =
        o->weight_dtype == PL_OPT_WEIGHTS_FP8 ? PL_F8_E4M3 : PL_BF16;
    sizing->params.mtp_layers     = (int32_t)o->mtp_layers;
    sizing->params.mem_billionths = o->mem_billionths;
    sizing->params.host_bytes     = o->host_gb;
    sizing->params.page_tokens    = (int32_t)o->page_size;
    return PL_OK;
}

static pl_status_t settle_ownership(sizing_t *sizing)
{
    pl_options_t options = *sizing->options;

    options.simulates = true;
    PL_TRY(pl_options_check_ownership(&options, sizing->log));
    sizing->ownership = options.ownership;
    return PL_OK;
}

static pl_status_t settle(sizing_t *sizing)
{
    PL_TRY(settle_ownership(sizing));
    PL_TRY(pl_cli_read_model(sizing->options->model, sizing->log,
                             &sizing->model, &sizing->model_name));
    PL_TRY(pl_cli_read_hardware(sizing->options->hardware, sizing->log,
                                &sizing->hardware));
    PL_TRY(settle_gpus(sizing));
    PL_TRY(settle_sizes(sizing));
    PL_TRY(settle_context(sizing));
    sizing->params.model    = &sizing->model;
    sizing->params.hardware = &sizing->hardware;
    return PL_OK;
}

/* ---- the line to run ---- */

/* Pages as sim takes them: all ranks' must have numbers. */
static const char *pages_text(const sizing_t *sizing, int64_t pages, char *text,
                              size_t n)
{
    if (pages > INT32_MAX / sizing->params.cp) {
        return "unlimited";
    }
    (void)snprintf(text, n, "%" PRId64, pages);
    return text;
}

/* An option of both verbs, with the value that it has here. */
static void add_same(const sizing_t *sizing, const char *name, pl_text_t *text)
{
    char *value = NULL;

    if (pl_option_value_text(row_of(name), sizing->options, &value) != PL_OK) {
        text->status = PL_ERR_MEMORY;
        return;
    }
    pl_text_add(text, " --%s %s", name, value);
    free(value);
}

static const pl_size_ownership_t *own_of_line(const sizing_t *sizing)
{
    return &sizing->size.ownership[pl_size_which(sizing->ownership.kind)];
}

static pl_status_t make_run(sizing_t *sizing)
{
    const pl_size_params_t *p      = &sizing->params;
    const pl_size_ownership_t *own = own_of_line(sizing);
    int32_t page                   = p->page_tokens;
    pl_text_t text                 = {0};
    char rule[PL_OWNERSHIP_TEXT_BYTES];
    char device[24];
    char host[24];

    if (own->device.pages == 0) {
        return PL_OK;
    }
    pl_text_add(&text, "pagelane sim --model ");
    pl_cli_add_word(&text, sizing->model_name);
    pl_text_add(&text, " --hardware ");
    pl_cli_add_word(&text, sizing->options->hardware);
    add_same(sizing, "kv-dtype", &text);
    add_same(sizing, "weight-dtype", &text);
    pl_text_add(&text, " --cp %d --ep %d", (int)p->cp, (int)p->ep);
    add_same(sizing, "mem-fraction", &text);
    pl_text_add(&text, " --context %d", (int)p->context_tokens);
    add_same(sizing, "page-size", &text);
    if (8192 % page != 0) {
        pl_text_add(&text, " --chunk %d", (int)(8192 / page * page));
    }
    pl_ownership_text(sizing->ownership, rule);
    if ((sizing->ownership.kind != PL_OWNERSHIP_ZIGZAG) && (p->cp > 1)) {
        pl_text_add(&text, " --ownership %s", rule);
    }
    pl_text_add(&text,
                " --device-pages %s --host-pages %s --decode-pages unlimited "
                "--trace TRACE",
                pages_text(sizing, own->device.pages, device, sizeof(device)),
                pages_text(sizing, own->host.pages, host, sizeof(host)));
    return pl_text_take(&text, &sizing->run);
}

/* ---- for people ---- */

static pl_status_t end_table(pl_table_t *table)
{
    pl_status_t status = pl_table_print(table, stdout);

    pl_table_close(table);
    printf("\n");
    return status;
}

static void weight_row(pl_table_t *table, const char *name, int64_t parameters,
                       int64_t bytes, int64_t on_gpu)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%.3f", (double)parameters / 1e9);
    pl_table_cell(table, "%.2f", gb(bytes));
    pl_table_cell(table, "%.2f", gb(on_gpu));
}

static pl_status_t print_weights(const sizing_t *sizing)
{
    const pl_size_t *size = &sizing->size;
    pl_table_t *table =
        pl_table_open("weights<,parameters (10^9)>,all, GB>,on a GPU, GB>");
    int64_t parameters = 0;
    int64_t bytes      = 0;

    for (int i = 0; i < PL_PARTS; i++) {
        if (size->census.parameters[i] > 0) {
            weight_row(table, PARTS[i].name, size->census.parameters[i],
                       size->census.bytes[i], size->gpu_weights[i]);
        }
        parameters += size->census.parameters[i];
        bytes += size->census.bytes[i];
    }
    weight_row(table, "all", parameters, bytes, size->weight_bytes);
    return end_table(table);
}

static void token_row(pl_table_t *table, const char *store, int64_t layers,
                      int64_t bytes)
{
    pl_table_cell(table, "%s", store);
    pl_table_cell(table, "%" PRId64, layers);
    pl_table_cell(table, "%" PRId64, bytes);
}

static pl_status_t print_token(const sizing_t *sizing)
{
    const pl_size_t *size = &sizing->size;
    int64_t mtp           = sizing->params.mtp_layers;
    pl_table_t *table     = pl_table_open("KV of a token<,layers>,bytes>");

    token_row(table, "latent", size->latent_layers - mtp,
              size->latent_token_bytes);
    token_row(table, "index", size->index_layers - mtp,
              size->index_token_bytes);
    if (mtp > 0) {
        token_row(table, "both, of MTP", mtp, size->mtp_token_bytes);
    }
    token_row(table, "all", size->latent_layers, size->token_bytes);
    return end_table(table);
}

static void memory_row(pl_table_t *table, const char *name, int64_t bytes)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%.2f", gb(bytes));
}

static pl_status_t print_memory(const sizing_t *sizing)
{
    const pl_size_t *size = &sizing->size;
    pl_table_t *table     = pl_table_open("memory of a GPU<,GB>");

    memory_row(table, "all", sizing->hardware.memory_bytes);
    memory_row(table, "left alone by --mem-fraction",
               sizing->hardware.memory_bytes - size->budget_bytes);
    memory_row(table, "weights", size->weight_bytes);
    memory_row(table, size->kv_bytes < 0 ? "missing" : "for KV",
               size->kv_bytes < 0 ? -size->kv_bytes : size->kv_bytes);
    return end_table(table);
}

/* One row: a name, and a count for each ownership. */
static void count_row(pl_table_t *table, const char *name,
                      const int64_t *counts)
{
    pl_table_cell(table, "%s", name);
    for (int i = 0; i < PL_SIZE_OWNERSHIPS; i++) {
        pl_table_cell(table, "%" PRId64, counts[i]);
    }
}

static void tier_rows(pl_table_t *table, const sizing_t *sizing,
                      const char *tier, bool is_host)
{
    static const char *const ROWS[] = {"pages of a rank", "tokens",
                                       "longest prompt", "sessions"};
    int64_t counts[4][PL_SIZE_OWNERSHIPS];
    char name[48];

    for (int i = 0; i < PL_SIZE_OWNERSHIPS; i++) {
        const pl_size_ownership_t *own = &sizing->size.ownership[i];
        const pl_size_tier_t *t        = is_host ? &own->host : &own->device;

        counts[0][i] = t->pages;
        counts[1][i] = t->tokens;
        counts[2][i] = t->longest_tokens;
        counts[3][i] = t->sessions;
    }
    for (int row = 0; row < 4; row++) {
        (void)snprintf(name, sizeof(name), "%s: %s", tier, ROWS[row]);
        count_row(table, name, counts[row]);
    }
}

static pl_status_t print_ownerships(const sizing_t *sizing)
{
    pl_table_t *table =
        pl_table_open("a group<,replicated>,shared>,layer-split>");
    int64_t pages[PL_SIZE_OWNERSHIPS];

    pl_table_cell(table, "view of a rank, GB");
    for (int i = 0; i < PL_SIZE_OWNERSHIPS; i++) {
        pl_table_cell(table, "%.2f", gb(sizing->size.ownership[i].view_bytes));
        pages[i] = sizing->size.ownership[i].page_bytes;
    }
    count_row(table, "bytes of a page on a rank", pages);
    tier_rows(table, sizing, "device", false);
    if (sizing->params.host_bytes > 0) {
        tier_rows(table, sizing, "host", true);
    }
    return end_table(table);
}

static void option_row(pl_table_t *table, const char *option, const char *what)
{
    pl_table_cell(table, "%s", option);
    pl_table_cell(table, "%s", what);
}

static pl_status_t print_run(const sizing_t *sizing)
{
    const char *own   = OWNERSHIPS[pl_size_which(sizing->ownership.kind)];
    pl_table_t *table = pl_table_open("option<,what it says<");
    char text[80];

    option_row(table, "--cp", "the GPUs of a group");
    (void)snprintf(text, sizeof(text),
                   "device: pages of a rank, %s, one for scratch", own);
    option_row(table, "--device-pages", text);
    (void)snprintf(text, sizeof(text), "host: pages of a rank, %s", own);
    option_row(table, "--host-pages", text);
    option_row(table, "--decode-pages",
               "decode is somewhere else: without bounds here");
    option_row(table, "--trace", "put in your own for TRACE");
    PL_TRY(end_table(table));
    printf("%s\n", sizing->run);
    return PL_OK;
}

static pl_status_t print_tables(const sizing_t *sizing)
{
    printf("%s on %d %s: %d group%s of %d, experts over %d, %s KV, %s weights, "
           "sessions of %d tokens\n\n",
           sizing->model_name, (int)sizing->gpus, sizing->hardware.name,
           (int)sizing->groups, pl_text_s(sizing->groups),
           (int)sizing->params.cp, (int)sizing->params.ep,
           KV_NAMES[sizing->options->kv_dtype],
           WEIGHT_NAMES[sizing->options->weight_dtype],
           (int)sizing->params.context_tokens);
    PL_TRY(print_weights(sizing));
    PL_TRY(print_token(sizing));
    PL_TRY(print_memory(sizing));
    if (sizing->size.kv_bytes < 0) {
        return PL_OK;
    }
    PL_TRY(print_ownerships(sizing));
    return sizing->run == NULL ? PL_OK : print_run(sizing);
}

/* ---- for programs ---- */

/* A new object, a member of `object`. */
static json_object *add_object(json_object *object, const char *key)
{
    json_object *member = json_object_new_object();

    if ((object == NULL) ||
        (json_object_object_add(object, key, member) != 0)) {
        json_object_put(member);
        return NULL;
    }
    return member;
}

static void add_input(const sizing_t *sizing, json_object *root)
{
    const pl_options_t *o = sizing->options;

    pl_json_text(root, "model", sizing->model_name);
    pl_json_text(root, "hardware", sizing->hardware.name);
    pl_json_integer(root, "gpus", sizing->gpus);
    pl_json_integer(root, "groups", sizing->groups);
    pl_json_integer(root, "cp", sizing->params.cp);
    pl_json_integer(root, "ep", sizing->params.ep);
    pl_json_text(root, "kv_dtype", KV_NAMES[o->kv_dtype]);
    pl_json_text(root, "weight_dtype", WEIGHT_NAMES[o->weight_dtype]);
    pl_json_integer(root, "mtp_layers", o->mtp_layers);
    pl_json_real(root, "mem_fraction", (double)o->mem_billionths / 1e9);
    pl_json_integer(root, "host_bytes", o->host_gb);
    pl_json_integer(root, "page_tokens", o->page_size);
    pl_json_integer(root, "context_tokens", sizing->params.context_tokens);
}

static void add_weights(const pl_size_t *size, json_object *root)
{
    json_object *parameters = add_object(root, "parameters");
    json_object *all        = add_object(root, "weight_bytes");
    json_object *gpu        = add_object(root, "gpu_weight_bytes");
    int64_t n               = 0;
    int64_t bytes           = 0;

    for (int i = 0; i < PL_PARTS; i++) {
        pl_json_integer(parameters, PARTS[i].key, size->census.parameters[i]);
        pl_json_integer(all, PARTS[i].key, size->census.bytes[i]);
        pl_json_integer(gpu, PARTS[i].key, size->gpu_weights[i]);
        n += size->census.parameters[i];
        bytes += size->census.bytes[i];
    }
    pl_json_integer(parameters, "all", n);
    pl_json_integer(all, "all", bytes);
    pl_json_integer(gpu, "all", size->weight_bytes);
}

static void add_tier(const pl_size_tier_t *tier, const char *key,
                     json_object *object)
{
    json_object *member = add_object(object, key);

    pl_json_integer(member, "pages_per_rank", tier->pages);
    pl_json_integer(member, "tokens", tier->tokens);
    pl_json_integer(member, "longest_prompt_tokens", tier->longest_tokens);
    pl_json_integer(member, "sessions", tier->sessions);
}

static void add_ownerships(const pl_size_t *size, json_object *root)
{
    json_object *all = add_object(root, "ownership");

    for (int i = 0; i < PL_SIZE_OWNERSHIPS; i++) {
        const pl_size_ownership_t *own = &size->ownership[i];
        json_object *object            = add_object(all, OWNERSHIPS[i]);

        pl_json_integer(object, "rank_page_bytes", own->page_bytes);
        pl_json_integer(object, "view_bytes", own->view_bytes);
        add_tier(&own->device, "device", object);
        add_tier(&own->host, "host", object);
    }
}

static pl_status_t print_json(const sizing_t *sizing)
{
    const pl_size_t *size = &sizing->size;
    json_object *root     = json_object_new_object();
    json_object *token;

    add_input(sizing, root);
    token = add_object(root, "token_bytes");
    pl_json_integer(token, "latent", size->latent_token_bytes);
    pl_json_integer(token, "index", size->index_token_bytes);
    pl_json_integer(token, "mtp", size->mtp_token_bytes);
    pl_json_integer(token, "all", size->token_bytes);
    add_weights(size, root);
    pl_json_integer(root, "memory_bytes", sizing->hardware.memory_bytes);
    pl_json_integer(root, "budget_bytes", size->budget_bytes);
    pl_json_integer(root, "kv_bytes", size->kv_bytes);
    if (size->kv_bytes >= 0) {
        add_ownerships(size, root);
    }
    if (sizing->run != NULL) {
        pl_json_text(root, "run", sizing->run);
    }
    return pl_json_print(root, stdout);
}

/* ---- verdict ---- */

/* Does it fit?  Says by how much not, and what would. */
static pl_status_t judge(const sizing_t *sizing)
{
    const pl_size_t *size = &sizing->size;

    if (sizing->run != NULL) {
        return PL_OK;
    }
    if (size->kv_bytes < 0) {
        pl_cli_say_missing(sizing->log, "a GPU", "--gpus, --ep",
                           pl_size_least_ep(&sizing->params, size),
                           &sizing->params, size);
    } else {
        pl_cli_say_no_pages(sizing->log, "a GPU", "--gpus, --ep", size,
                            pl_size_which(sizing->ownership.kind));
    }
    return PL_ERR_RESOURCE;
}

int pl_cli_size(const pl_cli_t *cli)
{
    sizing_t *sizing = calloc(1, sizeof(*sizing));
    pl_status_t status;

    if (sizing == NULL) {
        return pl_status_exit(PL_ERR_MEMORY);
    }
    sizing->options = &cli->options;
    sizing->log     = &cli->log;
    PL_TRY_GOTO(status, settle(sizing), out_free);
    PL_TRY_GOTO(status, pl_size_make(&sizing->params, &sizing->size), out_free);
    PL_TRY_GOTO(status, make_run(sizing), out_free);
    status = cli->options.json ? print_json(sizing) : print_tables(sizing);
    if (status == PL_OK) {
        status = judge(sizing);
    }

out_free:
    free(sizing->run);
    free(sizing);
    return pl_status_exit(status);
}
