"""Helpers of Grain's own tests, installed beside the packages by every test session.

Tests import them by name, and so do other processes that a test starts and hands a function to.
A package's tests run with nothing but what the package declares: a module here imports only its
package and what that declares, and this file imports nothing.

Map:

- ``plugin``: what pytest loads by itself: a hypothesis profile without time limits
- ``small_disk``: a filesystem that a test can fill
- ``tool_environments``: environments of other tools, from the package index
- ``ports``: ports that no other test gets meanwhile
- ``event_logs``: grain-edge: event logs of missions that never were
- ``campaign``: grain-edge: the event log of a screening in which much goes wrong
- ``programs``: programs in Python, started as users start them
- ``kept``: grain-edge: what tests of a file use one after the other
- ``kept_lines``: grain-edge: an event log in memory
- ``job_commands``: grain-cli: a queue, and the commands for it
- ``queue_disk``: grain-edge: a file system in memory that is late, fails and crashes
- ``queue_world``: grain-edge: processes of a queue on it, and the laws
- ``queue_mistakes``: grain-edge: deliberate mistakes that the laws find
- ``submitted_tasks``: grain-head: tasks as executors keep them, for logs and sessions
- ``browser``: a headless Chromium, by its DevTools protocol
- ``small_log``: grain-edge: an event log of five tasks
- ``frames_wire``: grain-edge: frames through memory
- ``head_and_diallers``: grain-edge: a head that echoes, and its diallers
- ``blocking``: blocking calls without a thread, where a clock jumps
- ``control_groups``: grain-worker: a control group that a test may divide
- ``head_by_hand``: grain-worker: a scheduler that a test drives message by message
- ``local_processes``: grain-worker: the processes of this machine
- ``pool_scope``: grain-worker: pools of interpreter processes
- ``program_trees``: grain-worker: programs that start programs
- ``runner_station``: grain-worker: a runner process and a record of its events
- ``seats``: grain-resource: a kind of resource of named seats
- ``golden_scripts``: grain-cli: scripts of batch systems as files with a common part
- ``command_line``: grain-cli: the command `grain` in the process of a test
- ``scale_command``: grain-cli: `grain scale` as a process, and a Slurm of shell scripts
- ``virtual_cluster``: grain-cli: jobs, workers and tasks in virtual time
- ``report_picture``: grain-cli: the report of a campaign, as a page and as a picture
- ``overviews``: grain-cli: answers of a scheduler to `grain top`
- ``states``: grain-cli: answers of a scheduler to `grain ls`
- ``scheduler_harness``: grain-head: scenarios of a scheduler, and its invariants by brute force
- ``hub_harness``: grain-head: scenarios of a hub
- ``hub_moves``: grain-head: how the tasks of a hub move between states
- ``hub_campaign``: grain-head: the same screening through a real scheduler, in virtual time
- ``virtual_runs``: grain-head: jobs whose memory decides whether a run is enough
- ``hostile_messages``: grain-head: random messages of every kind
- ``hostile_peers``: grain-head: members that talk nonsense
- ``asyncio_programs``: grain-delayed: missions in asyncio programs
- ``kept_calls``: grain-delayed: cached functions that record their calls
- ``desk_world``: grain-delayed: the desk of a dispatcher in the world of a queue
- ``staged_campaign``: grain-delayed: a campaign of dependent stages in virtual time
- ``quiet_executor``: grain-delayed: an executor without progress lines
"""
