"""Resources: the language in which tasks ask, workers offer, and the scheduler allocates.

    from grain.resource import Cores, Memory, WTime
    request = Cores(4) & Memory(8) & WTime(T="2:00:00")

This package needs nothing but the standard library, and all others stand on it. Import names from
here; the modules ``errors`` and ``testing`` are public, too.

Map:

- ``errors``: *not now* (``Insufficient``) apart from *never* (``Infeasible``)
- ``spans``: spans of time as users write them
- ``base``: ``Resource``, the interface of a kind; fit by kind; ``ZERO``, ``A & B``, ``A | B`` and
  ``n * A``
- ``identities``: ``Cores`` and ``GPUs``, asked for by number, allocated by identity; ``Identities``
  for kinds like these
- ``topology``: which ids are near each other, and the choice among those that are free
- ``amounts``: ``Memory``, ``Capacity``, ``Licences``, ``Token`` and ``Host``, which have no
  identities; ``Node``
- ``programs/``: the facts of an allocation that its programs get: variables, and CPUs
- ``walltime``: ``WTime``, and the limits of a group from its first runs
- ``supply``: ``Supply``, the account of one worker: what it has, and what of it is free
- ``kinds``: kinds by name; resources to and from plain data
- ``text``: resources as one word of a command line
- ``figures``: spans, counts and signals in displays, the same everywhere (import it by name)
- ``testing``: a check of the laws for authors of kinds (import it by name)
"""

from grain.resource.amounts import LAST_ATTEMPT as LAST_ATTEMPT
from grain.resource.amounts import ONE_INSTANCE as ONE_INSTANCE
from grain.resource.amounts import Capacity as Capacity
from grain.resource.amounts import Host as Host
from grain.resource.amounts import Licences as Licences
from grain.resource.amounts import Memory as Memory
from grain.resource.amounts import Node as Node
from grain.resource.amounts import Token as Token
from grain.resource.amounts import learned as learned
from grain.resource.amounts import learns as learns
from grain.resource.amounts import with_group as with_group
from grain.resource.base import ZERO as ZERO
from grain.resource.base import Either as Either
from grain.resource.base import Gang as Gang
from grain.resource.base import Member as Member
from grain.resource.base import Resource as Resource
from grain.resource.base import RootAllocation as RootAllocation
from grain.resource.base import gang as gang
from grain.resource.errors import DuplicateKind as DuplicateKind
from grain.resource.errors import Infeasible as Infeasible
from grain.resource.errors import Insufficient as Insufficient
from grain.resource.errors import ResourceError as ResourceError
from grain.resource.errors import UnknownKind as UnknownKind
from grain.resource.identities import Cores as Cores
from grain.resource.identities import GPUs as GPUs
from grain.resource.identities import Identities as Identities
from grain.resource.kinds import Opaque as Opaque
from grain.resource.kinds import from_data as from_data
from grain.resource.kinds import resource_kind as resource_kind
from grain.resource.kinds import to_data as to_data
from grain.resource.programs.gpus import GPU_LISTS as GPU_LISTS
from grain.resource.programs.gpus import gpu_ids as gpu_ids
from grain.resource.programs.gpus import gpu_variables as gpu_variables
from grain.resource.programs.gpus import named_by_numbers as named_by_numbers
from grain.resource.programs.variables import SLOTS as SLOTS
from grain.resource.programs.variables import THREADS as THREADS
from grain.resource.programs.variables import cpus_of as cpus_of
from grain.resource.programs.variables import variables_of as variables_of
from grain.resource.spans import clock_seconds as clock_seconds
from grain.resource.spans import unit_seconds as unit_seconds
from grain.resource.supply import Fit as Fit
from grain.resource.supply import Supply as Supply
from grain.resource.supply import check_offer as check_offer
from grain.resource.text import from_text as from_text
from grain.resource.walltime import Limits as Limits
from grain.resource.walltime import RunTimes as RunTimes
from grain.resource.walltime import WTime as WTime
