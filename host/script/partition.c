/* partition.c: a partition written in Lua: asked between steps, on the thread of the run, under the watchdog, about a
** step that is still data.look_ahead steps away.
** It gets lengths as a table and gives the rank of every block; what it gives is plain integers before anything is dealt
** by it, and is checked where all partitions are. */
#include "script/partition.h"

#include "script/recipe_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int64_t lt_lua_share(double max_share) { return llround(max_share * LT_SHARE_FAIR); }

typedef struct question {
  const lt_lua_partition *of;
  const lt_deal_sequence *s;
  int32_t *owner;
} question;

/* { step =, index =, tokens =, block =, blocks =, ranks =, most =, documents = { length, … } } */
static void push_sequence(lua_State *L, const lt_deal_sequence *s) {
  lua_createtable(L, 0, 8);
  lt_lua_set_number(L, "step", (double)s->step);
  lt_lua_set_number(L, "index", (double)s->index);
  lt_lua_set_number(L, "tokens", (double)s->tokens);
  lt_lua_set_number(L, "block", (double)s->block);
  lt_lua_set_number(L, "blocks", (double)s->blocks);
  lt_lua_set_number(L, "ranks", (double)s->ranks);
  lt_lua_set_number(L, "most", (double)s->most);
  lua_createtable(L, (int)s->documents, 0);
  for (int64_t d = 0; d < s->documents; d++) {
    lua_pushnumber(L, (double)(s->document[d + 1] - s->document[d]));
    lua_rawseti(L, -2, (int)d + 1);
  }
  lua_setfield(L, -2, "documents");
}

static int ask(lua_State *L) {
  const question *q = lua_touserdata(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, q->of->function);
  push_sequence(L, q->s);
  lua_call(L, 1, 1);
  if (!lua_istable(L, -1)) return lt_lua_fail(L, "a partition returns the ranks of all blocks, as a table");
  for (int64_t b = 0; b < q->s->blocks; b++) {
    lua_rawgeti(L, -1, (int)b + 1);
    const double x = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : NAN;
    if (!(x >= 0 && x < q->s->ranks && x == floor(x)))
      return lt_lua_fail(L, "a partition gives block %lld of %lld a rank from 0 to %d", (long long)b + 1,
                         (long long)q->s->blocks, (int)q->s->ranks - 1);
    q->owner[b] = (int32_t)x;
    lua_pop(L, 1);
  }
  return 0;
}

/* lt_deal_fn */
static lt_status deal(void *context, const lt_deal_sequence *s, int32_t *owner, lt_error *e) {
  const lt_lua_partition *p = context;
  question q = {p, s, owner};
  lt_error own = {0};
  char what[64];
  snprintf(what, sizeof what, "the partition of step %lld", (long long)s->step);
  lt_script_watch(p->script, what, LT_SECONDS_POLICY);
  const lt_status st = lt_lua_protect(p->script, ask, &q, &own);
  lt_script_unwatch(p->script);
  if (st == LT_OK) return LT_OK;
  lt_error_key(&own, "layout.partition");
  if (e && !e->code) *e = own;
  return st;
}

bool lt_lua_read_partition(lua_State *L, lt_lua_partition *own, lt_deal_policy *p) {
  bool known = true;
  *p = (lt_deal_policy){.kind = LT_PARTITION_BALANCED};
  if (lua_isfunction(L, -1)) {
    own->script = lt_lua_script(L);
    own->function = luaL_ref(L, LUA_REGISTRYINDEX);
    *p = (lt_deal_policy){.kind = LT_PARTITION_OWN, .function = deal, .context = own};
    return true;
  }
  if (!lua_isnil(L, -1)) known = lua_isstring(L, -1) && lt_partition_find(lua_tostring(L, -1), &p->kind);
  lua_pop(L, 1);
  return known;
}
