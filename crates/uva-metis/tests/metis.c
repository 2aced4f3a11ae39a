/* Stands in for METIS 5: judges what it is given as metis.h and its manual have it, and gives the nodes to the parts in
   the order of their ids. IDX is the type of its numbers. */
#include <stdint.h>

typedef IDX idx_t;

int METIS_SetDefaultOptions(idx_t *options) {
  for (int option = 0; option < 40; option++) options[option] = -1;
  return 1;
}

static int has(const idx_t *begins, const idx_t *entries, const idx_t *weights, idx_t node, idx_t other, idx_t weight) {
  int found = 0;
  for (idx_t at = begins[node]; at < begins[node + 1]; at++) found += entries[at] == other && weights[at] == weight;
  return found;
}

int METIS_PartGraphKway(idx_t *nodes, idx_t *constraints, idx_t *begins, idx_t *entries, idx_t *of_nodes, idx_t *sizes,
                        idx_t *weights, idx_t *parts, void *shares, void *imbalance, idx_t *options, idx_t *cut,
                        idx_t *of) {
  if (*constraints != 2 || *parts < 2 || sizes || shares || imbalance || options) return -2;
  idx_t marked = 0, all = 0;
  for (idx_t node = 0; node < *nodes; node++) {
    if (of_nodes[2 * node] != 1 || of_nodes[2 * node + 1] < 0 || of_nodes[2 * node + 1] > 1) return -2;
    marked += of_nodes[2 * node + 1];
    for (idx_t at = begins[node]; at < begins[node + 1]; at++) {
      idx_t other = entries[at];
      if (other == node || other < 0 || other >= *nodes || weights[at] < 1) return -2;
      if (has(begins, entries, weights, other, node, weights[at]) != 1) return -2;
      all += weights[at];
    }
    of[node] = (idx_t)((int64_t)node * *parts / *nodes);
  }
  *cut = all / 2;
  /* A graph without marked nodes stands for one that it has no memory for. */
  return marked ? 1 : -3;
}
