/* recipe.c: from a recipe file to checked settings, and the calls that ask the recipe later.
** The reading, --set and the checks are lua/ltrain/load.lua, in the recipe's own state but out of its reach; here its
** results become C, once. The settings table stays in the registry for builds and learning rates. */
#include "script/recipe.h"

#include "core/text.h"
#include "script/graph.h"
#include "script/partition.h"
#include "script/recipe_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_COMPILE 5.0 /* processor time a recipe may take to be read, or to build a graph once */

#define LOADER          "ltrain.loader"   /* registry: the table of lua/ltrain/load.lua */
#define SETTINGS        "ltrain.settings" /* registry: the checked settings */

struct lt_recipe {
  lt_script *script;
  lt_recipe_settings settings;
  lt_recipe_length *length;
  const char **train, **eval, **keep, **drop;
  int32_t *weights;
  lt_lua_partition partition;
  double seconds; /* for building */
};

/* ---- Reading the settings: a path of keys → the value at the top of the stack ---- */

static void push_setting(lua_State *L, const char *path) {
  lua_getfield(L, LUA_REGISTRYINDEX, SETTINGS);
  char key[128];
  snprintf(key, sizeof key, "%s", path);
  for (char *word = key, *dot; word; word = dot) {
    dot = strchr(word, '.');
    if (dot) *dot++ = 0;
    if (lua_istable(L, -1))
      lua_getfield(L, -1, word);
    else
      lua_pushnil(L);
    lua_remove(L, -2);
  }
}

static double get_number(lua_State *L, const char *path, double otherwise) {
  push_setting(L, path);
  double x = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : otherwise;
  lua_pop(L, 1);
  return x;
}

static int64_t get_int(lua_State *L, const char *path, int64_t otherwise) {
  return (int64_t)get_number(L, path, (double)otherwise);
}

/* Valid as long as the settings: the string stays in the table. */
static const char *get_text(lua_State *L, const char *path) {
  push_setting(L, path);
  const char *s = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
  lua_pop(L, 1);
  return s;
}

/* An array of strings; raises when memory is short. */
static const char **get_list(lua_State *L, const char *path, int64_t *n) {
  push_setting(L, path);
  *n = lua_istable(L, -1) ? (int64_t)lua_objlen(L, -1) : 0;
  const char **list = calloc((size_t)*n + 1, sizeof *list);
  if (!list) luaL_error(L, "out of memory");
  for (int64_t i = 0; list && i < *n; i++) {
    lua_rawgeti(L, -1, (int)i + 1);
    list[i] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return list;
}

static void read_lengths(lua_State *L, lt_recipe *r) {
  push_setting(L, "data.length");
  int n = (int)lua_objlen(L, -1);
  r->length = calloc((size_t)n, sizeof *r->length);
  if (!r->length) luaL_error(L, "out of memory");
  for (int i = 0; r->length && i < n; i++) {
    lua_rawgeti(L, -1, i + 1);
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    r->length[i] = (lt_recipe_length){(int64_t)lua_tonumber(L, -2), (int64_t)lua_tonumber(L, -1)};
    lua_pop(L, 3);
  }
  lua_pop(L, 1);
  r->settings.length = r->length;
  r->settings.n_length = n;
}

static void read_layout(lua_State *L, lt_recipe_settings *s) {
  static const char *const axis[] = {"layout.mesh.pp", "layout.mesh.dp", "layout.mesh.sp", "layout.mesh.tp",
                                     "layout.mesh.ep"};
  lt_mesh_spec *m = &s->mesh;
  int32_t *const size[] = {&m->pp, &m->dp, &m->sp, &m->tp, &m->ep};
  for (int i = 0; i < 5; i++) {
    *size[i] = (int32_t)get_int(L, axis[i], 0);
    if (strcmp(get_text(L, axis[i]), "auto") == 0) m->automatic |= i < 4 ? 1 << i : 0;
  }
  push_setting(L, "layout.order");
  for (int i = 0; i < 4; i++) {
    lua_rawgeti(L, -1, i + 1);
    if (lua_isstring(L, -1)) snprintf(m->order[i], sizeof m->order[i], "%s", lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  m->nodes = (int32_t)get_int(L, "layout.machine.nodes", 0);
  m->per_node = (int32_t)get_int(L, "layout.machine.per_node", 0);
  s->link = get_number(L, "layout.machine.links.inside", 0);
  s->between = get_number(L, "layout.machine.links.between", 0);
  s->block = get_int(L, "layout.block", 0);
  m->inner = strcmp(get_text(L, "layout.inner"), "auto") == 0 ? LT_MESH_AUTO : (int32_t)get_int(L, "layout.inner", 0);
  s->max_depth = (int32_t)get_int(L, "layout.max_depth", 1);
  s->depth = (int32_t)get_int(L, "layout.depth", s->max_depth);
}

static void read_partition(lua_State *L, lt_recipe *r) {
  lt_recipe_settings *s = &r->settings;
  push_setting(L, "layout.partition");
  if (!lt_lua_read_partition(L, &r->partition, &s->partition)) luaL_error(L, "layout.partition");
  s->max_share = lt_lua_share(get_number(L, "layout.max_share", 0));
  push_setting(L, "layout.weights");
  if (lua_type(L, -1) == LUA_TSTRING) { /* "measured" */
    s->partition.measured = true;
    lua_pop(L, 1);
    return;
  }
  const int n = lua_istable(L, -1) ? (int)lua_objlen(L, -1) : 0;
  r->weights = calloc((size_t)n + 1, sizeof *r->weights);
  if (!r->weights) luaL_error(L, "out of memory");
  for (int i = 0; r->weights && i < n; i++) {
    lua_rawgeti(L, -1, i + 1);
    r->weights[i] = (int32_t)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  s->partition.weight = r->weights;
  s->partition.n_weight = n;
}

static int read_settings(lua_State *L) {
  lt_recipe *r = lua_touserdata(L, 1);
  lt_recipe_settings *s = &r->settings;
  s->folder = r->script->recipe_dir;
  s->seed = (uint64_t)get_int(L, "seed", 0);
  if (!lt_dtype_find(get_text(L, "dtype"), &s->real)) return luaL_error(L, "dtype");
  s->train = r->train = get_list(L, "data.train", &s->n_train);
  s->eval = r->eval = get_list(L, "data.eval", &s->n_eval);
  s->hold_out = get_number(L, "data.hold_out", 0);
  s->look_ahead = (int32_t)get_int(L, "data.look_ahead", 0);
  s->stretch = get_int(L, "data.stretch", 0);
  read_lengths(L, r);
  s->vocab = get_int(L, "model.vocab", 0);
  s->tokens = get_int(L, "train.tokens", 0);
  s->steps = get_int(L, "train.steps", 0);
  s->micro_batch = get_int(L, "train.micro_batch", 0);
  s->bad_steps = get_int(L, "train.bad_steps", 0);
  s->trace = get_int(L, "train.trace", 0);
  s->eval_every = get_int(L, "train.eval_every", 0);
  s->eval_tokens = get_int(L, "train.eval_tokens", 0);
  s->eval_length = get_int(L, "train.eval_length", 1);
  s->save_every = get_int(L, "save.every", 0);
  s->save_keep = get_int(L, "save.keep", 1);
  read_layout(L, s);
  read_partition(L, r);
  s->shard = (int32_t)get_int(L, "optim.shard", 0);
  s->budget = get_int(L, "checkpoint.budget", 0);
  if (!lt_checkpoint_find(get_text(L, "checkpoint.mode"), &s->checkpoint)) return luaL_error(L, "checkpoint.mode");
  s->layers =
      (int32_t)get_int(L, "checkpoint.layers", s->checkpoint != LT_CHECKPOINT_AUTO && !s->budget ? INT32_MAX : -1);
  s->keep = r->keep = get_list(L, "checkpoint.keep", &s->n_keep);
  s->drop = r->drop = get_list(L, "checkpoint.drop", &s->n_drop);
  s->isa = get_text(L, "device.isa");
  if (strcmp(s->isa, "auto") == 0) s->isa = NULL;
  return 0;
}

/* ---- Opening ---- */

#define MOST_FAULTS 20 /* that are told */

typedef struct open_call {
  const lt_recipe_source *from;
  lt_error faults; /* the first, and the others with it */
} open_call;

static void push_words(lua_State *L, const char *const *word, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushstring(L, word[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* The fault table at the top of the stack as an error. */
static void read_fault(lua_State *L, lt_error *e) {
  int t = lua_gettop(L);
  lt_fail(e, (lt_status)lt_lua_opt_int(L, t, "code", LT_RECIPE), "%s", lt_lua_opt_text(L, t, "what", ""));
  lt_error_where(e, "%s", lt_lua_opt_text(L, t, "where", ""));
  lt_error_key(e, "%s", lt_lua_opt_text(L, t, "key", ""));
  lt_error_expected(e, "%s", lt_lua_opt_text(L, t, "expected", ""));
  lt_error_got(e, "%s", lt_lua_opt_text(L, t, "got", ""));
  lt_error_hint(e, "%s", lt_lua_opt_text(L, t, "hint", ""));
}

/* The list of faults at the top of the stack. */
static void read_faults(lua_State *L, lt_error *e) {
  int n = (int)lua_objlen(L, -1), told = 0;
  for (bool room = true; room && told < n && told < MOST_FAULTS;) {
    lt_error one = {0};
    lua_rawgeti(L, -1, told + 1);
    read_fault(L, &one);
    lua_pop(L, 1);
    room = lt_error_add(e, &one);
    told += room;
  }
  lt_error_rest(e, n - told);
}

/* loader.open(path, args, sets, text or nil, fed) → settings, faults */
static int open_recipe(lua_State *L) {
  open_call *c = lua_touserdata(L, 1);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "ltrain.load");
  lua_call(L, 1, 1);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, LOADER);
  lua_getfield(L, -1, "open");
  lua_pushstring(L, c->from->path);
  push_words(L, c->from->arg, c->from->n_arg);
  push_words(L, c->from->set, c->from->n_set);
  lua_pushstring(L, c->from->text); /* NULL is nil */
  lua_pushboolean(L, c->from->fed);
  lua_call(L, 5, 2);
  read_faults(L, &c->faults);
  lua_pop(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, SETTINGS);
  return 0;
}

static void set_folder(lt_script *s, const char *path) {
  const char *slash = strrchr(path, '/');
  if (slash)
    snprintf(s->recipe_dir, sizeof s->recipe_dir, "%.*s", (int)(slash == path ? 1 : slash - path), path);
  else
    snprintf(s->recipe_dir, sizeof s->recipe_dir, ".");
}

lt_status lt_recipe_load(const lt_recipe_source *from, lt_recipe **out, lt_error *e) {
  *out = NULL;
  lt_recipe *r = calloc(1, sizeof *r);
  if (!r) return lt_fail_memory(e, sizeof *r, "a recipe");
  open_call c = {.from = from};
  lt_status st = lt_script_create(LT_SCRIPT_RECIPE, &r->script, e);
  if (st != LT_OK) goto failed;
  set_folder(r->script, from->path);
  if (from->memory) r->script->cap = from->memory;
  r->seconds = from->seconds > 0 ? from->seconds : SECONDS_COMPILE;
  lt_script_watch(r->script, "the recipe", r->seconds);
  st = lt_lua_protect(r->script, open_recipe, &c, e);
  if (st != LT_OK) goto failed;
  if (c.faults.code) {
    st = c.faults.code;
    if (e) *e = c.faults;
    goto failed;
  }
  st = lt_lua_protect(r->script, read_settings, r, e);
  lt_script_unwatch(r->script);
  if (st != LT_OK) goto failed;
  *out = r;
  return LT_OK;
failed:
  if (e && !e->where[0]) lt_error_where(e, "%s", from->path); /* a tail call has no line */
  lt_recipe_free(r);
  return st;
}

lt_status lt_recipe_weigh_alike(lt_recipe *r, int32_t ranks, lt_error *e) {
  if (!r->settings.partition.measured) return LT_OK;
  r->weights = calloc((size_t)ranks, sizeof *r->weights);
  if (!r->weights) return lt_fail_memory(e, (size_t)ranks * sizeof *r->weights, "the weights of ranks");
  for (int32_t i = 0; i < ranks; i++) r->weights[i] = 1;
  r->settings.partition.weight = r->weights;
  r->settings.partition.n_weight = ranks;
  return LT_OK;
}

void lt_recipe_weigh(lt_recipe *r, const int32_t *weight) {
  memcpy(r->weights, weight, (size_t)r->settings.partition.n_weight * sizeof *weight);
}

void lt_recipe_free(lt_recipe *r) {
  if (!r) return;
  lt_script_free(r->script);
  free(r->length);
  free(r->weights);
  free(r->train);
  free(r->eval);
  free(r->keep);
  free(r->drop);
  free(r);
}

lt_script *lt_recipe_script(lt_recipe *r) { return r->script; }
const lt_recipe_settings *lt_recipe_get(const lt_recipe *r) { return &r->settings; }

/* ---- Asking it ---- */

void lt_recipe_push(lua_State *L, const char *function) {
  lua_getfield(L, LUA_REGISTRYINDEX, LOADER);
  lua_getfield(L, -1, function);
  lua_remove(L, -2);
}

static lt_status build(const lt_recipe *r, const char *function, lt_graph *g, lt_error *e) {
  lt_script *s = r->script;
  if (!lua_checkstack(s->L, 16)) return lt_fail(e, LT_FAILED, "the Lua stack is full");
  lt_recipe_push(s->L, function); /* reads of strings that exist: nothing can be raised */
  lt_script_watch(s, "building the graph", r->seconds);
  lt_status st = lt_lua_build(s, g, e);
  lt_script_unwatch(s);
  return st;
}

lt_status lt_recipe_graph(void *context, lt_graph *g, lt_error *e) {
  const lt_recipe_build *b = context;
  return build(b->recipe, b->training ? "build" : "build_eval", g, e);
}

static int tell_generation(lua_State *L) {
  const lt_recipe_generation *b = lua_touserdata(L, 1);
  lt_recipe_push(L, "generation");
  lua_pushnumber(L, (double)b->reach);
  lua_pushnumber(L, (double)b->chunk);
  lua_call(L, 2, 0);
  return 0;
}

lt_status lt_recipe_generate(void *context, lt_graph *g, lt_error *e) {
  const lt_recipe_generation *b = context;
  lt_status st = lt_lua_protect(b->recipe->script, tell_generation, context, e);
  return st == LT_OK ? build(b->recipe, "build_generate", g, e) : st;
}

typedef struct place_call {
  const char *key;
  lt_error *e;
} place_call;

static int ask_place(lua_State *L) {
  place_call *c = lua_touserdata(L, 1);
  lt_recipe_push(L, "place");
  lua_pushstring(L, c->key);
  lua_call(L, 1, 1);
  if (lua_isstring(L, -1)) lt_error_where(c->e, "%s", lua_tostring(L, -1));
  return 0;
}

void lt_recipe_place(lt_recipe *r, lt_error *e) {
  place_call c = {e ? e->key : "", e};
  if (!e || !e->code || e->where[0]) return;
  lt_script_watch(r->script, "finding a line", LT_SECONDS_POLICY);
  (void)lt_lua_protect(r->script, ask_place, &c, NULL);
  lt_script_unwatch(r->script);
}

lt_status lt_recipe_device(lt_recipe *r, const lt_device **out, lt_error *e) {
  lt_status st = lt_device_cpu_isa(r->settings.isa, out, e);
  if (st == LT_OK) return st;
  if (r->settings.isa) lt_error_key(e, "device.isa");
  lt_recipe_place(r, e);
  return st;
}

typedef struct lr_call {
  int64_t step;
  double lr;
} lr_call;

static int ask_lr(lua_State *L) {
  lr_call *c = lua_touserdata(L, 1);
  lt_recipe_push(L, "lr");
  lua_pushnumber(L, (double)c->step);
  lua_call(L, 1, 1);
  c->lr = lua_tonumber(L, -1);
  return 0;
}

lt_status lt_recipe_lr(lt_recipe *r, int64_t step, double *lr, lt_error *e) {
  lr_call c = {step, 0};
  char what[64];
  snprintf(what, sizeof what, "optim.lr at step %lld", (long long)step);
  lt_script_watch(r->script, what, r->seconds < LT_SECONDS_POLICY ? r->seconds : LT_SECONDS_POLICY);
  lt_status st = lt_lua_protect(r->script, ask_lr, &c, e);
  lt_script_unwatch(r->script);
  *lr = c.lr;
  return st;
}

typedef struct print_call {
  const char *function;
  bool all;
  lt_text *out;
} print_call;

static int print_settings(lua_State *L) {
  print_call *c = lua_touserdata(L, 1);
  lt_recipe_push(L, c->function);
  lua_pushboolean(L, c->all);
  lua_call(L, 1, 1);
  lt_text_add(c->out, "%s", lua_tostring(L, -1));
  return 0;
}

static lt_status print(const lt_recipe *r, print_call *c, lt_error *e) {
  lt_script_watch(r->script, "printing the settings", r->seconds);
  lt_status st = lt_lua_protect(r->script, print_settings, c, e);
  lt_script_unwatch(r->script);
  return st;
}

lt_status lt_recipe_print(const lt_recipe *r, lt_text *out, lt_error *e) {
  print_call c = {"settings_text", true, out};
  return print(r, &c, e);
}

lt_status lt_recipe_banner(const lt_recipe *r, bool all, lt_text *out, lt_error *e) {
  print_call c = {"banner", all, out};
  return print(r, &c, e);
}

lt_status lt_recipe_rows(const lt_recipe *r, lt_text *out, lt_error *e) {
  print_call c = {"rows", true, out};
  return print(r, &c, e);
}

/* ---- Its arguments ---- */

typedef struct argument_call {
  const char *name;
  bool there;
} argument_call;

static int ask_argument(lua_State *L) {
  argument_call *c = lua_touserdata(L, 1);
  lt_recipe_push(L, "has_argument");
  lua_pushstring(L, c->name);
  lua_call(L, 1, 1);
  c->there = lua_toboolean(L, -1);
  return 0;
}

bool lt_recipe_has_argument(lt_recipe *r, const char *name) {
  argument_call c = {name, false};
  lt_error none = {0};
  lt_script_watch(r->script, "the arguments", LT_SECONDS_POLICY);
  bool asked = lt_lua_protect(r->script, ask_argument, &c, &none) == LT_OK;
  lt_script_unwatch(r->script);
  return asked && c.there;
}
