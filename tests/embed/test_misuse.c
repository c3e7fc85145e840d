/* test_misuse.c: ltrain.h in the hands of programs built for other versions of it, and of those that use it wrongly:
** structs of older and newer headers, every misuse an error, no output. */
#include "embed/embed.h"

#include <stddef.h>

/* ---- Structs of other headers ---- */

static void older_and_newer_structs(void) {
  lt_error e = {0};
  double first[3]; /* losses of a run of this header */
  lt_run *r = open_file();
  for (int k = 0; k < 3; k++) first[k] = step_loss(r);
  lt_run_close(r);
  r = NULL;
  lt_run_options o = options_of(path("recipe.lua"));
  struct {
    lt_run_options o;
    int64_t later;
  } newer;
  /* an older program knows less: what it lacks has its default, whatever lies behind it */
  o.steps = 3;
  o.size = (uint32_t)offsetof(lt_run_options, steps);
  CHECK_INT(lt_run_open(&o, &r, &e), LT_OK);
  lt_run_info i;
  LT_INIT(&i);
  CHECK_INT(lt_run_describe(r, &i, &e), LT_OK);
  CHECK_INT(i.steps, STEPS);
  lt_run_close(r);
  /* a newer one asks for nothing new, and then for something */
  memset(&newer, 0, sizeof newer);
  newer.o = options_of(path("recipe.lua"));
  newer.o.size = sizeof newer;
  CHECK_INT(lt_run_open(&newer.o, &r, &e), LT_OK);
  newer.later = 1;
  lt_run *none = r;
  CHECK_INT(lt_run_open(&newer.o, &none, &e), LT_USAGE);
  CHECK(none == NULL && strstr(e.what, "does not know") && strstr(e.hint, "newer"));
  /* what is received: no more than there is room for, zeros behind what the library knows */
  struct {
    lt_run_stats s;
    unsigned char later[16];
  } got;
  memset(&got, 0x5a, sizeof got);
  got.s.size = (uint32_t)offsetof(lt_run_stats, seconds);
  got.s.version = LT_STRUCT_VERSION;
  CHECK_INT(lt_run_step(r, NULL, &got.s, &e), LT_OK);
  CHECK(got.s.loss == first[0] && got.s.tokens == 192);
  unsigned char *p = (unsigned char *)&got.s.seconds;
  CHECK(p[0] == 0x5a && p[7] == 0x5a && got.later[0] == 0x5a);
  got.s.size = sizeof got;
  CHECK_INT(lt_run_step(r, NULL, &got.s, &e), LT_OK);
  CHECK(got.s.loss == first[1] && got.s.seconds > 0 && got.later[0] == 0 && got.later[15] == 0);
  CHECK_INT(got.s.size, sizeof got);
  /* heads that are none */
  got.s.size = 0;
  CHECK_INT(lt_run_step(r, NULL, &got.s, NULL), LT_USAGE);
  got.s.size = sizeof got.s;
  got.s.version = LT_STRUCT_VERSION + 1;
  memset(&e, 0, sizeof e);
  CHECK_INT(lt_run_step(r, NULL, &got.s, &e), LT_USAGE);
  CHECK_STR(e.got, "2");
  got.s.version = LT_STRUCT_VERSION;
  CHECK_INT(lt_run_step(r, NULL, &got.s, NULL), LT_OK); /* nothing was lost by it */
  CHECK(got.s.loss == first[2]);
  lt_run_close(r);
}

static void errors_of_other_headers(void) {
  struct {
    lt_error e;
    unsigned char later[8];
  } x;
  char text[400];
  memset(&x, 0x5a, sizeof x);
  x.e.size = (uint32_t)offsetof(lt_error, got);
  const lt_run_options o = options_of(path("nothing.lua"));
  lt_run *r = NULL;
  CHECK_INT(lt_run_open(&o, &r, &x.e), LT_USAGE);
  CHECK(x.e.code == LT_USAGE && strstr(x.e.where, "nothing.lua") && (unsigned char)x.e.got[0] == 0x5a);
  CHECK(strstr(lt_error_text(&x.e, text, sizeof text), "no recipe of this name") != NULL);
  CHECK(strstr(text, "ZZ") == NULL); /* what it has no room for is not read */
  x.e.size = sizeof x;
  CHECK_INT(lt_run_open(&o, &r, &x.e), LT_USAGE);
  CHECK(x.e.got[0] == 0 && x.later[0] == 0 && x.later[7] == 0);
  CHECK_INT(strlen(lt_error_text(&x.e, text, 10)), 9);
  CHECK_STR(lt_error_text(NULL, text, sizeof text), "");
}

/* ---- Misuse ---- */

static void refused(const lt_run_options *o, lt_status code, const char *what, const char *where) {
  lt_error e = {0};
  lt_run *r = NULL;
  CHECK_INT(lt_run_open(o, &r, &e), code);
  CHECK_INT(e.code, code);
  CHECK(r == NULL);
  char text[8192];
  if (!CHECK(strstr(lt_error_text(&e, text, sizeof text), what) != NULL)) fprintf(stderr, "%s\n", text);
  if (!CHECK(strstr(e.where, where) != NULL)) fprintf(stderr, "%s\n", e.where);
}

static void misuse_is_an_error(void) {
  lt_run_options o = options_of(NULL);
  refused(&o, LT_USAGE, "needs a recipe", "");
  refused(NULL, LT_USAGE, "lt_run_options is NULL", "");
  o = options_of("x.lua");
  o.n_arg = 1;
  refused(&o, LT_USAGE, "arrays of", "");
  o = options_of("x.lua");
  o.flags = 64;
  refused(&o, LT_USAGE, "no such flag", "");
  o = options_of(path("x.lua"));
  o.text = "return {";
  refused(&o, LT_RECIPE, "expected", "x.lua:1");
  o.text = "return { data = { train = 'text/*.txt' },\n model = lt.nn.decoder { heds = 2 }, optim = lt.optim.adamw { "
           "lr = 1 } }";
  refused(&o, LT_RECIPE, "did you mean heads?", "x.lua:2");
  o.text = "os.exit(3)";
  refused(&o, LT_RECIPE, "", "x.lua");
  o.text = recipe;
  static const char *const set[] = {"data.train=nowhere/*.txt"};
  o.set = set;
  o.n_set = 1;
  refused(&o, LT_DATA, "nowhere", "");
  CHECK_INT(lt_run_open(&o, NULL, NULL), LT_USAGE);
  lt_run_close(NULL);
}

int main(void) {
  begin_embedding();
  older_and_newer_structs();
  errors_of_other_headers();
  misuse_is_an_error();
  return end_embedding();
}
