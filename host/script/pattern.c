/* pattern.c: find, match, gmatch and gsub for recipes: Lua 5.1's patterns, with every step counted.
** A call may take 10^6 steps: one a byte or pattern item looked at, so that no pattern outlives the watchdog, which
** cannot speak inside C. Scripts have the same functions as lt.pattern; results are those of LuaJIT's own library.
** Syntax: Ierusalimschy, "Lua 5.1 Reference Manual", section 5.4.1, with %f and %g. A zero byte ends a pattern. */
#include "script/bridge.h"

#include <ctype.h>
#include <string.h>

#define MOST_STEPS    1000000
#define MOST_DEPTH    200 /* items that wait for what follows them */
#define MOST_CAPTURES 32

#define OPEN          ((ptrdiff_t)-1) /* lengths of captures that have none */
#define POSITION      ((ptrdiff_t)-2)

typedef struct matcher {
  lua_State *L;
  const char *text, *text_end;
  const char *pattern_end; /* the text's and the pattern's strings stay on the Lua stack */
  int64_t steps;
  int depth, captures;
  struct {
    const char *at;
    ptrdiff_t n;
  } capture[MOST_CAPTURES];
} matcher;

static const char *match_rest(matcher *m, const char *s, const char *p);

static void take_steps(matcher *m, size_t n) {
  m->steps += (int64_t)n;
  if (m->steps > MOST_STEPS) lt_lua_fail(m->L, "a pattern that takes more than %d steps on this text", MOST_STEPS);
}

static int byte_at(const char *s, const char *end) { return s < end ? (unsigned char)*s : 0; }

/* ---- One byte against one item ---- */

/* %a and its like; other letters and signs stand for themselves. */
static bool is_in_class(int c, int class) {
  bool in;
  switch (class | 0x20) {
  case 'a': in = (c & ~0x20) >= 'A' && (c & ~0x20) <= 'Z'; break;
  case 'c': in = c < 32 || c == 127; break;
  case 'd': in = c >= '0' && c <= '9'; break;
  case 'g': in = c > 32 && c < 127; break;
  case 'l': in = c >= 'a' && c <= 'z'; break;
  case 'p': in = c < 128 && ispunct(c); break;
  case 's': in = c == ' ' || (c >= 9 && c <= 13); break;
  case 'u': in = c >= 'A' && c <= 'Z'; break;
  case 'w': in = (c >= '0' && c <= '9') || ((c & ~0x20) >= 'A' && (c & ~0x20) <= 'Z'); break;
  case 'x': in = (c >= '0' && c <= '9') || ((c & ~0x20) >= 'A' && (c & ~0x20) <= 'F'); break;
  case 'z': in = c == 0; break;
  default: return class == c;
  }
  if (class >= 'A' && class <= 'Z') return !in;
  return class >= 'a' && class <= 'z' ? in : class == c;
}

/* set: [ … ], `last` its closing bracket. */
static bool is_in_set(int c, const char *set, const char *last) {
  bool in = set[1] != '^';
  const char *p = set + (in ? 1 : 2);
  for (; p < last; p++) {
    if (*p == '%') {
      if (is_in_class(c, (unsigned char)*++p)) return in;
    } else if (p[1] == '-' && p + 2 < last) {
      if ((unsigned char)p[0] <= c && c <= (unsigned char)p[2]) return in;
      p += 2;
    } else if ((unsigned char)*p == c)
      return in;
  }
  return !in;
}

/* Behind the item that begins at p. */
static const char *end_of_item(matcher *m, const char *p) {
  char first = *p++;
  if (first == '%') {
    if (p == m->pattern_end) lt_lua_fail(m->L, "a pattern that ends with '%%'");
    return p + 1;
  }
  if (first != '[') return p;
  if (p < m->pattern_end && *p == '^') p++;
  do { /* a ] that comes first is one of the set */
    if (p == m->pattern_end) lt_lua_fail(m->L, "a pattern in which a ']' is missing");
    if (*p++ == '%' && p < m->pattern_end) p++;
  } while (p == m->pattern_end || *p != ']');
  return p + 1;
}

/* Does the byte at s, if there is one, fit the item [p, end)? */
static bool fits(matcher *m, const char *s, const char *p, const char *end) {
  take_steps(m, 1 + (size_t)(end - p) / 16);
  if (s >= m->text_end) return false;
  int c = (unsigned char)*s;
  switch (*p) {
  case '.': return true;
  case '%': return is_in_class(c, (unsigned char)p[1]);
  case '[': return is_in_set(c, p, end - 1);
  default: return (unsigned char)*p == c;
  }
}

/* ---- Repetition ---- */

static const char *most_first(matcher *m, const char *s, const char *p, const char *end) {
  ptrdiff_t n = 0;
  while (fits(m, s + n, p, end)) n++;
  for (; n >= 0; n--) {
    const char *found = match_rest(m, s + n, end + 1);
    if (found) return found;
  }
  return NULL;
}

static const char *least_first(matcher *m, const char *s, const char *p, const char *end) {
  for (;; s++) {
    const char *found = match_rest(m, s, end + 1);
    if (found) return found;
    if (!fits(m, s, p, end)) return NULL;
  }
}

/* ---- Captures ---- */

static const char *open_capture(matcher *m, const char *s, const char *p, ptrdiff_t n) {
  if (m->captures == MOST_CAPTURES) lt_lua_fail(m->L, "a pattern with more than %d captures", MOST_CAPTURES);
  m->capture[m->captures].at = s;
  m->capture[m->captures].n = n;
  m->captures++;
  const char *found = match_rest(m, s, p);
  if (!found) m->captures--;
  return found;
}

static const char *close_capture(matcher *m, const char *s, const char *p) {
  int i = m->captures - 1;
  while (i >= 0 && m->capture[i].n != OPEN) i--;
  if (i < 0) {
    lt_lua_fail(m->L, "a pattern with a ')' that closes nothing");
    return NULL;
  }
  m->capture[i].n = s - m->capture[i].at;
  const char *found = match_rest(m, s, p);
  if (!found) m->capture[i].n = OPEN;
  return found;
}

/* %1 to %9: behind the same text again, or NULL. */
static const char *match_again(matcher *m, const char *s, int digit) {
  int i = digit - '1';
  if (i < 0 || i >= m->captures || m->capture[i].n == OPEN) {
    lt_lua_fail(m->L, "a pattern whose %%%c is no capture that is closed", digit);
    return NULL;
  }
  if (m->capture[i].n == POSITION) return NULL;
  size_t n = (size_t)m->capture[i].n;
  take_steps(m, n / 16);
  return (size_t)(m->text_end - s) >= n && memcmp(m->capture[i].at, s, n) == 0 ? s + n : NULL;
}

/* ---- %b and %f ---- */

/* p: the two bytes of %bxy. Behind the y that balances the x at s, or NULL. */
static const char *match_balanced(matcher *m, const char *s, const char *p) {
  if (m->pattern_end - p < 2) lt_lua_fail(m->L, "a pattern in which %%b lacks its two characters");
  if (s >= m->text_end || *s != p[0]) return NULL;
  int open = 1;
  for (s++; s < m->text_end; s++) {
    take_steps(m, 1);
    if (*s == p[1]) {
      if (--open == 0) return s + 1;
    } else if (*s == p[0])
      open++;
  }
  return NULL;
}

/* p: the set of %f[set], whose end becomes *end. Is s where the set begins to hold? */
static bool is_frontier(matcher *m, const char *s, const char *p, const char **end) {
  if (p == m->pattern_end || *p != '[') lt_lua_fail(m->L, "a pattern in which %%f is not followed by a '['");
  *end = end_of_item(m, p);
  take_steps(m, 1 + (size_t)(*end - p) / 16);
  int before = s == m->text ? 0 : (unsigned char)s[-1];
  return !is_in_set(before, p, *end - 1) && is_in_set(byte_at(s, m->text_end), p, *end - 1);
}

/* ---- The pattern from p on against the text from s on: behind what matched, or NULL ---- */

static const char *match_items(matcher *m, const char *s, const char *p) {
  for (;;) {
    take_steps(m, 1);
    if (p == m->pattern_end) return s;
    int next = byte_at(p + 1, m->pattern_end);
    if (*p == '(') return next == ')' ? open_capture(m, s, p + 2, POSITION) : open_capture(m, s, p + 1, OPEN);
    if (*p == ')') return close_capture(m, s, p + 1);
    if (*p == '$' && p + 1 == m->pattern_end) return s == m->text_end ? s : NULL;
    if (*p == '%' && next == 'b') {
      s = match_balanced(m, s, p + 2);
      p += 4;
    } else if (*p == '%' && next == 'f') {
      if (!is_frontier(m, s, p + 2, &p)) return NULL;
    } else if (*p == '%' && next >= '0' && next <= '9') {
      s = match_again(m, s, next);
      p += 2;
    } else {
      const char *end = end_of_item(m, p), *found;
      switch (byte_at(end, m->pattern_end)) {
      case '*': return most_first(m, s, p, end);
      case '+': return fits(m, s, p, end) ? most_first(m, s + 1, p, end) : NULL;
      case '-': return least_first(m, s, p, end);
      case '?':
        if (fits(m, s, p, end) && (found = match_rest(m, s + 1, end + 1)) != NULL) return found;
        p = end + 1;
        break;
      default: s = fits(m, s, p, end) ? s + 1 : NULL; p = end;
      }
    }
    if (!s) return NULL;
  }
}

static const char *match_rest(matcher *m, const char *s, const char *p) {
  if (++m->depth > MOST_DEPTH) lt_lua_fail(m->L, "a pattern that is too complex: more than %d items wait", MOST_DEPTH);
  const char *found = match_items(m, s, p);
  m->depth--;
  return found;
}

static const char *match_at(matcher *m, const char *s, const char *p) {
  m->captures = 0;
  m->depth = 0;
  return match_rest(m, s, p);
}

/* Strings at 1 and 2 as text and pattern; returns where the pattern begins. */
static const char *begin(matcher *m, lua_State *L, int text, int pattern) {
  size_t n;
  m->L = L;
  m->steps = 0;
  m->text = luaL_checklstring(L, text, &n);
  m->text_end = m->text + n;
  const char *p = luaL_checkstring(L, pattern);
  m->pattern_end = p + strlen(p);
  return p;
}

/* ---- Handing captures to Lua ---- */

/* Capture i, or the whole match [s, end) where there are none. */
static void push_capture(matcher *m, int i, const char *s, const char *end) {
  if (i >= m->captures && i > 0) lt_lua_fail(m->L, "there is no capture %%%d in this pattern", i + 1);
  if (i >= m->captures)
    lua_pushlstring(m->L, s, (size_t)(end - s));
  else if (m->capture[i].n == OPEN)
    lt_lua_fail(m->L, "a pattern with a capture that is not closed");
  else if (m->capture[i].n == POSITION)
    lua_pushnumber(m->L, (double)(m->capture[i].at - m->text + 1));
  else
    lua_pushlstring(m->L, m->capture[i].at, (size_t)m->capture[i].n);
}

/* All captures; the whole match where there are none and s is given. */
static int push_captures(matcher *m, const char *s, const char *end) {
  int n = m->captures == 0 && s ? 1 : m->captures;
  luaL_checkstack(m->L, n, "captures");
  for (int i = 0; i < n; i++) push_capture(m, i, s, end);
  return n;
}

/* ---- find and match ---- */

/* Where text [s, end) holds the n bytes of `word`, or NULL. */
static const char *find_word(matcher *m, const char *s, const char *word, size_t n) {
  if (n == 0) return s;
  for (; (size_t)(m->text_end - s) >= n; s++) {
    s = memchr(s, word[0], (size_t)(m->text_end - s) - n + 1);
    if (!s) return NULL;
    if (n == 1) return s;
    take_steps(m, 1 + n / 64);
    if (memcmp(s, word, n) == 0) return s;
  }
  return NULL;
}

static bool is_plain(const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i] && strchr("^$*+?.([%-", p[i])) return false;
  return true;
}

/* Positions count from 1, or from the end when negative. */
static const char *start_of(lua_State *L, const matcher *m) {
  lua_Integer i = luaL_optinteger(L, 3, 1), n = m->text_end - m->text;
  if (i < 0)
    i = i < -n ? 0 : i + n;
  else if (i > 0)
    i--;
  return m->text + (i < n ? i : n);
}

static int find_or_match(lua_State *L, bool find) {
  matcher m;
  const char *p = begin(&m, L, 1, 2), *s = start_of(L, &m), *end;
  size_t n = lua_objlen(L, 2);
  if (find && (lua_toboolean(L, 4) || is_plain(p, n))) {
    s = find_word(&m, s, p, n);
    if (!s) return 0;
    lua_pushnumber(L, (double)(s - m.text + 1));
    lua_pushnumber(L, (double)(s - m.text) + (double)n);
    return 2;
  }
  bool anchored = *p == '^';
  if (anchored) p++;
  while (!(end = match_at(&m, s, p)))
    if (anchored || s++ >= m.text_end) return 0;
  if (!find) return push_captures(&m, s, end);
  lua_pushnumber(L, (double)(s - m.text + 1));
  lua_pushnumber(L, (double)(end - m.text));
  return 2 + push_captures(&m, NULL, NULL);
}

static int find_or_nil(lua_State *L, bool find) {
  lua_settop(L, 4);
  int n = find_or_match(L, find);
  if (n == 0) lua_pushnil(L);
  return n ? n : 1;
}

static int find(lua_State *L) { return find_or_nil(L, true); }
static int match(lua_State *L) { return find_or_nil(L, false); }

/* ---- gmatch: text, pattern and where to go on are the iterator's upvalues ---- */

static int next_match(lua_State *L) {
  matcher m;
  const char *p = begin(&m, L, lua_upvalueindex(1), lua_upvalueindex(2));
  const char *s = m.text + (size_t)lua_tonumber(L, lua_upvalueindex(3)), *end;
  for (; s <= m.text_end; s++) {
    end = match_at(&m, s, p);
    if (!end) continue;
    lua_pushnumber(L, (double)(end - m.text) + (end == s)); /* an empty match is not found again */
    lua_replace(L, lua_upvalueindex(3));
    return push_captures(&m, s, end);
  }
  return 0;
}

static int gmatch(lua_State *L) {
  luaL_checkstring(L, 1);
  luaL_checkstring(L, 2);
  lua_settop(L, 2);
  lua_pushnumber(L, 0);
  lua_pushcclosure(L, next_match, 3);
  return 1;
}

/* ---- gsub ---- */

/* A replacement string: %0 to %9 are captures, %% and the like the character. */
static void add_string(matcher *m, luaL_Buffer *b, const char *s, const char *end) {
  size_t n;
  const char *by = lua_tolstring(m->L, 3, &n);
  for (size_t i = 0; i < n; i++) {
    if (by[i] != '%') {
      luaL_addchar(b, by[i]);
      continue;
    }
    i++; /* at the end of the string this is its zero */
    if (by[i] == '0')
      luaL_addlstring(b, s, (size_t)(end - s));
    else if (by[i] > '0' && by[i] <= '9') {
      push_capture(m, by[i] - '1', s, end);
      luaL_addvalue(b);
    } else
      luaL_addchar(b, by[i]);
  }
}

static void add_replacement(matcher *m, luaL_Buffer *b, const char *s, const char *end) {
  lua_State *L = m->L;
  switch (lua_type(L, 3)) {
  case LUA_TFUNCTION:
    lua_pushvalue(L, 3);
    lua_call(L, push_captures(m, s, end), 1);
    break;
  case LUA_TTABLE:
    push_capture(m, 0, s, end);
    lua_gettable(L, 3);
    break;
  default: add_string(m, b, s, end); return;
  }
  if (!lua_toboolean(L, -1)) {
    lua_pop(L, 1);
    lua_pushlstring(L, s, (size_t)(end - s));
  } else if (!lua_isstring(L, -1))
    lt_lua_fail(L, "gsub: a replacement must be a string, not a %s", luaL_typename(L, -1));
  luaL_addvalue(b);
}

/* gsub(text, pattern, by [, most]) → the text with matches replaced, and how many */
static int gsub(lua_State *L) {
  matcher m;
  luaL_Buffer b;
  lt_lua_guard_stack(L);
  const char *p = begin(&m, L, 1, 2), *s = m.text;
  int by = lua_type(L, 3);
  luaL_argcheck(L, by == LUA_TNUMBER || by == LUA_TSTRING || by == LUA_TFUNCTION || by == LUA_TTABLE, 3,
                "string/function/table expected");
  lua_Number most = luaL_optnumber(L, 4, (double)(m.text_end - m.text) + 1);
  lua_settop(L, 3);
  bool anchored = *p == '^';
  if (anchored) p++;
  int n = 0;
  luaL_buffinit(L, &b);
  while (n < most) {
    const char *end = match_at(&m, s, p);
    if (end) {
      n++;
      add_replacement(&m, &b, s, end);
    }
    if (end && end > s)
      s = end;
    else if (s < m.text_end)
      luaL_addchar(&b, *s++);
    else
      break;
    if (anchored) break;
  }
  luaL_addlstring(&b, s, (size_t)(m.text_end - s));
  luaL_pushresult(&b);
  lua_pushinteger(L, n);
  return 2;
}

void lt_lua_open_pattern(lua_State *L) {
  static const luaL_Reg library[] = {
      {"find", find}, {"match", match}, {"gmatch", gmatch}, {"gsub", gsub}, {NULL, NULL}};
  lua_newtable(L);
  luaL_register(L, NULL, library);
  lua_setfield(L, -2, "pattern");
}
