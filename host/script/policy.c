/* policy.c: the policies of a recipe as functions of trees.
** A policy runs in the recipe's closed state, one second of processor time at most; what it answers has become plain data
** before anything else sees it. */
#include "script/policy.h"

#include "script/recipe_inside.h"
#include "script/tree.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct called { /* context of a policy */
  lt_recipe *recipe;
  int32_t index; /* in Lua's list, from 1 */
  char name[96], where[192];
} called;

typedef struct named {
  char name[96], where[192];
} named;

struct lt_recipe_policies {
  lt_policy *policy;
  called *called;
  int32_t n_policy;
  lt_control_spec *control;
  named *named;
  int32_t n_control;
};

/* ---- Asking one ---- */

typedef struct call {
  const called *of;
  const lt_tree *stats, *state;
  lt_tree *controls, *next;
  lt_error e;
} call;

/* loader.ask(index, stats, state) → controls, state */
static int ask(lua_State *L) {
  call *c = lua_touserdata(L, 1);
  lt_recipe_push(L, "ask");
  lua_pushinteger(L, c->of->index);
  lt_lua_push_tree(L, c->stats);
  lt_lua_push_tree(L, c->state);
  lua_call(L, 3, 2);
  if (lt_lua_to_tree(L, lua_gettop(L) - 1, "controls", &c->controls, &c->e) == LT_OK)
    (void)lt_lua_to_tree(L, lua_gettop(L), "state", &c->next, &c->e);
  return 0;
}

static lt_status run(void *context, const lt_tree *stats, const lt_tree *state, lt_tree **controls, lt_tree **next,
                     lt_error *e) {
  const called *p = context;
  const lt_tree *step = lt_tree_get(stats, "step");
  lt_script *s = lt_recipe_script(p->recipe);
  call c = {.of = p, .stats = stats, .state = state};
  lt_error own = {0};
  char what[160];
  snprintf(what, sizeof what, "the policy, asked after step %.0f,", step ? step->number : 0);
  lt_script_watch(s, what, LT_SECONDS_POLICY);
  lt_status st = lt_lua_protect(s, ask, &c, &own);
  lt_script_unwatch(s);
  if (st == LT_OK && c.e.code) {
    own = c.e;
    st = own.code;
  }
  if (st == LT_OK) {
    *controls = c.controls;
    *next = c.next;
    return LT_OK;
  }
  lt_tree_free(c.controls);
  lt_tree_free(c.next);
  if (e && !e->code) *e = own;
  return st;
}

/* ---- What there is ---- */

static double number_at(lua_State *L, const char *key) {
  lua_getfield(L, -1, key);
  double x = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return x;
}

static void text_at(lua_State *L, const char *key, char *to, size_t n) {
  lua_getfield(L, -1, key);
  snprintf(to, n, "%s", lua_isstring(L, -1) ? lua_tostring(L, -1) : "");
  lua_pop(L, 1);
}

typedef struct list_call {
  lt_recipe *recipe;
  lt_recipe_policies *to;
} list_call;

static bool allocate(lt_recipe_policies *p, int policies, int controls) {
  p->policy = calloc((size_t)policies + 1, sizeof *p->policy);
  p->called = calloc((size_t)policies + 1, sizeof *p->called);
  p->control = calloc((size_t)controls + 1, sizeof *p->control);
  p->named = calloc((size_t)controls + 1, sizeof *p->named);
  return p->policy && p->called && p->control && p->named;
}

/* The policy described by the table at the top of the stack. */
static void read_policy(lua_State *L, const list_call *c, int32_t i) {
  called *p = &c->to->called[i];
  char kind[16];
  p->recipe = c->recipe;
  p->index = i + 1;
  text_at(L, "name", p->name, sizeof p->name);
  text_at(L, "where", p->where, sizeof p->where);
  text_at(L, "kind", kind, sizeof kind);
  c->to->policy[i] = (lt_policy){.name = p->name,
                                 .where = p->where,
                                 .kind = strcmp(kind, "speed") == 0 ? LT_POLICY_SPEED : LT_POLICY_STEP,
                                 .function = run,
                                 .context = p};
}

static void read_control(lua_State *L, const list_call *c, int32_t i) {
  named *n = &c->to->named[i];
  char kind[16];
  text_at(L, "name", n->name, sizeof n->name);
  text_at(L, "where", n->where, sizeof n->where);
  text_at(L, "of", kind, sizeof kind);
  c->to->control[i] = (lt_control_spec){.name = n->name,
                                        .where = n->where,
                                        .speed = strcmp(kind, "speed") == 0,
                                        .value = number_at(L, "default"),
                                        .least = number_at(L, "least"),
                                        .most = number_at(L, "most")};
}

/* loader.steering() → policies, controls: arrays of tables */
static int list(lua_State *L) {
  const list_call *c = lua_touserdata(L, 1);
  lt_recipe_push(L, "steering");
  lua_call(L, 0, 2);
  int controls = lua_gettop(L), policies = controls - 1;
  int n_policy = (int)lua_objlen(L, policies), n_control = (int)lua_objlen(L, controls);
  if (!allocate(c->to, n_policy, n_control)) return luaL_error(L, "out of memory");
  for (; c->to->n_policy < n_policy; c->to->n_policy++) {
    lua_rawgeti(L, policies, c->to->n_policy + 1);
    read_policy(L, c, c->to->n_policy);
    lua_pop(L, 1);
  }
  for (; c->to->n_control < n_control; c->to->n_control++) {
    lua_rawgeti(L, controls, c->to->n_control + 1);
    read_control(L, c, c->to->n_control);
    lua_pop(L, 1);
  }
  return 0;
}

lt_status lt_recipe_steering(lt_recipe *r, lt_recipe_policies **out, lt_error *e) {
  lt_recipe_policies *p = *out = calloc(1, sizeof *p);
  if (!p) return lt_fail_memory(e, sizeof *p, "policies");
  list_call c = {r, p};
  lt_status st = lt_lua_protect(lt_recipe_script(r), list, &c, e);
  if (st == LT_OK) return LT_OK;
  lt_recipe_policies_free(p);
  *out = NULL;
  return st;
}

void lt_recipe_policies_free(lt_recipe_policies *p) {
  if (!p) return;
  free(p->policy);
  free(p->called);
  free(p->control);
  free(p->named);
  free(p);
}

const lt_control_spec *lt_recipe_controls(const lt_recipe_policies *p, int32_t *n) {
  *n = p->n_control;
  return p->control;
}

const lt_policy *lt_recipe_policy_list(const lt_recipe_policies *p, int32_t *n) {
  *n = p->n_policy;
  return p->policy;
}

/* ---- Plan functions ---- */

typedef struct choose_call {
  const lt_recipe_facts *facts;
  int64_t micro_batch, layers;
} choose_call;

/* loader.plan(facts) → micro_batch, layers */
static int choose(lua_State *L) {
  choose_call *c = lua_touserdata(L, 1);
  const lt_recipe_facts *f = c->facts;
  lt_recipe_push(L, "plan");
  lua_newtable(L);
  lt_lua_set_number(L, "ranks", (double)f->ranks);
  lt_lua_set_number(L, "dp", (double)f->dp);
  lt_lua_set_number(L, "sp", (double)f->sp);
  lt_lua_set_number(L, "tp", (double)f->tp);
  lt_lua_set_number(L, "tokens", (double)f->tokens);
  lt_lua_set_number(L, "length", (double)f->length);
  lt_lua_set_number(L, "sequences", (double)f->sequences);
  lt_lua_set_number(L, "budget", (double)f->budget);
  lua_call(L, 1, 2);
  c->micro_batch = lua_isnumber(L, -2) ? (int64_t)lua_tonumber(L, -2) : -1;
  c->layers = lua_isnumber(L, -1) ? (int64_t)lua_tonumber(L, -1) : -1;
  return 0;
}

lt_status lt_recipe_choose(lt_recipe *r, const lt_recipe_facts *facts, int64_t *micro_batch, int64_t *layers,
                           lt_error *e) {
  choose_call c = {facts, -1, -1};
  lt_script *s = lt_recipe_script(r);
  lt_script_watch(s, "a plan function", LT_SECONDS_POLICY);
  lt_status st = lt_lua_protect(s, choose, &c, e);
  lt_script_unwatch(s);
  *micro_batch = c.micro_batch;
  *layers = c.layers;
  return st;
}

/* ---- For Lua ---- */

/* lt.defined(function) → "recipe.lua:41", where it is written */
static int defined(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_Debug ar;
  lua_settop(L, 1);
  if (!lua_getinfo(L, ">S", &ar) || ar.linedefined <= 0) {
    lua_pushliteral(L, "");
    return 1;
  }
  lua_pushfstring(L, "%s:%d", ar.source[0] == '@' ? ar.source + 1 : ar.short_src, ar.linedefined);
  return 1;
}

void lt_lua_open_policy(lua_State *L) {
  lua_pushcfunction(L, defined);
  lua_setfield(L, -2, "defined");
}
