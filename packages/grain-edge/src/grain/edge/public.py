"""The public names of `grain.edge` that need a network; `grain.edge` imports them when asked."""

from grain.edge.address import DEFAULT as DEFAULT
from grain.edge.bridge.key import make_key as make_key
from grain.edge.bridge.key import meeting_id as meeting_id
from grain.edge.bridge.key import without_key as without_key
from grain.edge.bridge.meeting import check_bridge as check_bridge
from grain.edge.connecting.dial import dial as dial
from grain.edge.connecting.dial import examine as examine
from grain.edge.connecting.dial import head_here as head_here
from grain.edge.connecting.dial import is_reached_directly as is_reached_directly
from grain.edge.connecting.peer import Peer as Peer
from grain.edge.connecting.routes import ALL_TRANSPORTS as ALL_TRANSPORTS
from grain.edge.connecting.seeking import SEEK_FIRST as SEEK_FIRST
from grain.edge.connecting.seeking import DirectWaySeeker as DirectWaySeeker
from grain.edge.errors import Attempt as Attempt
from grain.edge.meeting.disk import check_writable as check_writable
from grain.edge.transports.liveness import stopped_words as stopped_words
from grain.files.processes import PeerProcess as PeerProcess
