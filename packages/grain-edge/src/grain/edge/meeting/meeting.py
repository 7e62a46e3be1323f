"""Leadership of a meeting: claiming, publishing and watching it.

Beside the meeting file `P` lies the directory `P.d`, mode 0700. Rules:

1. A leadership is claimed by exclusive creation of `P.d/claim.<epoch>`, with an epoch above all
   that exist. Nothing is ever locked.
2. Only who holds the highest claim writes the meeting file. It looks at the claims before it
   writes, and every 15 s after; a higher one makes it step down.
3. Should a slower writer have overwritten the file in between, the holder writes it again at its
   next look. Readers compare epochs, so they go back at most for that long.
4. A claim whose holder died before it published is passed over after 10 s.
5. A head whose process is there, and which does not answer for a minute, is superseded.
6. The holder makes again what was removed, as sites do with old files: the directory, its
   claim, the file. It looks for that every 2.5 s.
"""

from __future__ import annotations

import re
import secrets
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from grain.edge.errors import MeetingError, MeetingTaken, NoEdgeFile, Superseded, TornEdgeFile
from grain.edge.meeting import files
from grain.edge.meeting.block import SIZE, MeetingRecord, decode_block, encode_block, process_here
from grain.edge.meeting.notify import file_changes
from grain.edge.version import package_version
from grain.files.trust import make_folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grain.edge.meeting.disk import Disk

WATCH = 15.0
"""Seconds between two looks of a head at its meeting."""

_CLAIM = re.compile(r"claim\.(\d{1,18})")


class Meeting:
    """A meeting file and its directory.

    Args:
        unpublished: seconds after which a claim without a record is passed over.
    """

    def __init__(self, path: str, disk: Disk, unpublished: float = 10.0) -> None:
        self._unpublished = unpublished
        self.path = path
        self.directory = path + ".d"
        self.disk = disk

    async def read(self) -> MeetingRecord:
        """Return the present record; a torn one is read again for a second.

        Raises:
            MeetingError: of many kinds; `NoEdgeFile` where no head ever led.
        """
        for patience in (*[0.1] * 10, None):
            data = await self.disk.run(self.path, files.read_block, self.path, SIZE)
            try:
                return decode_block(data, self.path)
            except TornEdgeFile:  # once per look at a disk
                if patience is None:
                    raise
                await trio.sleep(patience)
        raise AssertionError

    async def changed(self) -> None:
        """Wait until a head of this host, or of another one on a local filesystem, has published.

        It never returns where the kernel reports nothing, as for what other hosts write on NFS.
        """
        with ExitStack() as stack:
            # In a thread, as the filesystem may hang. If the thread is abandoned, what it opens
            # later is closed when the stack is collected.
            enter = stack.enter_context
            with suppress(MeetingError):
                changes = await self.disk.run(self.path, lambda: enter(file_changes(self.path)))
                await changes.next()
                return
            await trio.sleep_forever()

    async def claim(self, living: Callable[[MeetingRecord], Awaitable[str]]) -> tuple[str, int]:
        """Become the leader.

        Args:
            living: returns how a head was seen to live whose process has not ended, as far as can
                be seen from here, or "".

        Returns:
            the meeting's meeting_id and the epoch claimed.

        Raises:
            MeetingTaken: a living head leads.
            MeetingError: the file or filesystem is not fit.
        """
        await self.disk.run(self.path, self._prepare)
        # The highest claim that was waited for; its holder has published by now, or died (rule 4).
        passed = 0
        while True:
            record = await self._incumbent()
            if record is not None and (how := await _sign_of_life(record, living)):
                process = process_here(record)
                stopped = process is not None and process.stopped
                raise MeetingTaken(
                    self.path, record.host, record.pid, record.epoch, how, stopped=stopped
                )
            published = 0 if record is None else record.epoch
            claims = await self.disk.run(self.directory, self._claims)
            if claims and claims[-1] > max(published, passed):
                # Another head claims at this moment, or died right after.
                await self._await_publication(claims[-1])
                passed = claims[-1]
                continue
            epoch = max(published, passed, *claims, 0) + 1
            if await self.disk.run(self.directory, self._make_claim, epoch):
                meeting_id = secrets.token_hex(16) if record is None else record.meeting_id
                return meeting_id, epoch

    async def living(
        self, living: Callable[[MeetingRecord], Awaitable[str]]
    ) -> MeetingRecord | None:
        """Return the record of the head if it lives; the argument is that of `claim`."""
        record = await self._incumbent()
        return record if record is not None and await _sign_of_life(record, living) else None

    async def publish(self, record: MeetingRecord) -> None:
        """Write the record, unless a higher claim exists; then remove lower claims.

        Raises:
            Superseded: a higher claim exists; nothing is written.
        """
        block = encode_block(record, package_version())
        await self.disk.run(self.path, self._publish, record.epoch, block)

    async def watch(self, record: MeetingRecord) -> None:
        """Check once that this is still the leader, and repair what is missing or wrong."""
        await self.restore(record.epoch)
        present = await self._incumbent()
        if present is not None and present.epoch > record.epoch:
            raise Superseded(self.path, record.epoch, present.epoch)
        if present != record:
            await self.publish(record)

    async def restore(self, epoch: int) -> bool:
        """Make the directory and the leader's claim again if they were removed.

        Returns:
            True if the meeting file is there, too.

        Raises:
            Superseded: another head leads; nothing is made.
            MeetingError: the filesystem is not fit.
        """
        return await self.disk.run(self.directory, self._restore, epoch)

    async def check(self, record: MeetingRecord) -> None:
        """Check that peers find the head, and can leave something in the directory.

        Makes again what was removed.
        """
        if not await self.restore(record.epoch):
            await self.watch(record)
        await self.disk.run(self.directory, files.check_writable, self.directory)

    async def prepare(self) -> None:
        """Make the directories that a head needs, and check that it could write; claims nothing."""
        await self.disk.run(self.path, self._prepare)
        await self.disk.run(self.directory, files.check_writable, self.directory)

    async def _incumbent(self) -> MeetingRecord | None:
        try:
            return await self.read()
        except (NoEdgeFile, TornEdgeFile):
            return None

    async def _await_publication(self, epoch: int) -> None:
        with trio.move_on_after(self._unpublished):
            while True:
                record = await self._incumbent()
                if record is not None and record.epoch >= epoch:
                    return
                await trio.sleep(0.2)

    # In threads

    def _prepare(self) -> None:
        make_folder(Path(self.path).parent)
        files.check_parent(self.path)
        files.make_private(self.directory)

    def _claims(self) -> list[int]:
        matches = (_CLAIM.fullmatch(name) for name in files.names(self.directory))
        return sorted(int(match[1]) for match in matches if match)

    def _make_claim(self, epoch: int) -> bool:
        with files.open_directory(self.directory):
            return files.make_name(f"{self.directory}/claim.{epoch}")

    def _claims_up_to(self, epoch: int) -> list[int]:
        """Return the claims, of which none is higher than the leader's."""
        claims = self._claims()
        if claims and claims[-1] > epoch:
            raise Superseded(self.path, epoch, claims[-1])
        return claims

    def _restore(self, epoch: int) -> bool:
        if epoch not in self._claims_up_to(epoch):
            self._prepare()
            self._make_claim(epoch)
        return Path(self.path).exists()

    def _publish(self, epoch: int, block: bytes) -> None:
        claims = self._claims_up_to(epoch)
        files.write_block(self.path, block)
        for lower in claims:
            if lower < epoch:
                files.remove(f"{self.directory}/claim.{lower}")


async def _sign_of_life(
    record: MeetingRecord, living: Callable[[MeetingRecord], Awaitable[str]]
) -> str:
    """Return how a head was seen to live, or ""."""
    process = process_here(record)
    if not record.open or (process is not None and not process.alive):
        return ""
    return await living(record)
