/* test_console.c: the prompt in a pseudo-terminal: values, locals, pieces over several lines, errors, completion, history,
** Ctrl-C in what is typed and in loops of every kind, within a second, and Ctrl-D. */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include "pty.h"
#include "scratch.h"

static char folder[600];
static char command[1024];

static int start(pty *p) {
  char *const argv[] = {command, "-i", NULL};
  return CHECK(pty_open(p, argv, 100)) && pty_expect(p, "> ", 20) >= 0;
}

/* Type a line and wait for what it prints, on a line of its own. */
static void ask(pty *p, const char *line, const char *answer) {
  char all[512], printed[512];
  snprintf(all, sizeof all, "%s\r", line);
  snprintf(printed, sizeof printed, "\n%s\r\n", answer);
  pty_send(p, all);
  pty_expect(p, printed, 20);
  pty_expect(p, "> ", 20); /* then the terminal takes no control keys for itself */
}

/* At a prompt that was waited for. */
static void say_goodbye(pty *p) {
  pty_send(p, "\004");
  CHECK_INT(pty_close(p, 20), 0);
  pty_free(p);
}

static void test_values(void) {
  pty p;
  if (!start(&p)) return;
  ask(&p, "1 + 1", "2");
  ask(&p, "_ * 21", "42");
  ask(&p, "return nil, 2, nil", "nil  2  nil");
  ask(&p, "{ 1, a = { true } }", "{ 1, a = { true } }");
  ask(&p, "lt.tensor { { 1, 2.5 }, { -3, 4 } }", "f32[2, 2]\r\n[[  1, 2.5],\r\n [ -3,   4]]");
  ask(&p, "lt.tensor.zeros({ 3, 1000 }).shape", "{ 3, 1000 }");
  ask(&p, "lt.tensor.zeros { 1000 }", "f32[1000] [0, 0, 0, …, 0, 0, 0]");
  ask(&p, "x = = 1", "prompt:1: unexpected symbol near '='");
  ask(&p, "error 'no'", "prompt:1: no");
  ask(&p, "local t = nil; t.x = 1", "prompt:1: attempt to index upvalue 't' (a nil value)");
  say_goodbye(&p);
}

/* They live on, closures share them, a new declaration makes a new one, in blocks they end as ever. */
static void test_locals(void) {
  pty p;
  if (!start(&p)) return;
  pty_send(&p, "local n, m = 5, 6\r");
  pty_send(&p, "local function more() n = n + 1; return n end\r");
  ask(&p, "more() + m", "12");
  ask(&p, "n", "6");
  ask(&p, "rawget(_G, 'n')", "nil");
  pty_send(&p, "local n = n * 100\r");
  ask(&p, "n", "600");
  ask(&p, "more()", "7"); /* the older one is its own */
  pty_send(&p, "do local inner = 1 end local outer\r");
  ask(&p, "inner == nil and outer == nil", "true");
  say_goodbye(&p);
}

static void test_several_lines(void) {
  pty p;
  if (!start(&p)) return;
  pty_send(&p, "for i = 1, 3 do\r");
  pty_expect(&p, ">> ", 20);
  pty_send(&p, "  if i == 3 then\r");
  pty_expect(&p, ">> ", 20);
  pty_send(&p, "  print(i * 111) end end\r");
  pty_expect(&p, "\n333\r\n", 20);
  pty_send(&p, "(\r"); /* a mistake that could go on for ever */
  pty_expect(&p, ">> ", 20);
  pty_send(&p, "end\r");
  pty_expect(&p, "prompt:2: unexpected symbol near 'end'", 20);
  pty_send(&p, "local s = [[\r");
  pty_expect(&p, ">> ", 20);
  pty_send(&p, "\003");
  pty_expect(&p, "^C\r\n", 20);
  ask(&p, "'here' .. 1", "here1");
  pty_send(&p, "thrown away\003");
  pty_expect(&p, "^C\r\n", 20);
  ask(&p, "'here' .. 2", "here2");
  say_goodbye(&p);
}

static void test_completion(void) {
  pty p;
  if (!start(&p)) return;
  ask(&p, "lt.vers\t:sub(0, 0) == ''", "true");
  pty_send(&p, "local my_tensor = lt.tensor { 1, 2, 3 }\r");
  pty_expect(&p, "\n", 20);
  pty_expect(&p, "> ", 20);
  ask(&p, "my_t\t:su\t()", "6");
  pty_send(&p, "table.\t");
  pty_expect(&p, "concat", 20);
  pty_expect(&p, "sort", 20);
  pty_send(&p, "\025"); /* clear the line */
  ask(&p, "'still' .. 'here'", "stillhere");
  pty_resize(&p, 40);
  ask(&p, "'and' .. 'now'", "andnow");
  say_goodbye(&p);
}

/* The prompt is back within a second, and what follows works. */
static void interrupt(pty *p, const char *loop, int k) {
  char line[512], answer[32], said[64];
  snprintf(line, sizeof line, "print 'loop%d begins'; %s\r", k, loop);
  snprintf(said, sizeof said, "\nloop%d begins\r\n", k);
  pty_send(p, line);
  pty_expect(p, said, 20);
  usleep(200000); /* long enough for a compiler to have seen the loop */
  pty_send(p, "\003");
  double seconds = pty_expect(p, "interrupted", 10);
  if (!CHECK(seconds >= 0 && seconds < 1)) fprintf(stderr, "  %s: %.2f s\n", loop, seconds);
  snprintf(line, sizeof line, "'alive' .. %d", k);
  snprintf(answer, sizeof answer, "alive%d", k);
  ask(p, line, answer);
}

static void test_interrupts(void) {
  static const char *const loops[] = {
      "while true do end",
      "for i = 1, 1e15 do end",
      "local x = 0 repeat x = x + 1 until x < 0",
      "while true do pcall(error, 'x') end",
      "while true do pcall(function() while true do end end) end",
      "coroutine.wrap(function() while true do end end)()",
      "xpcall(function() while true do end end, function() while true do end end)",
      "for i = 1, 1e15 do local t = { i } end",
      "local ffi = require 'ffi'; local a = ffi.new('int[4]') while true do a[1] = a[1] + 1 end",
      "require 'endless'",
      "setmetatable({}, { __index = function() while true do end end }).x()",
      "while true do lt.tensor { 1 } end",
      "io.read()",
  };
  pty p;
  char path[700];
  snprintf(path, sizeof path, "%s/endless.lua", folder);
  scratch_text("endless.lua", "local function spin() local n = 0 while true do n = n + 1 end end\nreturn spin()\n");
  setenv("LUA_PATH", path, 1);
  if (!start(&p)) return;
  for (int k = 0; k < (int)(sizeof loops / sizeof *loops); k++) interrupt(&p, loops[k], k);
  ask(&p, "(jit.status())", "false"); /* and nobody turns the compiler on */
  pty_send(&p, "jit.on()\r");
  pty_expect(&p, "Ctrl-C stops every loop", 20);
  interrupt(&p, "jit.on(function() end) for i = 1, 1e15 do end", 99);
  say_goodbye(&p);
  unsetenv("LUA_PATH");
}

static void test_history(void) {
  pty p;
  char path[700];
  if (!start(&p)) return;
  ask(&p, "'re' .. 'member'", "remember");
  pty_send(&p, "os.exit(7)\r"); /* no time to say goodbye */
  CHECK_INT(pty_close(&p, 20), 7);
  pty_free(&p);
  snprintf(path, sizeof path, "%s/state/ltrain/history", folder);
  CHECK(access(path, R_OK) == 0);
  if (!start(&p)) return;
  pty_send(&p, "\033[A\033[A\r"); /* twice up */
  pty_expect(&p, "\nremember\r\n> ", 20);
  pty_send(&p, "\022'mem\r"); /* search backwards; Return takes it */
  pty_expect(&p, "\nremember\r\n> ", 20);
  say_goodbye(&p);
}

int main(void) {
  char state[700], here[512];
  scratch_begin();
  if (!CHECK(getcwd(here, sizeof here) != NULL)) return 1;
  snprintf(folder, sizeof folder, "%s/%s", here, scratch);
  pty_command(command, sizeof command);
  snprintf(state, sizeof state, "%s/state", folder);
  setenv("XDG_STATE_HOME", state, 1);
  setenv("HOME", folder, 1);
  setenv("TERM", "xterm", 1);
  setenv("LC_ALL", "C.UTF-8", 1);
  test_values();
  test_locals();
  test_several_lines();
  test_completion();
  test_interrupts();
  test_history();
  scratch_end();
  return check_done();
}
