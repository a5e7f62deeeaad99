#include "property/cache/policy_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_QUEUE, SECOND_QUEUE };

void model_open(model_t *m, model_policy_t policy, int capacity)
{
    memset(m, 0, sizeof(*m));
    m->policy                 = policy;
    m->capacity               = capacity;
    m->n_free                 = capacity;
    m->next_id                = 1;
    m->hand_id                = -1;
    m->nodes[MODEL_ROOT].used = true;
}

/* ---- the tree ---- */

static int new_node(model_t *m)
{
    int i = 0;

    while (m->nodes[i].used) {
        if (++i == MODEL_NODES) {
            fprintf(stderr, "more nodes than the model has room for\n");
            abort();
        }
    }
    memset(&m->nodes[i], 0, sizeof(m->nodes[i]));
    m->nodes[i].used = true;
    m->nodes[i].id   = m->next_id++;
    return i;
}

static bool is_leaf(const model_t *m, int node)
{
    for (int i = 1; i < MODEL_NODES; i++) {
        if (m->nodes[i].used && (m->nodes[i].parent == node)) {
            return false;
        }
    }
    return true;
}

static int child_with(const model_t *m, int node, uint64_t word)
{
    for (int i = 1; i < MODEL_NODES; i++) {
        if (m->nodes[i].used && (m->nodes[i].parent == node) &&
            (m->nodes[i].words[0] == word)) {
            return i;
        }
    }
    return -1;
}

static int in_common(const model_node_t *node, const uint64_t *words, int n)
{
    int i = 0;

    while ((i < n) && (i < node->n) && (node->words[i] == words[i])) {
        i++;
    }
    return i;
}

static uint64_t prefix_name(uint64_t before, const uint64_t *words, int n)
{
    for (int i = 0; i < n; i++) {
        before = before * UINT64_C(6364136223846793005) + words[i] + 1;
    }
    return before;
}

/* Names the prefix that ends before the node. */
static uint64_t name_before(const model_t *m, int node)
{
    const model_node_t *parent = &m->nodes[m->nodes[node].parent];

    return m->nodes[node].parent == MODEL_ROOT
               ? 1
               : prefix_name(parent->first, parent->words + 1, parent->n - 1);
}

static void name_first(model_t *m, int node)
{
    m->nodes[node].first =
        prefix_name(name_before(m, node), m->nodes[node].words, 1);
}

/* The head takes the first `at` pages and stands where the node does. */
static int split(model_t *m, int node, int at)
{
    int head         = new_node(m);
    int64_t id       = m->nodes[head].id;
    model_node_t *it = &m->nodes[node];

    m->nodes[head]    = *it;
    m->nodes[head].id = id;
    m->nodes[head].n  = at;
    memmove(it->words, it->words + at,
            (size_t)(it->n - at) * sizeof(*it->words));
    it->n -= at;
    it->parent = head;
    name_first(m, node);
    return head;
}

int model_peek(const model_t *m, const uint64_t *words, int n)
{
    int found = 0;
    int node  = MODEL_ROOT;

    while (found < n) {
        int child = child_with(m, node, words[found]);
        int same;

        if (child < 0) {
            break;
        }
        same = in_common(&m->nodes[child], words + found, n - found);
        found += same;
        node = child;
        if (same < m->nodes[child].n) {
            break;
        }
    }
    return found;
}

static void stamp(model_t *m, int node)
{
    m->clock++;
    for (; node != MODEL_ROOT; node = m->nodes[node].parent) {
        m->nodes[node].last_access = m->clock;
    }
}

int model_match(model_t *m, const uint64_t *words, int n, int *node_p)
{
    int found = 0;
    int node  = MODEL_ROOT;

    while (found < n) {
        int child = child_with(m, node, words[found]);
        int same;

        if (child < 0) {
            break;
        }
        same = in_common(&m->nodes[child], words + found, n - found);
        found += same;
        if (same < m->nodes[child].n) {
            node = split(m, child, same);
            break;
        }
        node = child;
    }
    stamp(m, node);
    *node_p = node;
    return found;
}

void model_lock(model_t *m, int node, int by)
{
    for (; node != MODEL_ROOT; node = m->nodes[node].parent) {
        m->nodes[node].n_locks += by;
    }
}

/* ---- queues ---- */

static int pages_in(const model_t *m, int queue)
{
    int n = 0;

    for (int i = 1; i < MODEL_NODES; i++) {
        n += m->nodes[i].used && (m->nodes[i].queue == queue) ? m->nodes[i].n
                                                              : 0;
    }
    return n;
}

static bool stands_after(const model_node_t *a, int64_t place, int64_t id)
{
    return a->place != place ? a->place > place : a->id > id;
}

/* The oldest of a queue that stands after a place; leaves that nobody uses, or
 * any node; -1: none. */
static int oldest(const model_t *m, int queue, bool leaves, int64_t place,
                  int64_t id)
{
    int best = -1;

    for (int i = 1; i < MODEL_NODES; i++) {
        const model_node_t *node = &m->nodes[i];

        if (!node->used || (node->queue != queue) ||
            (leaves && ((node->n_locks > 0) || !is_leaf(m, i))) ||
            !stands_after(node, place, id)) {
            continue;
        }
        if ((best < 0) ||
            stands_after(&m->nodes[best], node->place, node->id)) {
            best = i;
        }
    }
    return best;
}

static int oldest_leaf(const model_t *m, int queue)
{
    return oldest(m, queue, true, -1, -1);
}

/* ---- S3-FIFO's ghosts ---- */

static void drop_ghost(model_t *m, int i)
{
    memmove(&m->ghosts[i], &m->ghosts[i + 1],
            (size_t)(--m->n_ghosts - i) * sizeof(m->ghosts[0]));
}

static bool take_ghost(model_t *m, uint64_t first)
{
    for (int i = 0; i < m->n_ghosts; i++) {
        if (m->ghosts[i].first == first) {
            drop_ghost(m, i);
            return true;
        }
    }
    return false;
}

static void add_ghost(model_t *m, const model_node_t *node)
{
    int most = m->capacity - m->capacity / 10;
    int sum  = node->n;

    take_ghost(m, node->first);
    if (node->n > most) {
        return;
    }
    for (int i = 0; i < m->n_ghosts; i++) {
        sum += m->ghosts[i].n;
    }
    while (sum > most) {
        sum -= m->ghosts[0].n;
        drop_ghost(m, 0);
    }
    m->ghosts[m->n_ghosts].first = node->first;
    m->ghosts[m->n_ghosts++].n   = node->n;
}

/* ---- who goes ---- */

static bool comes_before(const model_t *m, const model_node_t *a,
                         const model_node_t *b)
{
    if ((m->policy == MODEL_LFU) && (a->hits != b->hits)) {
        return a->hits < b->hits;
    }
    return a->last_access != b->last_access ? a->last_access < b->last_access
                                            : a->id < b->id;
}

static int least(const model_t *m)
{
    int best = -1;

    for (int i = 1; i < MODEL_NODES; i++) {
        if (m->nodes[i].used && (m->nodes[i].n_locks == 0) && is_leaf(m, i) &&
            ((best < 0) || comes_before(m, &m->nodes[i], &m->nodes[best]))) {
            best = i;
        }
    }
    return best;
}

static int s3fifo_victim(model_t *m)
{
    for (;;) {
        int queue = pages_in(m, FIRST_QUEUE) * 10 >= m->capacity ? FIRST_QUEUE
                                                                 : SECOND_QUEUE;
        int node  = oldest_leaf(m, queue);

        if (node < 0) {
            queue = 1 - queue;
            node  = oldest_leaf(m, queue);
        }
        if (node < 0) {
            return -1;
        }
        if (m->nodes[node].uses <= (queue == FIRST_QUEUE ? 1 : 0)) {
            return node;
        }
        m->nodes[node].uses =
            queue == FIRST_QUEUE ? 0 : m->nodes[node].uses - 1;
        m->nodes[node].queue = SECOND_QUEUE;
        m->nodes[node].place = ++m->places;
    }
}

/* `rest`: what the last victim left as a leaf, or -1. */
static int sieve_victim(model_t *m, int rest)
{
    if (oldest_leaf(m, FIRST_QUEUE) < 0) {
        return -1;
    }
    for (;;) {
        int node = rest;

        rest = -1;
        if ((node < 0) ||
            stands_after(&m->nodes[node], m->hand_place, m->hand_id)) {
            node = oldest(m, FIRST_QUEUE, true, m->hand_place, m->hand_id);
            if (node < 0) { /* from the oldest again */
                m->hand_place = 0;
                m->hand_id    = -1;
                continue;
            }
            m->hand_place = m->nodes[node].place;
            m->hand_id    = m->nodes[node].id;
        }
        if (m->nodes[node].uses == 0) {
            return node;
        }
        m->nodes[node].uses = 0;
    }
}

static int victim(model_t *m, int rest)
{
    int node;

    switch (m->policy) {
    case MODEL_S3FIFO:
        return s3fifo_victim(m);
    case MODEL_SIEVE:
        return sieve_victim(m, rest);
    case MODEL_SLRU:
    case MODEL_FIFO:
        node = oldest_leaf(m, FIRST_QUEUE);
        return node >= 0 ? node : oldest_leaf(m, SECOND_QUEUE);
    case MODEL_LRU:
    case MODEL_LFU:
    default:
        return least(m);
    }
}

/* ---- changes ---- */

bool model_extend(model_t *m, int n)
{
    int rest = -1;

    while (m->n_free < n) {
        int need = n - m->n_free;
        int node = victim(m, rest);
        int parent;

        if (node < 0) {
            return false;
        }
        if (m->nodes[node].n > need) {
            split(m, node, m->nodes[node].n - need);
        }
        parent = m->nodes[node].parent;
        if ((m->policy == MODEL_S3FIFO) &&
            (m->nodes[node].queue == FIRST_QUEUE)) {
            add_ghost(m, &m->nodes[node]);
        }
        m->n_free += m->nodes[node].n;
        m->nodes[node].used = false;
        rest = (parent != MODEL_ROOT) && (m->nodes[parent].n_locks == 0) &&
                       is_leaf(m, parent)
                   ? parent
                   : -1;
    }
    m->n_free -= n;
    return true;
}

int model_insert(model_t *m, int at, const uint64_t *words, int n)
{
    int fresh          = new_node(m);
    model_node_t *node = &m->nodes[fresh];

    node->parent = at;
    node->n      = n;
    node->is_new = true;
    node->place  = ++m->places;
    memcpy(node->words, words, (size_t)n * sizeof(*words));
    name_first(m, fresh);
    if (m->policy == MODEL_S3FIFO) {
        node->queue = take_ghost(m, node->first) ? SECOND_QUEUE : FIRST_QUEUE;
    }
    stamp(m, fresh);
    return fresh;
}

static void slru_access(model_t *m, model_node_t *node)
{
    node->queue = SECOND_QUEUE;
    node->place = ++m->places;
    while (pages_in(m, SECOND_QUEUE) > m->capacity * 8 / 10) {
        model_node_t *oldest_one =
            &m->nodes[oldest(m, SECOND_QUEUE, false, -1, -1)];

        oldest_one->queue = FIRST_QUEUE;
        oldest_one->place = ++m->places;
    }
}

static void access_node(model_t *m, model_node_t *node)
{
    if (node->is_new) {
        node->is_new = false;
        return;
    }
    switch (m->policy) {
    case MODEL_SLRU:
        slru_access(m, node);
        break;
    case MODEL_S3FIFO:
        node->uses += node->uses < 3 ? 1 : 0;
        break;
    case MODEL_SIEVE:
        node->uses = 1;
        break;
    default:
        break;
    }
}

void model_done(model_t *m, int node)
{
    for (; node != MODEL_ROOT; node = m->nodes[node].parent) {
        m->nodes[node].hits++;
        access_node(m, &m->nodes[node]);
    }
}
