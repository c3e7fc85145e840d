/* test_progress.c: the line of a run in a pseudo-terminal: written over, as wide as the window, never mixed with messages;
** plain lines on a dumb terminal; colours only where they are wanted. */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include "pty.h"
#include "scratch.h"

static const char recipe[] =
    "return {\n"
    "  data = { train = 'text', eval = 'text2', length = 32 },\n"
    "  model = lt.nn.decoder { width = 32, layers = 1, heads = 2, ffn = lt.nn.gelu { hidden = 64 } },\n"
    "  optim = lt.optim.adamw { lr = 1e-2 },\n"
    "  train = { tokens = 512, steps = lt.arg('steps', 10, 'of the run'), eval_every = lt.arg('eval', 0, 'steps "
    "between'), eval_tokens = 64 },\n"
    "}\n";

/* Odd documents hold a letter whose logarithm nothing survives: their steps are not applied, and warned of. */
static const char bad[] = "local op = lt.op\n"
                          "local function factor(ctx)\n"
                          "  local byte = op.cast(ctx:feed 'token', { dtype = 'f32' })\n"
                          "  local other = op.scale(op.equal(byte, op.fill { value = 90 }), { alpha = -1, beta = 1 })\n"
                          "  return op.scale(op.sum(op.log(other)), { alpha = 0, beta = 1 })\n"
                          "end\n"
                          "return {\n"
                          "  data = { train = 'odd', length = 32 },\n"
                          "  model = function(ctx)\n"
                          "    local x = op.embedding(ctx:feed 'token', ctx:param('embedding', { 256, 16 }))\n"
                          "    return factor(ctx) * ctx:cross_entropy(x, ctx:param('head', { 256, 16 }))\n"
                          "  end,\n"
                          "  optim = lt.optim.adamw { lr = 1e-2 },\n"
                          "  train = { tokens = 32, steps = 2, micro_batch = 1 },\n"
                          "}\n";

static char command[1024];

static int start(pty *p, const char *name, const char *steps, const char *evaluate, unsigned short columns) {
  SCRATCH_PATH(file, name);
  char run[600];
  static int number;
  snprintf(run, sizeof run, "%s/run%d", scratch, ++number);
  char *const argv[] = {command, file, "--run", run, (char *)steps, (char *)evaluate, NULL};
  return CHECK(pty_open(p, argv, columns));
}

/* The widest of the lines that were written over, escapes left out, from `from` on. */
static int widest(const char *from) {
  int most = 0, n = 0;
  for (const char *s = from; *s; s++) {
    if (*s == '\033') {
      s += 1 + strcspn(s + 1, "KJAm");
      if (!*s) break;
    } else if (*s == '\r' || *s == '\n') {
      n = 0;
    } else if (++n > most) {
      most = n;
    }
  }
  return most;
}

static void test_rewritten(void) {
  pty p;
  if (!start(&p, "recipe.lua", "steps=400", "eval=100", 100)) return;
  pty_expect(&p, "\rstep ", 60);
  CHECK_INT(pty_close(&p, 60), 0);
  CHECK(strstr(p.text, "  loss ") && strstr(p.text, " tokens/s  ") && strstr(p.text, "iB  ") &&
        strstr(p.text, "s left"));
  CHECK(strstr(p.text, "\rstep 400/400  loss ") != NULL);
  CHECK(strstr(p.text, "\033[K\r\n") != NULL);                       /* the last one stays */
  CHECK(strstr(p.text, "\r\033[Kstep 100  held-out loss ") != NULL); /* a message takes the line's place */
  const char *message = strstr(p.text, "step 100  held-out loss ");
  CHECK(message && strcspn(message, "\r\n") < 70 && strncmp(strpbrk(message, "\r\n"), "\r\n", 2) == 0);
  pty_free(&p);
}

static void test_narrow(void) {
  pty p;
  if (!start(&p, "recipe.lua", "steps=100000", "eval=0", 100)) return;
  pty_expect(&p, "left\033[K", 60);
  pty_resize(&p, 30);
  pty_expect(&p, "A\r\033[J", 20); /* the broken line is taken back, whole */
  size_t from = p.at;
  pty_expect(&p, "\rstep ", 20);
  pty_expect(&p, "\rstep ", 20);
  size_t to = p.at;
  pty_resize(&p, 200);
  pty_expect(&p, "left\033[K", 20);
  if (p.text) p.text[to] = '\0';
  CHECK(widest(p.text + from) > 10 && widest(p.text + from) < 30);
  p.text[to] = ' ';
  pty_send(&p, "\003");
  pty_expect(&p, "interrupted: step ", 20);
  CHECK_INT(pty_close(&p, 20), 130);
  pty_free(&p);
}

static void test_dumb(void) {
  pty p;
  setenv("TERM", "dumb", 1);
  if (!start(&p, "recipe.lua", "steps=20", "eval=10", 100)) return;
  CHECK_INT(pty_close(&p, 60), 0);
  CHECK(strchr(p.text, '\033') == NULL);
  CHECK(strstr(p.text, "\nstep 20/20  loss ") != NULL);
  pty_free(&p);
  setenv("TERM", "xterm", 1);
}

static void test_warnings(void) {
  pty p;
  if (!start(&p, "bad.lua", NULL, NULL, 100)) return;
  (void)pty_close(&p, 60);
  CHECK(strstr(p.text, "\033[33mwarning:\033[0m step 0 is not applied: loss nan") != NULL);
  CHECK(strstr(p.text, "-nan") == NULL);
  pty_free(&p);
  setenv("NO_COLOR", "1", 1);
  if (!start(&p, "bad.lua", NULL, NULL, 100)) return;
  (void)pty_close(&p, 60);
  CHECK(strstr(p.text, "\nwarning: step 0 is not applied: loss nan") != NULL && strstr(p.text, "\033[33m") == NULL);
  pty_free(&p);
  unsetenv("NO_COLOR");
}

int main(void) {
  char text[4096];
  scratch_begin();
  pty_command(command, sizeof command);
  setenv("TERM", "xterm", 1);
  for (size_t i = 0; i < sizeof text; i++) text[i] = "int x = y + 7;\n"[i % 15];
  scratch_write("text", text, sizeof text);
  scratch_write("text2", text, 1024);
  scratch_text("odd",
               "x = Z\nx = Z\nx = Z\nx = Z\nx = Z\nx = Z\nx = Z\nx = Z\nx = Z\nx = Z\nx = Z\nx = Z\nx = Z\nx = Z\n");
  scratch_text("recipe.lua", recipe);
  scratch_text("bad.lua", bad);
  test_rewritten();
  test_narrow();
  test_dumb();
  test_warnings();
  scratch_end();
  return check_done();
}
