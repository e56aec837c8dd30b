#include "arena.h"

#include <stdlib.h>

struct arena *arena_add(struct arena **list, void *base, uint64_t size) {
	struct arena *a = malloc(sizeof *a);
	if (!a)
		return NULL;
	*a = (struct arena){.next = *list, .base = base, .size = size};
	ranges_init(&a->live);
	*list = a;
	return a;
}

void arena_remove(struct arena **list, struct arena *a) {
	while (*list != a)
		list = &(*list)->next;
	*list = a->next;
	ranges_free(&a->live);
	free(a);
}

struct arena *arena_with(struct arena *list, const void *bytes) {
	while (list && (uintptr_t)bytes - (uintptr_t)list->base >= list->size)
		list = list->next;
	return list;
}

struct range *arena_take(struct arena *a, uint64_t offset, uint64_t size) {
	if (size > a->size || offset > a->size - size)
		return NULL;
	return ranges_add(&a->live, offset, offset + size);
}

struct range *arena_at(struct arena *a, const void *bytes) {
	return ranges_at(&a->live, (uint64_t)((const char *)bytes - a->base));
}
