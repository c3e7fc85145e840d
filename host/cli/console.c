/* console.c: -i: lines from a terminal, with editing, history and completion by libedit, or from a pipe.
** A signal is seen where nothing is half done: in the wait for a key, or at the hook of the running code. Under several
** ranks the first one reads, all run what it reads, and its errors and those of the others are told by it. */
#include "cli/cli.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef LT_HAVE_EDIT
#include <fcntl.h>
#include <histedit.h>
#include <sys/select.h>
#include <wchar.h>
#endif

#define PATIENCE 3 /* signals without an answer: the code is in a call that nothing stops */

typedef struct prompt {
  cli_options *o;
  lt_script *script;
  bool more;     /* the piece goes on */
  bool terminal; /* somebody types */
  bool failed;   /* some piece did */
#ifdef LT_HAVE_EDIT
  EditLine *edit;
  History *history;
  char *file; /* of the history; NULL: none */
  mbstate_t letter;
#endif
} prompt;

/* ---- Signals ---- */

static volatile sig_atomic_t stop, resized, resumed;

static void on_interrupt(int number) {
  (void)number;
  if (++stop < PATIENCE) return;
  static const char said[] = "\nwhat runs cannot be interrupted: ending\n";
  if (write(STDERR_FILENO, said, sizeof said - 1) < 0) _exit(LT_FAILED);
  _exit(LT_INTERRUPTED);
}

static void on_resize(int number) {
  (void)number;
  resized = 1;
}

static void on_resume(int number) {
  (void)number;
  resumed = 1;
}

/* Calls that wait come back with EINTR: io.read in a piece of code ends as well. */
static void listen_to_signals(void) {
  struct sigaction a = {.sa_handler = on_interrupt};
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, NULL);
  a.sa_handler = on_resize;
  a.sa_flags = SA_RESTART;
  sigaction(SIGWINCH, &a, NULL);
  a.sa_handler = on_resume;
  sigaction(SIGCONT, &a, NULL);
}

static const char *prompt_text(const prompt *p) { return p->more ? ">> " : "> "; }

#ifdef LT_HAVE_EDIT

/* ---- History: appended line by line, so that it survives whatever ends the process ---- */

#define REMEMBERED 1000

/* $XDG_STATE_HOME/ltrain/history, or ~/.local/state/ltrain/history. */
static char *history_path(void) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  lt_text t = {0};
  if (state && state[0] == '/')
    lt_text_add(&t, "%s/ltrain", state);
  else if (home && home[0] == '/')
    lt_text_add(&t, "%s/.local/state/ltrain", home);
  else
    return NULL;
  for (char *at = t.s; at && (at = strchr(at + 1, '/'));) {
    *at = '\0';
    (void)mkdir(t.s, 0700); /* what cannot be made is seen when the file is opened */
    *at = '/';
  }
  if (t.s) (void)mkdir(t.s, 0700);
  lt_text_add(&t, "/history");
  return t.s;
}

/* The newest lines alone, when twice as many have come together. */
static void shorten_history(prompt *p, int lines) {
  HistEvent ev;
  lt_text t = {0};
  if (lines <= 2 * REMEMBERED) return;
  lt_text_add(&t, "%s.new", p->file);
  if (t.s && history(p->history, &ev, H_SAVE, t.s) >= 0 && rename(t.s, p->file) != 0) (void)unlink(t.s);
  lt_text_free(&t);
}

static void open_history(prompt *p) {
  HistEvent ev;
  p->history = history_init();
  if (!p->history) return;
  history(p->history, &ev, H_SETSIZE, REMEMBERED);
  history(p->history, &ev, H_SETUNIQUE, 1);
  p->file = history_path();
  int lines = p->file ? history(p->history, &ev, H_LOAD, p->file) : 0;
  if (lines > 0) shorten_history(p, lines);
}

static void remember(prompt *p, const char *line) {
  HistEvent ev;
  if (!p->history || line[strspn(line, " \t\n")] == '\0') return;
  history(p->history, &ev, H_ENTER, line);
  int fd = p->file ? open(p->file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
  FILE *f = fd >= 0 ? fdopen(fd, "a") : NULL;
  if (f) {
    struct stat about;
    if (fstat(fd, &about) == 0 && about.st_size > 0)
      history(p->history, &ev, H_NSAVE_FP, (size_t)1, f);
    else
      history(p->history, &ev, H_SAVE_FP, f); /* with the line that says what the file is */
    fclose(f);
  } else if (fd >= 0) {
    close(fd);
  }
}

/* ---- Keys ---- */

static void answer_signals(prompt *p) {
  if (resized) {
    resized = 0;
    el_resize(p->edit);
  }
  if (resumed) {
    resumed = 0;
    el_set(p->edit, EL_PREP_TERM, 1);
    el_set(p->edit, EL_REFRESH);
  }
}

/* A byte of the terminal; -1: its end, -2: interrupted. Signals come in the wait alone, or not at all. */
static int read_byte(prompt *p) {
  sigset_t block, before;
  unsigned char byte;
  int result = -1;
  sigemptyset(&block);
  sigaddset(&block, SIGINT);
  sigaddset(&block, SIGWINCH);
  sigaddset(&block, SIGCONT);
  sigprocmask(SIG_BLOCK, &block, &before);
  for (;;) {
    fd_set in;
    answer_signals(p);
    if (stop) {
      result = -2;
      break;
    }
    FD_ZERO(&in);
    FD_SET(STDIN_FILENO, &in);
    int n = pselect(STDIN_FILENO + 1, &in, NULL, NULL, NULL, &before);
    if (n < 0 && errno == EINTR) continue;
    ssize_t got = n > 0 ? read(STDIN_FILENO, &byte, 1) : -1;
    if (got < 0 && n > 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got == 1) result = byte;
    break;
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
  return result;
}

static int read_letter(EditLine *edit, wchar_t *out) {
  prompt *p = NULL;
  el_get(edit, EL_CLIENTDATA, &p);
  for (;;) {
    int byte = read_byte(p);
    if (byte < 0) return byte == -2 ? -1 : 0;
    char c = (char)byte;
    size_t n = mbrtowc(out, &c, 1, &p->letter);
    if (n == (size_t)-2) continue;
    if (n == (size_t)-1) { /* no letter in this locale: as it is */
      memset(&p->letter, 0, sizeof p->letter);
      *out = (wchar_t)byte;
    }
    return 1;
  }
}

/* ---- Completion ---- */

static int screen_width(void) {
  struct winsize w;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

/* Letters that all of the names have in common. */
static size_t common(const char *names) {
  size_t n = strcspn(names, "\n");
  for (const char *at = names; *at; at += strcspn(at, "\n") + 1) {
    size_t same = 0;
    while (same < n && at[same] == names[same]) same++;
    n = same;
  }
  return n;
}

static void list_names(const char *names) {
  size_t widest = 0;
  for (const char *at = names; *at; at += strcspn(at, "\n") + 1)
    if (strcspn(at, "\n") > widest) widest = strcspn(at, "\n");
  int columns = screen_width() / (int)(widest + 2), k = 0;
  if (columns < 1) columns = 1;
  printf("\n");
  for (const char *at = names; *at; at += strcspn(at, "\n") + 1)
    printf("%-*.*s%s", (int)widest, (int)strcspn(at, "\n"), at, ++k % columns == 0 ? "\n" : "  ");
  if (k % columns != 0) printf("\n");
  fflush(stdout);
}

static unsigned char complete(EditLine *edit, int key) {
  prompt *p = NULL;
  (void)key;
  el_get(edit, EL_CLIENTDATA, &p);
  const LineInfo *line = el_line(edit);
  lt_text before = {0}, names = {0};
  size_t letters = 0;
  unsigned char answer = CC_ERROR;
  lt_text_bytes(&before, line->buffer, (size_t)(line->cursor - line->buffer));
  if (before.s && lt_console_complete(p->script, before.s, &letters, &names) == LT_OK && names.s) {
    size_t same = common(names.s);
    char rest[256];
    if (same > letters) {
      snprintf(rest, sizeof rest, "%.*s", (int)(same - letters), names.s + letters);
      answer = el_insertstr(edit, rest) == 0 ? CC_REFRESH : CC_ERROR;
    } else if (strchr(names.s, '\n')[1]) {
      list_names(names.s);
      answer = CC_REDISPLAY;
    } else {
      answer = CC_NORM;
    }
  }
  lt_text_free(&before);
  lt_text_free(&names);
  return answer;
}

static char *edit_prompt(EditLine *edit) {
  static char text[8]; /* libedit asks for a char * */
  prompt *p = NULL;
  el_get(edit, EL_CLIENTDATA, &p);
  snprintf(text, sizeof text, "%s", prompt_text(p));
  return text;
}

/* ---- The editor ---- */

static void open_editor(prompt *p) {
  if (!p->terminal || !isatty(STDOUT_FILENO)) return;
  setlocale(LC_CTYPE, "");
  p->edit = el_init("ltrain", stdin, stdout, stderr);
  if (!p->edit) return;
  open_history(p);
  el_set(p->edit, EL_CLIENTDATA, p);
  el_set(p->edit, EL_SIGNAL, 0);
  el_set(p->edit, EL_EDITOR, "emacs");
  el_set(p->edit, EL_PROMPT, edit_prompt);
  if (p->history) el_set(p->edit, EL_HIST, history, p->history);
  el_set(p->edit, EL_ADDFN, "lt-complete", "complete a name", complete);
  el_set(p->edit, EL_BIND, "^I", "lt-complete", NULL);
  el_set(p->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
  el_source(p->edit, NULL); /* the user's ~/.editrc */
  el_set(p->edit, EL_GETCFN, read_letter);
}

static void close_editor(prompt *p) {
  if (p->edit) el_end(p->edit);
  if (p->history) history_end(p->history);
  free(p->file);
}

/* The terminal is made ready before the prompt shows: libedit itself waits until it reads, and would let control keys that
** come in between go to the terminal. */
static bool edit_line(prompt *p, lt_text *line) {
  int n = 0;
  el_set(p->edit, EL_PREP_TERM, 1);
  const char *s = el_gets(p->edit, &n);
  if (!s || n <= 0) {
    printf(stop ? "^C\n" : "\n");
    return false;
  }
  lt_text_bytes(line, s, (size_t)n);
  return true;
}

#else

static void open_editor(prompt *p) { (void)p; }
static void close_editor(prompt *p) { (void)p; }
static void remember(prompt *p, const char *line) {
  (void)p;
  (void)line;
}

#endif

/* ---- Lines ---- */

static bool plain_line(prompt *p, lt_text *line) {
  char *s = NULL;
  size_t room = 0;
  if (p->terminal) fputs(prompt_text(p), stdout);
  fflush(stdout);
  ssize_t n = getline(&s, &room, stdin);
  if (n >= 0) lt_text_bytes(line, s, (size_t)n);
  if (n < 0) clearerr(stdin);
  if (n < 0 && p->terminal) printf(stop ? "^C\n" : "\n");
  free(s);
  return n >= 0;
}

/* False: there is none, because it ended or (stop) because it was interrupted. */
static bool next_line(prompt *p, lt_text *line) {
#ifdef LT_HAVE_EDIT
  bool some = p->edit ? edit_line(p, line) : plain_line(p, line);
#else
  bool some = plain_line(p, line);
#endif
  if (some && line->n && line->s[line->n - 1] == '\n') line->s[--line->n] = '\0';
  if (some && line->s) remember(p, line->s);
  return some;
}

/* ---- All ranks ---- */

typedef struct word { /* what rank 0 says before every line */
  int64_t bytes;      /* -1: there is no further one */
  int64_t drop;       /* what was incomplete is given up */
} word;

static lt_status share_line(prompt *p, word *w, lt_text *line, lt_error *e) {
  lt_world *world = p->o->world;
  if (!world) return LT_OK;
  lt_status st = lt_world_broadcast(world, 0, w, sizeof *w, e);
  if (st != LT_OK || w->bytes <= 0) return st;
  char *s = calloc((size_t)w->bytes + 1, 1);
  if (!s) return lt_fail_memory(e, (size_t)w->bytes, "a line");
  if (lt_world_rank(world) == 0) memcpy(s, line->s, (size_t)w->bytes);
  st = lt_world_broadcast(world, 0, s, w->bytes, e);
  if (st == LT_OK && lt_world_rank(world) > 0) lt_text_bytes(line, s, (size_t)w->bytes);
  free(s);
  return st;
}

/* Errors that another rank alone came to. */
static lt_status hear_others(prompt *p, const lt_error *mine, lt_error *e) {
  int32_t n = lt_world_size(p->o->world);
  if (!p->o->world) return LT_OK;
  lt_error *all = calloc((size_t)n, sizeof *all);
  if (!all) return lt_fail_memory(e, (size_t)n * sizeof *all, "the errors of all ranks");
  lt_status st = lt_world_gather(p->o->world, mine, all, sizeof *mine, e);
  for (int32_t r = 1; st == LT_OK && r < n; r++) {
    p->failed = p->failed || all[r].code;
    if (lt_world_rank(p->o->world) > 0 || !all[r].code || strcmp(all[r].what, all[0].what) == 0) continue;
    fprintf(stderr, "rank %d: ", (int)r);
    cli_print_error(&all[r]);
  }
  free(all);
  return st;
}

static void tell(prompt *p, const lt_error *e) {
  if (lt_world_rank(p->o->world) > 0) return;
  fflush(stdout);
  cli_print_error(e);
  if (lt_script_traceback(p->script)[0]) fprintf(stderr, "%s\n", lt_script_traceback(p->script));
}

/* One round: a line, on all ranks. *end: there are no more. */
static lt_status serve(prompt *p, bool *end, lt_error *e) {
  bool first = lt_world_rank(p->o->world) == 0;
  lt_text line = {0};
  lt_error own = {0};
  word w = {-1, 0};
  if (first && next_line(p, &line))
    w.bytes = (int64_t)line.n;
  else if (first && stop && p->terminal)
    w = (word){0, 1};
  stop = 0;
  lt_status st = share_line(p, &w, &line, e);
  *end = w.bytes < 0;
  if (st == LT_OK && w.drop) {
    lt_console_drop(p->script);
    p->more = false;
  } else if (st == LT_OK && (!*end || p->more)) {
    bool failed = lt_console_feed(p->script, line.s && !*end ? line.s : "", *end, !first, &p->more, &own) != LT_OK;
    stop = 0;
    if (failed) tell(p, &own);
    p->failed = p->failed || failed;
    if (failed) p->more = false;
    fflush(stdout);
    st = hear_others(p, &own, e);
  }
  lt_text_free(&line);
  return st;
}

lt_status cli_console(cli_options *o, lt_error *e) {
  prompt p = {.o = o, .terminal = isatty(STDIN_FILENO)};
  bool end = false;
  lt_status st = lt_console_create(&stop, &p.script, e);
  if (st == LT_OK && o->world) st = lt_script_lend_world(p.script, o->world->comm, e);
  if (st == LT_OK) {
    lt_script_on_lost(p.script, cli_world_lost);
    if (p.terminal || !o->world) listen_to_signals();
    if (p.terminal)
      printf("ltrain %s, %s. Tab completes, Ctrl-C stops, Ctrl-D ends.\n", lt_version(), lt_script_engine());
    if (lt_world_rank(o->world) == 0) open_editor(&p);
  }
  while (st == LT_OK && !end) st = serve(&p, &end, e);
  close_editor(&p);
  lt_script_free(p.script);
  if (st == LT_OK && p.failed && !p.terminal) {
    st = lt_fail(e, LT_FAILED, "some of what was read failed");
    o->met = true;
  }
  return st;
}
