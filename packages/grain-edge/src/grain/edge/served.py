"""The public names of `grain.edge` for processes that others dial, which most are not."""

from grain.edge.connecting.serve import FROZEN as FROZEN
from grain.edge.connecting.serve import Serving as Serving
from grain.edge.connecting.serve import prepare as prepare
from grain.edge.connecting.serve import serve as serve
from grain.edge.relay.server import serve_bridge as serve_bridge
