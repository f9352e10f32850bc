/* A step of a split as a picture: for each device a row of arithmetic and a row of copies. Not part of dit.h. */
#ifndef PLAN_GANTT_H
#define PLAN_GANTT_H
#include "dit.h"

typedef enum bar_kind { BAR_COMPUTE, BAR_OPEN, BAR_HIDDEN, BAR_OTHER_STEP } bar_kind;

typedef struct gantt {
    FILE *out;
    double seconds; /* the seconds that the width shows */
    uint32_t ranks;
} gantt;

enum { GANTT_LEFT = 70, GANTT_WIDTH = 900, GANTT_ROW = 22, GANTT_TOP = 48 };

static const char *const gantt_colours[] = {"#4c78a8", "#e45756", "#f2b8a0", "#c9d6e6"};

/* Clipped to the picture; each bar tells its name and milliseconds. */
static void gantt_bar(const gantt *g, uint32_t rank, bar_kind kind, double begin, double length, const char *name,
                      uint32_t index) {
    bool copy = kind == BAR_OPEN || kind == BAR_HIDDEN;
    double end = begin + length, scale = GANTT_WIDTH / g->seconds, wide;
    if (begin < 0) begin = 0;
    if (end > g->seconds) end = g->seconds;
    if (end <= begin) return;
    wide = (end - begin) * scale;
    fprintf(g->out,
            "<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%u\" fill=\"%s\"><title>device %u, %s %u: %.3f "
            "ms</title></rect>\n",
            GANTT_LEFT + begin * scale, GANTT_TOP + rank * 2 * GANTT_ROW + (copy ? GANTT_ROW : 0),
            wide > 4     ? wide - 1
            : wide > 0.1 ? wide * 0.9
                         : 0.1,
            GANTT_ROW - 4, gantt_colours[kind], rank, name, index, length * 1e3);
}

/* Layers one after the other; copies that nothing hides stand between them, the others under the arithmetic. A split of
 * layers: devices take turns. */
static void gantt_layers(const gantt *g, const diti_split_request *q, const diti_split_cost *cost) {
    uint32_t stages = cost->split.degree[DITI_SPLIT_LAYERS], layers = q->shape.layers, rank, i;
    uint32_t stride = diti_split_stride(&cost->split, DITI_SPLIT_LAYERS);
    double compute = cost->compute / layers, open = cost->exchange / layers, hidden = cost->hidden / layers;
    for (rank = 0; rank < g->ranks; rank++) {
        uint32_t stage = rank / stride % stages;
        for (i = stage * layers / stages; i < (stage + 1) * layers / stages; i++) {
            double begin = i * (compute + open);
            gantt_bar(g, rank, BAR_COMPUTE, begin, compute, "layer", i);
            gantt_bar(g, rank, BAR_HIDDEN, begin + compute - hidden, hidden, "hidden copies of layer", i);
            gantt_bar(g, rank, BAR_OPEN, begin + compute, open, "copies of layer", i);
        }
    }
}

/* Stage k computes strip m from (k + m) / p of a step on; the strips of the steps before and after it are pale. */
static void gantt_patches(const gantt *g, const diti_split_cost *cost) {
    uint32_t p = cost->split.degree[DITI_SPLIT_PIPEFUSION], rank, m;
    uint32_t stride = diti_split_stride(&cost->split, DITI_SPLIT_PIPEFUSION);
    double compute = cost->compute / p, open = cost->exchange / p, hidden = cost->hidden / p, slot = compute + open;
    int step;
    for (rank = 0; rank < g->ranks; rank++) {
        uint32_t stage = rank / stride % p;
        for (step = -1; step < 2; step++) {
            for (m = 0; m < p; m++) {
                double begin = (stage + m + step * (int)p) * slot;
                gantt_bar(g, rank, step ? BAR_OTHER_STEP : BAR_COMPUTE, begin, compute,
                          step ? "another step's patch" : "patch", m);
                gantt_bar(g, rank, BAR_HIDDEN, begin + slot, hidden, "hidden copies of patch", m);
                gantt_bar(g, rank, BAR_OPEN, begin + compute, open, "copies of patch", m);
            }
        }
    }
}

static void gantt_frame(const gantt *g, const char *title) {
    static const char *const names[] = {"arithmetic", "copies", "copies behind arithmetic", "steps before and after"};
    uint32_t height = GANTT_TOP + g->ranks * 2 * GANTT_ROW + 30, rank, i;
    fprintf(g->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%u\" y=\"20\" font-size=\"13\">%s</text>\n",
            GANTT_LEFT + GANTT_WIDTH + 40, height, GANTT_LEFT, title);
    for (i = 0; i < 4; i++)
        fprintf(g->out, "<text x=\"%u\" y=\"38\" fill=\"%s\">%s</text>\n", GANTT_LEFT + i * 150, gantt_colours[i],
                names[i]);
    for (rank = 0; rank < g->ranks; rank++)
        fprintf(g->out,
                "<text x=\"6\" y=\"%u\">device %u</text>\n<text x=\"22\" y=\"%u\" fill=\"#888\">copies</text>\n",
                GANTT_TOP + rank * 2 * GANTT_ROW + 13, rank, GANTT_TOP + rank * 2 * GANTT_ROW + GANTT_ROW + 13);
    for (i = 0; i <= 5; i++)
        fprintf(g->out, "<text x=\"%u\" y=\"%u\" fill=\"#888\" text-anchor=\"middle\">%.4g ms</text>\n",
                GANTT_LEFT + i * GANTT_WIDTH / 5, height - 10, g->seconds * i / 5 * 1e3);
}

/* False: it cannot be written. */
static bool write_gantt(FILE *out, const diti_split_request *q, const diti_split_cost *cost, const char *title) {
    uint32_t p = cost->split.degree[DITI_SPLIT_PIPEFUSION];
    gantt g;
    g.out = out;
    g.ranks = diti_split_ranks(&cost->split);
    g.seconds = cost->compute + cost->exchange;
    if (p > 1) g.seconds *= (2.0 * p - 1) / p;
    gantt_frame(&g, title);
    if (p > 1)
        gantt_patches(&g, cost);
    else
        gantt_layers(&g, q, cost);
    fputs("</svg>\n", out);
    return !ferror(out);
}
#endif
