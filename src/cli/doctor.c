/* pagelane doctor: what works here, and the fix for what does not. */
#include <inttypes.h>
#include <json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <pagelane/version.h>

#include "base/array.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "device/cuda.h"

typedef enum state { OK, NOTE, WRONG } state_t;

/* One finding.  NOTE: works, but worth knowing; WRONG: a run would fail. */
typedef struct finding {
    const char *name;
    state_t state;
    char *found;
    const char *fix; /* what to do, or "" */
} finding_t;

typedef struct findings {
    PL_ARRAY(finding_t) list;
    pl_status_t status; /* PL_ERR_MEMORY once one was lost */
} findings_t;

static const char *const STATE_NAMES[] = {"ok", "note", "wrong"};

static void add(findings_t *findings, const char *name, state_t state,
                const char *fix, const char *format, ...) PL_TEXT_FORMAT(5, 6);

static void add(findings_t *findings, const char *name, state_t state,
                const char *fix, const char *format, ...)
{
    finding_t finding = {name, state, NULL, state == OK ? "" : fix};
    pl_text_t text    = {0};
    va_list arguments;

    va_start(arguments, format);
    pl_text_add_list(&text, format, arguments);
    va_end(arguments);
    if (pl_text_take(&text, &finding.found) != PL_OK) {
        findings->status = PL_ERR_MEMORY;
    } else if (PL_ARRAY_PUSH(&findings->list, finding) != PL_OK) {
        free(finding.found);
        findings->status = PL_ERR_MEMORY;
    }
}

/* The first line that a shell command prints; its exit status, -1 if it cannot
 * be started.  `line` is "" when nothing was printed. */
static int ask(const char *command, char *line, int size)
{
    FILE *pipe = popen(command, "r");
    char rest[256];

    line[0] = '\0';
    if (pipe == NULL) {
        return -1;
    }
    if (fgets(line, size, pipe) != NULL) {
        line[strcspn(line, "\n")] = '\0';
    }
    while (fgets(rest, (int)sizeof(rest), pipe) != NULL) {
        /* read to the end, or the command would die of a broken pipe */
    }
    return pclose(pipe);
}

/* Whether mpirun starts more ranks than there are cores.  It cannot be tried by
 * a rank: one mpirun does not start another. */
static void check_ranks(findings_t *findings, const pl_cli_world_t *world,
                        long cores)
{
    static const char name[] = "more ranks than cores";
    char command[128];
    char line[200];
    int failed;

    if (world->launched) {
        add(findings, name, NOTE, "start pagelane doctor without mpirun",
            "not tried: this is one of %d rank%s that mpirun started",
            world->size, pl_text_s(world->size));
        return;
    }
    (void)snprintf(command, sizeof(command), "mpirun -n %ld true 2>&1",
                   cores + 1);
    failed = ask(command, line, (int)sizeof(line));
    add(findings, name, failed == 0 ? OK : WRONG,
        "run that mpirun by hand and read what it says", "mpirun -n %ld %s",
        cores + 1, failed == 0 ? "works" : "fails");
}

static void check_mpi(findings_t *findings, const pl_cli_world_t *world)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    char line[200];
    int failed;

    pl_cli_mpirun_environment(); /* as `pagelane run --ranks` starts it */
    failed = ask("mpirun --version 2>&1", line, (int)sizeof(line));
    add(findings, "mpirun", failed == 0 ? OK : WRONG,
        "apt-get install openmpi-bin", "%s",
        failed == 0 ? line : "not found in PATH");
    add(findings, "cores", OK, "", "%ld", cores);
    if (failed != 0) {
        return;
    }
    check_ranks(findings, world, cores);
    if (geteuid() == 0) {
        add(findings, "root", NOTE,
            "for an mpirun of your own: export OMPI_ALLOW_RUN_AS_ROOT=1 "
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
            "you are root; pagelane run --ranks allows it by itself");
    }
}

static void check_hdf5(findings_t *findings)
{
    char line[200];
    int failed = ask("h5diff --version 2>&1", line, (int)sizeof(line));

    add(findings, "HDF5", OK, "", "parallel, linked in");
    add(findings, "h5diff", failed == 0 ? OK : NOTE,
        "apt-get install hdf5-tools, to compare snapshots", "%s",
        failed == 0 ? line : "not found in PATH");
}

/* Free bytes of a file system; -1 if it cannot be asked. */
static int64_t free_bytes(const char *path)
{
    struct statvfs fs;

    if (statvfs(path, &fs) != 0) {
        return -1;
    }
    return (int64_t)(fs.f_bavail * fs.f_frsize);
}

static void check_folders(findings_t *findings)
{
    static const int64_t MIB = INT64_C(1) << 20;
    const char *session      = getenv("TMPDIR");
    int64_t shm              = free_bytes("/dev/shm");
    int64_t bytes;

    add(findings, "/dev/shm", shm >= 256 * MIB ? OK : NOTE,
        "ranks on one machine talk through it: docker run --shm-size=1g",
        "%" PRId64 " MiB free", shm < 0 ? 0 : shm / MIB);
    session = (session == NULL) ? "/tmp" : session;
    bytes   = (access(session, W_OK) == 0) ? free_bytes(session) : -1;
    add(findings, "session folder", bytes >= 64 * MIB ? OK : WRONG,
        "name a folder with room that you may write to in TMPDIR",
        "%.100s: %" PRId64 " MiB free", session, bytes < 0 ? 0 : bytes / MIB);
}

static void check_memory(findings_t *findings)
{
    FILE *file  = fopen("/proc/meminfo", "r");
    int64_t kib = -1;
    char line[200];

    while ((file != NULL) && (fgets(line, (int)sizeof(line), file) != NULL)) {
        if (strncmp(line, "MemAvailable:", 13) == 0) {
            kib = strtoll(line + 13, NULL, 10);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    add(findings, "memory", kib >= 1024 * 1024 ? OK : NOTE,
        "less than 1 GiB: use smaller tiers (--device-pages, --host-pages)",
        "%" PRId64 " MiB available", kib < 0 ? 0 : kib / 1024);
}

static void check_gpu(findings_t *findings)
{
    const char *built = strstr(pl_version_built_with(), "CUDA");
    char why[256]     = "";
    char line[200];
    int failed = ask("nvidia-smi -L 2>/dev/null", line, (int)sizeof(line));
    const pl_cuda_module_t *module = pl_cuda_open(why, sizeof(why));
    int n = module != NULL ? module->count(why, sizeof(why)) : 0;

    add(findings, "GPU", failed == 0 ? OK : NOTE,
        "none needed: --device cpu does all; a GPU needs NVIDIA's driver", "%s",
        failed == 0 ? line : "none (nvidia-smi lists none)");
    if (built != NULL) {
        built += strspn(built + 4, " ") + 4;
        add(findings, "CUDA and NCCL", OK, "", "%.*s",
            (int)strcspn(built, "\n"), built);
    }
    (void)snprintf(line, sizeof(line), "%d GPU%s", n, pl_text_s(n));
    add(findings, "--device cuda", n > 0 ? OK : NOTE,
        "none needed: --device cpu does all; for GPUs, README.md has a section",
        "%s", n > 0 ? line : why);
}

static pl_status_t print_table(const findings_t *findings)
{
    pl_table_t *table = pl_table_open("check<,state<,found<");
    pl_status_t status;

    for (size_t i = 0; i < findings->list.n; i++) {
        const finding_t *f = &findings->list.items[i];

        pl_table_cell(table, "%s", f->name);
        pl_table_cell(table, "%s", STATE_NAMES[f->state]);
        pl_table_cell(table, "%s", f->found);
    }
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    for (size_t i = 0; i < findings->list.n; i++) {
        const finding_t *f = &findings->list.items[i];

        if (f->state != OK) {
            printf("\n%s: %s\n", f->name, f->fix);
        }
    }
    return status;
}

static pl_status_t print_json(const findings_t *findings)
{
    json_object *list = json_object_new_array();
    const char *text;

    if (list == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < findings->list.n; i++) {
        const finding_t *f = &findings->list.items[i];
        json_object *item  = json_object_new_object();

        json_object_object_add(item, "check", json_object_new_string(f->name));
        json_object_object_add(item, "state",
                               json_object_new_string(STATE_NAMES[f->state]));
        json_object_object_add(item, "found", json_object_new_string(f->found));
        json_object_object_add(item, "what_to_do",
                               json_object_new_string(f->fix));
        json_object_array_add(list, item);
    }
    text = json_object_to_json_string_ext(list, JSON_C_TO_STRING_PRETTY |
                                                    JSON_C_TO_STRING_SPACED);
    printf("%s\n", text == NULL ? "" : text);
    json_object_put(list);
    return text == NULL ? PL_ERR_MEMORY : PL_OK;
}

int pl_cli_doctor(const pl_cli_t *cli)
{
    findings_t findings = {0};
    pl_status_t status;

    check_mpi(&findings, &cli->world);
    check_hdf5(&findings);
    check_folders(&findings);
    check_memory(&findings);
    check_gpu(&findings);

    status = findings.status;
    if (status == PL_OK) {
        status =
            cli->options.json ? print_json(&findings) : print_table(&findings);
    }
    for (size_t i = 0; i < findings.list.n; i++) {
        if ((status == PL_OK) && (findings.list.items[i].state == WRONG)) {
            status = PL_ERR_RESOURCE;
        }
        free(findings.list.items[i].found);
    }
    PL_ARRAY_FREE(&findings.list);
    return pl_status_exit(status);
}
