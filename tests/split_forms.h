/* What a device sends in one step of a split job, in closed form, from shapes alone (parallel-cache-quant.md 1.1):
   beside what plans say and transports count, a third way to the same number. Every value that is sent has e = 4 bytes,
   as on the fp32 rung.

   Of N equal parts, where N divides rows and heads and there are no text rows, a layer comes to the document's
   formulas, which form_document has as the planner does.

   Include it after dit.h's implementation. */
#ifndef SPLIT_FORMS_H
#define SPLIT_FORMS_H

typedef struct form_shape {
    uint64_t heads, head_dim;
    uint64_t image, text; /* rows of an item; text: of those that attend with the image */
    uint64_t layers;
    uint64_t dual;    /* bit i: block i has an attention of the image's rows besides */
    bool skips;       /* block i leaves its rows for block layers - 1 - i (i + 1 < layers / 2) */
    uint64_t sums;    /* over devices that divide matrices, in a block: over the rows of all items together */
    uint64_t singles; /* so many last blocks have one */
    bool last_image;  /* those of the last block are over the image's rows, item by item */
    uint64_t items;   /* images, of one branch of guidance */
    uint64_t branches;
    uint64_t out_columns; /* of the last layer, per row */
    uint64_t latent;      /* values of all images */
} form_shape;

enum { FORM_ELEMENT = 4 };

/* Member i of `members` has [i, i + 1) of so many parts, to the nearest whole one. */
static inline uint64_t form_first(uint64_t total, uint64_t i, uint64_t members) {
    return (2 * total * i + members) / (2 * members);
}

static inline uint64_t form_part(uint64_t total, uint64_t i, uint64_t members) {
    return form_first(total, i + 1, members) - form_first(total, i, members);
}

typedef struct form_rank {          /* a rank's place, innermost axis first, and what it sends in a step */
    uint64_t tensor, ulysses, ring; /* places */
    uint64_t t, u, r;               /* degrees */
    uint64_t in, b;                 /* of a grid of those of tensor, its place in a row of so many */
    uint64_t heads;                 /* of its matrices */
    bool stale;                     /* PipeFusion, which keeps keys and values */
} form_rank;

static inline uint64_t form_rows(const form_shape *shape, const form_rank *rank, uint64_t member, bool text) {
    uint64_t members = rank->u * rank->r;
    return form_part(shape->image, member, members) + (text ? form_part(shape->text, member, members) : 0);
}

/* Of one attention and one item: rows against heads, keys and values round the ring, heads against rows. */
static inline uint64_t form_attention(const form_shape *shape, const form_rank *rank, bool text) {
    uint64_t width = rank->heads * shape->head_dim, self = rank->ring * rank->u + rank->ulysses, sum = 0, i, k;
    uint64_t own = form_rows(shape, rank, self, text);
    uint64_t own_width = form_part(rank->heads, rank->ulysses, rank->u) * shape->head_dim;
    uint64_t gathered = 0, all = 0, next = 0;
    for (i = 0; i < rank->r; i++) {
        for (k = 0; k < rank->u; k++) {
            uint64_t rows = form_rows(shape, rank, i * rank->u + k, text);
            all += rows;
            if (i == rank->ring) gathered += rows;
            if (i == (rank->ring + 1) % rank->r) next += rows;
        }
    }
    sum += own * 3 * (width - own_width); /* queries, keys, values of heads that are others' */
    if (rank->stale)                      /* everyone's to everyone, as all are kept */
        sum += 2 * gathered * own_width * (rank->r - 1);
    else if (rank->r > 1)
        sum += 2 * (all - next) * own_width;   /* all but what the next member has by itself */
    return sum + (gathered - own) * own_width; /* outputs of rows that are others' */
}

/* Every member's part of the rows to that member, its sum to all (in F32). */
static inline uint64_t form_reduce(uint64_t rows, uint64_t columns, uint64_t member, uint64_t members) {
    uint64_t own = form_part(rows, member, members);
    return ((rows - own) + (members - 1) * own) * columns;
}

/* Of the residual stream; of a grid, of the columns that its rows' members make, and those to all of the row. */
static inline uint64_t form_sum(const form_shape *shape, const form_rank *rank, uint64_t rows) {
    uint64_t width = shape->heads * shape->head_dim;
    uint64_t columns = rank->b > 1 ? 4 * form_part(width / 4, rank->in, rank->b) : width;
    return form_reduce(rows, columns, rank->tensor / rank->b, rank->t / rank->b) + rows * columns * (rank->b - 1);
}

/* Of a grid: what a pair's first matrix makes, in a block: queries, keys and values (the text's own apart), then the
   feed-forward. */
static inline uint64_t form_firsts(const form_shape *shape, const form_rank *rank, uint64_t items, uint64_t image,
                                   uint64_t text, uint64_t block) {
    uint64_t width = rank->heads * shape->head_dim, all = 4 * shape->heads * shape->head_dim, rows, sum;
    uint64_t unit = all % 16 == 0 && all / 16 >= rank->t / rank->b ? 16 : 4;
    uint64_t feed = unit * form_part(all / unit, rank->tensor / rank->b, rank->t / rank->b);
    rows = items * (image + text);
    sum = form_reduce(rows, 3 * width, rank->in, rank->b);
    if (shape->sums == 3) sum += form_reduce(rows, width, rank->in, rank->b);
    if (shape->dual >> block & 1) sum += form_reduce(items * image, 3 * width, rank->in, rank->b);
    if (shape->last_image && block + 1 == shape->layers) rows = items * image;
    return sum + form_reduce(rows, feed, rank->in, rank->b);
}

/* Columns of a matrix, by fours, of which each member has some and all come to have all. */
static inline uint64_t form_columns(uint64_t columns, uint64_t tensor, uint64_t members) {
    uint64_t own = 4 * form_part(columns / 4, tensor, members);
    return columns / 4 < members ? 0 : own * (members - 1);
}

static inline uint64_t form_sums(const form_shape *shape, const form_rank *rank, uint64_t items, uint64_t image,
                                 uint64_t text, uint64_t block) {
    uint64_t together = form_sum(shape, rank, items * (image + text)), one = items * form_sum(shape, rank, image);
    uint64_t sum = shape->sums * together;
    if (rank->t == 1) return 0;
    if (block + shape->singles >= shape->layers) sum = together;
    if (block + 1 == shape->layers && shape->last_image) sum = (text ? one : together) + one;
    if (shape->skips && block > shape->layers / 2) /* a layer for itself, whose columns all come to have */
        sum += items * image * form_columns(shape->heads * shape->head_dim, rank->tensor, rank->t);
    if (rank->b > 1) sum += form_firsts(shape, rank, items, image, text, block);
    return sum + (shape->dual >> block & 1) * one;
}

/* Between stages that have some of the layers each, for one item: the rows to the next one, skips to those that take
   them, and from the last one the prediction to `last` others. */
static inline uint64_t form_stage(const form_shape *shape, uint64_t rows, uint64_t stage, uint64_t stages,
                                  uint64_t last) {
    uint64_t width = shape->heads * shape->head_dim, sum = stage + 1 < stages ? rows * width : 0, i;
    uint64_t first = form_first(shape->layers, stage, stages), end = form_first(shape->layers, stage + 1, stages);
    for (i = first; shape->skips && i < end && i + 1 < shape->layers / 2; i++)
        if (shape->layers - 1 - i >= end) sum += rows * width;
    return stage + 1 < stages ? sum : last * shape->latent / shape->items;
}

/* Of one evaluation; false: the split is none. */
static inline bool form_step(const form_shape *shape, const diti_split *split, uint64_t index, uint64_t *bytes) {
    uint64_t items = shape->items * shape->branches / split->degree[DITI_SPLIT_CFG], members, self, i, rows;
    uint64_t piped = split->degree[DITI_SPLIT_PIPEFUSION], stages = split->degree[DITI_SPLIT_LAYERS] * piped, stage;
    uint64_t branches = split->degree[DITI_SPLIT_CFG];
    form_rank rank;
    rank.t = split->degree[DITI_SPLIT_TENSOR];
    rank.u = split->degree[DITI_SPLIT_ULYSSES];
    rank.r = split->degree[DITI_SPLIT_RING];
    rank.tensor = index % rank.t;
    rank.ulysses = index / rank.t % rank.u;
    rank.ring = index / (rank.t * rank.u) % rank.r;
    rank.stale = piped > 1;
    rank.b = split->inputs ? split->inputs : 1;
    rank.in = rank.tensor % rank.b;
    rank.heads = form_part(shape->heads, rank.tensor / rank.b, rank.t / rank.b);
    members = rank.u * rank.r;
    stage = index / (rank.t * members) % stages;
    self = rank.ring * rank.u + rank.ulysses;
    rows = form_rows(shape, &rank, self, true);
    *bytes = 0;
    if (diti_split_ranks(split) != rank.t * members * stages * split->degree[DITI_SPLIT_CFG]) return false;
    for (i = form_first(shape->layers, stage, stages); i < form_first(shape->layers, stage + 1, stages); i++) {
        *bytes += items * form_attention(shape, &rank, true);
        *bytes += form_sums(shape, &rank, items, form_rows(shape, &rank, self, false),
                            rows - form_rows(shape, &rank, self, false), i);
        if (shape->dual >> i & 1) *bytes += items * form_attention(shape, &rank, false);
    }
    if (stage + 1 == stages) /* all members of the last stage come to have all rows */
        *bytes += items * form_part(shape->image, self, members) * shape->out_columns * (members - 1);
    if (stages > 1) /* layers: to all other stages; PipeFusion: to the first one of each branch */
        *bytes += items * form_stage(shape, rows, stage, stages, piped > 1 ? branches : stages - 1);
    if (branches == 2 && piped == 1) *bytes += shape->latent; /* the prediction, to the other branch */
    *bytes *= FORM_ELEMENT;
    return true;
}

/* Of all steps; columns, rows: of tokens. PipeFusion's are patch by patch behind the warm-up: strips of whole rows, the
   text's with the first. */
static inline bool form_steps(const form_shape *shape, const diti_split_plan *plan, uint64_t index, uint64_t columns,
                              uint64_t rows, uint64_t steps, uint64_t *bytes) {
    uint64_t whole = plan->split.degree[DITI_SPLIT_PIPEFUSION] < 2 || steps < plan->warmup ? steps : plan->warmup, i,
             one;
    bool known = form_step(shape, &plan->split, index, bytes);
    *bytes *= whole;
    for (i = 0; i < plan->patches && whole < steps; i++) {
        form_shape patch = *shape;
        uint64_t count = rows * (i + 1) / plan->patches - rows * i / plan->patches;
        patch.image = count * columns;
        patch.latent = shape->latent * count / rows;
        if (i) patch.text = 0;
        form_step(&patch, &plan->split, index, &one);
        *bytes += one * (steps - whole);
    }
    return known;
}

/* The layers alone, of one attention each: what the closed form must come to where everything divides. */
static inline bool form_document(const form_shape *shape, const diti_split *split, double *bytes) {
    diti_split_shape document = DITI_ZERO;
    uint64_t members = (uint64_t)split->degree[DITI_SPLIT_ULYSSES] * split->degree[DITI_SPLIT_RING];
    document.layers = (uint32_t)shape->layers;
    document.hidden = (uint32_t)(shape->heads * shape->head_dim);
    document.heads = (uint32_t)shape->heads;
    document.rows = (uint32_t)shape->image;
    *bytes = (double)(shape->layers * shape->items * shape->branches / split->degree[DITI_SPLIT_CFG]) *
             (diti_split_bytes(&document, split, DITI_SPLIT_ULYSSES, FORM_ELEMENT) +
              diti_split_bytes(&document, split, DITI_SPLIT_RING, FORM_ELEMENT) +
              diti_split_bytes(&document, split, DITI_SPLIT_TENSOR, FORM_ELEMENT));
    return !split->inputs && !shape->text && !shape->dual && shape->image % members == 0 &&
           shape->heads % (split->degree[DITI_SPLIT_ULYSSES] * split->degree[DITI_SPLIT_TENSOR]) == 0 &&
           (split->degree[DITI_SPLIT_TENSOR] == 1 ||
            (shape->sums == 2 && shape->image / members % split->degree[DITI_SPLIT_TENSOR] == 0)) &&
           diti_split_ranks(split) == members * split->degree[DITI_SPLIT_TENSOR] * split->degree[DITI_SPLIT_CFG];
}
#endif
