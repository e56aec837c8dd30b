// Reads testdata/replay/cases.txt, whose head has the form, and holds an allocator to it.
#ifndef ONNXMEM_TEST_REPLAY_H
#define ONNXMEM_TEST_REPLAY_H

#include <string.h>

#include "check.h"

#define CASE_FILE "../testdata/replay/cases.txt"

enum { BLOCKS = 256, STREAMS = 3, LINE = 4096, WORDS = 300 };

// The plan of a stream, and what it has allocated in this run.
struct case_stream {
	uint64_t arena, offsets[BLOCKS], sizes[BLOCKS];
	int count, allocated;
	char *base; // of the arena, as the first place of the run shows it
};

// What replays the cases.
struct replayer {
	const char *name, *scheme;
	void (*open)(void); // a case begins
	void (*begin)(void); // a run begins
	void *(*take)(int stream, size_t size, const char **got); // got: place, miss, out or new
	void (*give)(void *bytes);
	int (*end)(void); // whether a plan may be placed; -1: it is not known when one is due
	void (*plan)(int stream, const struct case_stream *plan); // the blocks of the last run have these places
	void (*close)(void);
};

// The state of a case.
struct replaying {
	const struct replayer *by;
	struct case_stream streams[STREAMS];
	struct {
		char name[32];
		void *bytes; // NULL: not live
	} live[BLOCKS];
	char name[128];
	int run, stream, skip;
	int open, ended, made, planned, checked; // whether a case and a run go on, and what its end gave
};

static int has_word(const char *list, const char *word) {
	size_t n = strlen(word);
	for (const char *at = list; (at = strstr(at, word)); at += n)
		if ((at == list || at[-1] == ',') && (at[n] == ',' || !at[n]))
			return 1;
	return 0;
}

static void case_fail(const struct replaying *r, const char *what, const char *got, const char *expected) {
	fprintf(stderr, "%s: %s, run %d: %s (%s): %s: got %s, expected %s\n", test, r->name, r->run, r->by->name, r->by->scheme, what, got, expected);
	exit(1);
}

// case_end_run ends a run, once.
static void case_end_run(struct replaying *r) {
	if (r->run && !r->ended)
		r->made = r->by->end();
	r->ended = 1;
}

// case_close_run ends a run of which no more lines come.
static void case_close_run(struct replaying *r) {
	if (!r->open || !r->run)
		return;
	case_end_run(r);
	if (r->made >= 0 && r->made != r->planned)
		case_fail(r, "a plan", r->made ? "one" : "none", r->planned ? "one" : "none");
}

// case_close ends a case, and frees what it has left.
static void case_close(struct replaying *r) {
	case_close_run(r);
	for (int i = 0; i < BLOCKS; i++)
		if (r->live[i].bytes)
			r->by->give(r->live[i].bytes);
	if (r->open)
		r->by->close();
	r->open = 0;
}

static void case_alloc(struct replaying *r, char **words, int n) {
	struct case_stream *s = &r->streams[r->stream];
	const char *expected = words[3], *got;
	size_t scheme = strlen(r->by->scheme), size = strtoul(words[2], NULL, 10);
	for (int i = 4; i < n; i++)
		if (!strncmp(words[i], r->by->scheme, scheme) && words[i][scheme] == '=')
			expected = words[i] + scheme + 1;
	char *bytes = r->by->take(r->stream, size, &got);
	if (!strcmp(got, "place") && *expected >= '0' && *expected <= '9') {
		char *base = bytes - s->offsets[atoi(expected)];
		if (!s->base)
			s->base = base;
		if (s->base != base)
			case_fail(r, words[1], "another place", expected);
	} else if (strcmp(got, expected)) {
		case_fail(r, words[1], got, expected);
	}
	CHECK(s->allocated < BLOCKS);
	s->sizes[s->allocated++] = size;
	int at = 0;
	while (at < BLOCKS && r->live[at].bytes)
		at++;
	CHECK(at < BLOCKS);
	snprintf(r->live[at].name, sizeof r->live[at].name, "%.31s", words[1]);
	r->live[at].bytes = bytes;
	r->checked++;
}

static void case_free(struct replaying *r, const char *name) {
	for (int i = 0; i < BLOCKS; i++) {
		if (!r->live[i].bytes || strcmp(r->live[i].name, name))
			continue;
		r->by->give(r->live[i].bytes);
		r->live[i].bytes = NULL;
		return;
	}
	case_fail(r, name, "none that is live", "one");
}

static void case_plan(struct replaying *r, char **words, int n) {
	struct case_stream *s = &r->streams[r->stream];
	case_end_run(r);
	if (!has_word(words[1], r->by->scheme) && !has_word(words[1], r->by->name) && strcmp(words[1], "all"))
		return;
	s->arena = strtoull(words[2], NULL, 10);
	s->count = n - 3;
	CHECK(s->count == s->allocated);
	for (int i = 0; i < s->count; i++)
		s->offsets[i] = strcmp(words[3 + i], "-") ? strtoull(words[3 + i], NULL, 10) : UINT64_MAX;
	r->by->plan(r->stream, s);
	r->planned = 1;
}

// case_line takes a line of the file. A case's name is read from the whole line.
static void case_line(struct replaying *r, char *line) {
	char *words[WORDS], *comment = strstr(line, "# "), *name = line + 5;
	int n = 0;
	if (comment)
		*comment = 0;
	line[strcspn(line, "\n")] = 0;
	if (!strncmp(line, "case ", 5)) {
		case_close(r);
		memset(r->streams, 0, sizeof r->streams);
		memset(r->live, 0, sizeof r->live);
		snprintf(r->name, sizeof r->name, "%.127s", name);
		r->run = r->skip = 0;
		return;
	}
	for (char *w = strtok(line, " "); w && n < WORDS; w = strtok(NULL, " "))
		words[n++] = w;
	if (!n)
		return;
	if (!strcmp(words[0], "without")) {
		for (int i = 1; i < n; i++)
			r->skip |= !strcmp(words[i], r->by->name);
	} else if (r->skip) {
		return;
	} else if (!strcmp(words[0], "run")) {
		if (!r->open)
			r->by->open();
		r->open = 1;
		case_close_run(r);
		r->run++;
		r->ended = r->made = r->planned = 0;
		r->stream = 1;
		for (int i = 0; i < STREAMS; i++) {
			r->streams[i].allocated = 0;
			r->streams[i].base = NULL;
		}
		r->by->begin();
	} else if (!strcmp(words[0], "stream") && n == 2) {
		r->stream = atoi(words[1]);
		CHECK(r->stream > 0 && r->stream < STREAMS);
	} else if (!strcmp(words[0], "alloc") && n >= 4) {
		case_alloc(r, words, n);
	} else if (!strcmp(words[0], "free") && n == 2) {
		case_free(r, words[1]);
	} else if (!strcmp(words[0], "plan") && n >= 3) {
		case_plan(r, words, n);
	} else {
		case_fail(r, "a line", words[0], "one of the form");
	}
}

// replay_cases holds an allocator to all cases.
static void replay_cases(const struct replayer *by) {
	static char line[LINE];
	static struct replaying r;
	r = (struct replaying){.by = by};
	FILE *f = fopen(CASE_FILE, "r");
	CHECK(f);
	while (fgets(line, sizeof line, f)) {
		CHECK(strlen(line) + 1 < sizeof line);
		if (line[0] != '#')
			case_line(&r, line);
	}
	fclose(f);
	case_close(&r);
	CHECK(r.checked > 1000);
}

#endif
