/* The bytes that a device sends in one step of a split job, in closed form, from shapes alone (docs/parallel.md 1.1): a
   third way to the number that plans say and transports count. Every value that is sent has e = 4 bytes, as on the fp32
   rung; a row of c values that goes as int8 has c bytes, zeros up to 16, and 16 for its scale: heads, keys and values,
   their outputs, and rows between stages. Devices of unequal shares have parts in proportion: the share of a member of
   an axis is the sum of the shares of the devices that it stands for.

   Where there are N equal parts, N divides rows and heads, and there are no text rows, a layer comes to the page's
   formulas, which form_document evaluates as the planner does.

   Include it after the library. */
#ifndef SPLIT_FORMS_H
#define SPLIT_FORMS_H

typedef struct form_shape {
    uint64_t heads, head_dim;
    uint64_t feed;        /* columns of a feed-forward */
    uint64_t image, text; /* rows of an item; text: of those that attend with the image */
    uint64_t unit;        /* rows of the image that stay together, a frame's; 0: 1 */
    uint64_t turns;       /* attentions of a block to the same place in all frames; others are within frames */
    uint64_t layers;
    uint64_t dual;        /* bit i: block i has an attention of the image's rows besides */
    bool skips;           /* block i leaves its rows for block layers - 1 - i (i + 1 < layers / 2) */
    uint64_t sums;        /* over devices that divide matrices, in a block: over the rows of all items together */
    uint64_t singles;     /* so many last blocks have one */
    uint64_t whole_norms; /* norms of all heads together, for which devices that divide matrices exchange these */
    bool last_image;      /* the sums of the last block are over the image's rows, item by item */
    uint64_t items;       /* images, of one branch of guidance */
    uint64_t branches;
    uint64_t out_columns; /* of the last layer, per row */
    uint64_t latent;      /* values of all images */
} form_shape;

enum { FORM_ELEMENT = 4 };

typedef struct form_axis { /* who divides something among them; member i has weights[i] of it */
    uint64_t members;
    double weights[DITI_SPLIT_DEVICES];
} form_axis;

/* Member i has [form_first(i), form_first(i + 1)), each to the nearest whole one; where there are enough for all, each
   has one at least. */
static inline uint64_t form_first(uint64_t total, uint64_t i, const form_axis *axis) {
    uint64_t first = 0, k, least, most, each = total >= axis->members;
    double before = 0, all = 0;
    for (k = 0; k < axis->members; k++) all += axis->weights[k];
    for (k = 1; k <= i; k++) {
        before += axis->weights[k - 1];
        least = first + each;
        most = each ? total - (axis->members - k) : total;
        first = (uint64_t)((double)total * (before / all) + 0.5);
        first = first < least ? least : first > most ? most : first;
    }
    return first;
}

static inline uint64_t form_part(uint64_t total, uint64_t i, const form_axis *axis) {
    return form_first(total, i + 1, axis) - form_first(total, i, axis);
}

/* Axes [first, end) of the mesh as one, for a rank: shares are those of all ranks; NULL: equal ones. */
static inline form_axis form_axis_of(const diti_split *split, const double *shares, uint64_t rank, uint32_t first,
                                     uint32_t end) {
    uint64_t stride = 1, branch = 1, begin, i;
    form_axis axis = DITI_ZERO;
    uint32_t k;
    axis.members = 1;
    for (k = 0; k < DITI_SPLIT_CFG; k++) {
        if (k < first) stride *= split->degree[k];
        if (k >= first && k < end) axis.members *= split->degree[k];
        branch *= split->degree[k];
    }
    begin = rank / branch * branch;
    for (i = begin; i < begin + branch; i++) axis.weights[i / stride % axis.members] += shares ? shares[i] : 1;
    return axis;
}

/* One axis of a grid whose rows have b devices: its rows (out), or the b places within a row (in). The weight of a
   member is the sum over the devices that it stands for. */
static inline form_axis form_axis_part(const form_axis *all, uint64_t b, bool in) {
    form_axis axis = DITI_ZERO;
    uint64_t i;
    axis.members = in ? b : all->members / b;
    for (i = 0; i < all->members; i++) axis.weights[in ? i % b : i / b] += all->weights[i];
    return axis;
}

typedef struct form_rank { /* a rank's place on each axis, innermost axis first, and what it sends in a step */
    uint64_t tensor, ulysses, ring, stage;       /* places */
    uint64_t u, r;                               /* degrees */
    form_axis matrices, heads, sequence, stages; /* tensor; ulysses; ulysses and ring; pipefusion or layers */
    form_axis out, in;                           /* the two axes of a grid of matrices */
    uint64_t own_heads;                          /* the heads that its matrices have */
    bool kept_kv;                                /* PipeFusion, which keeps keys and values */
    bool int8;                                   /* payloads */
} form_rank;

static inline form_rank form_rank_of(const form_shape *shape, const diti_split_plan *plan, const double *shares,
                                     uint64_t index) {
    const diti_split *split = &plan->split;
    form_rank rank = DITI_ZERO;
    uint64_t b = split->inputs ? split->inputs : 1, t = split->degree[DITI_SPLIT_TENSOR];
    rank.u = split->degree[DITI_SPLIT_ULYSSES];
    rank.r = split->degree[DITI_SPLIT_RING];
    rank.matrices = form_axis_of(split, shares, index, DITI_SPLIT_TENSOR, DITI_SPLIT_ULYSSES);
    rank.heads = form_axis_of(split, shares, index, DITI_SPLIT_ULYSSES, DITI_SPLIT_RING);
    rank.sequence = form_axis_of(split, shares, index, DITI_SPLIT_ULYSSES, DITI_SPLIT_PIPEFUSION);
    rank.stages = form_axis_of(split, shares, index, DITI_SPLIT_PIPEFUSION, DITI_SPLIT_CFG);
    rank.out = form_axis_part(&rank.matrices, b, false);
    rank.in = form_axis_part(&rank.matrices, b, true);
    rank.tensor = index % t;
    rank.ulysses = index / t % rank.u;
    rank.ring = index / (t * rank.u) % rank.r;
    rank.stage = index / (t * rank.u * rank.r) % rank.stages.members;
    rank.own_heads = form_part(shape->heads, rank.tensor / b, &rank.out);
    rank.kept_kv = split->degree[DITI_SPLIT_PIPEFUSION] > 1;
    rank.int8 = plan->int8;
    return rank;
}

/* Bytes of a row of so many values that may go as int8. */
static inline uint64_t form_payload(const form_rank *rank, uint64_t columns) {
    return !rank->int8 ? columns * FORM_ELEMENT : columns ? (columns + 15) / 16 * 16 + 16 : 0;
}

static inline uint64_t form_rows(const form_shape *shape, const form_rank *rank, uint64_t member, bool text) {
    uint64_t unit = shape->unit ? shape->unit : 1;
    return unit * form_part(shape->image / unit, member, &rank->sequence) +
           (text ? form_part(shape->text, member, &rank->sequence) : 0);
}

/* Bytes of an attention to the same place in all frames, for one item: frames against places before it, the whole
   width, and back behind it, the heads that matrices have here. */
static inline uint64_t form_turn(const form_shape *shape, const form_rank *rank) {
    uint64_t width = shape->heads * shape->head_dim, all = shape->image / shape->unit, sum = 0, k;
    uint64_t own = form_part(all, rank->ulysses, &rank->sequence),
             places = form_part(shape->unit, rank->ulysses, &rank->sequence);
    for (k = 0; k < rank->u; k++)
        if (k != rank->ulysses) sum += own * form_payload(rank, form_part(shape->unit, k, &rank->sequence) * width);
    return sum + (all - own) * form_payload(rank, places * rank->own_heads * shape->head_dim);
}

/* Bytes of one attention and one item: rows against heads, keys and values round the ring, heads against rows. */
static inline uint64_t form_attention(const form_shape *shape, const form_rank *rank, bool text) {
    uint64_t self = rank->ring * rank->u + rank->ulysses, sum = 0, i, k;
    uint64_t own = form_rows(shape, rank, self, text), gathered = 0, all = 0, next = 0;
    uint64_t own_width = form_part(rank->own_heads, rank->ulysses, &rank->heads) * shape->head_dim;
    for (i = 0; i < rank->r; i++) {
        for (k = 0; k < rank->u; k++) {
            uint64_t rows = form_rows(shape, rank, i * rank->u + k, text);
            all += rows;
            if (i == rank->ring) gathered += rows;
            if (i == (rank->ring + 1) % rank->r) next += rows;
        }
    }
    for (k = 0; k < rank->u; k++) /* queries, keys, values of heads that are others' */
        if (k != rank->ulysses)
            sum += own * 3 * form_payload(rank, form_part(rank->own_heads, k, &rank->heads) * shape->head_dim);
    if (rank->kept_kv) /* everyone's to everyone, as all are kept; keys and values as one */
        sum += gathered * form_payload(rank, 2 * own_width) * (rank->r - 1);
    else if (rank->r > 1)
        sum += (all - next) * 2 * form_payload(rank, own_width);   /* all but what the next member has by itself */
    return sum + (gathered - own) * form_payload(rank, own_width); /* outputs of rows that are others' */
}

/* Values of a sum over devices: every member's part of the rows goes to that member, and its sum to all (in F32). */
static inline uint64_t form_reduce(uint64_t rows, uint64_t columns, uint64_t member, const form_axis *axis) {
    uint64_t own = form_part(rows, member, axis);
    return ((rows - own) + (axis->members - 1) * own) * columns;
}

/* Values that a rank sends for one sum of the residual stream. In a grid it sums only the columns that its place in the
   row makes, then sends these to all others of the row. */
static inline uint64_t form_sum(const form_shape *shape, const form_rank *rank, uint64_t rows) {
    uint64_t width = shape->heads * shape->head_dim, b = rank->in.members;
    uint64_t columns = b > 1 ? 4 * form_part(width / 4, rank->tensor % b, &rank->in) : width;
    return form_reduce(rows, columns, rank->tensor / b, &rank->out) + rows * columns * (b - 1);
}

/* Values that a rank of a grid sends to sum what the first matrices of pairs make in a block: queries, keys and values
   (the text's own apart), then the feed-forward. */
static inline uint64_t form_firsts(const form_shape *shape, const form_rank *rank, uint64_t items, uint64_t image,
                                   uint64_t text, uint64_t block) {
    uint64_t width = rank->own_heads * shape->head_dim, all = shape->feed, rows, sum;
    uint64_t unit = all % 16 == 0 && all / 16 >= rank->out.members ? 16 : 4, in = rank->tensor % rank->in.members;
    uint64_t out = rank->tensor / rank->in.members, feed = unit * form_part(all / unit, out, &rank->out);
    if (out + 1 == rank->out.members) feed += all % unit;
    rows = items * (image + text);
    sum = form_reduce(rows, 3 * width, in, &rank->in);
    if (shape->sums == 3) sum += form_reduce(rows, width, in, &rank->in);
    if (shape->dual >> block & 1) sum += form_reduce(items * image, 3 * width, in, &rank->in);
    if (shape->last_image && block + 1 == shape->layers) rows = items * image;
    return sum + form_reduce(rows, feed, in, &rank->in);
}

/* Values that a member sends so that all members have all columns of a matrix, of which each has some, by fours. */
static inline uint64_t form_columns(uint64_t columns, uint64_t member, const form_axis *axis) {
    uint64_t own = 4 * form_part(columns / 4, member, axis);
    return columns / 4 < axis->members ? 0 : own * (axis->members - 1);
}

static inline uint64_t form_sums(const form_shape *shape, const form_rank *rank, uint64_t items, uint64_t image,
                                 uint64_t text, uint64_t block) {
    uint64_t together = form_sum(shape, rank, items * (image + text)), one = items * form_sum(shape, rank, image);
    uint64_t sum = shape->sums * together;
    if (rank->matrices.members == 1) return 0;
    if (block + shape->singles >= shape->layers) sum = together;
    if (block + 1 == shape->layers && shape->last_image) sum = (text ? one : together) + one;
    if (shape->skips && block > shape->layers / 2) /* a layer for itself, whose columns all come to have */
        sum += items * image * form_columns(shape->heads * shape->head_dim, rank->tensor, &rank->matrices);
    if (rank->in.members > 1) sum += form_firsts(shape, rank, items, image, text, block);
    sum += shape->whole_norms * items * image * rank->own_heads * shape->head_dim * (rank->out.members - 1);
    return sum + (shape->dual >> block & 1) * one;
}

/* Bytes between stages that have some of the layers each, for one item: the rows to the next one, skips to those that
   take them, and from the last one the prediction to `last` others. */
static inline uint64_t form_stage(const form_shape *shape, const form_rank *rank, uint64_t rows, uint64_t last) {
    uint64_t row = form_payload(rank, shape->heads * shape->head_dim), sum = rows * row, i;
    uint64_t first = form_first(shape->layers, rank->stage, &rank->stages);
    uint64_t end = form_first(shape->layers, rank->stage + 1, &rank->stages);
    for (i = first; shape->skips && i < end && i + 1 < shape->layers / 2; i++)
        if (shape->layers - 1 - i >= end) sum += rows * row;
    return rank->stage + 1 < rank->stages.members ? sum : last * shape->latent / shape->items * FORM_ELEMENT;
}

/* Bytes that rank `index` sends in one evaluation; false: these axes do not make up all ranks of the split. shares: the
   shares of all ranks; NULL: equal ones. */
static inline bool form_step(const form_shape *shape, const diti_split_plan *plan, const double *shares, uint64_t index,
                             uint64_t *bytes) {
    const diti_split *split = &plan->split;
    uint64_t branches = split->degree[DITI_SPLIT_CFG], piped = split->degree[DITI_SPLIT_PIPEFUSION];
    uint64_t items = shape->items * shape->branches / branches, self, i, rows, image, sums = 0;
    form_rank rank = form_rank_of(shape, plan, shares, index);
    self = rank.ring * rank.u + rank.ulysses;
    rows = form_rows(shape, &rank, self, true);
    image = form_rows(shape, &rank, self, false);
    *bytes = 0;
    if (diti_split_ranks(split) != rank.matrices.members * rank.u * rank.r * rank.stages.members * branches)
        return false;
    for (i = form_first(shape->layers, rank.stage, &rank.stages);
         i < form_first(shape->layers, rank.stage + 1, &rank.stages); i++) {
        *bytes += items * (shape->turns ? shape->turns * form_turn(shape, &rank) : form_attention(shape, &rank, true));
        sums += form_sums(shape, &rank, items, image, rows - image, i);
        if (shape->dual >> i & 1) *bytes += items * form_attention(shape, &rank, false);
    }
    if (rank.stage + 1 == rank.stages.members) /* all members of the last stage come to have all rows */
        sums += items * image * shape->out_columns * (rank.u * rank.r - 1);
    if (branches == 2 && piped == 1) sums += shape->latent; /* the prediction, to the other branch */
    if (rank.stages.members > 1) /* layers: to all other stages; PipeFusion: to the first one of each branch */
        *bytes += items * form_stage(shape, &rank, rows, piped > 1 ? branches : rank.stages.members - 1);
    *bytes += sums * FORM_ELEMENT;
    return true;
}

/* Bytes that rank `index` sends in all steps; columns, rows: the picture's, in tokens. PipeFusion goes strip by strip
   behind the warm-up: strips are bands of whole rows, and the text goes with the first. */
static inline bool form_steps(const form_shape *shape, const diti_split_plan *plan, const double *shares,
                              uint64_t index, uint64_t columns, uint64_t rows, uint64_t steps, uint64_t *bytes) {
    uint64_t whole = plan->split.degree[DITI_SPLIT_PIPEFUSION] < 2 || steps < plan->warmup ? steps : plan->warmup, i,
             one;
    bool known = form_step(shape, plan, shares, index, bytes);
    *bytes *= whole;
    for (i = 0; i < plan->strips && whole < steps; i++) {
        form_shape strip = *shape;
        uint64_t count = rows * (i + 1) / plan->strips - rows * i / plan->strips;
        strip.image = count * columns;
        strip.latent = shape->latent * count / rows;
        if (i) strip.text = 0;
        form_step(&strip, plan, shares, index, &one);
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
    return !split->inputs && !shape->text && !shape->dual && !shape->unit && shape->image % members == 0 &&
           shape->heads % (split->degree[DITI_SPLIT_ULYSSES] * split->degree[DITI_SPLIT_TENSOR]) == 0 &&
           (split->degree[DITI_SPLIT_TENSOR] == 1 ||
            (shape->sums == 2 && shape->image / members % split->degree[DITI_SPLIT_TENSOR] == 0)) &&
           diti_split_ranks(split) == members * split->degree[DITI_SPLIT_TENSOR] * split->degree[DITI_SPLIT_CFG];
}
#endif
