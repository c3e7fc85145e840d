/* fuzz_recipes.c: any bytes as a recipe: read, checked, built, or refused with an error that names a place.
** Promises held to: no crash, an end in time, nothing on disk, a state that ends; and a refusal says what and where.
** Changes are of tokens: words of one recipe, numbers at their limits, groups doubled, dropped, nested. */
#include "fuzz/fuzz.h"
#include "script/recipe.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIMIT 0.1 /* seconds of processor time for reading, and for building */

static char path[] = "fuzz_recipe.XXXXXX";

static bool open_file(void **context) {
  (void)context;
  int fd = mkstemp(path);
  if (fd < 0) return false;
  close(fd);
  return true;
}

static void close_file(void *context) {
  (void)context;
  unlink(path);
}

static fuzz_result fault(const char *what, const lt_error *e) {
  char text[2048];
  lt_error_format(e, text, sizeof text);
  fprintf(stderr, "fuzz: %s:\n%s\n", what, text);
  return FUZZ_FAULT;
}

static fuzz_result build(lt_recipe *r) {
  lt_recipe_build b = {r, true};
  lt_error e = {0};
  lt_graph *g = NULL;
  lt_status st = lt_graph_create(lt_recipe_get(r)->real, 1024, &g, &e);
  if (st == LT_OK) st = lt_recipe_graph(&b, g, &e);
  lt_graph_free(g);
  if (st == LT_OK) return FUZZ_ACCEPTED;
  return e.what[0] ? FUZZ_REFUSED : fault("a build fails without a word", &e);
}

static fuzz_result run(void *context, const unsigned char *p, size_t n) {
  (void)context;
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0) return FUZZ_FAULT;
  const lt_recipe_source from = {.path = path, .seconds = LIMIT};
  lt_recipe *r = NULL;
  lt_error e = {0};
  lt_status st = lt_recipe_load(&from, &r, &e);
  if (st != LT_OK) return e.what[0] && e.where[0] ? FUZZ_REFUSED : fault("a refusal without a word or a place", &e);
  lt_text t = {0};
  fuzz_result result = lt_recipe_print(r, &t, &e) == LT_OK ? build(r) : fault("settings that cannot be printed", &e);
  lt_text_free(&t);
  lt_recipe_free(r);
  return result;
}

/* ---- Changes of tokens ---- */

typedef struct token {
  size_t at, n;
} token;

static bool is_word(unsigned char c) { return isalnum(c) || c == '_'; }

static size_t end_of_token(const unsigned char *p, size_t at, size_t n) {
  size_t end = at + 1;
  if (is_word(p[at])) {
    while (end < n && is_word(p[end])) end++;
  } else if (p[at] == '"' || p[at] == '\'') {
    while (end < n && p[end] != p[at] && p[end] != '\n') end++;
    if (end < n) end++;
  } else if (p[at] == '-' && end < n && p[end] == '-') {
    while (end < n && p[end] != '\n') end++;
  }
  return end;
}

/* A token from a random place on; its size is 0 where there is none. */
static token some_token(fuzz_random *r, const unsigned char *p, size_t n) {
  if (!n) return (token){0, 0};
  size_t at = fuzz_below(r, n);
  if (is_word(p[at]))
    while (at > 0 && is_word(p[at - 1])) at--;
  while (at < n && isspace(p[at])) at++;
  return at < n ? (token){at, end_of_token(p, at, n) - at} : (token){n, 0};
}

/* The group that opens at t: up to its closing bracket. */
static token group_of(const unsigned char *p, size_t n, token t) {
  size_t end = t.at, depth = 0;
  do {
    if (end == n) return t;
    depth += strchr("{([", p[end]) && p[end] ? 1 : 0;
    depth -= depth && strchr("})]", p[end]) && p[end] ? 1 : 0;
    end++;
  } while (depth);
  return (token){t.at, end - t.at};
}

static size_t replace(unsigned char *p, size_t n, size_t room, token t, const void *by, size_t m) {
  if (n - t.n + m > room) return n;
  memmove(p + t.at + m, p + t.at + t.n, n - t.at - t.n);
  memcpy(p + t.at, by, m);
  return n - t.n + m;
}

/* What stands for a value. */
static const char *const values[] = {
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "256",
    "65536",
    "1e9",
    "1e15",
    "2^53",
    "1e300",
    "0/0",
    "1/0",
    "-1/0",
    "0.5",
    "nil",
    "true",
    "false",
    "{}",
    "{{}}",
    "\"\"",
    "\"auto\"",
    "\"2 GiB\"",
    "print",
    "function(...) return ... end",
    "setmetatable({}, {})",
    "setmetatable({}, { __index = function(t, k) return t end })",
    "coroutine.create(print)",
    "lt",
    "lt.nn",
    "lt.op",
    "lt.random(1)",
    "(\"x\"):rep(1000)",
    "{ 1, 2, 3, nil, 5 }",
    "lt.arg(\"a\", 1)",
    "lt.nn.swiglu {}",
    "lt.nn.swigloo {}",
    "lt.lr.cosin {}",
    "lt.lr.cosine { peak = 1 }",
    "function(x, ctx) return x end",
    "function(x, ctx) return ctx:linear(\"a\", x, x.width) end",
    "function(x, ctx) return lt.op.add(x, x) end",
    "function(x, ctx) return ctx:scope(\"s\", function() return ctx:norm(\"n\", x) * 2 end) end",
    NULL};

/* What stands for a statement. */
static const char *const statements[] = {
    "\nwhile true do end\n",
    "\nlocal function f() return pcall(f) end f()\n",
    "\nerror({})\n",
    "\nerror(\"\")\n",
    "\nerror(nil)\n",
    "\nfor i = 1, 1e4 do local t = { i } end\n",
    "\nlocal s = (\"a\"):rep(2^16) for i = 1, 9 do s = s .. s end\n",
    "\nlocal t = {} for k, v in pairs(string) do t[k] = v end\n",
    "\ntable.sort({ 3, 1, 2 }, function() return true end)\n",
    "\nlocal a = (\"aaaa\"):gsub(\".\", { a = \"%1\" })\n",
    "\nlocal c = coroutine.wrap(function(...) coroutine.yield(...) end) c(1) c(2) c(3)\n",
    "\nxpcall(error, function(e) error(e) end)\n",
    "\nprint(string.format(\"%5.2f %q %s\", 1, 2, {}))\n",
    "\nlocal t = setmetatable({}, { __tostring = function() error(\"x\") end }) print(t)\n",
    "\ntable.insert({ 1, 2 }, 2^31, 3) table.concat({}, \"\", 1, 2^31)\n",
    "\nstring.find((\"a\"):rep(99), (\"a*\"):rep(9) .. \"b\")\n",
    "\nlocal function f() return coroutine.wrap(f)() end f()\n",
    "\nlocal function f() return ((\"x\"):gsub(\"x\", f)) end f()\n",
    "\nlocal function h(e) return xpcall(error, h) end xpcall(error, h)\n",
    "\ngoto l ::l::\n",
    "\nrequire \"x\"\n",
    NULL};

static const char *one_of(fuzz_random *r, const char *const *list) {
  size_t n = 0;
  while (list[n]) n++;
  return list[fuzz_below(r, n)];
}

static size_t mutate(void *context, fuzz_random *r, unsigned char *p, size_t n, size_t room) {
  (void)context;
  token a = some_token(r, p, n), b = some_token(r, p, n), g = group_of(p, n, a);
  unsigned char copy[2048];
  const char *s;
  switch (fuzz_below(r, 8)) {
  case 0: return replace(p, n, room, a, "", 0);
  case 1: return replace(p, n, room, g, "", 0);
  case 2: /* b takes the place of a */
    if (b.n > sizeof copy) return n;
    memcpy(copy, p + b.at, b.n);
    return replace(p, n, room, a, copy, b.n);
  case 3: /* a group, or a token, twice */
    if (g.n > sizeof copy) return n;
    memcpy(copy, p + g.at, g.n);
    return replace(p, n, room, (token){g.at + g.n, 0}, copy, g.n);
  case 4: /* a group in the place of a token: tables nest */
    if (g.n > sizeof copy) return n;
    memcpy(copy, p + g.at, g.n);
    return replace(p, n, room, b, copy, g.n);
  case 5:
  case 6: s = one_of(r, values); return replace(p, n, room, fuzz_below(r, 2) ? a : g, s, strlen(s));
  default: /* before a line */
    s = one_of(r, statements);
    while (a.at > 0 && p[a.at - 1] != '\n') a.at--;
    return replace(p, n, room, (token){a.at, 0}, s, strlen(s));
  }
}

static const char *const words[] = {"local ", "function ", " end ",   "return ", " if ",  " then ", " do ",  "nil",
                                    " = ",    "{",         "}",       "(",       ")",     "[[",     "]]",    "--[[",
                                    "\\",     "\"",        "::",      "...",     "..",    "^",      "#",     "%",
                                    ",",      "\0",        "\33LJ\2", "model",   "width", "layers", "heads", "train",
                                    "tokens", "data",      "length",  "layout",  "mesh",  "sp",     "optim", "lt.",
                                    "ctx:",   "self",      "and ",    "or ",     "not ",  "goto ",  NULL};

const fuzz_target fuzz_recipes = {
    .name = "recipes",
    .most = 1 << 14,
    .seconds = 2.0,
    .word = words,
    .open = open_file,
    .close = close_file,
    .run = run,
    .mutate = mutate,
};
