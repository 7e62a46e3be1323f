"""`Inquiries`: what a mission and its head ask each other, for users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.edge.questions import LoadAnswer, WhyAnswer, unpack
from grain.head.messages import Answer, Ask, Describe, Described, Outlook

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge.messages import Message, Payload

_NO_LOAD = LoadAnswer(0, 0, None)


class Inquiries:
    """The questions of both sides, and the answers.

    Args:
        send: sends a message to the head, if there is a connection.

    Attributes:
        questions: those of the head; to be emptied by `taken`.
        explanations: the answers to the last question about a task.
        load: the cores of the workers, as the head last answered; 0 where it did not.
        others: True if tasks had cores then, and none of them was this mission's.
    """

    def __init__(self, send: Callable[[Message], object]) -> None:
        self._send = send
        self.questions: list[Describe] = []
        self.explanations: list[WhyAnswer] = []
        self.load = _NO_LOAD
        self.others = False
        self._outlook: Outlook | None = None

    def ask_why(self, task: int) -> None:
        """Ask why a task waits or runs, and forget the answers to the last such question."""
        self.explanations.clear()
        self._send(Ask("why", task=task))

    def ask_load(self) -> None:
        """Ask for the load, which takes the place of the last one."""
        self._send(Ask("load"))

    def describe(self, question: Describe, call: str) -> None:
        """Answer a question of the head."""
        self._send(Described(question.question, call))

    def note_outlook(self, outlook: Outlook) -> None:
        """Tell the head how far the mission is, unless that has not changed."""
        if outlook != self._outlook:
            self._outlook = outlook
            self._send(outlook)

    def on_answer(self, answer: Answer, payload: Payload, *, busy: bool) -> None:
        """Handle an answer of the head.

        Args:
            busy: True if the mission has cores, as far as it knows at this moment. Another moment
                would not do: a worker that has just left would seem to be busy for others.

        Raises:
            RemoteProtocolError: the payload makes no sense.
        """
        if answer.about == "load":
            self.load = unpack(payload, LoadAnswer)
            self.others = self.load.given > 0 and not busy
        elif answer.about == "why":
            self.explanations.append(unpack(payload, WhyAnswer))

    def on_connected(self) -> None:
        """Tell another head how far the mission is, as it does not ask."""
        if self._outlook is not None:
            self._send(self._outlook)

    def on_disconnected(self) -> None:
        """Forget what only this head has said or asked."""
        self.load, self.others = _NO_LOAD, False
        self.questions.clear()
