"""Memory that is given back while a session is idle."""

from __future__ import annotations

import os
import threading
import time
import weakref

from ._core import Core


class Idle:
    """One thread of the process that gives back the memory of sessions without runs."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin without a thread, as in a child of fork."""
        self._changed = threading.Condition()
        self._watched: list[weakref.ref[Core]] = []
        self._thread: threading.Thread | None = None

    def ran(self, core: Core, seconds: float) -> None:
        """Note that a run has ended: unless another one does within so many seconds, the memory is given back."""
        core.idle_at = time.monotonic() + seconds
        if core.watched:
            return
        with self._changed:
            if core.watched:
                return
            core.watched = True
            self._watched.append(weakref.ref(core))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="onnxmem-idle", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                due, later = self._due()
                if not due:
                    self._changed.wait(later)
            for core in due:
                core.give_back()
            del due

    def _due(self) -> tuple[list[Core], float | None]:
        """Return the sessions that are idle, which are not watched any more, and in how many seconds another will be."""
        now = time.monotonic()
        due: list[Core] = []
        left: list[weakref.ref[Core]] = []
        later: float | None = None
        for reference in self._watched:
            core = reference()
            if core is None:
                continue
            # A run that ends from here on finds that it must ask for the watch again, or
            # its time is seen.
            core.watched = False
            if core.idle_at <= now:
                due.append(core)
                continue
            core.watched = True
            left.append(reference)
            later = core.idle_at - now if later is None else min(later, core.idle_at - now)
        self._watched = left
        return due, later


idle = Idle()


def _after_fork() -> None:
    idle.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
