"""``python -m grain.dispatcher FOLDER``: serve the queue in a folder, until another one does."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import trio

from grain.config import ConfigError, load
from grain.delayed.missions.opening import opened
from grain.delayed.missions.options import MissionOptions
from grain.delayed.missions.report import Reporter
from grain.dispatcher.desk import Desk
from grain.dispatcher.mission import TICKETS, DispatchLoop
from grain.edge.errors import EdgeError
from grain.edge.mission_ids import lasting_id
from grain.head.errors import MissionReplaced
from grain.queue.errors import QueueError
from grain.queue.folder import Queue
from grain.remote_exer import LastingMission, RemoteExecutor


async def serve(folder: Path) -> None:
    """Serve a queue until another dispatcher is in charge, or the mission is cancelled.

    Raises:
        QueueError: the folder is not a queue that this process can serve.
        grain.config.ConfigError, grain.edge.errors.EdgeError: there can be no scheduler.
    """
    queue = Queue.open(folder)
    # Before it takes charge, as the dispatcher before ends then.
    load()
    desk = Desk(queue)
    lasting = LastingMission(
        lasting_id(queue.name, queue.mission), desk.number, desk.number * TICKETS
    )
    options = MissionOptions(name=queue.name, cache=False, lasting=lasting)
    async with opened(options, Reporter(False, routine=False)) as mission:
        executor = mission.executor
        assert isinstance(executor, RemoteExecutor)  # there is no local worker
        await DispatchLoop(queue, desk, executor).run()
        # By an exception, as the mission would wait for all runs otherwise.
        raise MissionReplaced(
            f"another dispatcher serves {queue.name}, or its folder was removed: this one ends"
        )


def main(folder: str) -> int:
    """Serve a queue; return the exit status."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    try:
        trio.run(serve, Path(folder))
    except MissionReplaced as error:
        logging.getLogger("grain.dispatcher").info("%s", error)
    except (QueueError, ConfigError, EdgeError, OSError) as error:
        print(f"grain: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
