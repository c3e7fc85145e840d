/* sweep_points.c: --sweep k=1,2 --sweep width=32,64 → the cartesian product of the values, a name and a folder each.
** A value holds no comma. */
#include "cli/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_POINTS 4096

/* ---- Keys ---- */

static lt_status read_key(const char *word, sweep_key *k, lt_error *e) {
  const char *equals = strchr(word, '=');
  *k = (sweep_key){.word = word, .key = (int)(equals - word), .values = 1};
  for (const char *at = equals + 1; *at; at++) k->values += *at == ',';
  bool empty = equals[1] == '\0' || equals[1] == ',' || word[strlen(word) - 1] == ',' || strstr(word, ",,");
  if (!empty) return LT_OK;
  lt_fail(e, LT_USAGE, "--sweep has an empty value");
  lt_error_expected(e, "name=value,value");
  lt_error_got(e, "%s", word);
  return LT_USAGE;
}

static lt_status read_keys(sweep *s, lt_error *e) {
  const cli_options *o = s->o;
  int64_t points = 1;
  s->key = calloc((size_t)o->n_sweep + 1, sizeof *s->key);
  if (!s->key) return lt_fail_memory(e, sizeof *s->key, "the points of a sweep");
  for (; s->keys < o->n_sweep; s->keys++) {
    sweep_key *k = &s->key[s->keys];
    lt_status st = read_key(o->sweep[s->keys], k, e);
    if (st != LT_OK) return st;
    for (int i = 0; i < s->keys; i++)
      if (s->key[i].key == k->key && strncmp(s->key[i].word, k->word, (size_t)k->key) == 0)
        return lt_fail(e, LT_USAGE, "--sweep names %.*s twice", k->key, k->word);
    points *= k->values;
    if (points > MOST_POINTS) return lt_fail(e, LT_USAGE, "a sweep has at most %d points", MOST_POINTS);
  }
  s->points = (int)points;
  return LT_OK;
}

/* A recipe that cannot be read as it stands may need its arguments: then names without a dot are taken for some. */
static void find_settings(sweep *s) {
  lt_recipe *r = NULL;
  lt_error unread = {0};
  char name[128];
  (void)cli_read_recipe(s->o, &r, &unread);
  for (int i = 0; i < s->keys; i++) {
    sweep_key *k = &s->key[i];
    snprintf(name, sizeof name, "%.*s", k->key, k->word);
    k->setting = strchr(name, '.') || (r && !lt_recipe_has_argument(r, name));
  }
  lt_recipe_free(r);
}

/* ---- Points ---- */

/* "k=1": value number `at` of a key. */
static char *word_of(const sweep_key *k, int at) {
  const char *value = k->word + k->key + 1;
  lt_text t = {0};
  for (; at > 0; at--) value = strchr(value, ',') + 1;
  lt_text_add(&t, "%.*s=%.*s", k->key, k->word, (int)strcspn(value, ","), value);
  return t.s;
}

/* A name of a file that no other point has: what cannot stand in one is written as %2F. */
static char *folder_of(const char *name) {
  lt_text t = {0};
  for (; *name; name++) {
    unsigned char c = (unsigned char)*name;
    if (c == '/' || c == '%' || c < ' ')
      lt_text_add(&t, "%%%02X", c);
    else
      lt_text_bytes(&t, name, 1);
  }
  return t.s;
}

static lt_status make_point(const sweep *s, int index, sweep_point *p, lt_error *e) {
  lt_text name = {0};
  *p = (sweep_point){.steps = -1, .word = calloc((size_t)s->keys + 1, sizeof *p->word)};
  if (!p->word) return lt_fail_memory(e, sizeof *p, "the points of a sweep");
  for (int i = s->keys - 1; i >= 0; i--) {
    p->word[i] = word_of(&s->key[i], index % s->key[i].values);
    index /= s->key[i].values;
    if (!p->word[i]) return lt_fail_memory(e, sizeof *p, "the points of a sweep");
  }
  for (int i = 0; i < s->keys; i++) lt_text_add(&name, "%s%s", i ? "," : "", p->word[i]);
  p->name = name.s;
  p->folder = name.s ? folder_of(name.s) : NULL;
  return p->folder ? LT_OK : lt_fail_memory(e, sizeof *p, "the points of a sweep");
}

static lt_status check_names(const sweep *s, lt_error *e) {
  for (int i = 0; i < s->points; i++)
    for (int j = 0; j < i; j++)
      if (strcmp(s->point[i].name, s->point[j].name) == 0)
        return lt_fail(e, LT_USAGE, "--sweep has the point %s twice", s->point[i].name);
  return LT_OK;
}

lt_status sweep_make(sweep *s, lt_error *e) {
  lt_status st = read_keys(s, e);
  if (st != LT_OK) return st;
  find_settings(s);
  s->point = calloc((size_t)s->points, sizeof *s->point);
  if (!s->point) return lt_fail_memory(e, sizeof *s->point, "the points of a sweep");
  for (int i = 0; st == LT_OK && i < s->points; i++) st = make_point(s, i, &s->point[i], e);
  return st == LT_OK ? check_names(s, e) : st;
}

void sweep_free(sweep *s) {
  for (int i = 0; s->point && i < s->points; i++) {
    sweep_point *p = &s->point[i];
    for (int k = 0; p->word && k < s->keys; k++) free(p->word[k]);
    free(p->word);
    free(p->name);
    free(p->folder);
    free(p->error);
  }
  free(s->point);
  free(s->key);
  lt_text_free(&s->others);
  free(s->run);
}

/* ---- The command line of a point ---- */

lt_status sweep_options(const sweep *s, const sweep_point *p, cli_options *out, lt_error *e) {
  const cli_options *o = s->o;
  *out = *o;
  out->command = CLI_TRAIN;
  out->sweep = NULL;
  out->n_sweep = 0;
  out->met = false;
  out->arg = calloc((size_t)(o->n_arg + s->keys) + 1, sizeof *out->arg);
  out->set = calloc((size_t)(o->n_set + s->keys) + 1, sizeof *out->set);
  if (!out->arg || !out->set) return lt_fail_memory(e, 64, "the arguments of a point");
  for (int i = 0; i < o->n_arg; i++) out->arg[i] = o->arg[i];
  for (int i = 0; i < o->n_set; i++) out->set[i] = o->set[i];
  for (int i = 0; i < s->keys; i++) {
    if (s->key[i].setting)
      out->set[out->n_set++] = p->word[i];
    else
      out->arg[out->n_arg++] = p->word[i];
  }
  return LT_OK;
}
